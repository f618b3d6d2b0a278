package logstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/registers"
	"pistore/verify"
)

// damagedSessions is the number of sessions in the databases that are repaired.
const damagedSessions = 3

// severalSessions makes a database whose sessions have rows in two tables and in
// the log, as a killed process leaves it, and returns their digests.
func severalSessions(t *testing.T, fs *vfs.MemFS) (image *vfs.MemFS, digests map[pistore.SessionID]string) {
	t.Helper()
	s := openStoreT(t, "db", Options{fs: fs, boot: bootA})
	// Tables as they are written: compacting them into one would leave no others.
	s.eng.gate.mu.Lock()
	s.eng.gate.open = false
	s.eng.gate.mu.Unlock()
	digests = map[pistore.SessionID]string{}
	for round := range 3 {
		for i := range damagedSessions {
			id := sessionName(i)
			st, err := openOrCreate(s, id)
			if err != nil {
				t.Fatal(err)
			}
			n := 60 * round
			if round == 2 {
				n = 120
			}
			for k := n; k < n+60; k++ {
				if _, err := st.Commit(ctx, chainTx(k, 400)); err != nil {
					t.Fatal(err)
				}
			}
			digests[id] = digestT(t, st)
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if round < 2 {
			if err := s.eng.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	image = memImage(fs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return image, digests
}

// sessionOf is the session that a repaired one comes from: those whose name was
// lost are called by their ordinals, which count from 1.
func sessionOf(id pistore.SessionID) pistore.SessionID {
	if n, ok := strings.CutPrefix(string(id), "recovered-"); ok {
		ord, _ := strconv.Atoi(n)
		return sessionName(ord - 1)
	}
	return id
}

// flipByte changes a byte of a file in memory.
func flipByte(t *testing.T, fs vfs.FS, name string, at int) {
	t.Helper()
	data := readMem(t, fs, name)
	data[at] ^= 0x10
	writeMem(t, fs, name, data)
}

// repairT repairs db into fixed, and checks that the new database breaks no
// invariant and that what became of each session is what the report says.
func repairT(t *testing.T, fs vfs.FS, r RepairOptions) RepairReport {
	t.Helper()
	rep, err := Repair(ctx, "db", "fixed", Options{fs: fs, boot: bootA}, r)
	if err != nil {
		t.Fatal(err)
	}
	checkRepaired(t, fs, rep)
	return rep
}

func checkRepaired(t *testing.T, fs vfs.FS, rep RepairReport) {
	t.Helper()
	s := openStoreT(t, "fixed", Options{fs: fs, boot: bootA})
	saved := 0
	for _, was := range rep.Sessions {
		if !was.Saved {
			if len(was.Damage) == 0 || !was.Lost {
				t.Errorf("session %s was not saved, and nothing is said of why", was.Info.ID)
			}
			continue
		}
		saved++
		st := openT(t, s, was.Info.ID, pistore.ReadWrite)
		report, err := verify.Check(ctx, st, verify.Options{Deep: true})
		if err != nil || !report.OK() {
			t.Errorf("session %s: %v, faults %v", was.Info.ID, err, report.Faults)
		}
		stats, err := st.Stats(ctx)
		if err != nil || stats != was.Stats || st.Info() != was.Info {
			t.Errorf("session %s: %v, %+v, the report says %+v", was.Info.ID, err, stats, was)
		}
	}
	if all := drain(t, s.List(ctx)); len(all) != saved {
		t.Errorf("%d sessions, %d were saved", len(all), saved)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestRepairOfNothing: what is not damaged is copied with all it has, under
// another generation, and the original stays as it is to the last time stamp.
func TestRepairOfNothing(t *testing.T) {
	from := twoLevels(t)
	before := folderState(t, from)
	to := filepath.Join(t.TempDir(), "fixed")
	rep, err := Repair(ctx, from, to, Options{}, RepairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, folderState(t, from)); diff != "" {
		t.Errorf("the original was changed:\n%s", diff)
	}
	if len(rep.Damage) != 0 || len(rep.Sessions) != 1 || len(rep.Sessions[0].Damage) != 0 || !rep.Sessions[0].Saved || rep.OmittedBytes != 0 {
		t.Errorf("%+v", rep)
	}
	old := openT(t, openStoreT(t, from, Options{ReadOnly: true}), "one", pistore.ReadOnly)
	st := openT(t, openStoreT(t, to, Options{}), "one", pistore.ReadWrite)
	if digestT(t, old) != digestT(t, st) {
		t.Error("the copy differs")
	}
	if old.Info().Generation == st.Info().Generation || st.Info().Generation == "" {
		t.Errorf("generation %q, was %q", st.Info().Generation, old.Info().Generation)
	}
	commitChain(t, st, 2)
	for _, place := range []string{to, filepath.Join(from, "inside")} {
		if _, err := Repair(ctx, from, place, Options{}, RepairOptions{}); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("repair into %s: %v, want ErrInvalid", place, err)
		}
	}
	_, err = Repair(ctx, filepath.Join(from, "absent"), to+"2", Options{}, RepairOptions{})
	wantErr(t, "repair of nothing", err, pistore.ErrNotFound)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Repair(ended, from, to+"2", Options{}, RepairOptions{})
	wantErr(t, "repair that was cancelled", err, context.Canceled)
}

// TestRepairLog cuts a log at its first damaged place: each session has a prefix
// of its transactions, whole.
func TestRepairLog(t *testing.T) {
	fs, _ := severalSessions(t, vfs.NewCrashableMem())
	logs := filesOf(t, fs, "*.log")
	log := logs[len(logs)-1]
	size := len(readMem(t, fs, log))
	flipByte(t, fs, log, size/2)
	_, err := Open("db", Options{fs: fs, boot: bootA, ReadOnly: true})
	wantErr(t, "open", err, pistore.ErrCorrupt)
	rep := repairT(t, fs, RepairOptions{})
	if len(rep.Damage) != 1 || !strings.Contains(rep.Damage[0].Place, log) ||
		rep.OmittedBytes < int64(size)/4 || rep.OmittedBytes > int64(size)*3/4 {
		t.Errorf("%d bytes of %d omitted, damage %v", rep.OmittedBytes, size, rep.Damage)
	}
	s := openStoreT(t, "fixed", Options{fs: fs})
	total := 0
	for i, was := range rep.Sessions {
		n := checkChain(t, openT(t, s, sessionName(i), pistore.ReadOnly))
		if total += n; n < 120 || n > 180 || was.Lost {
			t.Errorf("session %d: %d commits, %+v", i, n, was)
		}
	}
	if total < 120*damagedSessions+60 || total >= 180*damagedSessions {
		t.Errorf("%d commits in all", total)
	}
}

// TestRepairTable damages tables. A session that can be read is saved with all it
// has; one that has lost rows is left out, or keeps what fits.
func TestRepairTable(t *testing.T) {
	made, digests := severalSessions(t, vfs.NewCrashableMem())
	tables := filesOf(t, made, "*.sst")
	if len(tables) < 2 {
		t.Fatalf("%d tables", len(tables))
	}
	partial := 0
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, fs *vfs.MemFS)
	}{
		{"start", func(t *testing.T, fs *vfs.MemFS) { flipByte(t, fs, tables[0], 100) }},
		{"middle", func(t *testing.T, fs *vfs.MemFS) { flipByte(t, fs, tables[0], len(readMem(t, fs, tables[0]))/2) }},
		{"newer", func(t *testing.T, fs *vfs.MemFS) { flipByte(t, fs, tables[1], len(readMem(t, fs, tables[1]))/2) }},
		{"footer", func(t *testing.T, fs *vfs.MemFS) { flipByte(t, fs, tables[1], len(readMem(t, fs, tables[1]))-5) }},
		{"missing", func(t *testing.T, fs *vfs.MemFS) {
			if err := fs.Remove(tables[0]); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, keepGoing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", c.name, keepGoing), func(t *testing.T) {
				fs := memImage(made)
				c.damage(t, fs)
				rep := repairT(t, fs, RepairOptions{KeepGoing: keepGoing})
				if len(rep.Sessions) != damagedSessions {
					t.Fatalf("%d sessions", len(rep.Sessions))
				}
				s := openStoreT(t, "fixed", Options{fs: fs, boot: bootA})
				lost := 0
				for _, was := range rep.Sessions {
					if was.Lost {
						lost++
						if len(was.Damage) == 0 || was.Saved != keepGoing {
							t.Errorf("%+v", was)
						}
						if was.Saved && was.Stats.Entries > 0 && was.Stats.Entries < 180 {
							partial++
						}
						continue
					}
					if digestT(t, openT(t, s, was.Info.ID, pistore.ReadOnly)) != digests[sessionOf(was.Info.ID)] {
						t.Errorf("session %s was saved and differs", was.Info.ID)
					}
				}
				if lost == 0 && c.name != "footer" {
					t.Error("no session lost anything")
				}
				t.Logf("%d of %d sessions lost rows", lost, damagedSessions)
			})
		}
	}
	if partial == 0 {
		t.Error("no session kept a part: too little damage to tell")
	}
}

// TestRepairIndexes: indexes and statistics are built anew from the rows.
func TestRepairIndexes(t *testing.T) {
	for _, table := range []byte{tableStructure, tableID, tableState} {
		t.Run(string(table), func(t *testing.T) {
			fs := vfs.NewMem()
			s := openStoreT(t, "db", Options{fs: fs, boot: bootA})
			st := createT(t, s, "one")
			commitChain(t, st, 10)
			want := digestT(t, st)
			key := sessionKey(st.view.ord, table, 0)
			err := s.view().scan(key, prefixEnd(key), false, func(found, _ []byte) (bool, error) {
				key = append(key[:0], found...)
				return false, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			setRaw(t, s, key, []byte("noise"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			rep := repairT(t, fs, RepairOptions{})
			if was := rep.Sessions[0]; was.Lost || !was.Saved || len(was.Damage) == 0 {
				t.Errorf("%+v", was)
			}
			if got := digestT(t, openT(t, openStoreT(t, "fixed", Options{fs: fs}), "one", pistore.ReadOnly)); got != want {
				t.Error("the repaired session differs")
			}
		})
	}
}

// TestRepairKeepsWhatFits loses an entry of a session that has more than
// conversation: what hangs on it goes, and so does what was under way.
func TestRepairKeepsWhatFits(t *testing.T) {
	fs := vfs.NewMem()
	s := openStoreT(t, "db", Options{fs: fs, boot: bootA})
	st := createT(t, s, "one")
	set := func(namespace, key string, value pistore.JSON) pistore.Write {
		return pistore.SetRegister{Namespace: namespace, Key: key, Value: value}
	}
	commitT(t, st,
		message("root", "", 10), message("lost", "root", 10), message("child", "lost", 10), message("other", "root", 10),
		set(registers.LaneLeafNS, "main", registers.EncodeLaneLeaf("child")),
		set(registers.LaneStateNS, "main", registers.EncodeLaneState(registers.LaneState{})),
		set(registers.LaneLeafNS, "side", registers.EncodeLaneLeaf("other")),
		set(registers.LaneStateNS, "side", registers.EncodeLaneState(registers.LaneState{})),
		set(registers.FactLabelNS, "other", `"kept"`), set(registers.FactLabelNS, "child", `"left"`),
		set(registers.FactNameNS, "", `"name"`), set("app.x", "k", `1`), set(registers.TaskMetaNS, "t", `{}`),
	)
	setRaw(t, s, seqKey(st.view.ord, tableEntry, 2), []byte("noise"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rep := repairT(t, fs, RepairOptions{KeepGoing: true})
	was := rep.Sessions[0]
	if diff := cmp.Diff([]pistore.ID{"child"}, was.LeftEntries); diff != "" {
		t.Error(diff)
	}
	left := []pistore.Address{
		{Namespace: registers.LaneLeafNS, Key: "main"}, {Namespace: registers.LaneStateNS, Key: "main"},
		{Namespace: registers.FactLabelNS, Key: "child"}, {Namespace: registers.TaskMetaNS, Key: "t"},
	}
	if diff := cmp.Diff(left, was.LeftRegisters); diff != "" {
		t.Error(diff)
	}
	got := openT(t, openStoreT(t, "fixed", Options{fs: fs}), "one", pistore.ReadOnly)
	var ids []pistore.ID
	for _, e := range drain(t, got.ScanEntries(ctx, pistore.ScanQuery{})) {
		ids = append(ids, e.ID)
	}
	if diff := cmp.Diff([]pistore.ID{"root", "other"}, ids); diff != "" || !was.Lost {
		t.Errorf("%s%+v", diff, was)
	}
}

// TestRepairWithoutMarkers: a marker that was lost can be replaced if there is
// only one thing that it can have said.
func TestRepairWithoutMarkers(t *testing.T) {
	made, digests := severalSessions(t, vfs.NewCrashableMem())
	for _, pattern := range []string{"marker.manifest.*", "marker.format-version.*", "OPTIONS-*"} {
		fs := memImage(made)
		for _, name := range filesOf(t, fs, pattern) {
			if pattern == "OPTIONS-*" {
				writeMem(t, fs, name, []byte("noise\n"))
			} else if err := fs.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		rep := repairT(t, fs, RepairOptions{})
		if len(rep.Damage) != 1 || len(rep.Sessions) != damagedSessions {
			t.Errorf("%s: %+v", pattern, rep)
		}
		s := openStoreT(t, "fixed", Options{fs: fs, boot: bootA})
		for id, want := range digests {
			if digestT(t, openT(t, s, id, pistore.ReadOnly)) != want {
				t.Errorf("%s: session %s differs", pattern, id)
			}
		}
	}
}

// TestRepairManifest damages the MANIFEST all along: no repair tells of success
// while tables that hold sessions stand unread beside it.
func TestRepairManifest(t *testing.T) {
	made, digests := severalSessions(t, vfs.NewCrashableMem())
	name := filesOf(t, made, "MANIFEST-*")[0]
	refused, stray := 0, 0
	for at := 0; at < len(readMem(t, made, name)); at += 11 {
		fs := memImage(made)
		flipByte(t, fs, name, at)
		rep, err := Repair(ctx, "db", "fixed", Options{fs: fs, boot: bootA}, RepairOptions{})
		if err != nil {
			wantErr(t, fmt.Sprintf("byte %d", at), err, pistore.ErrCorrupt)
			refused++
			continue
		}
		checkRepaired(t, fs, rep)
		if len(rep.StrayTables) > 0 {
			stray++
			continue
		}
		if len(rep.Sessions) != len(digests) {
			t.Errorf("byte %d: %d sessions of %d, and no stray table is told", at, len(rep.Sessions), len(digests))
		}
	}
	if t.Logf("%d refused, %d with stray tables", refused, stray); refused == 0 || stray == 0 {
		t.Error("the damage was never seen")
	}
}

// TestRepairFlips repairs databases with one flipped bit anywhere: what is saved
// is whole transactions, and never more than there was.
func TestRepairFlips(t *testing.T) {
	t.Parallel()
	made, digests := severalSessions(t, vfs.NewCrashableMem())
	rng := flipRNG(t)
	whole, lost, refused := 0, 0, 0
	for range *flips {
		fs := memImage(made)
		names := filesOf(t, fs, "*[0-9]*")
		name := names[rng.IntN(len(names))]
		data := readMem(t, fs, name)
		if len(data) == 0 {
			continue
		}
		at := rng.IntN(len(data))
		data[at] ^= 1 << rng.IntN(8)
		writeMem(t, fs, name, data)
		rep, err := Repair(ctx, "db", "fixed", Options{fs: fs, boot: bootA}, RepairOptions{KeepGoing: rng.IntN(2) == 0})
		if err != nil {
			wantErr(t, fmt.Sprintf("%s, byte %d", name, at), err, pistore.ErrCorrupt)
			refused++
			continue
		}
		checkRepaired(t, fs, rep)
		s := openStoreT(t, "fixed", Options{fs: fs, boot: bootA})
		for _, was := range rep.Sessions {
			if was.Lost {
				lost++
				continue
			}
			st := openT(t, s, was.Info.ID, pistore.ReadOnly)
			if digestT(t, st) == digests[sessionOf(was.Info.ID)] {
				whole++
			} else if n := checkChain(t, st); n >= 180 || len(rep.Damage) == 0 && n < 179 {
				t.Errorf("%s, byte %d: session %s has %d commits, damage %v", name, at, was.Info.ID, n, rep.Damage)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d flips: %d sessions whole, %d lost rows; %d databases refused", *flips, whole, lost, refused)
}

// TestRepairFails lets each change of the file system fail in turn: the cause is
// told, nothing stands at the new place, and the old one is as it was.
func TestRepairFails(t *testing.T) {
	t.Parallel()
	from := twoLevels(t)
	before := folderState(t, from)
	failed := 0
	for n := int64(0); n < 200; n++ {
		to := filepath.Join(t.TempDir(), "fixed")
		var left atomic.Int64
		left.Store(n)
		was := ""
		base := hookFS{FS: vfs.Default, hook: func(op fsOp) error {
			if op.name != lockName && op.name != ownerName && op.what != "close" && left.Add(-1) == -1 {
				was = fmt.Sprint(op)
				return syscall.EIO
			}
			return nil
		}}
		_, err := Repair(ctx, from, to, Options{fs: base}, RepairOptions{})
		if left.Load() >= 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		failed++
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("change %d, %s: %v, want its cause", n, was, err)
		}
		if names := list(t, filepath.Dir(to)); len(names) != 0 {
			t.Errorf("change %d, %s: %v is left", n, was, names)
		}
	}
	if diff := cmp.Diff(before, folderState(t, from)); diff != "" || failed < 20 {
		t.Errorf("%d changes failed; the original:\n%s", failed, diff)
	}
}
