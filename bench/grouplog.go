package bench

import (
	"context"
	"sync"

	"pistore"
	"pistore/disk"
)

// GroupLog is the limit that a machine sets to a store whose sessions share one
// log: lines as in [RawLog] go to one file, and those that come while a write or
// a sync is under way go together in the next one. It checks what RawLog checks.
func GroupLog(level pistore.Durability, admit bool) Candidate {
	return Candidate{
		Name: "backend=grouplog/checks=" + checks(admit) + "/durability=" + level.String(),
		Open: func(dir string) (pistore.Backend, error) {
			l := &groupLog{level: level, admit: admit}
			var err error
			l.file, err = l.files.create(dir, "shared.log")
			l.free = sync.NewCond(&l.mu)
			return l, err
		},
	}
}

type groupLog struct {
	CommitOnly
	level pistore.Durability
	admit bool
	meter rawMeter
	files openFiles
	file  disk.File

	mu      sync.Mutex // guards what follows
	free    *sync.Cond // a group was written
	gather  []byte     // the group that is next
	spare   []byte     // the buffer of the group before
	number  int64      // of the group that is next
	written int64      // the last group that is down
	writing bool
	err     error // the first failure, which ends everything
}

func (l *groupLog) Written() Written { return l.meter.Written() }
func (l *groupLog) Close() error     { return l.files.Close() }

func (l *groupLog) Create(_ context.Context, info pistore.Info) (pistore.Storage, error) {
	return &rawSession{CommitOnlySession: CommitOnlySession{info.ID}, admit: l.admit, put: l.put}, nil
}

// put adds a line to the next group and returns when it is down. Whoever finds
// nobody writing writes the group, for all who wait.
func (l *groupLog) put(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gather) == 0 {
		l.number++
	}
	l.gather = append(l.gather, line...)
	mine := l.number
	for l.written < mine && l.err == nil {
		if l.writing {
			l.free.Wait()
			continue
		}
		group, number := l.gather, l.number
		l.gather, l.spare = l.spare[:0], nil
		l.writing = true
		l.mu.Unlock()
		err := l.meter.put(l.file, l.level, group)
		l.mu.Lock()
		l.writing, l.spare, l.written = false, group, number
		if l.err == nil {
			l.err = err
		}
		l.free.Broadcast()
	}
	return l.err
}
