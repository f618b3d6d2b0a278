// Package verify checks every invariant that a store shows, over any
// [pistore.Storage]: the numbered list of the design's README page. It imports
// the root, registers, ledger and session.
package verify
