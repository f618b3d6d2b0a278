package conformance

import (
	"fmt"
	"strings"

	"pistore"
)

func refusalRows() []row {
	const whole = "check the whole transaction before the first of its writes is applied, or undo all of them"
	return []row{
		{id: "TX-10", title: "a refused transaction leaves no entry", advice: whole, inv: []int{2}, check: refusedEntries},
		{id: "TX-11", title: "a refused transaction leaves registers as they were", advice: whole, inv: []int{2, 3}, check: refusedRegisters},
		{id: "TX-12", title: "a refused transaction leaves no usage row and no change of statistics", advice: whole, inv: []int{2}, check: refusedUsage},
		{id: "TX-13", title: "the ids of a refused transaction stay free",
			advice: "reserve ids only when the transaction is certain", inv: []int{1, 2}, check: refusedIDs},
		{id: "TX-14", title: "a parent created later in the transaction is refused",
			advice: "parents are looked up among committed entries and the writes in front, never behind: ErrMissingParent", inv: []int{10}, check: parentLater},
		{id: "TX-15", title: "a parent that is no entry is refused",
			advice: "an unknown id, the entry's own id and the id of a usage row are no parents: ErrMissingParent", inv: []int{10}, check: parentNoEntry},
		{id: "TX-16", title: "entries and usage rows share one namespace of ids",
			advice: "keep one set of ids per session for both forms: ErrDuplicateID", inv: []int{1}, check: sharedIDs},
		{id: "TX-17", title: "an id is refused twice within one transaction",
			advice: "the ids of a transaction's own writes are in use for the writes behind them: ErrDuplicateID", inv: []int{1}, check: duplicateWithin},
		{id: "TX-18", title: "an id in use is refused, even for the same content",
			advice: "entries and usage rows are write-once; a repeated insert is ErrDuplicateID, not a no-op", inv: []int{1}, check: duplicateCommitted},
		{id: "TX-19", title: "a write that is no write is refused",
			advice: "call Tx.Admit first: a nil write or a pointer to one is ErrInvalid", check: strangeWrites},
	}
}

// refusal is a way to have a transaction refused: writes and conditions that
// spoil it wherever they stand.
type refusal struct {
	name   string
	want   error
	spoil  pistore.Write // nil: the condition spoils
	expect []pistore.Precondition
}

// refusals returns one refusal of every kind for a session that holds entry
// "taken" and not register ns/absent.
func refusals() []refusal {
	return []refusal{
		{name: "invalid JSON", want: pistore.ErrInvalid, spoil: set("bad", `{`)},
		{name: "an overlong key", want: pistore.ErrTooLarge, spoil: set(strings.Repeat("k", pistore.MaxKeyBytes+1), `1`)},
		{name: "a duplicate id", want: pistore.ErrDuplicateID, spoil: message("taken", "")},
		{name: "a missing parent", want: pistore.ErrMissingParent, spoil: message("orphan", "nobody")},
		{name: "a conflict", want: pistore.ErrConflict, expect: []pistore.Precondition{expect("absent", 1)}},
	}
}

// eachRefusal commits the writes with every refusal behind them, and in front of
// them, and calls after once for each.
func (s *session) eachRefusal(writes func(n int) []pistore.Write, after func(name string)) {
	s.commit(message("taken", ""))
	n := 0
	for _, r := range refusals() {
		for _, place := range []string{"behind", "in front"} {
			tx := pistore.Tx{Writes: writes(n), Expect: r.expect}
			n++
			switch {
			case r.spoil == nil:
			case place == "behind":
				tx.Writes = append(tx.Writes, r.spoil)
			default:
				tx.Writes = append([]pistore.Write{r.spoil}, tx.Writes...)
			}
			s.refuse(r.want, tx)
			after(fmt.Sprintf("after a transaction refused for %s %s of its writes", r.name, place))
		}
	}
}

func refusedEntries(p *probe) {
	s := p.session()
	s.eachRefusal(func(n int) []pistore.Write {
		return []pistore.Write{message(pistore.ID(fmt.Sprint("a", n)), "taken"), message(pistore.ID(fmt.Sprint("b", n)), "")}
	}, func(name string) {
		equal(p, "entries "+name, entryIDs(s.scanEntries(pistore.ScanQuery{})), []pistore.ID{"taken"})
		equal(p, "entries by id "+name, len(s.entries("a0", "b0", "a1", "b1", "orphan")), 0)
	})
}

func refusedRegisters(p *probe) {
	s := p.session()
	s.commit(set("kept", `"old"`), set("deleted", `"old"`))
	before := s.prefix("ns", "")
	s.eachRefusal(func(int) []pistore.Write {
		return []pistore.Write{set("kept", `"new"`), del("deleted"), set("added", `1`)}
	}, func(name string) {
		equal(p, "registers "+name, s.prefix("ns", ""), before)
		equal(p, "register that was to be added "+name, s.register("ns", "added"), pistore.Register{})
	})
}

func refusedUsage(p *probe) {
	s := p.session()
	s.commit(usage("u", `{"input":1}`))
	s.commit(message("first", ""))
	var before pistore.Stats
	s.eachRefusal(func(n int) []pistore.Write {
		if n == 0 {
			before = s.stats()
		}
		return []pistore.Write{usage(pistore.ID(fmt.Sprint("u", n)), `{"input":1}`)}
	}, func(name string) {
		equal(p, "statistics "+name, s.stats(), before)
		equal(p, "number of usage rows "+name, len(s.scanUsage(pistore.ScanQuery{})), 1)
	})
}

func refusedIDs(p *probe) {
	s := p.session()
	s.eachRefusal(func(int) []pistore.Write {
		return []pistore.Write{message("again", ""), usage("again2", `{}`)}
	}, func(string) {})
	_, err := s.try(txOf(message("again", ""), usage("again2", `{}`)))
	p.noError("commit of ids that were refused before", err)
}

func parentLater(p *probe) {
	s := p.session()
	s.refuse(pistore.ErrMissingParent, txOf(message("child", "parent"), message("parent", "")))
	s.commit(message("root", ""))
	s.refuse(pistore.ErrMissingParent, txOf(message("a", "root"), message("b", "d"), message("c", "b"), message("d", "a")))
	s.refuse(pistore.ErrMissingParent, txOf(message("x", "y"), message("y", "x")))
}

func parentNoEntry(p *probe) {
	s := p.session()
	s.commit(usage("u", `{}`), set("key", `1`))
	for _, parent := range []pistore.ID{"nobody", "u", "key", "self"} {
		s.refuse(pistore.ErrMissingParent, txOf(message("self", parent)))
	}
	s.refuse(pistore.ErrMissingParent, txOf(usage("own", `{}`), message("child", "own")))
}

func sharedIDs(p *probe) {
	s := p.session()
	s.commit(message("e", ""), usage("u", `{}`))
	s.refuse(pistore.ErrDuplicateID, txOf(usage("e", `{}`)))
	s.refuse(pistore.ErrDuplicateID, txOf(message("u", "")))
	if p.cfg.reopens() {
		s.reopen()
		s.refuse(pistore.ErrDuplicateID, txOf(usage("e", `{}`)))
		s.refuse(pistore.ErrDuplicateID, txOf(message("u", "")))
	}
}

func duplicateWithin(p *probe) {
	s := p.session()
	for _, tx := range []pistore.Tx{
		txOf(message("x", ""), message("x", "")),
		txOf(usage("x", `{}`), usage("x", `{}`)),
		txOf(message("x", ""), set("k", `1`), usage("x", `{}`)),
		txOf(usage("x", `{}`), message("x", "")),
	} {
		s.refuse(pistore.ErrDuplicateID, tx)
	}
}

func duplicateCommitted(p *probe) {
	s := p.session()
	s.commit(message("e", ""), usage("u", `{"input":1}`))
	s.refuse(pistore.ErrDuplicateID, txOf(message("e", "")))
	s.refuse(pistore.ErrDuplicateID, txOf(usage("u", `{"input":1}`)))
	s.refuse(pistore.ErrDuplicateID, txOf(entryOf("e", "e", pistore.TypeCompaction, "")))
	if p.cfg.reopens() {
		s.reopen()
		s.refuse(pistore.ErrDuplicateID, txOf(message("e", "")))
		s.refuse(pistore.ErrDuplicateID, txOf(usage("u", `{"input":1}`)))
	}
}

func strangeWrites(p *probe) {
	s := p.session()
	s.refuse(pistore.ErrInvalid, txOf(nil))
	s.refuse(pistore.ErrInvalid, txOf(message("e", ""), &pistore.SetRegister{Namespace: "ns", Key: "k", Value: `1`}))
}
