// Package logstore is the Pebble backend: one database holds many sessions,
// which share its log and so their fsyncs. It imports the root, the ledger and
// the shared admission check. docs/format-logstore.md has the bytes, what a
// crash leaves at each step, and what is assumed of the file system.
package logstore
