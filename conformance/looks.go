package conformance

import (
	"strings"

	"pistore"
)

// look is a kind of read of the session of a serial history. What it answers, and
// how many commits of serialTx the answer shows.
type look struct {
	name    string
	ask     func(r *recorder) (answer any, shows int, err error)
	want    func(m *model, answer any) any // what it has to answer in a state
	atLeast bool                           // the answer is the same in later states
}

// registersLook is the index of the one that sees the register newest.
const registersLook = 0

// looks are all kinds of read that the session offers.
func (s *session) looks() []look {
	all := []look{
		{name: "a batch of registers", ask: askRegisters, want: func(m *model, _ any) any { return m.registersAt(serialAddresses) }},
		{name: "a listing of registers", ask: askListing, want: func(m *model, _ any) any { return m.prefix("ns", "") }},
		{name: "a scan of entries", ask: askEntries, want: func(m *model, _ any) any { return m.entries }},
		{name: "a scan of usage", ask: askUsage, want: func(m *model, _ any) any { return m.usage }},
		{name: "the entries by id", ask: askByID, want: func(m *model, _ any) any { return m.entriesByID(serialIDs) }},
		{name: "the statistics", ask: askStats, want: func(m *model, _ any) any { return m.stats() }},
		{name: "a branch", ask: askBranch, want: wantBranch, atLeast: true},
	}
	if !s.p.cfg.lacks(NoExport) {
		all = append(all, look{name: "an export", ask: askExport, want: func(m *model, _ any) any { return m.rows() }})
	}
	return all
}

// serialIDs are the entries of every serialTx, serialAddresses its registers.
var (
	serialIDs       = entriesOfAll()
	serialAddresses = registersOf(serialIDs)
)

func entriesOfAll() []pistore.ID {
	var ids []pistore.ID
	for worker := range serialWriters {
		for n := range serialCommits {
			ids = append(ids, pistore.ID("e"+serialName(worker, n)))
		}
	}
	return ids
}

func registersOf(entries []pistore.ID) []pistore.Address {
	at := []pistore.Address{{Namespace: "ns", Key: "newest"}}
	for _, id := range entries {
		name := string(id[1:])
		at = append(at, pistore.Address{Namespace: "ns", Key: "k" + name}, pistore.Address{Namespace: "ns", Key: "at" + name})
	}
	return at
}

// commitsIn counts the registers of which each commit adds one.
func commitsIn(registers []pistore.Register) int {
	n := 0
	for _, r := range registers {
		if strings.HasPrefix(r.Key, "k") {
			n++
		}
	}
	return n
}

func askRegisters(r *recorder) (any, int, error) {
	all, err := r.s.st.Registers(r.s.p.ctx, serialAddresses)
	sortBySeq(all)
	n := commitsIn(all)
	for _, register := range all {
		if register.Key == "newest" && err == nil {
			r.newest, r.newestAt = register, n
		}
	}
	return all, n, err
}

func askListing(r *recorder) (any, int, error) {
	all, err := drain(r.s.st.RegistersByPrefix(r.s.p.ctx, "ns", ""))
	return all, commitsIn(all), err
}

func askEntries(r *recorder) (any, int, error) {
	all, err := drain(r.s.st.ScanEntries(r.s.p.ctx, pistore.ScanQuery{}))
	if n := len(all); n > 0 && err == nil {
		r.entry, r.entryAt = all[n-1].ID, n
	}
	return all, len(all), err
}

func askUsage(r *recorder) (any, int, error) {
	all, err := drain(r.s.st.ScanUsage(r.s.p.ctx, pistore.ScanQuery{}))
	return all, len(all), err
}

func askByID(r *recorder) (any, int, error) {
	all, err := r.s.st.Entries(r.s.p.ctx, serialIDs)
	sortBySeq(all)
	return all, len(all), err
}

func askStats(r *recorder) (any, int, error) {
	stats, err := r.s.st.Stats(r.s.p.ctx)
	return stats, int(stats.Entries), err
}

func askExport(r *recorder) (any, int, error) {
	var rows []pistore.Row
	all, err := drain(r.s.st.Export(r.s.p.ctx))
	if len(all) > 0 {
		rows = all[1:] // without the header
	}
	n := 0
	for _, row := range rows {
		if _, ok := row.(pistore.Entry); ok {
			n++
		}
	}
	return rows, n, err
}

// askBranch asks from the newest entry that the worker has seen, whose path is the
// same in every state that has it.
func askBranch(r *recorder) (any, int, error) {
	var path []pistore.Entry
	if r.entry == "" {
		return path, 0, nil
	}
	path, err := drain(r.s.st.Branch(r.s.p.ctx, pistore.BranchQuery{Start: r.entry}))
	return path, r.entryAt, err
}

func wantBranch(m *model, answer any) any {
	var want []pistore.Entry
	if path := answer.([]pistore.Entry); len(path) > 0 {
		want, _ = m.branch(pistore.BranchQuery{Start: path[0].ID}) // nothing of an unknown start, which differs
	}
	return want
}
