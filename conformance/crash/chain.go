package crash

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pistore"
)

const namespace = "chain"

// sessionID is the id of the i-th session.
func sessionID(i int) pistore.SessionID { return pistore.SessionID(fmt.Sprintf("crash-%d", i)) }

// chain is what all sessions hold: transactions of which the n-th is always the
// same, so that what is found says what was committed.
type chain struct{ payloadBytes int }

// tx is the n-th transaction: an entry on the one before, and mostly a usage row
// and registers that are set, replaced and deleted.
func (c chain) tx(n int) pistore.Tx {
	e := pistore.InsertEntry{ID: entryID(n), Type: pistore.TypeMessage, Payload: pistore.JSON(fmt.Sprintf(
		`{"message":{"role":"user","content":"%d %s"}}`, n, c.filler(n)))}
	if n > 0 {
		e.ParentID = entryID(n - 1)
	}
	if n%4 == 3 {
		return pistore.Tx{Writes: []pistore.Write{e}}
	}
	return pistore.Tx{Writes: []pistore.Write{
		e,
		pistore.InsertUsage{ID: pistore.ID(fmt.Sprintf("usage-%d", n)), EntryID: e.ID, Usage: `{"input":1,"totalTokens":3}`, Details: `{"n":1.0}`},
		pistore.SetRegister{Namespace: namespace, Key: "last", Value: pistore.JSON(fmt.Sprint(n))},
		pistore.SetRegister{Namespace: namespace, Key: fmt.Sprintf("%08d", n), Value: `"\u2028 \ud800"`},
		pistore.DeleteRegister{Namespace: namespace, Key: fmt.Sprintf("%08d", n-2)},
	}}
}

func entryID(n int) pistore.ID { return pistore.ID(fmt.Sprintf("entry-%d", n)) }

// filler makes payloads of several sizes, that no compression makes small.
func (c chain) filler(n int) []byte {
	const digits = "0123456789abcdef"
	text := make([]byte, c.payloadBytes*(n%5)/4)
	x := uint64(n)
	for i := range text {
		x = x*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		text[i] = digits[x>>60]
	}
	return text
}

// content is what a session holds.
type content struct {
	Entries   []pistore.Entry
	Usage     []pistore.UsageRow
	Registers []pistore.Register
	Stats     pistore.Stats
}

// content is what a session holds after n transactions, with seqs that stand for
// their order. A bare one has lost its registers to a rewrite after as many.
func (c chain) content(n int, bare bool) content {
	var want content
	registers := map[string]pistore.Register{}
	seq := pistore.Seq(0)
	for i := range n {
		for _, w := range c.tx(i).Writes {
			seq++
			switch w := w.(type) {
			case pistore.InsertEntry:
				want.Entries = append(want.Entries, pistore.Entry{ID: w.ID, ParentID: w.ParentID, Seq: seq, Type: w.Type, Payload: w.Payload})
			case pistore.InsertUsage:
				want.Usage = append(want.Usage, pistore.UsageRow{ID: w.ID, Seq: seq, EntryID: w.EntryID, Usage: w.Usage, Details: w.Details})
			case pistore.SetRegister:
				registers[w.Key] = pistore.Register{Namespace: w.Namespace, Key: w.Key, Value: w.Value, Seq: seq}
			case pistore.DeleteRegister:
				delete(registers, w.Key)
			default:
				panic(fmt.Sprintf("crash: write %T", w))
			}
		}
	}
	if !bare {
		for _, key := range slices.Sorted(maps.Keys(registers)) {
			want.Registers = append(want.Registers, registers[key])
		}
	}
	want.Stats = pistore.Stats{Entries: int64(n), Messages: int64(n)}
	want.Stats.Usage.Rows = int64(len(want.Usage))
	want.Stats.Usage.TotalTokens = pistore.Decimal(fmt.Sprint(3 * len(want.Usage)))
	return want
}

// rows are an export of a session after n transactions.
func (c chain) rows(info pistore.Info, n int, bare bool) iter.Seq2[pistore.Row, error] {
	all := c.content(n, bare)
	var rows []pistore.Row
	for _, e := range all.Entries {
		rows = append(rows, e)
	}
	for _, u := range all.Usage {
		rows = append(rows, u)
	}
	for _, r := range all.Registers {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b pistore.Row) int { return int(seqOf(a) - seqOf(b)) })
	return func(yield func(pistore.Row, error) bool) {
		if !yield(pistore.Header{Info: info}, nil) {
			return
		}
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func seqOf(row pistore.Row) pistore.Seq {
	switch r := row.(type) {
	case pistore.Entry:
		return r.Seq
	case pistore.UsageRow:
		return r.Seq
	case pistore.Register:
		return r.Seq
	default:
		panic(fmt.Sprintf("crash: row %T", row))
	}
}

// errWrong marks a session that holds what it never held.
var errWrong = errors.New("wrong content")

// read reads all of a session and returns how many transactions of the chain it
// holds. One that holds anything else is errWrong; other errors are the store's.
func (c chain) read(ctx context.Context, st pistore.Storage) (n int, bare bool, err error) {
	var got content
	if got.Entries, err = drain(st.ScanEntries(ctx, pistore.ScanQuery{})); err != nil {
		return 0, false, fmt.Errorf("scan of entries: %w", err)
	}
	if got.Usage, err = drain(st.ScanUsage(ctx, pistore.ScanQuery{})); err != nil {
		return 0, false, fmt.Errorf("scan of usage: %w", err)
	}
	if got.Registers, err = drain(st.RegistersByPrefix(ctx, namespace, "")); err != nil {
		return 0, false, fmt.Errorf("registers by prefix: %w", err)
	}
	if got.Stats, err = st.Stats(ctx); err != nil {
		return 0, false, fmt.Errorf("stats: %w", err)
	}
	n = len(got.Entries)
	bare = len(got.Registers) == 0 && n > 0
	want := c.content(n, bare)
	if why := got.inOrder(want); why != "" {
		return n, bare, fmt.Errorf("%w: %s", errWrong, why)
	}
	if diff := got.differ(want); diff != "" {
		return n, bare, fmt.Errorf("%w: %d entries, and (-want +got):\n%.2000s", errWrong, n, diff)
	}
	if n == 0 {
		return n, bare, nil
	}
	path, err := drain(st.Branch(ctx, pistore.BranchQuery{Start: entryID(n - 1), StructureOnly: true}))
	if err != nil {
		return n, bare, fmt.Errorf("branch: %w", err)
	}
	if len(path) != n {
		return n, bare, fmt.Errorf("%w: %d entries, and a branch of %d", errWrong, n, len(path))
	}
	return n, bare, nil
}

// inOrder tells whether seqs rise in the order in which the rows were written.
func (got content) inOrder(want content) string {
	type place struct {
		want, got pistore.Seq
		what      string
	}
	var all []place
	for i, e := range got.Entries {
		all = append(all, place{want.Entries[i].Seq, e.Seq, fmt.Sprintf("entry %s", e.ID)})
	}
	for i, u := range got.Usage {
		if i < len(want.Usage) {
			all = append(all, place{want.Usage[i].Seq, u.Seq, fmt.Sprintf("usage row %s", u.ID)})
		}
	}
	for i, r := range got.Registers {
		if i < len(want.Registers) {
			all = append(all, place{want.Registers[i].Seq, r.Seq, fmt.Sprintf("register %s", r.Key)})
		}
	}
	slices.SortFunc(all, func(a, b place) int { return int(a.want - b.want) })
	for i := 1; i < len(all); i++ {
		if all[i].got <= all[i-1].got {
			return fmt.Sprintf("%s has seq %d and was written before %s with seq %d", all[i-1].what, all[i-1].got, all[i].what, all[i].got)
		}
	}
	return ""
}

// differ describes how what is read differs from what was written, seqs and
// times aside, or returns nothing.
func (got content) differ(want content) string {
	for _, c := range []*content{&got, &want} {
		for i := range c.Entries {
			c.Entries[i].Seq, c.Entries[i].Timestamp = 0, 0
		}
		for i := range c.Usage {
			c.Usage[i].Seq = 0
		}
		for i := range c.Registers {
			c.Registers[i].Seq = 0
		}
		totals := pistore.Totals{Rows: c.Stats.Usage.Rows}
		if totals.Rows > 0 {
			totals.TotalTokens = c.Stats.Usage.TotalTokens
		}
		c.Stats.Usage = totals
	}
	if reflect.DeepEqual(got, want) { // by far the fastest when there is no difference
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

func drain[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}
