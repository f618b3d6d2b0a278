// Package crash is the crash kit for authors of a storage backend: it kills
// processes, cuts the power, fails calls and flips bits, and checks that the
// store keeps what the storage contract promises for each. It imports the root
// package, conformance, disk, go-cmp and the standard library, never a backend.
//
// A store in Go is checked by one test and one line in TestMain:
//
//	func open(at crash.Place) (pistore.Backend, error) {
//		return mystore.Open(at.Dir, at.Level)
//	}
//
//	func TestMain(m *testing.M) {
//		crash.Child(open) // does not return in a process that is there to be killed
//		os.Exit(m.Run())
//	}
//
//	func TestCrash(t *testing.T) { crash.Run(t, crash.Config{Open: open}) }
//
// That gives the rows of killed processes. A store that reaches its files through
// package disk gets the others from Config.OpenOn. [Run] makes each row a subtest
// named by its stable id and the level, such as CUT-01/power; [Check] does the
// same without a testing.T and returns a [Report] for machines. What was not
// tried is skipped and says why; what fails says what was seen, what to look at,
// and how to see it again.
package crash
