package logstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
)

// view reads one session's rows, or the database's own, from the live database,
// a snapshot, or a batch over it.
type view struct {
	eng     *engine
	codec   *payloadCodec
	src     pebble.Reader
	session pistore.SessionID // for errors
	ord     ordinal
}

// get looks up one key and reports whether it is there. use sees the value for
// the time of its call; its error is what the value is: a fault is returned as
// damage at the key.
func (v view) get(key []byte, use func(value []byte) error) (found bool, err error) {
	err = v.eng.call("read", func() error {
		value, closer, err := v.src.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return v.readError(key, err)
		}
		found = true
		if err := use(value); err != nil {
			return errors.Join(corrupt(v.session, key, err), closer.Close())
		}
		return closer.Close()
	})
	return found, err
}

// scan calls row for the keys from lower (inclusive) to upper (exclusive) until
// it says stop. An error of row is damage at its key.
func (v view) scan(lower, upper []byte, reverse bool, row func(key, value []byte) (more bool, err error)) error {
	return v.iterate(lower, upper, func(it *pebble.Iterator) error {
		ok := false
		if reverse {
			ok = it.Last()
		} else {
			ok = it.First()
		}
		for ok {
			more, err := v.row(it, row)
			if err != nil || !more {
				return err
			}
			if reverse {
				ok = it.Prev()
			} else {
				ok = it.Next()
			}
		}
		return nil
	})
}

// row hands the iterator's position to a function.
func (v view) row(it *pebble.Iterator, use func(key, value []byte) (bool, error)) (bool, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return false, v.readError(it.Key(), err)
	}
	more, err := use(it.Key(), value)
	if err != nil {
		return false, corrupt(v.session, it.Key(), err)
	}
	return more, nil
}

// iterate runs walk with an iterator, which is one instant of the store. No
// code of a caller of this package may run inside.
func (v view) iterate(lower, upper []byte, walk func(it *pebble.Iterator) error) error {
	return v.eng.call("read", func() (err error) {
		it, err := v.src.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return v.readError(lower, err)
		}
		defer func() { err = v.closed(it, lower, err) }()
		return walk(it)
	})
}

// closed ends an iterator, which tells again what it has met while it read. err
// is what was made of it, if anything.
func (v view) closed(it *pebble.Iterator, key []byte, err error) error {
	if met := it.Close(); met != nil && err == nil {
		return v.readError(key, met)
	}
	return err
}

// readError says what an error of the engine means while reading near key.
func (v view) readError(key []byte, err error) error {
	if pebble.IsCorruptionError(err) || v.eng.repairing {
		return corrupt(v.session, key, err)
	}
	return fmt.Errorf("logstore: read %s: %w", describeKey(key), err)
}

// state reads the session's state row, which every session has.
func (v view) state() (state, error) {
	var s state
	key := stateKey(v.ord)
	found, err := v.get(key, func(value []byte) (err error) {
		s, err = v.codec.state(value)
		return err
	})
	if err == nil && !found {
		err = corrupt(v.session, key, errors.New("missing"))
	}
	return s, err
}

// A page is what is read at once: then nothing of the engine is held while the
// caller looks at it, and a caller that stops early has cost little.
const (
	firstPageRows = 16
	maxPageRows   = 1024
	maxPageBytes  = 1 << 20
)

type page[R any] struct {
	rows    []R
	maxRows int
	bytes   int
}

// saw counts a row that was read and reports whether there is room for more.
func (p *page[R]) saw(size int) bool {
	p.bytes += size
	return len(p.rows) < p.maxRows && p.bytes < maxPageBytes
}

// filler reads the next page and reports whether it was the last.
type filler[R any] func(p *page[R]) (last bool, err error)

// pages yields the rows of a session page by page. start is called anew each
// time the sequence is ranged over.
func pages[R any](ctx context.Context, s *session, start func() (filler[R], error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		var fill filler[R]
		var p page[R]
		for size := firstPageRows; ; size = min(4*size, maxPageRows) {
			p = page[R]{rows: p.rows[:0], maxRows: size}
			last := false
			err := s.read(ctx, func() (err error) {
				if fill == nil {
					if fill, err = start(); err != nil {
						return err
					}
				}
				last, err = fill(&p)
				return err
			})
			for _, row := range p.rows {
				if !yield(row, nil) {
					return
				}
				if cerr := ctx.Err(); cerr != nil {
					yield(none, cerr)
					return
				}
			}
			if err != nil {
				yield(none, err)
				return
			}
			if last {
				return
			}
		}
	}
}
