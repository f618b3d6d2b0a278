// Package rows says what is compared, with which work, and what should come of
// it, and keeps what was measured: the content of BENCHMARKS.md but for its
// words. What the name of a store stands for is the business of the command that
// measures.
package rows
