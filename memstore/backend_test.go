package memstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/memstore"
)

func TestOwnership(t *testing.T) {
	b := newBackend(t)
	s := newSession(t, b, "s")
	_, err := b.Open(t.Context(), "s", pistore.ReadWrite)
	var locked *pistore.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("a second opener: %v", err)
	}
	if err := b.Delete(t.Context(), "s"); !errors.Is(err, pistore.ErrLocked) {
		t.Fatalf("delete while open for writing: %v", err)
	}
	commit(t, s, message("a", ""))
	before := digest(t, s)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, b, "s", pistore.ReadWrite)
	if digest(t, s) != before {
		t.Error("content changed across Close")
	}
	if r := commit(t, s, message("b", "a")); r.FirstSeq != 2 {
		t.Errorf("after reopening the next seq is %d", r.FirstSeq)
	}
}

func TestReadOnlyShowsTheMomentOfItsOpening(t *testing.T) {
	b := newBackend(t)
	s := newSession(t, b, "s")
	commit(t, s, message("a", ""), usage("u", 1), set("k", 1), set("gone", 1))
	ro := open(t, b, "s", pistore.ReadOnly)
	before := digest(t, ro)

	commit(t, s, message("b", "a"), usage("v", 2), set("k", 2), set("j", 2),
		pistore.DeleteRegister{Namespace: "ns", Key: "gone"}, pistore.SetRegister{Namespace: "other", Value: "1"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "s"); err != nil {
		t.Fatalf("delete beside a reader: %v", err)
	}

	if digest(t, ro) != before {
		t.Error("the digest changed")
	}
	if got := stats(t, ro); got.Entries != 1 || got.Usage.Input != "1" {
		t.Errorf("stats %+v", got)
	}
	if got, err := ro.Entries(t.Context(), []pistore.ID{"a", "b", "a", "u"}); err != nil || !slices.Equal(entryIDs(got), []pistore.ID{"a"}) {
		t.Errorf("entries %v, %v", got, err)
	}
	for _, err := range ro.Branch(t.Context(), pistore.BranchQuery{Start: "b"}) {
		if !errors.Is(err, pistore.ErrNotFound) {
			t.Errorf("branch from a later entry: %v", err)
		}
	}
	got := collect(t, ro.RegistersByPrefix(t.Context(), "ns", ""))
	if len(got) != 2 || got[0].Key != "gone" || got[1].Value != "1" {
		t.Errorf("registers %v", got)
	}
	if _, err := ro.Commit(t.Context(), pistore.Tx{}); !errors.Is(err, pistore.ErrReadOnly) {
		t.Errorf("commit: %v", err)
	}
}

func TestClosedBackend(t *testing.T) {
	b := memstore.New(memstore.Options{})
	s := newSession(t, b, "s")
	ro := open(t, b, "s", pistore.ReadOnly)
	if err := errors.Join(b.Close(), b.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, commitErr := s.Commit(t.Context(), pistore.Tx{})
	_, statsErr := ro.Stats(t.Context())
	_, createErr := b.Create(t.Context(), pistore.Info{})
	_, openErr := b.Open(t.Context(), "s", pistore.ReadOnly)
	_, loadErr := b.Load(t.Context(), stream(pistore.Header{Info: pistore.Info{ID: "t"}}))
	var listErr error
	for _, err := range b.List(t.Context()) {
		listErr = err
	}
	for what, err := range map[string]error{"commit": commitErr, "stats": statsErr, "create": createErr, "open": openErr,
		"load": loadErr, "list": listErr, "delete": b.Delete(t.Context(), "s")} {
		if !errors.Is(err, pistore.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s.Info().ID != "s" {
		t.Error("Info ends with Close")
	}
}

func TestSeededBackendIsReproducible(t *testing.T) {
	run := func() []pistore.Row {
		b := memstore.New(memstore.Options{
			Clock: func() pistore.UnixMS { return 1_700_000_000_000 },
			Rand:  rand.NewChaCha8([32]byte{7}),
		})
		s := newSession(t, b, "")
		commit(t, s, message("a", ""), set("k", 1))
		return collect(t, s.Export(t.Context()))
	}
	if diff := cmp.Diff(run(), run()); diff != "" {
		t.Error(diff)
	}
}

func TestLoadKeepsEverything(t *testing.T) {
	b := newBackend(t)
	s := newSession(t, b, "s")
	for i := range 20 {
		commit(t, s, set("k", i), set("moving", i))
	}
	commit(t, s, message("a", ""), usage("u", 3), message("b", "a"), usage("neg", -1))
	commit(t, s, set("top", 1))
	commit(t, s, pistore.DeleteRegister{Namespace: "ns", Key: "top"}) // the newest seq has no row

	rows := collect(t, s.Export(t.Context()))
	header := rows[0].(pistore.Header)
	if header.NextSeq != 47 {
		t.Fatalf("nextSeq %d", header.NextSeq)
	}
	copied := newBackend(t)
	info, err := copied.Load(t.Context(), stream(rows...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Info(), info); diff != "" {
		t.Errorf("info: %s", diff)
	}
	c := open(t, copied, "s", pistore.ReadWrite)
	if diff := cmp.Diff(rows, collect(t, c.Export(t.Context()))); diff != "" {
		t.Errorf("rows: %s", diff)
	}
	if diff := cmp.Diff(stats(t, s), stats(t, c)); diff != "" {
		t.Errorf("stats: %s", diff)
	}
	if r := commit(t, c, set("k", 1)); r.FirstSeq != 47 {
		t.Errorf("the next seq is %d", r.FirstSeq)
	}
}

func TestLoadIsWholeOrAbsent(t *testing.T) {
	cause := errors.New("the stream broke")
	head := pistore.Header{Info: pistore.Info{ID: "new"}}
	entry := pistore.Entry{ID: "a", Seq: 1, Type: pistore.TypeMessage, Payload: `{}`}
	newer := head
	newer.Info.StorageVersion = pistore.StorageVersion + 1
	failing := func(yield func(pistore.Row, error) bool) {
		_ = yield(head, nil) && yield(entry, nil) && yield(nil, cause)
	}
	b := newBackend(t)
	newSession(t, b, "old")
	ended, end := context.WithCancel(t.Context())
	for _, tt := range []struct {
		name string
		ctx  context.Context
		rows func(func(pistore.Row, error) bool)
		want error
	}{
		{"a failing stream", t.Context(), failing, cause},
		{"no header", t.Context(), stream(entry), pistore.ErrInvalid},
		{"nothing", t.Context(), stream(), pistore.ErrInvalid},
		{"no session id", t.Context(), stream(pistore.Header{}), pistore.ErrInvalid},
		{"a newer version", t.Context(), stream(newer), pistore.ErrNewerVersion},
		{"a row twice", t.Context(), stream(head, entry, entry), pistore.ErrInvalid},
		{"an id in use", t.Context(), stream(pistore.Header{Info: pistore.Info{ID: "old"}}, entry), pistore.ErrDuplicateID},
		{"a cancelled context", ended, func(yield func(pistore.Row, error) bool) {
			_ = yield(head, nil)
			end()
			_ = yield(entry, nil)
		}, context.Canceled},
	} {
		if _, err := b.Load(tt.ctx, tt.rows); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if got := collect(t, b.List(t.Context())); len(got) != 1 || got[0].ID != "old" {
			t.Fatalf("%s: sessions %v", tt.name, got)
		}
	}
	if _, err := b.Load(t.Context(), failing); err != cause {
		t.Errorf("the stream's error came back as %v", err)
	}
	info, err := b.Load(t.Context(), stream(head, entry))
	if err != nil || info.Generation == "" || info.StorageVersion != pistore.StorageVersion {
		t.Errorf("after the failures: %+v, %v", info, err)
	}
}

func TestOfLoadsOfOneIDOneWins(t *testing.T) {
	b := newBackend(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = b.Load(t.Context(), stream(pistore.Header{Info: pistore.Info{ID: "s"}},
				pistore.Entry{ID: pistore.ID(strings.Repeat("x", i+1)), Seq: 1, Type: pistore.TypeMessage, Payload: `{}`}))
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, pistore.ErrDuplicateID):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d loads succeeded", won)
	}
}
