package stores

import (
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/bench"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/memstore"
)

// The names of our backends.
const (
	Memory   = "memory"
	JSONL    = "jsonl"
	Logstore = "logstore"
)

// Names are the names of our backends.
var Names = []string{Memory, JSONL, Logstore}

// Candidate returns one of our backends as a candidate. Memory has no level.
// Another name is pistore.ErrInvalid.
func Candidate(name string, level pistore.Durability) (bench.Candidate, error) {
	open := map[string]func(dir string) (pistore.Backend, error){
		Memory:   func(string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil },
		JSONL:    func(dir string) (pistore.Backend, error) { return openJSONL(dir, level), nil },
		Logstore: func(dir string) (pistore.Backend, error) { return openLogstore(dir, level) },
	}[name]
	if !slices.Contains(Names, name) {
		return bench.Candidate{}, fmt.Errorf("%w: backend %.64q is none of %s", pistore.ErrInvalid, name, strings.Join(Names, ", "))
	}
	label := "backend=" + name
	if name != Memory {
		label += "/durability=" + level.String()
	}
	return bench.Candidate{Name: label, Open: open}, nil
}

// files is a folder of session files that counts what it writes.
type files struct {
	*jsonl.Folder
	fs *countingFS
}

func openJSONL(dir string, level pistore.Durability) files {
	fs := newCountingFS()
	return files{jsonl.NewFolder(dir, jsonl.Options{Durability: level, FS: fs}), fs}
}

// Written implements bench.Meter.
func (f files) Written() bench.Written { return f.fs.written() }

// database is a logstore, which counts by itself.
type database struct{ *logstore.Store }

func openLogstore(dir string, level pistore.Durability) (pistore.Backend, error) {
	s, err := logstore.Open(dir, logstore.Options{Durability: level})
	if err != nil {
		return nil, err
	}
	return database{s}, nil
}

// Written implements bench.Meter.
func (d database) Written() bench.Written {
	m := d.Metrics()
	return bench.Written{Bytes: m.WrittenBytes, Syncs: m.Syncs}
}

// Unflushed implements bench.Unflusher.
func (d database) Unflushed() int64 { return d.Metrics().UnflushedBytes }
