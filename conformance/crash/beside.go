package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pistore/conformance"
)

const adviceOnFS = "in Config.OpenOn, have the store reach all its files through Place.FS; without OpenOn these rows are skipped"

// noCalls is the verdict on a store that does not use the file system it is given.
var noCalls = verdict{
	outcome: conformance.Fail, advice: adviceOnFS,
	why: "the store that OpenOn gave made no call on Place.FS: what is cut and failed there says nothing about it",
}

// checkFS ends the row if the store keeps its files elsewhere than on Place.FS. It
// tries that once for all rows, in a directory that is there on the real disk as
// well, so that what is written beside the kit is found and removed.
func (p *probe) checkFS() {
	v := p.cfg.beside.Load()
	if v == nil {
		if v = p.tryFS(); v == nil {
			return // the store fails otherwise, which the row tells better
		}
		p.cfg.beside.Store(v)
	}
	if v.outcome == conformance.Fail {
		panic(*v)
	}
}

func (p *probe) tryFS() *verdict {
	dir, remove := p.place()
	defer remove()
	m, err := machineWith(filepath.ToSlash(dir))
	if err != nil {
		p.failf("making a machine: %v", err)
	}
	tried := p.commitOnce(Place{FS: m.fails, Dir: filepath.ToSlash(dir), Level: p.level, Boot: m.boot})
	real, err := os.ReadDir(dir)
	switch {
	case err != nil:
		p.failf("the directory that was made for the backend: %v", err)
	case len(real) > 0 && m.fails.Calls() > 0:
		return &verdict{outcome: conformance.Fail, advice: adviceOnFS, why: fmt.Sprintf(
			"the store that OpenOn gave wrote %s to the real disk, beside Place.FS: what is cut and failed there says little about it", real[0].Name())}
	case len(real) > 0, tried == nil && m.fails.Calls() == 0:
		return &noCalls
	case tried != nil:
		return nil
	}
	return &verdict{outcome: conformance.Pass}
}

// commitOnce makes a session of one commit at a place.
func (p *probe) commitOnce(at Place) error {
	b, err := p.open(at)
	if err != nil {
		return err
	}
	d := newDriver(p.ctx, b, &p.watch, p.cfg.chain(), counted{newKnown(), p})
	if err = d.create(0); err == nil {
		err = d.commit(0, 1)
	}
	return errors.Join(err, d.leave())
}
