package logstore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"pistore"
	"pistore/conformance"
	"pistore/internal/allocs"
	"pistore/verify"
)

// FuzzDecodeRecord decodes any bytes as a record. What is accepted is written as
// the same bytes, but for how they are packed; memory stays in proportion where
// nothing is packed.
func FuzzDecodeRecord(f *testing.F) {
	codec := testCodec(f)
	for _, r := range goldenRecords(newRecordWriter(codec)) {
		if len(r.data) < 16<<10 {
			f.Add(r.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !packed(codec, data) {
			allocs.Within(t, len(data), 50, 1<<20, func() { _, _ = decodeAny(codec, data) })
		}
		again, err := decodeAny(codec, data)
		if err != nil {
			return
		}
		once := slices.Clone(again)
		if !packed(codec, data) && !packed(codec, once) && !slices.Equal(once, data) {
			t.Fatalf("%x was accepted, and is written as %x", data, once)
		}
		if again, err = decodeAny(codec, once); err != nil || !slices.Equal(again, once) {
			t.Fatalf("%x was accepted; it is written as %x, then as %x: %v", data, once, again, err)
		}
	})
}

// packed reports whether the payload of a record is compressed, so that a small
// record may be a large one.
func packed(codec *payloadCodec, data []byte) bool {
	kind := int(kindAt(data))
	if kind >= len(recordSizes) {
		return false
	}
	r := codec.readRecord(data, kind)
	defer func() { _ = r.finish() }()
	return r.flags&flagZstd != 0
}

// FuzzCommits compares programs of commits with the model, over a file system in
// memory and with tables as small as the engine makes them.
func FuzzCommits(f *testing.F) {
	place, fs := "", (*vfs.MemFS)(nil)
	conformance.Fuzz(f, conformance.Config{Open: func(dir string) (pistore.Backend, error) {
		if dir != place {
			place, fs = dir, vfs.NewMem()
		}
		return Open(dir, Options{fs: fs, MemtableBytes: 1, CompressAboveBytes: 100})
	}})
}

// FuzzOpenFolder puts any bytes in the place of one file of a database, as a
// killed process left it. It is refused, as typed damage with its place, or each
// session is in a state that it once had. A repair of it saves sessions that are
// in order.
func FuzzOpenFolder(f *testing.F) {
	made, states := fuzzedFolder(f)
	names, err := made.List("db")
	if err != nil {
		f.Fatal(err)
	}
	slices.Sort(names)
	for i, name := range names {
		if info, err := made.Stat(made.PathJoin("db", name)); err != nil || info.IsDir() {
			continue
		}
		content := readMem(f, made, made.PathJoin("db", name))
		f.Add(uint8(i), content)
		f.Add(uint8(i), content[:len(content)/2])
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		if len(content) > 64<<10 {
			return
		}
		fs := memImage(made)
		path := fs.PathJoin("db", names[int(which)%len(names)])
		if info, err := fs.Stat(path); err != nil || info.IsDir() {
			return
		}
		writeMem(t, fs, path, content)
		o := Options{fs: fs, boot: bootA, ReadOnly: true, CacheBytes: 1 << 20}
		if err := checkStates(o, states); err != nil && !refusal(err) {
			t.Fatalf("%s: %v", path, err)
		}
		o.ReadOnly = false
		report, err := Repair(ctx, "db", "repaired", o, RepairOptions{KeepGoing: true})
		if err != nil {
			if !refusal(err) {
				t.Fatalf("repair over %s: %v", path, err)
			}
			return
		}
		checkSaved(t, o, report)
	})
}

// fuzzedFolder makes a small database with rows in tables and in the log, and
// returns the digests of the states that its session had.
func fuzzedFolder(f *testing.F) (fs *vfs.MemFS, states map[string]bool) {
	f.Helper()
	fs = vfs.NewCrashableMem()
	s, err := Open("db", Options{
		fs: fs, boot: bootA, Random: rand.NewChaCha8([32]byte{1}), Clock: func() pistore.UnixMS { return 1_700_000_000_000 },
	})
	if err != nil {
		f.Fatal(err)
	}
	st := createT(f, s, "one")
	states = map[string]bool{digestT(f, st): true}
	for n := range 12 {
		if _, err := st.Commit(ctx, chainTx(n, 60)); err != nil {
			f.Fatal(err)
		}
		states[digestT(f, st)] = true
		if n%4 == 3 && n < 8 {
			if err := s.eng.db.Flush(); err != nil {
				f.Fatal(err)
			}
		}
	}
	image := memImage(fs)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	return image, states
}

// checkStates opens a database and reads all of it.
func checkStates(o Options, states map[string]bool) error {
	s, err := Open("db", o)
	if err != nil {
		return err
	}
	defer s.Close()
	st, err := s.Open(ctx, "one", pistore.ReadOnly)
	if err != nil {
		return err
	}
	if err := readAll(st); err != nil {
		return err
	}
	digest, err := pistore.Digest(ctx, st)
	if err == nil && !states[digest] {
		return errors.New("the session is in a state that it never had")
	}
	return err
}

// refusal reports whether an error is one that opening may give. A session may
// be gone whose commits were the end of the log.
func refusal(err error) bool {
	var corrupt *pistore.CorruptError
	if errors.As(err, &corrupt) {
		return corrupt.Place != "" && corrupt.Problem != ""
	}
	return errors.Is(err, pistore.ErrForeignFormat) || errors.Is(err, pistore.ErrNewerVersion) || errors.Is(err, pistore.ErrNotFound)
}

// checkSaved verifies the sessions that a repair has saved.
func checkSaved(t *testing.T, o Options, report RepairReport) {
	t.Helper()
	s := openStoreT(t, "repaired", o)
	defer s.Close()
	for _, r := range report.Sessions {
		if !r.Saved {
			continue
		}
		st, err := s.Open(ctx, r.Info.ID, pistore.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		found, err := verify.Check(ctx, st, verify.Options{Deep: true})
		if err != nil || !found.OK() {
			t.Fatalf("what was saved of %s is not in order: %v %+v", r.Info.ID, err, found.Faults)
		}
	}
}
