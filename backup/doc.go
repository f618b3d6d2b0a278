// Package backup writes sessions of any backend into one stream, and restores
// them into any other. It imports the root, session, jsonl for its lines, and
// zstd.
package backup
