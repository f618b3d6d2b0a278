package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"pistore"
)

// program is a sequence of steps for one session. It names nothing that depends
// on the backend, so that steps and writes can be left out of it.
type program struct {
	seed  int64 // that generates it as the first program of a run
	steps []step
}

// step is one commit, or a reopening.
type step struct {
	reopen bool
	writes []pistore.Write
	expect []condition
	reads  uint64 // seed of the reads behind the step
}

// condition is a precondition relative to the register's state at its time.
type condition struct {
	at   pistore.Address
	kind conditionKind
}

type conditionKind int

const (
	isCurrent  conditionKind = iota // the register's seq, 0 if it is absent
	isAbsent                        // 0
	isNext                          // one more than the seq
	isPrevious                      // one less, but never below 0
)

func (k conditionKind) String() string {
	return [...]string{"at its seq", "absent", "at its seq + 1", "at its seq - 1"}[k]
}

// resolve makes the transaction of a step on the model's state.
func (s step) resolve(m *model) pistore.Tx {
	tx := pistore.Tx{Writes: append([]pistore.Write(nil), s.writes...)}
	for _, c := range s.expect {
		seq := m.registers[c.at].Seq
		switch c.kind {
		case isCurrent:
		case isAbsent:
			seq = 0
		case isNext:
			seq++
		case isPrevious:
			seq = max(seq-1, 0)
		default:
			panic(fmt.Sprintf("conformance: condition of kind %d", c.kind))
		}
		tx.Expect = append(tx.Expect, pistore.Precondition{Namespace: c.at.Namespace, Key: c.at.Key, Seq: seq})
	}
	return tx
}

func (p program) String() string {
	var b strings.Builder
	for i, s := range p.steps {
		fmt.Fprintf(&b, "%3d ", i+1)
		if s.reopen {
			b.WriteString("reopen\n")
			continue
		}
		b.WriteString("commit\n")
		for _, c := range s.expect {
			fmt.Fprintf(&b, "      expect %s/%s %s\n", short(c.at.Namespace), short(c.at.Key), c.kind)
		}
		for _, w := range s.writes {
			fmt.Fprintf(&b, "      %s\n", describeWrite(w))
		}
	}
	return b.String()
}

// generator makes the steps of a program. It follows them on a model of its own,
// as if every write got the next seq, so that it knows what exists.
type generator struct {
	*rand.Rand
	m      *model
	minted int
	own    []pistore.ID // of the step in the making
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x70697374)) }

// generate makes a program of n commits; one of more commits from the same seed
// begins with the same steps.
func generate(seed int64, n int) program {
	g := generator{Rand: newRand(uint64(seed)), m: newModel()}
	p := program{seed: seed}
	for range n {
		if g.one(40) {
			p.steps = append(p.steps, step{reopen: true, reads: g.Uint64()})
		}
		s := g.step()
		p.steps = append(p.steps, s)
		g.follow(s)
	}
	return p
}

func (g *generator) follow(s step) {
	tx := s.resolve(g.m)
	if may, _ := g.m.judge(tx); len(may) > 0 || len(tx.Writes) == 0 {
		return
	}
	r := pistore.Receipt{FirstSeq: g.m.last + 1}
	for i := range tx.Writes {
		r.Seqs = append(r.Seqs, r.FirstSeq+pistore.Seq(i))
	}
	if err := g.m.apply(tx, r); err != nil {
		panic("conformance: generator: " + err.Error())
	}
}

// one reports true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (g *generator) step() step {
	s := step{reads: g.Uint64()}
	g.own = nil
	n := 1 + g.IntN(4)
	switch {
	case g.one(25):
		n = 0
	case g.one(25):
		n = 10 + g.IntN(20)
	}
	for range n {
		s.writes = append(s.writes, g.write())
	}
	if g.one(25) { // a parent behind its child
		child := pistore.InsertEntry{ID: g.mint(), Type: pistore.TypeMessage, Payload: `{}`}
		parent := pistore.InsertEntry{ID: g.mint(), ParentID: g.parent(), Type: pistore.TypeMessage, Payload: `{}`}
		child.ParentID = parent.ID
		s.writes = append(s.writes, child, parent)
	}
	if g.one(3) {
		for range 1 + g.IntN(3) {
			s.expect = append(s.expect, g.condition(s.writes))
		}
	}
	return s
}

// condition returns a precondition, often on a register that its transaction
// writes. As a rule it holds.
func (g *generator) condition(writes []pistore.Write) condition {
	c := condition{at: g.address()}
	if len(writes) > 0 && g.one(2) {
		switch w := pick(g.Rand, writes).(type) {
		case pistore.SetRegister:
			c.at = pistore.Address{Namespace: w.Namespace, Key: w.Key}
		case pistore.DeleteRegister:
			c.at = pistore.Address(w)
		}
	}
	if g.one(3) {
		c.kind = conditionKind(g.IntN(4))
	}
	return c
}

func (g *generator) write() pistore.Write {
	switch g.IntN(10) {
	case 0, 1, 2:
		e := pistore.InsertEntry{ParentID: g.parent(), ID: g.newID(), Type: pick(g.Rand, entryTypes), Payload: g.object()}
		if e.Type == pistore.TypeCustom {
			e.CustomType = pick(g.Rand, customTypes)
			if g.one(4) {
				e.Payload = ""
			}
		}
		if g.one(150) {
			e.CustomType, e.Type = pick(g.Rand, customTypes), pick(g.Rand, append(entryTypes, "label"))
		}
		return e
	case 3, 4:
		u := pistore.InsertUsage{ID: g.newID(), Usage: pick(g.Rand, usageTexts), Adjustment: g.one(3)}
		if g.one(2) {
			u.EntryID = g.parent()
		}
		if g.one(3) {
			u.Details = g.value()
		}
		return u
	case 5, 6, 7:
		at := g.address()
		return pistore.SetRegister{Namespace: at.Namespace, Key: at.Key, Value: g.value()}
	default:
		return pistore.DeleteRegister(g.address())
	}
}

func (g *generator) mint() pistore.ID {
	g.minted++
	return pistore.ID(fmt.Sprintf("n%d", g.minted))
}

// newID returns an id that is new as a rule, and sometimes in use or invalid.
func (g *generator) newID() pistore.ID {
	id := g.mint()
	switch {
	case g.one(80) && len(g.m.entries) > 0:
		id = pick(g.Rand, g.m.entries).ID
	case g.one(80) && len(g.m.usage) > 0:
		id = pick(g.Rand, g.m.usage).ID
	case g.one(40) && len(g.own) > 0:
		id = pick(g.Rand, g.own)
	case g.one(150):
		id = pick(g.Rand, badIDs)
	case g.one(12):
		id = pick(g.Rand, oddIDs)
	}
	g.own = append(g.own, id)
	return id
}

// parent returns an id to point to: one of the latest as a rule, so that paths
// grow, and of the same transaction at times.
func (g *generator) parent() pistore.ID {
	entries := g.m.entries
	switch {
	case g.one(15) || len(entries) == 0:
		return ""
	case g.one(100):
		return "nobody"
	case g.one(100) && len(g.m.usage) > 0:
		return pick(g.Rand, g.m.usage).ID
	case g.one(4) && len(g.own) > 0:
		return pick(g.Rand, g.own) // which may be a usage row, or the entry itself
	case g.one(4):
		return pick(g.Rand, entries).ID
	default:
		return pick(g.Rand, entries[max(0, len(entries)-4):]).ID
	}
}

func (g *generator) address() pistore.Address {
	if g.one(300) {
		return pick(g.Rand, badAddresses)
	}
	return pistore.Address{Namespace: pick(g.Rand, namespaces), Key: pick(g.Rand, orderedKeys)}
}

func (g *generator) value() pistore.JSON {
	if g.one(200) {
		return pick(g.Rand, badTexts)
	}
	return pick(g.Rand, jsonTexts)
}

func (g *generator) object() pistore.JSON {
	switch {
	case g.one(200):
		return pick(g.Rand, badTexts)
	case g.one(5):
		return `{}`
	default:
		return pistore.JSON(fmt.Sprintf(`{"n":%d,"v":`, g.IntN(1000))) + pick(g.Rand, jsonTexts) + `}`
	}
}
