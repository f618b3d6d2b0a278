// Package search finds text in the entries of many sessions, with an index of
// its own beside the repository: SQLite's FTS5, in the pure Go of
// modernc.org/sqlite. It imports the root, session and the engine.
//
// The index has no authority. It is fed from the sessions by seq cursors, one for
// each session and generation, and may be deleted at any time.
package search
