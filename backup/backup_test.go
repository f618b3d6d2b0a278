package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"pistore"
	"pistore/backup"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/memstore"
)

func open(t *testing.T, engine string) pistore.Backend {
	t.Helper()
	var b pistore.Backend
	var err error
	switch engine {
	case "memory":
		b = memstore.New(memstore.Options{})
	case "jsonl":
		b = jsonl.NewFolder(t.TempDir(), jsonl.Options{})
	default:
		b, err = logstore.Open(filepath.Join(t.TempDir(), "db"), logstore.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// fill makes sessions with rows of every form, and texts that are easily lost.
func fill(t *testing.T, b pistore.Backend, entries int, ids ...pistore.SessionID) {
	t.Helper()
	for _, id := range ids {
		s, err := b.Create(t.Context(), pistore.Info{ID: id, CWD: "/w\u2028", CreatedAt: 7, ParentSessionID: "p"})
		if err != nil {
			t.Fatal(err)
		}
		parent := pistore.ID("")
		for i := range entries {
			e := pistore.ID(fmt.Sprint("e", i))
			if _, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{
				pistore.InsertEntry{ID: e, ParentID: parent, Type: pistore.TypeCustom, CustomType: "c", Payload: `{"n":9007199254740993,"n":-0,"N":1e2,"s":"\ud800\u0000` + "\u2028" + `"}`},
				pistore.InsertUsage{ID: "u" + e, Usage: `{"input":1.0}`, EntryID: e, Adjustment: i == 1, Details: `null`},
				pistore.SetRegister{Namespace: "app.x", Key: fmt.Sprint(i % 7), Value: `null`},
				pistore.DeleteRegister{Namespace: "app.x", Key: "3"},
			}}); err != nil {
				t.Fatal(err)
			}
			parent = e
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func digests(t *testing.T, b pistore.Backend) map[pistore.SessionID]string {
	t.Helper()
	all := map[pistore.SessionID]string{}
	for info, err := range b.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Open(t.Context(), info.ID, pistore.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		d, err := pistore.Digest(t.Context(), s)
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		all[info.ID] = d
	}
	return all
}

func TestBackup(t *testing.T) {
	for _, from := range []string{"memory", "jsonl", "logstore"} {
		for _, to := range []string{"memory", "jsonl", "logstore"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				src, dst := open(t, from), open(t, to)
				fill(t, src, 30, "a", "b", "c")
				writer, err := src.Open(t.Context(), "b", pistore.ReadWrite)
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				written, err := backup.Write(t.Context(), &out, src, nil, nil)
				if err = errors.Join(err, writer.Close()); err != nil {
					t.Fatal(err)
				}
				listed, err := backup.Check(t.Context(), bytes.NewReader(out.Bytes()))
				if err != nil || len(listed) != 3 || len(written) != 3 || listed[1].Info.CWD != "/w\u2028" {
					t.Errorf("%+v, %v", listed, err)
				}
				restored, err := backup.Restore(t.Context(), bytes.NewReader(out.Bytes()), dst, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := digests(t, src)
				for i, c := range restored {
					if c.Digest != want[c.Info.ID] || c.Digest != written[i].Digest || c.Rows != written[i].Rows {
						t.Errorf("session %s: %+v, written %+v", c.Info.ID, c, written[i])
					}
					if c.Info.Generation == written[i].Info.Generation || c.Info.ParentSessionID != "p" || c.Info.CreatedAt != 7 {
						t.Errorf("info %+v", c.Info)
					}
				}
				if got := digests(t, dst); len(got) != 3 || got["b"] != want["b"] {
					t.Errorf("%v instead of %v", got, want)
				}
				// What came after nextSeq was handed out does not take it again.
				s, err := dst.Open(t.Context(), "a", pistore.ReadWrite)
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "app.x", Value: "1"}}})
				if err != nil || r.FirstSeq != 121 {
					t.Errorf("seq %d, %v", r.FirstSeq, err)
				}
			})
		}
	}
}

func TestRestoreSome(t *testing.T) {
	src, dst := open(t, "memory"), open(t, "memory")
	fill(t, src, 30, "a", "b", "c")
	var out bytes.Buffer
	if _, err := backup.Write(t.Context(), &out, src, []pistore.SessionID{"c", "a"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), bytes.NewReader(out.Bytes()), dst, []pistore.SessionID{"b"}, nil); !errors.Is(err, pistore.ErrNotFound) {
		t.Errorf("a session that is not in it: %v", err)
	}
	if _, err := backup.Restore(t.Context(), bytes.NewReader(out.Bytes()), dst, []pistore.SessionID{"a"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := digests(t, dst); len(got) != 1 || got["a"] != digests(t, src)["a"] {
		t.Errorf("restored %v", got)
	}
	// One that is there already leaves what was there, and nothing else.
	if _, err := backup.Restore(t.Context(), bytes.NewReader(out.Bytes()), dst, nil, nil); !errors.Is(err, pistore.ErrDuplicateID) {
		t.Errorf("an id that is there: %v", err)
	}
	if got := digests(t, dst); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

// packed is what a text is as a backup.
func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err == nil {
		_, err = z.Write(text)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestDamagedBackup cuts a backup at every byte, flips a bit of every byte, and
// takes each line of it out; nothing of that is restored, unless the bit is one
// that the compression has no use for and the text is whole.
func TestDamagedBackup(t *testing.T) {
	src := open(t, "memory")
	fill(t, src, 3, "a", "b")
	var out bytes.Buffer
	if _, err := backup.Write(t.Context(), &out, src, nil, nil); err != nil {
		t.Fatal(err)
	}
	whole := out.Bytes()
	refuse := func(what string, text []byte) {
		t.Helper()
		dst := open(t, "memory")
		_, err := backup.Restore(t.Context(), bytes.NewReader(text), dst, nil, nil)
		if !errors.Is(err, pistore.ErrCorrupt) && !errors.Is(err, pistore.ErrForeignFormat) && !errors.Is(err, pistore.ErrNewerVersion) {
			t.Fatalf("%s: %v", what, err)
		}
		if n := len(digests(t, dst)); n > 0 {
			t.Fatalf("%s: %d sessions were made", what, n)
		}
	}
	for n := range whole {
		refuse(fmt.Sprintf("cut at byte %d of %d", n, len(whole)), whole[:n])
	}
	z, err := zstd.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	useless := 0
	for n := range whole {
		bad := bytes.Clone(whole)
		bad[n] ^= 1 << (n % 8)
		if unpacked, err := z.DecodeAll(bad, nil); err == nil && bytes.Equal(unpacked, text) {
			useless++
			continue
		}
		refuse(fmt.Sprintf("a bit of byte %d", n), bad)
	}
	if useless > 10 {
		t.Errorf("%d of %d bits mean nothing", useless, len(whole))
	}
	lines := strings.SplitAfter(string(text), "\n")
	for i := range len(lines) - 1 {
		refuse(fmt.Sprintf("without line %d", i+1), packed(t, []byte(strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""))))
	}
	for what, text := range map[string][]byte{
		"empty": nil, "another file": []byte("hello, world"), "an unpacked one": text, "twice": bytes.Repeat(whole, 2),
		"other text": packed(t, []byte("hello\n")), "a newer version": packed(t, jsonl.AppendObject(nil, `{"kind":"backup","version":2}`)),
		"a line without end": packed(t, bytes.Repeat([]byte{'x'}, jsonl.MaxRowLineBytes+1)),
	} {
		refuse(what, text)
	}
}

// faulty is a backend whose sessions are damaged.
type faulty struct{ pistore.Backend }

func (b faulty) Open(ctx context.Context, id pistore.SessionID, mode pistore.Mode) (pistore.Storage, error) {
	return nil, fmt.Errorf("%w: of the test", pistore.ErrCorrupt)
}

func TestWriteFails(t *testing.T) {
	src := open(t, "memory")
	fill(t, src, 30, "a")
	if _, err := backup.Write(t.Context(), io.Discard, faulty{src}, nil, nil); !errors.Is(err, pistore.ErrCorrupt) {
		t.Errorf("a damaged session: %v", err)
	}
	if _, err := backup.Write(t.Context(), io.Discard, src, []pistore.SessionID{"x"}, nil); !errors.Is(err, pistore.ErrNotFound) {
		t.Errorf("an unknown session: %v", err)
	}
	full := errors.New("disk full")
	if _, err := backup.Write(t.Context(), failing{full}, src, nil, nil); !errors.Is(err, full) {
		t.Errorf("a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := backup.Write(ctx, io.Discard, src, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
