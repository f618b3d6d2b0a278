package search_test

import (
	"context"
	"path/filepath"
	"testing"

	"pistore"
	"pistore/jsonl"
	"pistore/search"
)

// large is the largest session file that there is to test with.
func large(b *testing.B) search.Session {
	b.Helper()
	f, err := jsonl.OpenFile(context.Background(), filepath.Join("..", "jsonl", "testdata", "sessions", "v3", "large-5000.jsonl"), pistore.ReadOnly, jsonl.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return search.Session{Key: "large", Info: f.Info(), Open: func(context.Context) (search.Reader, error) {
		return search.Reader{Storage: f, Close: func() error { return nil }}, nil
	}}
}

// BenchmarkBuild measures how fast an index is built, in bytes of text.
func BenchmarkBuild(b *testing.B) {
	s := large(b)
	for b.Loop() {
		x := open(b, filepath.Join(b.TempDir(), "x.db"))
		fed := feed(b, x, []search.Session{s})
		b.SetBytes(fed.Bytes)
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFind measures the first 20 hits of a query that the index answers,
// and of one that takes a look at every text.
func BenchmarkFind(b *testing.B) {
	x := open(b, filepath.Join(b.TempDir(), "x.db"))
	feed(b, x, []search.Session{large(b)})
	for name, term := range map[string]string{"frequent": "README", "rare": "nowhere to be found", "short": "zq"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := x.Find(context.Background(), search.Query{Terms: []string{term}, Limit: 20}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
