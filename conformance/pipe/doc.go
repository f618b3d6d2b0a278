// Package pipe speaks the store protocol: a session store on the other side of
// two pipes, as JSON lines, in any language. [New] makes a pistore.Backend of a
// command that speaks it, which the conformance kit can then check; [Serve] is
// the other side, for any Backend. docs/store-protocol.md describes the
// protocol. It imports the root package and the standard library.
package pipe
