// Package bench holds workloads that measure a store, over any Backend, so that
// what BENCHMARKS.md says can be repeated and an author can measure a store of
// their own with the same work. Everything is deterministic from a seed.
package bench
