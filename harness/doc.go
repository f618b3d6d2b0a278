// Package harness drives agent runs whose every step is durable. After each
// step one register, op.state, holds the complete state of the operation, and
// each effect stands between two commits: its intent, with the ids that the
// outcome will use, and its settlement. A process that dies is followed by one
// that reads a handful of registers and goes on.
//
// The machine is two pure functions, next and apply (machine.go); one file
// (drive.go) has the goroutines. The package may import session, provider,
// tool, registers and the root, never a backend.
package harness
