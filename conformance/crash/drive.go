package crash

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"pistore"
	"pistore/conformance/internal/watch"
)

func (c Config) chain() chain { return chain{payloadBytes: c.PayloadBytes} }

// driver makes calls to a backend and tells of each that it begins and that it is
// acknowledged. It is for one goroutine.
type driver struct {
	ctx   context.Context
	b     pistore.Backend
	watch *watch.Watch // that watches b
	chain chain
	hear  listener
	open  map[int]pistore.Storage
	next  map[int]int // the number of the next commit
}

func newDriver(ctx context.Context, b pistore.Backend, w *watch.Watch, c chain, hear listener) *driver {
	return &driver{ctx: ctx, b: b, watch: w, chain: c, hear: hear, open: map[int]pistore.Storage{}, next: map[int]int{}}
}

// failure is a call that failed.
type failure struct {
	call call
	err  error
}

func (f *failure) Error() string {
	return fmt.Sprintf("%s of %s: %v", f.call.what, sessionID(f.call.session), f.err)
}
func (f *failure) Unwrap() error { return f.err }

func (d *driver) do(c call, run func() error) error {
	d.hear.begun(c)
	if err := run(); err != nil {
		return &failure{c, err}
	}
	d.hear.done(c)
	return nil
}

// create makes a session, which is open then.
func (d *driver) create(i int) error {
	return d.do(call{what: "create", session: i}, func() error {
		st, err := d.b.Create(d.ctx, pistore.Info{ID: sessionID(i)})
		if err == nil {
			d.open[i], d.next[i] = st, 0
		}
		return err
	})
}

// resume opens a session for writing, or makes it, and goes on where it stands.
func (d *driver) resume(i int) error {
	st, err := d.b.Open(d.ctx, sessionID(i), pistore.ReadWrite)
	if errors.Is(err, pistore.ErrNotFound) {
		return d.create(i)
	}
	if err != nil {
		return err
	}
	d.open[i] = st
	stats, err := st.Stats(d.ctx)
	d.next[i] = int(stats.Entries)
	return err
}

// commit makes more commits to a session that is open.
func (d *driver) commit(i, more int) error {
	for range more {
		n := d.next[i]
		err := d.do(call{what: "commit", session: i, n: n}, func() error {
			_, err := d.open[i].Commit(d.ctx, d.chain.tx(n))
			return err
		})
		if err != nil {
			return err
		}
		d.next[i]++
	}
	return nil
}

// compact compacts a session, where the backend can.
func (d *driver) compact(i int) error {
	c, ok := pistore.Find[pistore.Compacter](d.open[i])
	if !ok {
		return errLacks
	}
	return d.do(call{what: "compact", session: i}, func() error {
		defer d.watch.Begin("Compact")()
		_, err := c.Compact(d.ctx)
		return err
	})
}

// errLacks: the backend has no such ability.
var errLacks = errors.New("the sessions of the backend have no such ability")

// sync makes what is acknowledged safe, where the backend can.
func (d *driver) sync(i int) error {
	s, ok := pistore.Find[pistore.Syncer](d.open[i])
	if !ok {
		return errLacks
	}
	return d.do(call{what: "sync", session: i}, func() error {
		defer d.watch.Begin("Sync")()
		return s.Sync(d.ctx)
	})
}

// close closes a session.
func (d *driver) close(i int) error {
	st := d.open[i]
	delete(d.open, i)
	return st.Close()
}

// leave closes everything.
func (d *driver) leave() error {
	var errs []error
	for _, i := range slices.Sorted(maps.Keys(d.open)) {
		errs = append(errs, d.close(i))
	}
	return errors.Join(append(errs, d.b.Close())...)
}

// delete removes a session that is closed.
func (d *driver) delete(i int) error {
	return d.do(call{what: "delete", session: i}, func() error { return d.b.Delete(d.ctx, sessionID(i)) })
}

// load builds a session of n commits.
func (d *driver) load(i, n int) error {
	return d.do(call{what: "load", session: i, n: n}, func() error {
		_, err := d.b.Load(d.ctx, d.chain.rows(pistore.Info{ID: sessionID(i), CreatedAt: 1}, n, false))
		return err
	})
}

// rewrite takes the registers of a session that is closed and has n commits.
func (d *driver) rewrite(i, n int) error {
	return d.do(call{what: "rewrite", session: i}, func() error {
		_, err := d.b.Rewrite(d.ctx, sessionID(i), func(old pistore.Storage) iter.Seq2[pistore.Row, error] {
			return d.chain.rows(old.Info(), n, true)
		})
		return err
	})
}
