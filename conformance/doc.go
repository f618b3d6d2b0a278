// Package conformance is the contract kit for authors of a storage backend: it
// checks a pistore.Backend row by row against the storage contract, and against
// a tiny model with generated transactions. It imports the root package, go-cmp
// and the standard library, never a backend.
//
// A backend is checked by one test:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Config{
//			Open: func(dir string) (pistore.Backend, error) { return mystore.Open(dir) },
//		})
//	}
//
// [Run] makes each row a subtest named by its stable id, such as TX-05; [Check]
// does the same without a testing.T and returns a [Report] for machines. A row
// that fails says what was seen and what to do about it. A row that needs what
// Config.Lacks names is skipped, and says so.
//
// The model row MOD-01 runs generated programs. One that fails is shrunk to a
// small one, which is printed together with the seed that replays it.
package conformance
