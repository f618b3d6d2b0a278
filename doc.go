// Package pistore is the vocabulary of a crash-safe store for agent sessions:
// ids, the three durable forms, transactions, queries, the Backend and Storage
// contracts, and every error. It does no I/O and imports the standard library
// only; backends, the session layer and the harness import it.
package pistore
