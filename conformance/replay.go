package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"pistore"
)

// divergence is where a backend and the model differ.
type divergence struct {
	step int    // index into the program
	what string // "result", "statistics", "branch", …
	why  string
}

// machine runs a program on a fresh session and its model.
type machine struct {
	*session
	m   *model
	rng *rand.Rand // of the reads behind the present step
}

// replay runs a program at a new place and returns the first divergence, nil if
// there is none.
func (p *probe) replay(prog program) (found *divergence) {
	pl := p.place()
	defer func() {
		pl.leave()
		p.places = p.places[:len(p.places)-1]
	}()
	x := &machine{session: pl.session(pistore.Info{CWD: "/work"}), m: newModel()}
	for i, s := range prog.steps {
		what, why := guarded(func() (string, string) { return x.step(s) })
		if why == "" && i == len(prog.steps)-1 {
			what, why = guarded(x.last)
		}
		if why != "" {
			return &divergence{i, what, why}
		}
	}
	return nil
}

// guarded runs a part of a replay, which returns the kind of difference that it
// finds and its description, empty if there is none. A failed call of the
// backend counts as a difference, and so does a panic.
func guarded(part func() (what, why string)) (what, why string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case verdict:
			what, why = "call", r.why
		default:
			what, why = "panic", fmt.Sprint(r)
		}
	}()
	return part()
}

// step runs one step.
func (x *machine) step(s step) (what, why string) {
	x.rng = newRand(s.reads)
	if s.reopen {
		if x.p.cfg.reopens() {
			x.reopen()
		}
		return x.compareAll("after reopening")
	}
	if what, why = x.commitStep(s); why != "" {
		return what, why
	}
	if n := x.p.cfg.ReopenEvery; n > 0 && x.commits%n == 0 && x.p.cfg.reopens() {
		x.reopen()
		return x.compareAll("after reopening")
	}
	return x.reads()
}

// last compares everything once more, from a reopened store where there is one.
func (x *machine) last() (what, why string) {
	if what, why = x.compareAll("at the end"); why != "" {
		return what, why
	}
	return x.step(step{reopen: true})
}

// commitStep commits and compares result, receipt and statistics.
func (x *machine) commitStep(s step) (what, why string) {
	tx := s.resolve(x.m)
	may, conflict := x.m.judge(tx)
	given := pistore.Tx{Writes: slices.Clone(tx.Writes), Expect: slices.Clone(tx.Expect)}
	r, err := x.try(given)
	x.commits++
	x.p.checks.Add(1)
	for i := range given.Writes { // the caller's to reuse
		given.Writes[i] = pistore.SetRegister{Namespace: "reused", Key: fmt.Sprint(i), Value: `"by the caller"`}
	}
	clear(given.Expect)
	switch {
	case len(may) == 0 && err != nil:
		return "result", fmt.Sprintf("refused with %q, want success", err)
	case len(may) > 0 && err == nil:
		return "result", fmt.Sprintf("success, want %v", may)
	case len(may) > 0 && !slices.ContainsFunc(may, func(target error) bool { return errors.Is(err, target) }):
		return "result", fmt.Sprintf("refused with %q, want %v", err, may)
	}
	if conflict != nil && !x.p.cfg.lacks(NoErrorDetails) {
		var got *pistore.ConflictError
		if !errors.As(err, &got) || *got != *conflict {
			return "conflict", fmt.Sprintf("%v, want %v", err, conflict)
		}
	}
	if err == nil {
		if err := x.m.apply(tx, r); err != nil {
			return "receipt", err.Error()
		}
		if why := differ("statistics of the receipt", r.Stats, x.m.stats()); why != "" {
			return "statistics", why
		}
		clear(r.Seqs)
	}
	return x.compareStats()
}

func (x *machine) compareStats() (what, why string) {
	got, err := x.st.Stats(x.p.ctx)
	if err != nil {
		return "statistics", err.Error()
	}
	if why := differ("Stats", got, x.m.stats()); why != "" {
		return "statistics", why
	}
	return "", ""
}

// compareAll compares every row by every kind of listing.
func (x *machine) compareAll(when string) (what, why string) {
	x.p.checks.Add(1)
	if what, why = x.compareStats(); why != "" {
		return what, why
	}
	if why = differ("entries "+when, x.scanEntries(pistore.ScanQuery{}), x.m.entries); why != "" {
		return "entries", why
	}
	if why = differ("usage rows "+when, x.scanUsage(pistore.ScanQuery{}), x.m.usage); why != "" {
		return "usage", why
	}
	for _, ns := range append(namespaces, "reused", "nobody's") {
		if why = differ("registers of "+short(ns)+" "+when, x.prefix(ns, ""), x.m.prefix(ns, "")); why != "" {
			return "registers", why
		}
	}
	if x.p.cfg.lacks(NoExport) {
		return "", ""
	}
	header, rows := x.export()
	if why = differ("exported rows "+when, rows, x.m.rows()); why != "" {
		return "export", why
	}
	if header.NextSeq <= x.m.last {
		return "export", fmt.Sprintf("nextSeq is %d, but seq %d was given", header.NextSeq, x.m.last)
	}
	if why = differ("digest "+when, x.digest(), x.m.digest()); why != "" {
		return "digest", why
	}
	return "", ""
}

// reads makes a few reads of seeded kinds.
func (x *machine) reads() (what, why string) {
	kinds := []func() (string, string){
		x.readBranch, x.readBranch, x.readBranch, x.readEntries, x.readRegisters, x.readPrefix, x.readPrefix, x.readScan, x.readScan,
	}
	for range 3 {
		x.p.checks.Add(1)
		if what, why = pick(x.rng, kinds)(); why != "" {
			return what, why
		}
	}
	if x.rng.IntN(50) == 0 {
		return x.compareAll("after the commit")
	}
	return "", ""
}

func (x *machine) readBranch() (what, why string) {
	q := pistore.BranchQuery{Start: x.someID(), StructureOnly: x.rng.IntN(3) == 0, Order: pistore.Order(x.rng.IntN(2))}
	if x.rng.IntN(3) == 0 {
		q.StopAtType = pick(x.rng, entryTypes)
	}
	if x.rng.IntN(4) == 0 {
		q.StopAtID = x.someID()
	}
	if x.rng.IntN(3) == 0 {
		q.Type = pick(x.rng, entryTypes)
	}
	if x.rng.IntN(6) == 0 {
		q.CustomType = pick(x.rng, customTypes)
	}
	if x.rng.IntN(3) == 0 {
		q.Cursor = x.someSeq()
	}
	if x.rng.IntN(3) == 0 {
		q.Limit = x.rng.IntN(6) - x.rng.IntN(2)
	}
	got, err := drain(x.st.Branch(x.p.ctx, q))
	want, wantErr := x.m.branch(q)
	return "branch", differIn("branch "+describeBranch(q), got, err, want, wantErr)
}

func (x *machine) readScan() (what, why string) {
	q := pistore.ScanQuery{Order: pistore.Order(x.rng.IntN(2)), FromSeq: x.someSeq(), ToSeq: x.someSeq()}
	if x.rng.IntN(2) == 0 {
		q.Limit = x.rng.IntN(10) - x.rng.IntN(2)
	}
	if x.rng.IntN(3) == 0 {
		got, err := drain(x.st.ScanUsage(x.p.ctx, q))
		want, wantErr := x.m.scanUsage(q)
		return "scan of usage", differIn(fmt.Sprintf("scan of usage %+v", q), got, err, want, wantErr)
	}
	if x.rng.IntN(2) == 0 {
		q.Type = pick(x.rng, entryTypes)
	}
	if x.rng.IntN(5) == 0 {
		q.CustomType = pick(x.rng, customTypes)
	}
	q.StructureOnly = x.rng.IntN(3) == 0
	got, err := drain(x.st.ScanEntries(x.p.ctx, q))
	want, wantErr := x.m.scanEntries(q)
	return "scan of entries", differIn(fmt.Sprintf("scan of entries %+v", q), got, err, want, wantErr)
}

func (x *machine) readEntries() (what, why string) {
	var ids []pistore.ID
	for range x.rng.IntN(6) {
		ids = append(ids, x.someID())
	}
	return "entries by id", differ(fmt.Sprintf("entries by id %q", ids), x.entries(ids...), x.m.entriesByID(ids))
}

func (x *machine) readRegisters() (what, why string) {
	var at []pistore.Address
	for range x.rng.IntN(12) {
		a := pistore.Address{Namespace: pick(x.rng, namespaces), Key: pick(x.rng, orderedKeys)}
		if !slices.Contains(at, a) { // what a repeated address returns is left open
			at = append(at, a)
		}
	}
	return "registers by address", differ(fmt.Sprintf("registers %q", at), x.registers(at...), x.m.registersAt(at))
}

func (x *machine) readPrefix() (what, why string) {
	ns, prefix := pick(x.rng, namespaces), pick(x.rng, orderedKeys)
	if x.rng.IntN(2) == 0 {
		prefix = ""
	}
	return "registers by prefix", differ(fmt.Sprintf("registers of %q by prefix %q", ns, prefix), x.prefix(ns, prefix), x.m.prefix(ns, prefix))
}

// someID returns an id of an entry as a rule, else one of a usage row or none.
func (x *machine) someID() pistore.ID {
	switch n := x.rng.IntN(20); {
	case n == 0:
		return pick(x.rng, oddIDs)
	case n == 1 && len(x.m.usage) > 0:
		return pick(x.rng, x.m.usage).ID
	case len(x.m.entries) > 0:
		return pick(x.rng, x.m.entries).ID
	default:
		return "nobody"
	}
}

// someSeq returns a seq that was given as a rule, or 0.
func (x *machine) someSeq() pistore.Seq {
	if x.rng.IntN(3) == 0 {
		return 0
	}
	return pistore.Seq(x.rng.Int64N(int64(x.m.last) + 2))
}

// differIn is differ for a read that may have to fail.
func differIn[T any](what string, got T, err error, want T, wantErr error) string {
	switch {
	case wantErr != nil && !errors.Is(err, wantErr):
		return fmt.Sprintf("%s: error %v, want %q", what, err, wantErr)
	case wantErr == nil && err != nil:
		return fmt.Sprintf("%s: unexpected error: %v", what, err)
	case wantErr != nil:
		return ""
	default:
		return differ(what, got, want)
	}
}
