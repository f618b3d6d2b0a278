// Package page writes BENCHMARKS.md and its charts from what was measured, and
// from nothing else: the same results give the same bytes. It imports package
// rows, bench, and the standard library.
package page
