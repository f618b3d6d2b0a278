package crash

import (
	"errors"
	"os"
	"time"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

func killRows() []row {
	return []row{
		{id: "KIL-01", title: "what a killed process acknowledged is there, whole and in order, with at most one commit more for each session",
			advice: "acknowledge a commit when write(2) has returned, not when the bytes are in a buffer of the process; make one commit one write, or one that a checksum over all of it closes",
			check:  checkKill},
		{id: "KIL-02", title: "a process that is killed while it opens what another one left loses nothing",
			advice: "recovery has to be repeatable: do not remove or overwrite anything before what takes its place is durable",
			check:  checkKillOpening},
		{id: "KIL-03", title: "a process that is killed while it compacts loses nothing",
			advice: "write the compacted form beside the old one, sync it, and put it in place with one rename",
			check:  checkKillCompaction},
		{id: "KIL-04", title: "sessions that a killed process made, loaded, rewrote or deleted are whole or absent, and what returned is done",
			advice: "build a session under a temporary name, or in one transaction; clean up what a crash left when the store is opened",
			needs:  []conformance.Capability{conformance.NoSessions},
			check:  checkKillNames},
		{id: "KIL-05", title: "looking at what a killed process left changes no byte",
			advice: "opened read-only, a store repairs nothing: recover in memory, and leave the torn tail to the next writer",
			needs:  []conformance.Capability{conformance.NoReadOnly},
			check:  checkKillLook},
	}
}

// roundsPerPlace is how many processes are killed over one place, so that what
// they leave stays small.
const roundsPerPlace = 5

// place makes a directory for the backend.
func (p *probe) place() (dir string, remove func()) {
	dir, err := os.MkdirTemp(p.cfg.Dir, "crash-")
	if err != nil {
		p.failf("making a directory for the backend: %v", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) } // a leftover in a temporary place
}

// open opens a backend whose calls are watched.
func (p *probe) open(at Place) (pistore.Backend, error) {
	name, open := "Config.Open", p.cfg.Open
	if at.FS != nil {
		name, open = "Config.OpenOn", p.cfg.OpenOn
	}
	defer p.watch.Begin(name)()
	b, err := open(at)
	return p.watch.Backend(name, b, err)
}

// look opens the backend at a place and settles what is known.
func (p *probe) look(at Place, k *known, may loss) error {
	p.opens.Add(1)
	b, err := p.open(at)
	if at.Mode == pistore.ReadOnly && errors.Is(err, pistore.ErrNotFound) && k.absent() {
		return nil // there is no store yet to look at
	}
	if err != nil {
		return err
	}
	lost, err := k.settle(p.ctx, b, p.cfg, at.Mode, may)
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		p.lost.Add(int64(lost))
	}
	return err
}

// someMode is a mode at random, if the backend has both.
func (p *probe) someMode() pistore.Mode {
	if p.cfg.lacks(conformance.NoReadOnly) || p.rng.IntN(3) > 0 {
		return pistore.ReadWrite
	}
	return pistore.ReadOnly
}

// rounds kills processes that follow orders, and looks at what each left.
func (p *probe) rounds(n int, o orders, after func(round int, at Place, k *known)) {
	var k *known
	var remove func()
	for round := range n {
		if round%roundsPerPlace == 0 {
			if remove != nil {
				remove()
			}
			k = newKnown()
			o.Dir, remove = p.place()
		}
		o.From = round * 10_000 // above every session of the rounds before
		before := k.acknowledged()
		v := p.begin(o, k)
		p.die(v)
		if k.inside() {
			p.openKills.Add(1)
		}
		if now := k.acknowledged(); now > before {
			p.acknowledged.Add(now - before)
		}
		after(round, Place{Dir: o.Dir, Level: p.level}, k)
	}
	if remove != nil {
		remove()
	}
}

func (p *probe) orders(program string) orders {
	return orders{Program: program, Level: p.level.String(), Sessions: p.cfg.Sessions, PayloadBytes: p.cfg.PayloadBytes, Lacks: p.cfg.Lacks}
}

func (p *probe) mustLook(what string, at Place, k *known) {
	if err := p.look(at, k, nothing); err != nil {
		p.failf("after %s: %v", what, err)
	}
}

func checkKill(p *probe) {
	p.rounds(p.cfg.Kills, p.orders("commit"), func(_ int, at Place, k *known) {
		at.Mode = p.someMode() // one that only looks leaves the recovery to the next process
		p.mustLook("the kill", at, k)
	})
	if p.openKills.Load() == 0 {
		p.failf("of %d kills none hit a commit under way, so that nothing was seen: kill more", p.kills.Load())
	}
}

// some is a share of the kills for what is not the heart of it.
func (p *probe) some() int { return max(2, p.cfg.Kills/4) }

func checkKillOpening(p *probe) {
	o := p.orders("commit")
	p.rounds(p.some(), o, func(_ int, at Place, k *known) {
		o.Dir = at.Dir
		// Another one tells how long opening takes; that is what the next are killed in.
		v := p.begin(o, k)
		ended := p.heard(v)
		took := time.Since(v.started)
		p.end(v, ended)
		for range 3 {
			p.dieOpening(p.begin(o, k), took)
		}
		p.mustLook("kills while it was opened", at, k)
	})
}

func checkKillCompaction(p *probe) {
	p.needAbility(func(st pistore.Storage) bool {
		_, ok := pistore.Find[pistore.Compacter](st)
		return ok
	})
	p.rounds(p.some(), p.orders("compact"), func(_ int, at Place, k *known) { p.mustLook("a kill while it compacted", at, k) })
}

func checkKillNames(p *probe) {
	p.rounds(p.some(), p.orders("names"), func(_ int, at Place, k *known) {
		p.mustLook("a kill while sessions came and went", at, k)
	})
}

func checkKillLook(p *probe) {
	p.rounds(p.some(), p.orders("commit"), func(_ int, at Place, k *known) {
		before, err := tree(disk.OS, at.Dir)
		if err != nil {
			p.failf("reading %s: %v", at.Dir, err)
		}
		at.Mode = pistore.ReadOnly
		p.mustLook("the kill", at, k)
		after, err := tree(disk.OS, at.Dir)
		if err == nil {
			err = unchanged(before, after)
		}
		if err != nil {
			p.failf("%v", err)
		}
	})
}

// needAbility skips the row unless sessions have an ability.
func (p *probe) needAbility(has func(pistore.Storage) bool) {
	dir, remove := p.place()
	defer remove()
	b, err := p.open(Place{Dir: dir, Level: p.level})
	if err != nil {
		p.failf("opening the backend: %v", err)
	}
	defer b.Close() // nothing was written that matters
	st, err := b.Create(p.ctx, pistore.Info{ID: sessionID(0)})
	if err != nil {
		p.failf("creating a session: %v", err)
	}
	if !has(st) {
		p.skipf("%v", errLacks)
	}
}
