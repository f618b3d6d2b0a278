package logstore

import (
	"fmt"
	"testing"

	"pistore"
)

var bothLevels = []pistore.Durability{pistore.Process, pistore.Power}

// chainTx is the nth transaction of a session that can be checked after a
// crash: an entry under the one before, a usage row, and a register that counts.
func chainTx(n, size int) pistore.Tx {
	id := func(what string, n int) pistore.ID { return pistore.ID(fmt.Sprintf("%s-%08d", what, n)) }
	parent := pistore.ID("")
	if n > 0 {
		parent = id("entry", n-1)
	}
	return pistore.Tx{Writes: []pistore.Write{
		message(id("entry", n), parent, size),
		usageRow(id("usage", n), id("entry", n)),
		pistore.SetRegister{Namespace: "app", Key: "n", Value: pistore.JSON(fmt.Sprint(n))},
	}}
}

// commitChain commits more transactions of a chain.
func commitChain(t testing.TB, st pistore.Storage, more int) {
	t.Helper()
	n := checkChain(t, st)
	for i := range more {
		if _, err := st.Commit(ctx, chainTx(n+i, 200)); err != nil {
			t.Fatal(err)
		}
	}
	if got := checkChain(t, st); got != n+more {
		t.Fatalf("%d commits, want %d", got, n+more)
	}
}

// checkChain checks that a session holds whole transactions of a chain, in
// order and without a gap, and returns how many.
func checkChain(t testing.TB, st pistore.Storage) int {
	t.Helper()
	entries := drain(t, st.ScanEntries(ctx, pistore.ScanQuery{}))
	usage := drain(t, st.ScanUsage(ctx, pistore.ScanQuery{}))
	for i, e := range entries {
		want := chainTx(i, 0).Writes[0].(pistore.InsertEntry)
		if e.ID != want.ID || e.ParentID != want.ParentID || e.Seq != pistore.Seq(3*i+1) {
			t.Fatalf("commit %d: entry %s under %q at seq %d", i, e.ID, e.ParentID, e.Seq)
		}
		if i < len(usage) && (usage[i].EntryID != e.ID || usage[i].Seq != e.Seq+1) {
			t.Fatalf("commit %d: usage row %s at seq %d", i, usage[i].ID, usage[i].Seq)
		}
	}
	if len(usage) != len(entries) {
		t.Fatalf("%d entries and %d usage rows", len(entries), len(usage))
	}
	at, err := st.Registers(ctx, []pistore.Address{{Namespace: "app", Key: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		if want := pistore.JSON(fmt.Sprint(len(entries) - 1)); len(at) != 1 || at[0].Value != want {
			t.Fatalf("%d entries, register %v", len(entries), at)
		}
	}
	stats, err := st.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(len(entries)); stats.Entries != n || stats.Messages != n || stats.Usage.Rows != n ||
		stats.Usage.TotalTokens != pistore.Decimal(fmt.Sprint(1562*n)) {
		t.Fatalf("%d entries, statistics %+v", len(entries), stats)
	}
	if len(entries) > 0 {
		path := drain(t, st.Branch(ctx, pistore.BranchQuery{Start: entries[len(entries)-1].ID, StructureOnly: true}))
		if len(path) != len(entries) {
			t.Fatalf("%d entries, branch of %d", len(entries), len(path))
		}
	}
	return len(entries)
}
