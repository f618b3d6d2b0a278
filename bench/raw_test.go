package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistore"
	"pistore/jsonl"
)

// What a raw log writes for a transaction is the line that the JSONL backend
// writes for it.
func TestRawLinesAreThoseOfSessionFiles(t *testing.T) {
	dir := t.TempDir()
	folder := jsonl.NewFolder(dir, jsonl.Options{Clock: func() pistore.UnixMS { return 42 }})
	defer folder.Close()
	s, err := folder.Create(t.Context(), pistore.Info{ID: sessionID(0)})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	next := pistore.Seq(1)
	for i, workload := range []string{Turn, Small, Bulk} {
		content, err := NewContent(workload, 3)
		if err != nil {
			t.Fatal(err)
		}
		stream := content.Stream(i)
		for range 3 {
			tx := stream.Next()
			if _, err := s.Commit(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			want = appendLine(want, tx, next, 42)
			next += pistore.Seq(len(tx.Writes))
		}
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, lines, _ := bytes.Cut(text, []byte("\n")); !bytes.Equal(lines, want) {
		t.Errorf("the file has\n%.600s\nthe raw log\n%.600s", lines, want)
	}
}

// The raw logs write every line whole, and count what they wrote.
func TestRawLogs(t *testing.T) {
	for _, c := range []Candidate{RawLog(pistore.Process, false), RawLog(pistore.Power, true), GroupLog(pistore.Process, true), GroupLog(pistore.Power, false)} {
		var lines [][]byte
		open := c.Open
		c.Open = func(dir string) (pistore.Backend, error) {
			b, err := open(dir)
			return closing{b, dir, &lines}, err
		}
		const ops = 200
		r, err := Run(t.Context(), c, Config{Workload: Small, Sessions: 8, Ops: ops, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, line := range lines {
			total += len(line)
			if line[0] != '[' || !bytes.HasSuffix(line, []byte("]\n")) {
				t.Fatalf("%s: a torn line %q", c.Name, line)
			}
		}
		if len(lines) != ops || r.Metrics[WrittenBytes] != float64(total)/ops || r.Metrics[DiskBytes] != float64(total) {
			t.Errorf("%s: %d lines of %d bytes, report %v", c.Name, len(lines), total, r.Metrics)
		}
		switch syncs := r.Metrics[Fsyncs]; {
		case strings.HasSuffix(c.Name, "process"):
			if syncs != 0 {
				t.Errorf("%s: %v syncs", c.Name, syncs)
			}
		case strings.Contains(c.Name, "grouplog"):
			if syncs <= 0 || syncs > 1 {
				t.Errorf("%s: %v syncs", c.Name, syncs)
			}
		case syncs != 1:
			t.Errorf("%s: %v syncs", c.Name, syncs)
		}
	}
}

// closing reads the files of a store when it is closed.
type closing struct {
	pistore.Backend
	dir   string
	lines *[][]byte
}

func (c closing) Written() Written { return c.Backend.(Meter).Written() }

func (c closing) Close() error {
	paths, err := filepath.Glob(filepath.Join(c.dir, "*.log"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			*c.lines = append(*c.lines, line)
		}
	}
	return c.Backend.Close()
}
