package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"pistore"
	"pistore/backup"
	"pistore/internal/allocs"
	"pistore/memstore"
)

// FuzzBackup reads any text as a backup, packed as one, or any bytes. Damage is
// typed and has its line. What is whole is restored to what it says it holds, and
// backed up again it is the same text, generations aside; of what is not nothing
// is restored.
func FuzzBackup(f *testing.F) {
	text := backupOf(f, storeOf(f, "a", "b"))
	f.Add(text, true)
	f.Add(text[:len(text)/2], true)
	f.Add(strings.Replace(text, `"sessions":2`, `"sessions":3`, 1), true)
	f.Add(backupOf(f, storeOf(f)), true)
	f.Add(string(pack(f, text)), false)
	f.Fuzz(func(t *testing.T, text string, plain bool) {
		stream := []byte(text)
		if plain {
			stream = pack(t, text)
			// What comes unpacked may be large. A window is kept in any case.
			allocs.Within(t, len(text), 100, 48<<20, func() { _, _ = backup.Check(t.Context(), bytes.NewReader(stream)) })
		}
		listed, err := backup.Check(t.Context(), bytes.NewReader(stream))
		dst := memstore.New(memstore.Options{})
		restored, restoreErr := backup.Restore(t.Context(), bytes.NewReader(stream), dst, nil, nil)
		if err != nil || restoreErr != nil {
			checkRefusedBackup(t, dst, err, restoreErr)
			return
		}
		if len(restored) != len(listed) {
			t.Fatalf("%d sessions restored of %d", len(restored), len(listed))
		}
		for i, c := range restored {
			st, err := dst.Open(t.Context(), c.Info.ID, pistore.ReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := pistore.Digest(t.Context(), st)
			if err != nil || digest != listed[i].Digest || c.Rows != listed[i].Rows {
				t.Fatalf("session %s: restored as %s, %v; listed as %+v", c.Info.ID, digest, err, listed[i])
			}
		}
		again := backupOf(t, dst)
		second := memstore.New(memstore.Options{})
		if _, err := backup.Restore(t.Context(), bytes.NewReader(pack(t, again)), second, nil, nil); err != nil {
			t.Fatalf("backed up again it is not restored: %v", err)
		}
	})
}

// checkRefusedBackup checks the errors of a check and of a restore into a store
// that was empty.
func checkRefusedBackup(t *testing.T, dst pistore.Backend, err, restoreErr error) {
	t.Helper()
	if restoreErr == nil {
		t.Fatalf("restored though it is damaged: %v", err)
	}
	for info, err := range dst.List(t.Context()) {
		t.Fatalf("session %s was left behind, %v", info.ID, err)
	}
	var corrupt *pistore.CorruptError
	switch {
	case errors.As(restoreErr, &corrupt):
		if !strings.HasPrefix(corrupt.Place, "line ") || corrupt.Problem == "" {
			t.Fatalf("damage without its place: %+v", corrupt)
		}
	case errors.Is(restoreErr, pistore.ErrForeignFormat), errors.Is(restoreErr, pistore.ErrNewerVersion), errors.Is(restoreErr, pistore.ErrTooLarge):
	case err == nil: // whole, and of rows that are no session
		if !isRefusal(restoreErr) {
			t.Fatalf("untyped error of rows: %v", restoreErr)
		}
	default:
		t.Fatalf("untyped error %v", restoreErr)
	}
}

// isRefusal reports whether a store may refuse rows with an error.
func isRefusal(err error) bool {
	for _, sentinel := range []error{pistore.ErrInvalid, pistore.ErrDuplicateID, pistore.ErrMissingParent} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// packer packs texts; making one costs more than packing.
var packer = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
})

func pack(t testing.TB, text string) []byte {
	t.Helper()
	z, err := packer()
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll([]byte(text), nil)
}

// backupOf is a backup of every session, unpacked.
func backupOf(t testing.TB, b pistore.Backend) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := backup.Write(t.Context(), &out, b, nil, nil); err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// storeOf is a store of sessions with rows of every form. It is the same each
// time.
func storeOf(f *testing.F, ids ...pistore.SessionID) pistore.Backend {
	f.Helper()
	b := memstore.New(memstore.Options{Clock: newClock().read, Rand: rand.NewChaCha8([32]byte{5})})
	for _, id := range ids {
		st, err := b.Create(f.Context(), pistore.Info{ID: id, CWD: "/w", ParentSessionID: "p"})
		if err != nil {
			f.Fatal(err)
		}
		parent := pistore.ID("")
		for i := range 3 {
			e := pistore.ID(fmt.Sprint("e", i))
			if _, err := st.Commit(f.Context(), pistore.Tx{Writes: []pistore.Write{
				pistore.InsertEntry{ID: e, ParentID: parent, Type: pistore.TypeCustom, CustomType: "c", Payload: `{"n":-0,"s":"\ud800"}`},
				pistore.InsertUsage{ID: "u" + e, Usage: `{"input":1.0}`, EntryID: e, Adjustment: i == 1, Details: `null`},
				pistore.SetRegister{Namespace: "app.x", Key: fmt.Sprint(i), Value: `null`},
			}}); err != nil {
				f.Fatal(err)
			}
			parent = e
		}
	}
	return b
}
