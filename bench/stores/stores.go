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

// The names of our backends, and of peers that need nothing but what these need.
const (
	Memory       = "memory"
	JSONL        = "jsonl"
	Logstore     = "logstore"
	BarePebble   = "pebble"
	RawLog       = "rawlog"        // a file for each session, without a check
	RawLogJSON   = "rawlog-json"   // with transactions admitted
	GroupLog     = "grouplog"      // a file for all sessions, without a check
	GroupLogJSON = "grouplog-json" // with transactions admitted
)

// Names are the names of our backends.
var Names = []string{Memory, JSONL, Logstore}

// Peers are the names of the peers.
var Peers = []string{BarePebble, RawLog, RawLogJSON, GroupLog, GroupLogJSON}

// Candidate returns one of our backends, or a peer, as a candidate. Memory has no
// level. Another name is pistore.ErrInvalid.
func Candidate(name string, level pistore.Durability) (bench.Candidate, error) {
	label := "backend=" + name + "/durability=" + level.String()
	switch name {
	case Memory:
		return bench.Candidate{Name: "backend=memory", Open: func(string) (pistore.Backend, error) {
			return memstore.New(memstore.Options{}), nil
		}}, nil
	case JSONL:
		return bench.Candidate{Name: label, Open: func(dir string) (pistore.Backend, error) { return openJSONL(dir, level), nil }}, nil
	case Logstore:
		return bench.Candidate{Name: label, Open: func(dir string) (pistore.Backend, error) { return openLogstore(dir, level) }}, nil
	case BarePebble:
		return Pebble(level), nil
	case RawLog, RawLogJSON:
		return bench.RawLog(level, name == RawLogJSON), nil
	case GroupLog, GroupLogJSON:
		return bench.GroupLog(level, name == GroupLogJSON), nil
	default:
		all := strings.Join(append(slices.Clone(Names), Peers...), ", ")
		return bench.Candidate{}, fmt.Errorf("%w: backend %.64q is none of %s", pistore.ErrInvalid, name, all)
	}
}

// files is a folder of session files that counts what it writes.
type files struct {
	*jsonl.Folder
	fs *countingFS
}

func openJSONL(dir string, level pistore.Durability) files {
	fs := newCountingFS()
	o := jsonlOptions(level)
	o.FS = fs
	return files{jsonl.NewFolder(dir, o), fs}
}

// jsonlOptions are what is measured, but for the file system, which counts.
func jsonlOptions(level pistore.Durability) jsonl.Options { return jsonl.Options{Durability: level} }

// Written implements bench.Meter.
func (f files) Written() bench.Written { return f.fs.written() }

// logstoreOptions are what is measured.
func logstoreOptions(level pistore.Durability) logstore.Options {
	return logstore.Options{Durability: level}
}

// database is a logstore, which counts by itself.
type database struct{ *logstore.Store }

func openLogstore(dir string, level pistore.Durability) (pistore.Backend, error) {
	s, err := logstore.Open(dir, logstoreOptions(level))
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

// BlocksRead implements bench.BlockReader.
func (d database) BlocksRead() int64 { return d.Metrics().BlocksRead }
