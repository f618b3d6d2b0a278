package conformance

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"pistore"
)

func serialRows() []row {
	return []row{
		{id: "CON-05", title: "concurrent commits and reads have one order, which every call agrees with",
			advice: "make a commit visible to every kind of read at one instant, not before it is decided and not after it is acknowledged; " +
				"a read that begins later may not show less, whoever makes it",
			inv: []int{2}, check: serialHistory},
	}
}

const (
	serialWriters = 4
	serialReaders = 2
	serialCommits = 20 // of each writer
)

// serialHistory lets writers and readers loose on a session, and then looks for an
// order of what they did that explains all that they saw.
func serialHistory(p *probe) {
	s := p.session()
	start := time.Now()
	var workers []*recorder
	var writing atomic.Int64
	writing.Store(serialWriters)
	var all crew
	for i := range serialWriters + serialReaders {
		r := &recorder{s: s, worker: i, start: start, looks: s.looks(), latest: map[string]int{}, answers: map[string]any{}}
		workers = append(workers, r)
		if i < serialWriters {
			all.start(func() {
				defer writing.Add(-1)
				r.write()
			})
			continue
		}
		all.start(func() {
			for n := 0; r.err == nil; n++ {
				last := writing.Load() == 0
				r.read(r.looks[n%len(r.looks)])
				if last {
					return
				}
			}
		})
	}
	all.wait(p)
	var h history
	for _, r := range workers {
		p.noError(fmt.Sprintf("worker %d of several at once", r.worker), r.err)
		h = append(h, r.calls...)
	}
	p.checks.Add(int64(len(h)))
	if why := h.explain(); why != "" {
		p.failf("%d calls were made at once, %d of them reads beside a commit, and no order of them explains all: %s", len(h), h.overlaps(), why)
	}
}

// recorder makes calls and keeps them, for one worker.
type recorder struct {
	s      *session
	worker int
	start  time.Time
	looks  []look
	calls  []call
	err    error // that ended its work

	// Of reads that repeat the answer before, of the same kind, only the first and
	// the last say anything: latest has the index of the last.
	latest  map[string]int
	answers map[string]any // the last one of each kind

	newest   pistore.Register // as this worker saw it last, in the state of newestAt commits
	newestAt int
	entry    pistore.ID // the newest that it saw, in the state of entryAt commits
	entryAt  int
}

// write makes commits, and reads between them. Every third commit has the
// precondition that no other one came since the worker last looked.
func (r *recorder) write() {
	for n := range serialCommits {
		tx := serialTx(r.worker, n)
		if n%3 == 2 {
			tx.Expect = []pistore.Precondition{expect("newest", r.newest.Seq)}
		}
		for tries := 0; !r.commit(tx); tries++ {
			if tries > serialWriters*serialCommits && r.err == nil {
				r.err = errors.New("more conflicts than there were commits to conflict with")
			}
			if r.read(r.looks[registersLook]); r.err != nil {
				return
			}
			tx.Expect[0].Seq = r.newest.Seq
		}
		for i := range 2 {
			r.read(r.looks[(2*n+i+r.worker)%len(r.looks)])
		}
		if r.read(r.looks[registersLook]); r.err != nil {
			return
		}
	}
}

func serialName(worker, n int) string { return fmt.Sprintf("%d-%d", worker, n) }

// serialTx is the n-th transaction of a worker. Each adds an entry, a usage row and
// a register of its own, so that an answer tells by its length which state it
// shows, and moves two others, so that half of it would be seen.
func serialTx(worker, n int) pistore.Tx {
	name, before := serialName(worker, n), serialName(worker, n-1)
	parent := pistore.ID("")
	if n > 0 {
		parent = pistore.ID("e" + before)
	}
	return txOf(
		message(pistore.ID("e"+name), parent), set("k"+name, `1`), usage(pistore.ID("u"+name), `{"input":0.1}`),
		set("at"+name, `1`), del("at"+before), set("newest", pistore.QuoteJSON(name)),
	)
}

// commit reports whether the transaction was acknowledged and not refused.
func (r *recorder) commit(tx pistore.Tx) bool {
	entry := tx.Writes[0].(pistore.InsertEntry).ID
	c := call{what: fmt.Sprintf("worker %d: its commit of entry %s", r.worker, entry), began: time.Since(r.start)}
	receipt, err := r.s.try(tx)
	c.ended = time.Since(r.start)
	switch {
	case err == nil:
		c.commit, c.tx, c.receipt = true, tx, receipt
	case errors.Is(err, pistore.ErrConflict) && len(tx.Expect) > 0:
		// A read too: of a later state than the one that the worker had seen.
		c.what = fmt.Sprintf("worker %d: the conflict of its commit of entry %s, expecting register newest at seq %d,", r.worker, entry, tx.Expect[0].Seq)
		c.shows, c.atLeast = r.newestAt+1, true
	default:
		r.err = fmt.Errorf("commit of entry %s: %w", entry, err)
		return false
	}
	r.calls = append(r.calls, c)
	return c.commit
}

// read makes a read and keeps what it shows.
func (r *recorder) read(l look) {
	if r.err != nil {
		return
	}
	c := call{what: fmt.Sprintf("worker %d: %s", r.worker, l.name), began: time.Since(r.start)}
	answer, shows, err := l.ask(r)
	c.ended = time.Since(r.start)
	if err != nil {
		r.err = fmt.Errorf("%s beside others: %w", l.name, err)
		return
	}
	r.s.p.checks.Add(1)
	c.shows, c.atLeast = shows, l.atLeast
	c.differs = func(m *model) string { return differ(l.name, answer, l.want(m, answer)) }
	last, repeats := r.latest[l.name]
	switch same := reflect.DeepEqual(answer, r.answers[l.name]); {
	case same && repeats:
		r.calls[last].ended, r.calls[last].began = c.ended, c.began
	case same:
		r.latest[l.name] = len(r.calls)
		r.calls = append(r.calls, c)
	default:
		delete(r.latest, l.name)
		r.answers[l.name] = answer
		r.calls = append(r.calls, c)
	}
}
