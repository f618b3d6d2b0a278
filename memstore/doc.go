// Package memstore is the in-memory backend, and the resident state that the
// JSONL backend replays into. It imports the root, package ledger and what
// backends share.
//
// What is committed lives as long as its [Backend] value and no longer: a
// session survives the closing of its handle, not the process. So no store of
// this package is a Syncer.
package memstore
