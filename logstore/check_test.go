package logstore

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

func faultsOf(t *testing.T, st pistore.Storage, deep bool) (faults []*pistore.CorruptError) {
	t.Helper()
	v, ok := pistore.Find[pistore.Verifier](st)
	if !ok {
		t.Fatal("no Verifier")
	}
	for f, err := range v.VerifyStorage(ctx, deep) {
		if err != nil {
			t.Fatalf("verify: %v", err)
		}
		faults = append(faults, f)
	}
	return faults
}

// TestVerify: a sound session has no faults, and each kind of broken row is
// found, by its invariant and its place.
func TestVerify(t *testing.T) {
	s := openStoreT(t, t.TempDir(), Options{})
	st := createT(t, s, "one")
	fill(t, st, 30)
	commitChain(t, createT(t, s, "other"), 5)
	for _, deep := range []bool{false, true} {
		if faults := faultsOf(t, st, deep); len(faults) != 0 {
			t.Fatalf("a sound session has faults: %v", faults)
		}
	}
	o := st.view.ord
	w := newRecordWriter(s.codec)
	entry := func(seq pistore.Seq) pistore.Entry {
		e, _, err := st.view.entry(seq, false)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	moved := entry(5)
	moved.ParentID = "entry-0002"
	renamed := entry(9)
	renamed.ID = "entry-0001"
	nothing, err := st.view.state()
	if err != nil {
		t.Fatal(err)
	}
	short := nothing
	short.nextSeq = 9
	fewer := nothing
	fewer.stats.Messages--
	poorer := nothing
	poorer.stats.Usage.Cost.Total = "1"
	for _, c := range []struct {
		what      string
		key       []byte
		value     []byte // nil: gone
		invariant int
	}{
		{"entry gone", seqKey(o, tableEntry, 9), nil, 10},
		{"structure gone", seqKey(o, tableStructure, 9), nil, 10},
		{"structure differs", seqKey(o, tableStructure, 5), bytes.Clone(w.structure(moved, 1)), 10},
		{"entry with another's id", seqKey(o, tableEntry, 9), bytes.Clone(w.entry(renamed, 5)), 1},
		{"usage gone", seqKey(o, tableUsage, 6), nil, 4},
		{"id of an entry gone", idKey(o, "entry-0003"), nil, 4},
		{"id of a usage row gone", idKey(o, "usage-entry-0003"), nil, 4},
		{"id leads elsewhere", idKey(o, "entry-0003"), bytes.Clone(w.idRow(idRow{seq: 5})), 1},
		{"id leads nowhere", idKey(o, "nobody"), bytes.Clone(w.idRow(idRow{seq: 7})), 4},
		{"id of a parent gone", idKey(o, "entry-0015"), nil, 6},
		{"noise in an entry", seqKey(o, tableEntry, 5), []byte{0xc1}, 0},
		{"noise in a structure", seqKey(o, tableStructure, 5), []byte{0xc1}, 0},
		{"noise in a usage row", seqKey(o, tableUsage, 6), []byte{0xc1}, 0},
		{"noise in an id", idKey(o, "entry-0003"), []byte{0xc1}, 0},
		{"noise in a register", registerKey(o, "app.count", "k03"), []byte{0xc1}, 0},
		{"noise in the state", stateKey(o), []byte{0xc1}, 0},
		{"seqs beyond nextSeq", stateKey(o), bytes.Clone(w.state(short)), 2},
		{"a message uncounted", stateKey(o), bytes.Clone(w.state(fewer)), 19},
		{"another sum", stateKey(o), bytes.Clone(w.state(poorer)), 19},
	} {
		old, closer, err := s.eng.db.Get(c.key)
		if err == nil {
			old = bytes.Clone(old)
			err = closer.Close()
		} else if err == pebble.ErrNotFound {
			old, err = nil, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		put := func(value []byte) {
			if value == nil {
				err = s.eng.db.Delete(c.key, pebble.Sync)
			} else {
				err = s.eng.db.Set(c.key, value, pebble.Sync)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put(c.value)
		found := false
		faults := faultsOf(t, st, true)
		for _, f := range faults {
			found = found || f.Invariant == c.invariant
			if f.Backend != backendName || f.Session != "one" || f.Place == "" {
				t.Errorf("%s: fault %+v", c.what, f)
			}
		}
		if !found {
			t.Errorf("%s: faults %v, want one of invariant %d", c.what, faults, c.invariant)
		}
		put(old)
	}
	if faults := faultsOf(t, st, true); len(faults) != 0 {
		t.Errorf("after repair: %v", faults)
	}
	for range st.VerifyStorage(ctx, true) {
		break // stopping early is allowed
	}
}
