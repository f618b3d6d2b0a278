package crash

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

// storeDir is where the store is on a machine.
const storeDir = "/store"

// machine is a computer: a file system that can forget, beneath one that can
// fail, since some start.
type machine struct {
	memory *disk.Memory
	fails  *disk.Failing
	boot   uint32
}

func machineOf(m *disk.Memory, boot uint32) *machine {
	return &machine{memory: m, fails: disk.NewFailing(m), boot: boot}
}

// machineWith is a machine that has one directory, by its absolute path.
func machineWith(dir string) (*machine, error) {
	m := disk.NewMemory()
	made := "/"
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		err := errors.Join(m.Mkdir(path.Join(made, name)), m.SyncDir(made))
		if err != nil {
			return nil, err
		}
		made = path.Join(made, name)
	}
	return machineOf(m, 1), nil
}

func (p *probe) newMachine() *machine {
	p.checkFS()
	m, err := machineWith(storeDir)
	if err != nil {
		p.failf("making a machine: %v", err)
	}
	return m
}

// die is the machine after the death of the process; the process itself goes on
// with what it had, unseen.
func (m *machine) die() *machine { return machineOf(m.memory.Die(), m.boot) }

// cut is the machine after a power cut.
func (m *machine) cut(rng *rand.Rand) *machine { return machineOf(m.memory.Crash(rng), m.boot+1) }

func (p *probe) at(m *machine, mode pistore.Mode) Place {
	return Place{FS: m.fails, Dir: storeDir, Level: p.level, Mode: mode, Boot: m.boot}
}

// story is what happens on a machine.
type story struct {
	// before is done in peace; the store is closed behind it.
	before func(d *driver) error
	// act is what is cut or failed. It leaves open what it likes.
	act func(d *driver) error
	// opening says that opening the store before act and closing it behind belong
	// to what is failed. They are always cut.
	opening bool
}

// peace does a thing on a machine where nothing goes wrong.
func (p *probe) peace(m *machine, k *known, what func(d *driver) error) {
	if what == nil {
		return
	}
	d, err := p.opened(m, k)
	if err == nil {
		err = errors.Join(what(d), d.leave())
	}
	if errors.Is(err, errLacks) {
		p.skipf("%v", errLacks)
	}
	if err != nil {
		p.failf("when nothing goes wrong: %v", err)
	}
	if m.fails.Calls() == 0 {
		panic(noCalls)
	}
}

func (p *probe) opened(m *machine, k *known) (*driver, error) {
	b, err := p.open(p.at(m, pistore.ReadWrite))
	if err != nil {
		return nil, err
	}
	return newDriver(p.ctx, b, &p.watch, p.cfg.chain(), counted{k, p}), nil
}

// counted is a listener that tells that the row is alive.
type counted struct {
	listener
	p *probe
}

func (c counted) begun(to call) {
	c.p.ticks.Add(1)
	c.listener.begun(to)
}

// prepare makes the machine that a story begins on.
func (p *probe) prepare(s story) (*machine, *known) {
	m, k := p.newMachine(), newKnown()
	p.peace(m, k, s.before)
	return m, k
}

// goOn uses what is left like any store: a commit to each session, and a new one.
func (p *probe) goOn(m *machine, k *known) error {
	const another = 1 << 20
	d, err := p.opened(m, k)
	if err == nil {
		there := k.copy().sessions
		for _, i := range slices.Sorted(maps.Keys(there)) {
			if f := there[i]; f.there == yes && f.bare == no && err == nil {
				if err = d.resume(i); err == nil {
					err = d.commit(i, 1)
				}
			}
		}
		if err == nil && !p.cfg.lacks(conformance.NoSessions) {
			if err = d.create(another); err == nil {
				err = d.commit(another, 1)
			}
		}
		err = errors.Join(err, d.leave())
	}
	if err == nil {
		err = p.look(p.at(m, pistore.ReadWrite), k, nothing)
	}
	if err != nil {
		return fmt.Errorf("going on with what is left: %w", err)
	}
	return nil
}

// atOnce runs a thing for each of several sessions at the same time.
func (d *driver) atOnce(sessions int, what func(d *driver, i int) error) error {
	var ended []<-chan error
	for i := range sessions {
		own := newDriver(d.ctx, d.b, d.watch, d.chain, d.hear)
		ended = append(ended, apart(func() error { return what(own, i) }))
	}
	var errs []error
	for _, end := range ended {
		errs = append(errs, <-end)
	}
	err := errors.Join(errs...)
	if errors.Is(err, errBroken) {
		panic(verdict{outcome: conformance.Fail, why: err.Error(), advice: adviceOnPanic})
	}
	return err
}
