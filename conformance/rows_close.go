package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"pistore"
)

func closeRows() []row {
	return []row{
		{id: "CLO-01", title: "closing a session twice is no error", advice: "Close is idempotent", check: closeTwice},
		{id: "CLO-02", title: "a closed session refuses every call with ErrClosed, Info aside",
			advice: "check for closing at the start of every call and of every ranging; Info works always", check: closedCalls},
		{id: "CLO-03", title: "commits admitted before Close finish, later ones are ErrClosed",
			advice: "seal admission, then wait for what was admitted, then release; acknowledge nothing that is not stored", check: closeBesideCommits},
		{id: "CLO-04", title: "closing the backend closes its sessions, twice is no error, and later calls are ErrClosed",
			needs:  []Capability{NoSessions},
			advice: "the backend keeps track of open sessions and closes them first", check: closeBackend},
		{id: "CLO-05", title: "a reader beside Close ends whole or with ErrClosed",
			advice: "keep what a read uses alive until the read ends, or end it with ErrClosed; never panic, never end early without an error", check: closeBesideReaders},
	}
}

func closeTwice(p *probe) {
	s := p.session()
	s.commit(message("e", ""))
	for range 3 {
		p.noError("Close", s.st.Close())
	}
}

func closedCalls(p *probe) {
	s := p.session()
	s.walk()
	info := s.st.Info()
	sequences := s.sequences(p.ctx)
	p.noError("Close", s.st.Close())
	for _, q := range append(sequences, s.sequences(p.ctx)...) {
		_, err := drain(q.seq)
		p.wantError(q.name+" after Close", err, pistore.ErrClosed)
	}
	s.refuse(pistore.ErrClosed, txOf(set("k", `1`)))
	_, err := s.st.Entries(p.ctx, []pistore.ID{"e0"})
	p.wantError("Entries after Close", err, pistore.ErrClosed)
	_, err = s.st.Registers(p.ctx, []pistore.Address{{Namespace: "ns", Key: "k0"}})
	p.wantError("Registers after Close", err, pistore.ErrClosed)
	_, err = s.st.Stats(p.ctx)
	p.wantError("Stats after Close", err, pistore.ErrClosed)
	equal(p, "Info after Close", s.st.Info(), info)
}

// committer is one of those that commit beside Close.
type committer struct {
	acknowledged []pistore.ID
	refused      pistore.ID
	err          error // of the first refusal
}

// closeBesideCommits closes while every committer is busy: each goes on until it
// is refused.
func closeBesideCommits(p *probe) {
	s := p.session()
	committers := make([]committer, 4)
	var closed atomic.Bool
	var begun sync.WaitGroup
	var all crew
	for i := range committers {
		begun.Add(1)
		begins := sync.OnceFunc(begun.Done)
		all.start(func() {
			defer begins()
			c := &committers[i]
			for n := 0; c.err == nil; n++ {
				if n == 2 {
					begins()
				}
				last := closed.Load()
				id := pistore.ID(fmt.Sprintf("%d-%d", i, n))
				_, err := s.try(txOf(message(id, ""), usage("u"+id, `{}`), set(string(id), `1`)))
				switch {
				case err != nil:
					c.refused, c.err = id, err
				case last:
					c.refused, c.err = id, errors.New("a commit after Close succeeded")
				default:
					c.acknowledged = append(c.acknowledged, id)
				}
			}
		})
	}
	begun.Wait()
	err := s.st.Close()
	closed.Store(true)
	all.wait(p)
	p.noError("Close beside commits", err)
	for _, c := range committers {
		p.wantError("commit beside Close", c.err, pistore.ErrClosed)
	}
	if p.cfg.reopens() {
		s.pl.reopen()
		s.st = s.pl.openSession(s.id, pistore.ReadWrite).st
		s.wantCommitted(committers)
	}
}

// wantCommitted compares what is stored with what was acknowledged.
func (s *session) wantCommitted(committers []committer) {
	stored := map[pistore.ID]bool{}
	for _, e := range s.scanEntries(pistore.ScanQuery{}) {
		stored[e.ID] = true
	}
	n := 0
	for _, c := range committers {
		s.p.check(!stored[c.refused], "the commit of entry %s was answered with ErrClosed, but it is there", c.refused)
		n += len(c.acknowledged)
		for _, id := range c.acknowledged {
			s.p.check(stored[id], "entry %s was acknowledged beside Close and is gone", id)
		}
	}
	s.p.check(len(s.scanUsage(pistore.ScanQuery{})) == n && len(s.prefix("ns", "")) == n, "usage rows or registers of acknowledged commits are gone")
}

func closeBackend(p *probe) {
	pl := p.place()
	a, b := pl.session(pistore.Info{}), pl.session(pistore.Info{})
	a.commit(message("e", ""))
	for range 2 {
		p.noError("Backend.Close", pl.backend.Close())
	}
	for _, s := range []*session{a, b} {
		s.refuse(pistore.ErrClosed, txOf(set("k", `1`)))
		_, err := s.st.Stats(p.ctx)
		p.wantError("Stats after Backend.Close", err, pistore.ErrClosed)
		p.noError("Close of a session after Backend.Close", s.st.Close())
	}
	_, err := pl.backend.Create(p.ctx, pistore.Info{})
	p.wantError("Create after Backend.Close", err, pistore.ErrClosed)
	_, err = pl.backend.Open(p.ctx, a.id, pistore.ReadWrite)
	p.wantError("Open after Backend.Close", err, pistore.ErrClosed)
	if !p.cfg.lacks(NoList) {
		_, err = drain(pl.backend.List(p.ctx))
		p.wantError("List after Backend.Close", err, pistore.ErrClosed)
	}
	if !p.cfg.lacks(NoDelete) {
		p.wantError("Delete after Backend.Close", pl.backend.Delete(p.ctx, a.id), pistore.ErrClosed)
	}
	if !p.cfg.lacks(NoLoad) {
		_, err = pl.backend.Load(p.ctx, behindHeader())
		p.wantError("Load after Backend.Close", err, pistore.ErrClosed)
	}
}

func closeBesideReaders(p *probe) {
	s := p.session()
	for i := range 50 {
		s.commit(message(pistore.ID(fmt.Sprint(i)), ""), usage(pistore.ID(fmt.Sprint("u", i)), `{}`), set(fmt.Sprint(i), `1`))
	}
	const readers = 4
	var closed atomic.Bool
	faults := make(chan string, readers)
	var begun sync.WaitGroup
	var all crew
	for range readers {
		begun.Add(1)
		begins := sync.OnceFunc(begun.Done)
		all.start(func() {
			defer begins()
			for n := 0; ; n++ {
				if n == 1 {
					begins()
				}
				after := closed.Load()
				fault, refused := s.readOnce()
				if after && !refused && fault == "" {
					fault = "a read after Close succeeded"
				}
				if refused || fault != "" {
					faults <- fault
					return
				}
			}
		})
	}
	begun.Wait()
	err := s.st.Close()
	closed.Store(true)
	all.wait(p)
	p.noError("Close beside readers", err)
	for range readers {
		fault := <-faults
		p.check(fault == "", "%s", fault)
	}
}

// readOnce reads a session of fifty rows of each form and tells what is wrong,
// or that the session was closed.
func (s *session) readOnce() (fault string, closed bool) {
	ctx := s.p.ctx
	entries, err1 := drain(s.st.ScanEntries(ctx, pistore.ScanQuery{}))
	rows, err2 := drain(s.st.ScanUsage(ctx, pistore.ScanQuery{}))
	registers, err3 := drain(s.st.RegistersByPrefix(ctx, "ns", ""))
	for _, read := range []struct {
		n   int
		err error
	}{{len(entries), err1}, {len(rows), err2}, {len(registers), err3}} {
		switch {
		case errors.Is(read.err, pistore.ErrClosed):
			closed = true
		case read.err != nil:
			return fmt.Sprintf("a read beside Close failed: %v", read.err), closed
		case read.n != 50:
			return fmt.Sprintf("a read beside Close ended without an error after %d of 50 rows", read.n), closed
		}
	}
	return "", closed
}
