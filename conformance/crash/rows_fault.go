package crash

import (
	"errors"
	"fmt"
	"path"
	"syscall"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

func faultRows() []row {
	return []row{
		{id: "FLT-01", title: "any call that fails during a commit gives an error with its cause; once admitted, ErrFaulted for good",
			advice: "whatever fails after the first byte was written leaves the outcome open: return ErrFaulted with the cause, refuse every later call, and never try a failed sync again",
			check:  func(p *probe) { p.failStory(commitStory()) }},
		{id: "FLT-02", title: "the same with several sessions at once",
			advice: "who shares a sync shares its failure; nobody may be left waiting",
			needs:  []conformance.Capability{conformance.NoSessions},
			check:  func(p *probe) { p.failStory(p.crowd()) }},
		{id: "FLT-03", title: "any call that fails while the store is opened or closed gives an error with its cause, keeps no lock and loses nothing",
			advice: "give up what was taken when opening fails; do not take a file that cannot be read for one that is empty, or damaged",
			check:  func(p *probe) { p.failStory(reopenStory()) }},
		{id: "FLT-04", title: "any call that fails during a compaction loses nothing",
			advice: "a compaction that fails before its rename leaves the old file as it was; one that fails later leaves the outcome open",
			check:  func(p *probe) { p.failStory(compactionStory()) }},
		{id: "FLT-05", title: "any call that fails while sessions are created and deleted leaves them whole or absent",
			advice: "remove what a failed creation has begun, or see to it that it is in nobody's way",
			needs:  []conformance.Capability{conformance.NoSessions},
			check:  func(p *probe) { p.failStory(namesStory(p.cfg)) }},
		{id: "FLT-06", title: "any call that fails during a load leaves the session whole or absent",
			advice: "a session that is being loaded is seen by nobody until it is whole",
			needs:  []conformance.Capability{conformance.NoSessions, conformance.NoLoad},
			check:  func(p *probe) { p.failStory(loadStory()) }},
		{id: "FLT-07", title: "any call that fails during a rewrite leaves the session the old or the new",
			advice: "as with a compaction: until the rename has happened, the old file is the session",
			needs:  []conformance.Capability{conformance.NoRewrite},
			check:  func(p *probe) { p.failStory(rewriteStory()) }},
		{id: "FLT-08", title: "any call that fails during Sync is told, and Sync does not say yes to what is not there",
			advice: "an error of a sync faults the store; there is no second try",
			check:  func(p *probe) { p.failStory(syncStory()) }},
		{id: "FLT-09", title: "a disk that is full, from some write on, costs nothing that was acknowledged",
			advice: "a short write is a failed write: the bytes that arrived are a torn tail, to be cut when the store is opened",
			check:  checkDiskFull},
	}
}

// failing is a way in which a call fails.
type failing struct {
	name string
	disk.Verdict
}

func ways() []failing {
	return []failing{
		{"EIO, nothing done", disk.Verdict{Err: syscall.EIO}},
		{"ENOSPC, a write cut short", disk.Verdict{Err: syscall.ENOSPC, Written: 7}},
		{"EIO, done all the same", disk.Verdict{Err: syscall.EIO, Written: 1 << 30}},
	}
}

// failStory fails some or all of the calls of a story, each in every way.
func (p *probe) failStory(s story) {
	m, k := p.prepare(s)
	trial := m.die()
	if err := p.act(trial, k.copy(), s, nil).first(); errors.Is(err, errLacks) {
		p.skipf("%v", errLacks)
	} else if err != nil {
		p.failf("when nothing goes wrong: %v", err)
	}
	calls := trial.fails.Calls()
	how := ways()
	for _, i := range p.spread(p.cfg.Faults, calls*len(how)) {
		p.failCall(m.die(), k.copy(), s, how[i%len(how)], func(c disk.Call) bool { return c.N == i/len(how) })
	}
}

// checkDiskFull has every write and every new file fail from some call on.
func checkDiskFull(p *probe) {
	s := commitStory()
	m, k := p.prepare(s)
	trial := m.die()
	if err := p.act(trial, k.copy(), s, nil).first(); err != nil {
		p.failf("when nothing goes wrong: %v", err)
	}
	full := failing{"ENOSPC for good", disk.Verdict{Err: syscall.ENOSPC, Written: 7}}
	for _, from := range p.spread(max(3, p.cfg.Faults/4), trial.fails.Calls()) {
		p.failCall(m.die(), k.copy(), s, full, func(c disk.Call) bool {
			return c.N >= from && (c.Kind == disk.OpWrite || c.Kind == disk.OpCreate || c.Kind == disk.OpMkdir)
		})
	}
}

// outcome is what the calls of a story gave.
type outcome struct {
	d               *driver // nil: the store did not open
	open, act, left error
}

func (o outcome) first() error { return errors.Join(o.open, o.act, o.left) }

// act opens the store, plays a story on it under a rule, and closes what is open
// if that belongs to the story.
func (p *probe) act(m *machine, k *known, s story, rule func(disk.Call) disk.Verdict) (o outcome) {
	if s.opening {
		m.fails.Rule(rule)
	}
	if o.d, o.open = p.opened(m, k); o.open != nil {
		return o
	}
	if !s.opening {
		m.fails.Rule(rule)
	}
	o.act = s.act(o.d)
	if s.opening && o.act == nil {
		o.left = o.d.leave()
		o.d = nil
	}
	return o
}

// failCall plays a story on a machine on which calls fail, and judges what is
// said about it and what is left.
func (p *probe) failCall(m *machine, k *known, s story, how failing, which func(disk.Call) bool) {
	var hit *disk.Call
	o := p.act(m, k, s, func(c disk.Call) disk.Verdict {
		if !which(c) {
			return disk.Verdict{}
		}
		if hit == nil {
			hit = &c
		}
		return how.Verdict
	})
	m.fails.Rule(nil) // from here on nothing fails any more
	if hit == nil {
		p.leaveFailed(o, how, "")
		return
	}
	p.faults.Add(1)
	what := fmt.Sprintf("call %d, %s of %s (%s)", hit.N, hit.Kind, path.Base(hit.Name), how.name)
	for _, err := range []error{o.open, o.act, o.left} {
		if err != nil && !errors.Is(err, how.Err) {
			p.failf("%s: the error does not wrap its cause: %v", what, err)
		}
	}
	var failed *failure
	if errors.As(o.act, &failed) {
		p.checkPoison(o.d, k, failed, how, what)
	}
	p.leaveFailed(o, how, what)
	// What the failure left, to a power cut and to the next process.
	p.acknowledged.Add(k.acknowledged())
	if p.rng.IntN(2) == 0 || p.level == pistore.Power {
		after, was := m.cut(p.rng), k.copy()
		if err := p.try(func() { p.openAfterCut(after, was) }); err != nil {
			p.failf("%s, and then a power cut: %v", what, err)
		}
	}
	if err := p.look(p.at(m, p.someMode()), k, nothing); err != nil {
		p.failf("after %s: opened again: %v", what, err)
	}
	if p.rng.IntN(3) == 0 {
		if err := p.goOn(m, k); err != nil {
			p.failf("after %s: %v", what, err)
		}
	}
}

// try runs a check that may end the row, and returns why instead.
func (p *probe) try(check func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case verdict:
			err = errors.New(r.why)
		default:
			panic(panicked(r))
		}
	}()
	check()
	return nil
}

// checkPoison checks what a store says after a call to a session has failed.
func (p *probe) checkPoison(d *driver, k *known, failed *failure, how failing, what string) {
	st := d.open[failed.call.session]
	switch failed.call.what {
	case "commit", "compact", "sync":
	default:
		return
	}
	if !errors.Is(failed.err, pistore.ErrFaulted) {
		// Nothing was admitted, it says: then it has to work.
		k.refused(failed.call)
		if st != nil {
			err := d.commit(failed.call.session, 1)
			// One call may fail to two who wait for it, the second in the background:
			// it faults the store a moment later.
			meanwhile := errors.Is(err, pistore.ErrFaulted) && errors.Is(err, how.Err) && failed.call.what != "sync"
			if err != nil && !meanwhile {
				p.failf("%s: %v; that is not ErrFaulted, and yet the next commit fails: %v", what, failed, err)
			}
		}
		return
	}
	p.poisoned.Add(1)
	if st == nil {
		return // of a driver of its own
	}
	if _, err := st.Commit(p.ctx, d.chain.tx(d.next[failed.call.session])); !errors.Is(err, pistore.ErrFaulted) {
		p.failf("%s: %v; a commit after that gives %v, want ErrFaulted", what, failed, err)
	}
	if _, err := st.Stats(p.ctx); !errors.Is(err, pistore.ErrFaulted) {
		p.failf("%s: %v; a read after that gives %v, want ErrFaulted", what, failed, err)
	}
}

// leaveFailed closes what is open, which may fail for the same reason only.
func (p *probe) leaveFailed(o outcome, how failing, what string) {
	if o.d == nil {
		return
	}
	if err := o.d.leave(); err != nil && (what == "" || !errors.Is(err, how.Err)) {
		p.failf("%s: closing: %v", what, err)
	}
}
