//go:build race

package jsonl

// raced: the race detector is on, which makes everything ten times slower.
const raced = true
