package crash

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
)

func byteRows() []row {
	return []row{
		{id: "BYT-01", title: "a flipped bit gives the right state, or ErrCorrupt with its place; the newest commit alone may count as torn",
			advice: "a checksum over each commit finds the bit; before a bad one at the end of a file counts as torn, look for a good one behind it",
			check:  checkFlips},
		{id: "BYT-02", title: "a file that was cut short gives a prefix of whole commits, or ErrCorrupt with its place",
			advice: "a record says how long it is and ends in a checksum: what is cut counts as torn, whole",
			check:  checkTruncations},
		{id: "BYT-03", title: "looking at damaged files changes no byte",
			advice: "opened read-only, a store repairs nothing, and truncates nothing",
			needs:  []conformance.Capability{conformance.NoReadOnly},
			check:  checkDamageLook},
	}
}

// aged makes a store whose files show a life: several sessions, closed and opened
// again, compacted if that is possible. Its process has died.
func (p *probe) aged() (m *machine, k *known, files []string) {
	m, k = p.newMachine(), newKnown()
	for life := range 2 {
		p.peace(m, k, func(d *driver) error {
			for i := range p.cfg.Sessions {
				err := d.resume(i)
				if err == nil {
					err = d.commit(i, 4)
				}
				if err == nil && life == 0 && i == 0 {
					if err = d.compact(i); errors.Is(err, errLacks) {
						err = nil
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	d, err := p.opened(m, k)
	for i := 0; i < p.cfg.Sessions && err == nil; i++ {
		if err = d.resume(i); err == nil {
			err = d.commit(i, 5)
		}
	}
	if err != nil {
		p.failf("when nothing goes wrong: %v", err)
	}
	image := m.die()
	if err := d.leave(); err != nil {
		p.failf("closing: %v", err)
	}
	err = walk(image.memory, storeDir, func(name string, info disk.Info) error {
		if info.Mode.IsRegular() && info.Size > 0 {
			files = append(files, name)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		p.failf("the store has %d files with anything in them; %v", len(files), err)
	}
	return image, k, files
}

// damaged is the machine with one file changed.
func (p *probe) damaged(m *machine, name string, change func(content []byte) []byte) *machine {
	m = m.die()
	content, err := readFile(m.memory, name)
	if err == nil {
		err = replace(m.memory, name, change(slices.Clone(content)))
	}
	if err != nil {
		p.failf("changing %s: %v", name, err)
	}
	return m
}

func checkFlips(p *probe) {
	m, k, files := p.aged()
	flip := func(name string, at, bit int) {
		left := p.damaged(m, name, func(content []byte) []byte {
			content[at] ^= 1 << bit
			return content
		})
		p.flips.Add(1)
		p.lookAtDamage(left, k.copy(), newest, fmt.Sprintf("byte %d of %s with bit %d flipped", at, path.Base(name), bit))
	}
	size := func(name string) int {
		content, err := readFile(m.memory, name)
		if err != nil {
			p.failf("%v", err)
		}
		return len(content)
	}
	if !p.cfg.EveryBit {
		for range p.cfg.Flips {
			name := files[p.rng.IntN(len(files))]
			flip(name, p.rng.IntN(size(name)), p.rng.IntN(8))
		}
		return
	}
	for _, name := range files {
		for i := range 8 * size(name) {
			flip(name, i/8, i%8)
		}
	}
}

func checkTruncations(p *probe) {
	m, k, files := p.aged()
	for range p.cfg.Flips {
		name := files[p.rng.IntN(len(files))]
		to := 0
		left := p.damaged(m, name, func(content []byte) []byte {
			to = p.rng.IntN(len(content))
			return content[:to]
		})
		p.truncations.Add(1)
		p.lookAtDamage(left, k.copy(), tail, fmt.Sprintf("%s cut to %d bytes", path.Base(name), to))
	}
}

// lookAtDamage opens a damaged store: what it shows is right but for what may be
// missing, or it is refused.
func (p *probe) lookAtDamage(m *machine, k *known, may loss, what string) {
	at := p.at(m, p.someMode())
	err := p.look(at, k, may)
	if err == nil && at.Mode == pistore.ReadWrite && p.rng.IntN(4) == 0 {
		err = p.goOn(m, k) // may meet what looking did not
	}
	switch {
	case err == nil:
	case errors.Is(err, errWrong):
		p.failf("%s: %v", what, err)
	case located(err), errors.Is(err, pistore.ErrForeignFormat), errors.Is(err, pistore.ErrNewerVersion):
		p.refusals.Add(1)
	case errors.Is(err, pistore.ErrCorrupt):
		p.failf("%s: the error names no place, in a *CorruptError: %v", what, err)
	default:
		p.failf("%s: %v, want ErrCorrupt", what, err)
	}
}

func checkDamageLook(p *probe) {
	m, k, files := p.aged()
	for n := range max(4, p.cfg.Flips/4) {
		name := files[p.rng.IntN(len(files))]
		left := p.damaged(m, name, func(content []byte) []byte {
			if n%2 == 0 {
				return content[:p.rng.IntN(len(content))]
			}
			content[p.rng.IntN(len(content))] ^= 1 << p.rng.IntN(8)
			return content
		})
		before, err := tree(left.memory, storeDir)
		if err != nil {
			p.failf("%v", err)
		}
		_ = p.look(p.at(left, pistore.ReadOnly), k.copy(), tail) // other rows judge it
		after, err := tree(left.memory, storeDir)
		if err == nil {
			err = unchanged(before, after)
		}
		if err != nil {
			p.failf("%s was damaged, and opened to look: %v", path.Base(name), err)
		}
	}
}
