//go:build !race

package jsonl

const raced = false
