// Package peers holds what pistore is compared with and what no importer of
// pistore should carry: SQLite, and the reference implementation in TypeScript
// as a child process. Both are candidates of package bench. It is a module of
// its own; the peers that need only what our backends need, bare Pebble and the
// raw logs, are in bench and bench/stores.
package peers
