package conformance

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"

	"pistore"
)

func concurrencyRows() []row {
	return []row{
		{id: "CON-01", title: "readers beside a writer see whole transactions only",
			advice: "make a transaction visible in one step, and answer each read from one snapshot", inv: []int{2}, check: readersBesideWriter},
		{id: "CON-02", title: "concurrent commits take effect one after the other",
			advice: "give a commit its seqs, statistics and effects under one lock: commits never interleave", inv: []int{2}, check: concurrentCommits},
		{id: "CON-03", title: "of concurrent commits on one precondition exactly one succeeds",
			advice: "test preconditions and apply the writes in the same critical section", check: concurrentPreconditions},
		{id: "CON-04", title: "of concurrent inserts of one id exactly one succeeds",
			advice: "test for duplicates and insert in the same critical section", inv: []int{1}, check: concurrentIDs},
	}
}

// readersBesideWriter commits transactions that keep these equal: the values of
// two registers, the number of usage rows and half the number of entries.
func readersBesideWriter(p *probe) {
	s := p.session()
	const minCommits, minReads = 100, 40
	var reads atomic.Int64
	stop := make(chan struct{})
	faults := make(chan string, 3)
	var readers crew
	for range cap(faults) {
		readers.start(func() {
			for {
				fault := s.tornRead()
				reads.Add(1)
				if fault != "" {
					faults <- fault
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var failed error
	n, between := 0, 0
	for (n < minCommits || reads.Load() < minReads) && len(faults) == 0 && failed == nil && !readers.broken() {
		if int64(n) > 20*(reads.Load()+1) {
			// The readers fall behind: they go on to see commits, but no longer session.
			between++
			value := pistore.JSON(fmt.Sprint(-between))
			_, failed = s.try(txOf(set("first", value), set("second", value)))
			runtime.Gosched()
			continue
		}
		id := pistore.ID(fmt.Sprint(n))
		value := pistore.JSON(fmt.Sprint(n))
		_, failed = s.try(txOf(message("a"+id, ""), set("first", value), usage("u"+id, `{"input":1,"output":2}`), set("second", value), message("b"+id, "a"+id)))
		n++
	}
	close(stop)
	readers.wait(p)
	p.noError("commit beside readers", failed)
	select {
	case fault := <-faults:
		p.failf("a reader beside a writer saw part of a transaction: %s", fault)
	default:
	}
	p.check(len(s.scanEntries(pistore.ScanQuery{})) == 2*n, "entries are missing")
}

// tornRead makes one read of each kind and tells of a transaction seen in part.
func (s *session) tornRead() string {
	ctx := s.p.ctx
	entries, err := drain(s.st.ScanEntries(ctx, pistore.ScanQuery{}))
	if err != nil || len(entries)%2 != 0 {
		return fmt.Sprintf("a scan of entries: %d, want an even number: %v", len(entries), err)
	}
	at := []pistore.Address{{Namespace: "ns", Key: "first"}, {Namespace: "ns", Key: "second"}}
	batch, err := s.st.Registers(ctx, at)
	if err != nil || len(batch) == 1 || len(batch) == 2 && batch[0].Value != batch[1].Value {
		return fmt.Sprintf("a batch of registers: %v: %v", batch, err)
	}
	listing, err := drain(s.st.RegistersByPrefix(ctx, "ns", ""))
	if err != nil || len(listing) == 1 || len(listing) == 2 && listing[0].Value != listing[1].Value {
		return fmt.Sprintf("a listing of registers: %v: %v", listing, err)
	}
	stats, err := s.st.Stats(ctx)
	if err != nil || stats.Entries != 2*stats.Usage.Rows || string(stats.Usage.Output) != fmt.Sprint(2*stats.Usage.Rows) {
		return fmt.Sprintf("statistics: %+v: %v", stats, err)
	}
	if len(entries) > 0 {
		newest := entries[len(entries)-1]
		path, err := drain(s.st.Branch(ctx, pistore.BranchQuery{Start: newest.ID}))
		if err != nil || len(path) != 2 {
			return fmt.Sprintf("a branch of %d entries, want 2: %v", len(path), err)
		}
	}
	if s.p.cfg.lacks(NoExport) {
		return ""
	}
	counts := map[string]int{}
	for row, err := range s.st.Export(ctx) {
		if err != nil {
			return fmt.Sprintf("an export: %v", err)
		}
		counts[fmt.Sprintf("%T", row)]++
	}
	if counts["pistore.Entry"] != 2*counts["pistore.UsageRow"] {
		return fmt.Sprintf("an export of %v", counts)
	}
	return ""
}

// outcome is what became of one of many concurrent commits.
type outcome struct {
	tx      pistore.Tx
	receipt pistore.Receipt
	err     error
}

// inParallel lets several committers work off their transactions, each its own
// in turn, and returns what became of each.
func (s *session) inParallel(work [][]pistore.Tx) []outcome {
	results := make([][]outcome, len(work))
	var committers crew
	for i := range work {
		committers.start(func() {
			for _, tx := range work[i] {
				r, err := s.try(tx)
				results[i] = append(results[i], outcome{tx, r, err})
			}
		})
	}
	committers.wait(s.p)
	var all []outcome
	for _, r := range results {
		all = append(all, r...)
	}
	return all
}

// manyCommits returns work for n committers of m transactions, each of an entry,
// a usage row and a register under the same name.
func manyCommits(n, m int) [][]pistore.Tx {
	work := make([][]pistore.Tx, n)
	for i := range work {
		for j := range m {
			name := fmt.Sprintf("%d-%d", i, j)
			work[i] = append(work[i], txOf(message(pistore.ID("e"+name), ""), usage(pistore.ID("u"+name), `{"input":0.1}`), set(name, `1`)))
		}
	}
	return work
}

func concurrentCommits(p *probe) {
	s := p.session()
	all := s.inParallel(manyCommits(8, 25))
	for _, o := range all {
		p.noError("concurrent commit", o.err)
	}
	slices.SortFunc(all, func(a, b outcome) int { return int(a.receipt.FirstSeq - b.receipt.FirstSeq) })
	m := newModel()
	for _, o := range all {
		p.noError("receipts of concurrent commits in seq order", m.apply(o.tx, o.receipt))
		equal(p, fmt.Sprintf("statistics after the commit at seq %d", o.receipt.FirstSeq), o.receipt.Stats, m.stats())
	}
	s.wantModel(m, "after concurrent commits")
}

func concurrentPreconditions(p *probe) {
	s := p.session()
	s.commit(set("counter", `0`))
	const workers, rounds = 4, 25
	errs := make([]error, workers)
	var all crew
	for i := range errs {
		all.start(func() {
			for range rounds {
				if errs[i] = s.increment("counter"); errs[i] != nil {
					return
				}
			}
		})
	}
	all.wait(p)
	for _, err := range errs {
		p.noError("increment of a register under a precondition", err)
	}
	got := s.register("ns", "counter").Value
	p.check(string(got) == strconv.Itoa(workers*rounds), "the counter is at %s after %d successful increments: updates were lost", got, workers*rounds)
}

// increment adds one to a register, trying again on a conflict, though not for
// ever: each conflict means that another committer got ahead.
func (s *session) increment(key string) error {
	var err error
	for range 10_000 {
		got, readErr := s.st.Registers(s.p.ctx, []pistore.Address{{Namespace: "ns", Key: key}})
		if readErr != nil || len(got) != 1 {
			return fmt.Errorf("reading register %s: %d registers: %w", key, len(got), readErr)
		}
		n, readErr := strconv.Atoi(string(got[0].Value))
		if readErr != nil {
			return readErr
		}
		_, err = s.try(pistore.Tx{
			Expect: []pistore.Precondition{expect(key, got[0].Seq)},
			Writes: []pistore.Write{set(key, pistore.JSON(strconv.Itoa(n+1)))},
		})
		if !errors.Is(err, pistore.ErrConflict) {
			return err
		}
	}
	return err
}

func concurrentIDs(p *probe) {
	s := p.session()
	work := make([][]pistore.Tx, 4)
	const n = 25
	for i := range work {
		for j := range n {
			id := pistore.ID(fmt.Sprint(j))
			own := pistore.JSON(fmt.Sprintf(`{"committer":%d}`, i))
			w := pistore.Write(pistore.InsertEntry{ID: id, Type: pistore.TypeMessage, Payload: own})
			if i%2 == 1 {
				w = usage(id, own)
			}
			work[i] = append(work[i], txOf(w))
		}
	}
	won := 0
	for _, o := range s.inParallel(work) {
		p.check(o.err == nil || errors.Is(o.err, pistore.ErrDuplicateID), "concurrent insert: %v, want success or ErrDuplicateID", o.err)
		if o.err == nil {
			won++
		}
	}
	p.check(won == n, "%d inserts of %d ids succeeded", won, n)
	p.check(len(s.scanEntries(pistore.ScanQuery{}))+len(s.scanUsage(pistore.ScanQuery{})) == n, "the rows are not one for each id")
}
