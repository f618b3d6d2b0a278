package bench

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"pistore"
	"pistore/disk"
)

// RawLog is the limit that a machine sets to a store of one file per session:
// each transaction is encoded as its line of a session file and written with one
// write(2), and at level Power followed by one fdatasync. With admit each
// transaction is checked as every backend checks it before it looks at what is
// stored, its JSON included. It looks at nothing stored, so duplicate ids and
// missing parents go unseen, and keeps nothing in memory.
func RawLog(level pistore.Durability, admit bool) Candidate {
	return Candidate{
		Name: "backend=rawlog/checks=" + checks(admit) + "/durability=" + level.String(),
		Open: func(dir string) (pistore.Backend, error) { return &rawLog{dir: dir, level: level, admit: admit}, nil },
	}
}

func checks(admit bool) string {
	if admit {
		return "json"
	}
	return "none"
}

type rawLog struct {
	CommitOnly
	dir   string
	level pistore.Durability
	admit bool
	meter rawMeter
	files openFiles
}

// rawMeter counts what is written.
type rawMeter struct{ bytes, syncs atomic.Int64 }

func (m *rawMeter) Written() Written { return Written{m.bytes.Load(), m.syncs.Load()} }

// put writes bytes and, at level Power, makes them durable.
func (m *rawMeter) put(f disk.File, level pistore.Durability, b []byte) error {
	n, err := f.Write(b)
	m.bytes.Add(int64(n))
	if err != nil || level != pistore.Power {
		return err
	}
	m.syncs.Add(1)
	return f.SyncData()
}

// openFiles closes what was opened.
type openFiles struct {
	mu  sync.Mutex // guards all
	all []disk.File
}

func (o *openFiles) create(dir, name string) (disk.File, error) {
	f, err := disk.OS.Open(filepath.Join(dir, name), disk.Create)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, f)
	return f, disk.OS.SyncDir(dir)
}

func (o *openFiles) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	for _, f := range o.all {
		err = errors.Join(err, f.Close())
	}
	o.all = nil
	return err
}

func (l *rawLog) Written() Written { return l.meter.Written() }
func (l *rawLog) Close() error     { return l.files.Close() }

func (l *rawLog) Create(_ context.Context, info pistore.Info) (pistore.Storage, error) {
	f, err := l.files.create(l.dir, string(info.ID)+".log")
	if err != nil {
		return nil, err
	}
	return &rawSession{
		CommitOnlySession: CommitOnlySession{info.ID}, admit: l.admit,
		put: func(line []byte) error { return l.meter.put(f, l.level, line) },
	}, nil
}

// rawSession encodes the transactions of a session.
type rawSession struct {
	CommitOnlySession
	admit bool
	put   func(line []byte) error

	mu   sync.Mutex // guards what follows, and orders the lines
	last pistore.Seq
	buf  []byte
}

func (s *rawSession) Commit(_ context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	if s.admit {
		var err error
		if tx, err = tx.Admit(); err != nil {
			return pistore.Receipt{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := pistore.Receipt{FirstSeq: s.last + 1, Timestamp: pistore.SystemClock()}
	s.buf = appendLine(s.buf[:0], tx, r.FirstSeq, r.Timestamp)
	s.last += pistore.Seq(len(tx.Writes))
	return r, s.put(s.buf)
}

func (s *rawSession) Close() error { return nil }
