//go:build race

package logstore

// raced: the race detector is on, which makes everything ten times slower.
const raced = true
