package conformance

import (
	"context"
	"fmt"
	"iter"

	"pistore"
)

func snapshotRows() []row {
	return []row{
		{id: "QRY-30", title: "an iterator can be left early", advice: "stop when yield returns false, and release what the read holds", check: leaveEarly},
		{id: "QRY-31", title: "ranging an iterator again reads again",
			advice: "keep no state between two ranges over the same sequence; a later one sees later commits", check: rangeTwice},
		{id: "QRY-32", title: "an iterator shows the instant at which its ranging began",
			advice: "cap entries and usage by seq and copy a listing of registers when ranging begins; hold no lock, so that the reader itself may commit", check: snapshotOfStart},
	}
}

// namedSequence is an iterator of a session as a sequence of keys.
type namedSequence struct {
	name string
	seq  iter.Seq2[string, error]
}

// sequences are the iterators of a session, each over five or more rows of the
// session that walk makes.
func (s *session) sequences(ctx context.Context) []namedSequence {
	back := pistore.Reversed
	all := []namedSequence{
		{"Branch", named(s.st.Branch(ctx, pistore.BranchQuery{Start: "e4"}), keyOf)},
		{"Branch reversed", named(s.st.Branch(ctx, pistore.BranchQuery{Start: "e4", Order: back}), keyOf)},
		{"ScanEntries", named(s.st.ScanEntries(ctx, pistore.ScanQuery{}), keyOf)},
		{"ScanEntries reversed", named(s.st.ScanEntries(ctx, pistore.ScanQuery{Order: back}), keyOf)},
		{"ScanUsage", named(s.st.ScanUsage(ctx, pistore.ScanQuery{}), keyOf)},
		{"RegistersByPrefix", named(s.st.RegistersByPrefix(ctx, "ns", ""), keyOf)},
	}
	if !s.p.cfg.lacks(NoExport) {
		all = append(all, namedSequence{"Export", named(s.st.Export(ctx), keyOf)})
	}
	return all
}

// keyOf names a row, a register with its value.
func keyOf[R pistore.Row](row R) string {
	switch r := pistore.Row(row).(type) {
	case pistore.Entry:
		return string(r.ID)
	case pistore.UsageRow:
		return string(r.ID)
	case pistore.Register:
		return r.Key + "=" + string(r.Value)
	default:
		return fmt.Sprintf("%T", row)
	}
}

func named[T any](seq iter.Seq2[T, error], name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for v, err := range seq {
			text := ""
			if err == nil {
				text = name(v)
			}
			if !yield(text, err) {
				return
			}
		}
	}
}

// walk commits a chain e0 to e4, usage rows u0 to u4 and registers k0 to k4.
func (s *session) walk() {
	parent := pistore.ID("")
	for i := range 5 {
		id := pistore.ID(fmt.Sprint("e", i))
		s.commit(message(id, parent), usage(pistore.ID(fmt.Sprint("u", i)), `{}`), set(fmt.Sprint("k", i), `1`))
		parent = id
	}
}

func leaveEarly(p *probe) {
	s := p.session()
	s.walk()
	for _, q := range s.sequences(p.ctx) {
		name, seq := q.name, q.seq
		n := 0
		for _, err := range seq {
			p.noError(name, err)
			if n++; n == 2 {
				break
			}
		}
		p.check(n == 2, "%s: %d rows in front of the break, want 2", name, n)
	}
	_, err := s.try(txOf(message("after", ""), set("k0", `2`)))
	p.noError("commit after iterators were left early", err)
}

func rangeTwice(p *probe) {
	s := p.session()
	s.walk()
	sequences := s.sequences(p.ctx)
	for _, q := range sequences {
		name, seq := q.name, q.seq
		first, again := read(p, name, seq), read(p, name+" again", seq)
		p.check(len(first) >= 5, "%s: %d rows, want 5 at least", name, len(first))
		equal(p, name+", ranged over twice", again, first)
	}
	if s.p.cfg.ReopenEvery > 0 {
		return // the sequences belong to the handle, which the next commit may close
	}
	s.commit(message("e9", "e4"), usage("u9", `{}`), set("k9", `1`))
	for _, q := range sequences {
		switch q.name {
		case "ScanEntries", "ScanUsage", "RegistersByPrefix":
			p.check(len(read(p, q.name, q.seq)) == 6, "%s: ranged over after a commit, it does not show the commit", q.name)
		}
	}
}

func snapshotOfStart(p *probe) {
	s := p.session()
	s.walk()
	n := 0
	for i := range s.sequences(p.ctx) {
		before := read(p, "before the commit", s.sequences(p.ctx)[i].seq)
		q := s.sequences(p.ctx)[i]
		name, seq := q.name, q.seq
		var got []string
		for key, err := range seq {
			p.noError(name+" with a commit in the middle", err)
			got = append(got, key)
			if len(got) != 2 {
				continue
			}
			n++
			id := pistore.ID(fmt.Sprint(n))
			_, err := s.try(txOf(
				message("m"+id, "e4"), usage("v"+id, `{}`),
				set("k1", pistore.QuoteJSON(string(id))), set("k4", pistore.QuoteJSON(string(id))), set("z"+string(id), `1`), del("k3"),
			))
			p.noError("commit while ranging over "+name, err)
		}
		equal(p, name+" with a commit in the middle", got, before)
		_, err := s.try(txOf(set("k3", `1`)))
		p.noError("commit after ranging over "+name, err)
	}
}
