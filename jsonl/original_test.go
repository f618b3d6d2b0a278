package jsonl

import "testing"

// TestOriginalOf tells originals by their names, as those are given.
func TestOriginalOf(t *testing.T) {
	for _, suffix := range originalSuffixes {
		for n := 1; n < 12; n++ {
			if of, ok := OriginalOf(originalName("/d/x.jsonl", suffix, n)); !ok || of != "/d/x.jsonl" {
				t.Errorf("%s %d: %q, %v", suffix, n, of, ok)
			}
		}
	}
	for _, path := range []string{"x.jsonl", "x.v3.jsonl", "x.v31", "x.v3.1", "x.v3.02", "x.v3.", "x.v3.-2", "x.v3.2.3", "x.v5", ""} {
		if of, ok := OriginalOf(path); ok {
			t.Errorf("%q: %q", path, of)
		}
	}
}
