package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"pistore"
	"pistore/memstore"
	"pistore/session"
)

// spent is a session with a few rows of every form.
func spent(t *testing.T, b pistore.Backend, id pistore.SessionID, entries int) pistore.Storage {
	t.Helper()
	s, err := b.Create(t.Context(), pistore.Info{ID: id, CWD: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	parent := pistore.ID("")
	for i := range entries {
		e := pistore.ID(fmt.Sprintf("e%d", i))
		_, err = s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{
			pistore.InsertEntry{ID: e, ParentID: parent, Type: pistore.TypeCustom, CustomType: "c", Payload: "{}"},
			pistore.InsertUsage{ID: "u" + e, Usage: `{"input":1}`},
			pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.QuoteJSON(string(e))},
		}})
		if err != nil {
			t.Fatal(err)
		}
		parent = e
	}
	return s
}

func newBackend(t *testing.T) pistore.Backend {
	t.Helper()
	b := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func sessionIDs(t *testing.T, b pistore.Backend) (ids []pistore.SessionID) {
	t.Helper()
	for info, err := range b.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	return ids
}

func TestConvert(t *testing.T) {
	src := spent(t, newBackend(t), "s", 2000)
	dst := newBackend(t)
	var calls []int64
	c, err := session.Convert(t.Context(), src, dst, session.ConvertOptions{Progress: func(rows int64) { calls = append(calls, rows) }})
	if err != nil {
		t.Fatal(err)
	}
	if c.Rows != 4001 || len(calls) != 4 || calls[0] != 1024 || calls[3] != 4001 {
		t.Errorf("%d rows, progress %v", c.Rows, calls)
	}
	cp, err := dst.Open(t.Context(), "s", pistore.ReadWrite) // nobody else has it open
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []pistore.Storage{src, cp} {
		if d, err := pistore.Digest(t.Context(), s); err != nil || d != c.Digest {
			t.Errorf("digest %s instead of %s, %v", d, c.Digest, err)
		}
	}
	if _, err := session.Convert(t.Context(), src, dst, session.ConvertOptions{}); !errors.Is(err, pistore.ErrDuplicateID) {
		t.Errorf("a second time: %v", err)
	}
	if ids := sessionIDs(t, dst); len(ids) != 1 {
		t.Errorf("sessions %v", ids)
	}
}

// lossy is a backend that loses a register of what it loads.
type lossy struct{ pistore.Backend }

func (b lossy) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	return b.Backend.Load(ctx, func(yield func(pistore.Row, error) bool) {
		for row, err := range rows {
			if _, ok := row.(pistore.Register); !ok && !yield(row, err) {
				return
			}
		}
	})
}

// closing is a backend whose sessions cannot be opened once they are loaded.
type closing struct {
	pistore.Backend
	cancel func()
}

func (b closing) Load(ctx context.Context, rows iter.Seq2[pistore.Row, error]) (pistore.Info, error) {
	defer b.cancel()
	return b.Backend.Load(ctx, rows)
}

// broken is a session whose rows end early, or that knows itself to be damaged.
type broken struct {
	pistore.Storage
	fault *pistore.CorruptError
	after int
}

var errTorn = errors.New("torn")

func (s broken) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		n := 0
		for row, err := range s.Storage.Export(ctx) {
			if n++; n > s.after {
				row, err = nil, errTorn
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (s broken) VerifyStorage(context.Context, bool) iter.Seq2[*pistore.CorruptError, error] {
	return func(yield func(*pistore.CorruptError, error) bool) {
		if s.fault != nil {
			yield(s.fault, nil)
		}
	}
}

// A conversion that fails leaves nothing behind.
func TestConvertFails(t *testing.T) {
	src := spent(t, newBackend(t), "s", 3)
	ctx, cancel := context.WithCancel(t.Context())
	fault := &pistore.CorruptError{Backend: "x", Problem: "y"}
	for name, test := range map[string]struct {
		ctx  context.Context
		src  pistore.Storage
		dst  func(pistore.Backend) pistore.Backend
		want error
	}{
		"a copy that differs": {t.Context(), src, func(b pistore.Backend) pistore.Backend { return lossy{b} }, pistore.ErrCorrupt},
		"cancelled between":   {ctx, src, func(b pistore.Backend) pistore.Backend { return closing{b, cancel} }, context.Canceled},
		"a torn source":       {t.Context(), broken{src, nil, 4}, nil, errTorn},
		"a damaged source":    {t.Context(), broken{src, fault, 99}, nil, fault},
	} {
		b := newBackend(t)
		dst := b
		if test.dst != nil {
			dst = test.dst(b)
		}
		_, err := session.Convert(test.ctx, test.src, dst, session.ConvertOptions{})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		var digest *session.DigestError
		if errors.As(err, &digest) != (name == "a copy that differs") || digest != nil && (digest.Session != "s" || digest.Source == digest.Copy) {
			t.Errorf("%s: %v", name, err)
		}
		if ids := sessionIDs(t, b); len(ids) > 0 {
			t.Errorf("%s leaves %v", name, ids)
		}
	}
}
