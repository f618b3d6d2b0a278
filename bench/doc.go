// Package bench measures stores: workloads that run over any Backend, so that
// what BENCHMARKS.md says can be repeated, and so that an author can measure a
// store of their own with the same work. Content is deterministic from a seed.
//
// A Candidate is what is measured, a Config says with which work, and Run
// returns a Report. Alternate runs two candidates in turn and compares them pair
// by pair, since only such ratios mean something on a machine that does other
// things too.
//
// The package imports the module and the standard library, and neither a SQL
// driver nor the engine of a backend. Our own backends are candidates in
// package stores below it; peers that need more are in a module of their own,
// bench/peers.
package bench
