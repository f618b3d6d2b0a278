// Package jsonl reads session files: one readable file per session, one JSON
// object a line. It opens formats 1 to 3, those of the Pi coding agent, as a
// read-only session, and imports the root, the registers, the ledger and the
// in-memory state that a file replays into. docs/format-jsonl.md says what is
// read how, and where the real programs do otherwise.
//
// The file is not the state. It is the recipe from which every opening derives
// the same state: the same ids, seqs and rows, hence the same digest.
package jsonl
