package jsonl

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"pistore"
	"pistore/verify"
)

func BenchmarkOpen(b *testing.B) {
	for _, name := range []string{"large-5000.jsonl", "long-line.jsonl", "unicode.jsonl"} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(fixtures, "v3", name)
			st, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(st.Size())
			b.ReportAllocs()
			for b.Loop() {
				f, err := OpenFile(b.Context(), path, pistore.ReadOnly, Options{})
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	path := filepath.Join(fixtures, "v3", "large-5000.jsonl")
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	b.ReportAllocs()
	for b.Loop() {
		f, err := OpenFile(b.Context(), path, pistore.ReadOnly, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if report, err := verify.Check(b.Context(), f, verify.Options{}); err != nil || !report.OK() {
			b.Fatal(report, err)
		}
	}
}

func BenchmarkReadName(b *testing.B) {
	path := filepath.Join(fixtures, "v3", "large-5000.jsonl")
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	for b.Loop() {
		if _, err := ReadName(b.Context(), path); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkImport leaves the file system out.
func BenchmarkImport(b *testing.B) {
	text, err := os.ReadFile(filepath.Join(fixtures, "v3", "large-5000.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := read(b.Context(), bytes.NewReader(text), int64(len(text)), noParent); err != nil {
			b.Fatal(err)
		}
	}
}
