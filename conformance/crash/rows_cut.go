package crash

import (
	"errors"
	"math/rand/v2"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

func cutRows() []row {
	const prefix = "at Power everything acknowledged is there after a power cut, at Process a prefix of whole commits or ErrCorrupt with its place"
	return []row{
		{id: "CUT-01", title: prefix,
			advice: "at Power, sync the file before each acknowledgement and the directory after a file was made in it; a checksum over each commit tells a torn one from a whole one",
			check:  func(p *probe) { p.cutStory(commitStory()) }},
		{id: "CUT-02", title: "the same with several sessions at once",
			advice: "commits may share a sync; each has to wait for one that began after its last write",
			needs:  []conformance.Capability{conformance.NoSessions},
			check:  func(p *probe) { p.cutStory(p.crowd()) }},
		{id: "CUT-03", title: "the same when the power fails again, and again, while the store recovers",
			advice: "recovery has to be repeatable: sync what replaces something before that is removed, and cut a torn tail before anything is written behind it",
			check:  checkCutRecovery},
		{id: "CUT-04", title: "a power cut during a compaction loses nothing",
			advice: "sync the new file, then rename it, then sync the directory, and only then remove what it replaces",
			check:  func(p *probe) { p.cutStory(compactionStory()) }},
		{id: "CUT-05", title: "a session that was created, or deleted, at Power is so after a power cut; at Process it is whole or absent",
			advice: "sync the directory before Create and Delete return",
			needs:  []conformance.Capability{conformance.NoSessions},
			check:  func(p *probe) { p.cutStory(namesStory(p.cfg)) }},
		{id: "CUT-06", title: "a session that is loaded when the power fails is whole or absent, and at Power whole when Load has returned",
			advice: "build it under a name that nobody looks for, sync it, rename it, and sync the directory; or load in one transaction",
			needs:  []conformance.Capability{conformance.NoSessions, conformance.NoLoad},
			check:  func(p *probe) { p.cutStory(loadStory()) }},
		{id: "CUT-07", title: "a session that is rewritten when the power fails is the old or the new",
			advice: "as with a compaction: the new file is synced before it takes the old one's name",
			needs:  []conformance.Capability{conformance.NoRewrite},
			check:  func(p *probe) { p.cutStory(rewriteStory()) }},
		{id: "CUT-08", title: "what was acknowledged before Sync returned survives a power cut at either level",
			advice: "Sync writes out what is buffered, syncs every file that commits went to, and then the directory",
			check:  func(p *probe) { p.cutStory(syncStory()) }},
	}
}

// shares spreads cuts over places, the last of which is the end and has one in any
// case.
func (p *probe) shares(cuts, places int) []int {
	all := make([]int, places)
	for i := range all {
		all[i] = cuts / places
	}
	rest := cuts % places
	if cuts < places {
		all[places-1]++
		rest--
		places--
	}
	for _, i := range p.spread(rest, places) {
		all[i]++
	}
	return all
}

// moment is what a power cut leaves, and what was known before it.
type moment struct {
	after *machine
	k     *known
}

// cutStory cuts the power before some or all of the calls of a story, and behind it,
// and looks at what is left.
func (p *probe) cutStory(s story) {
	m, k := p.prepare(s)
	trial := m.die()
	p.peace(trial, k.copy(), s.act)
	of := trial.fails.Calls()
	due := p.shares(p.cfg.Cuts, of+1)
	var moments []moment
	at := func(call int) {
		was := k.copy() // before the cut: what is acknowledged meanwhile may be missing
		for n := range due[call] {
			moments = append(moments, moment{m.cut(rand.New(rand.NewPCG(p.cfg.Seed+uint64(n), uint64(call)))), was.copy()})
		}
	}
	m.fails.Rule(func(c disk.Call) disk.Verdict {
		if c.N < of { // it may make more of them than it did in the trial
			at(c.N)
		}
		return disk.Verdict{}
	})
	p.peace(m, k, s.act)
	made := min(m.fails.Calls(), of)
	m.fails.Rule(nil)
	for call := made; call <= of; call++ { // behind the story, those too that it did not come to
		at(call)
	}
	for _, left := range moments {
		p.lookAfterCut(left)
	}
}

// lookAfterCut looks at what one power cut left, and reports whether the store opened.
func (p *probe) lookAfterCut(left moment) bool {
	p.cuts.Add(1)
	p.acknowledged.Add(left.k.acknowledged())
	opened := p.openAfterCut(left.after, left.k)
	if opened && p.rng.IntN(3) == 0 {
		if err := p.goOn(left.after, left.k); err != nil {
			p.failf("%v", err)
		}
	}
	return opened
}

func (p *probe) openAfterCut(m *machine, k *known) (opened bool) {
	may := nothing
	if p.level == pistore.Process {
		may = unsynced
	}
	exposed := may == unsynced && k.exposed()
	err := p.look(p.at(m, p.someMode()), k, may)
	if err == nil {
		return true
	}
	if !exposed || !located(err) {
		p.failf("after a power cut: %v", err)
	}
	p.refusals.Add(1)
	return false
}

// exposed tells whether there is anything that a power cut may take.
func (k *known) exposed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.sessions {
		if f.begun > f.safe || f.there == either || f.bare == either {
			return true
		}
	}
	return false
}

// located tells whether an error is of damage, and says where.
func located(err error) bool {
	var damage *pistore.CorruptError
	return errors.Is(err, pistore.ErrCorrupt) && errors.As(err, &damage) && damage.Place != ""
}

// checkCutRecovery cuts the power in a story, and then again and again while the
// store is opened on what is left and used.
func checkCutRecovery(p *probe) {
	for cuts := 0; cuts < p.cfg.Cuts; {
		m, k := p.newMachine(), newKnown()
		left := p.cutSomewhere(m, k, commitStory().act)
		for again := 0; ; again++ {
			cuts++
			opened := p.lookAfterCut(moment{left.after.die(), left.k.copy()})
			if !opened || again == 2 || cuts == p.cfg.Cuts {
				break
			}
			left = p.cutSomewhere(left.after, left.k, func(d *driver) error {
				err := d.resume(0)
				if err == nil {
					err = d.commit(0, 2)
				}
				return err
			})
		}
	}
}

// cutSomewhere runs a thing and cuts the power before one of its calls, each as
// likely as the others. What a cut of an opening may take is settled when the
// store is looked at.
func (p *probe) cutSomewhere(m *machine, k *known, what func(d *driver) error) moment {
	var left moment
	m.fails.Rule(func(c disk.Call) disk.Verdict {
		if p.rng.IntN(c.N+1) == 0 { // a sample of one
			left = moment{m.cut(rand.New(rand.NewPCG(p.cfg.Seed, p.rng.Uint64()))), k.copy()}
		}
		return disk.Verdict{}
	})
	p.peace(m, k, what)
	m.fails.Rule(nil)
	return left
}
