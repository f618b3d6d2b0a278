package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pistore"
	"pistore/conformance/internal/watch"
)

// probe is what a row works with: the config, places for backends, and
// comparisons that end the row when they fail. Only the row's own goroutine may
// use it, the counters aside.
type probe struct {
	cfg     Config
	ctx     context.Context
	checks  atomic.Int64
	commits atomic.Int64
	watch   watch.Watch // over the calls of the backend
	places  []*place
}

func (p *probe) failf(format string, args ...any) {
	panic(verdict{outcome: Fail, why: fmt.Sprintf(format, args...)})
}

func (p *probe) skipf(format string, args ...any) {
	panic(verdict{outcome: Skip, why: fmt.Sprintf(format, args...)})
}

// check ends the row unless ok.
func (p *probe) check(ok bool, format string, args ...any) {
	p.checks.Add(1)
	if !ok {
		p.failf(format, args...)
	}
}

// noError ends the row on an error.
func (p *probe) noError(what string, err error) {
	p.checks.Add(1)
	if err != nil {
		p.failf("%s: unexpected error: %v", what, err)
	}
}

// wantError ends the row unless err matches target.
func (p *probe) wantError(what string, err, target error) {
	p.checks.Add(1)
	switch {
	case err == nil:
		p.failf("%s: no error, want one that matches %q", what, target)
	case !errors.Is(err, target):
		p.failf("%s: error %q does not match %q", what, err, target)
	}
}

// equal ends the row unless got is want; nil and empty slices are equal.
func equal[T any](p *probe, what string, got, want T) {
	p.checks.Add(1)
	if why := differ(what, got, want); why != "" {
		p.failf("%s", why)
	}
}

// differ describes how got differs from want, or returns nothing.
func differ[T any](what string, got, want T) string {
	if reflect.DeepEqual(got, want) { // by far the fastest when there is no difference
		return ""
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Sprintf("%s (-want +got):\n%s", what, diff)
	}
	return ""
}

// drain collects a sequence up to its error, which has to be its last pair.
func drain[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	var failed error
	for v, err := range seq {
		if failed != nil {
			return all, fmt.Errorf("%w: a pair after error %q", errIterator, failed)
		}
		if err != nil {
			failed = err
			continue
		}
		all = append(all, v)
	}
	return all, failed
}

// errIterator: an iterator broke the rules for iterators.
var errIterator = errors.New("iterator")

// read collects a sequence and ends the row on an error.
func read[T any](p *probe, what string, seq iter.Seq2[T, error]) []T {
	all, err := drain(seq)
	p.noError(what, err)
	return all
}

// place is somewhere a backend keeps sessions, and the backend that is open on it.
type place struct {
	p       *probe
	dir     string
	backend pistore.Backend
}

// place opens a backend at a new place.
func (p *probe) place() *place {
	dir, err := os.MkdirTemp(p.cfg.Dir, "conformance-")
	if err != nil {
		p.failf("making a directory for the backend: %v", err)
	}
	pl := &place{p: p, dir: dir}
	p.places = append(p.places, pl)
	pl.open()
	return pl
}

func (pl *place) open() {
	backend, err := pl.p.open(pl.dir)
	pl.p.noError("opening the backend", err)
	pl.backend = backend
}

// open opens a backend whose calls are watched.
func (p *probe) open(dir string) (pistore.Backend, error) {
	defer p.watch.Begin("Config.Open")()
	backend, err := p.cfg.Open(dir)
	return p.watch.Backend("Config.Open", backend, err)
}

// reopen closes the backend and opens it again, unless its content would be gone.
func (pl *place) reopen() {
	if pl.p.cfg.Volatile {
		return
	}
	pl.p.noError("closing the backend", pl.backend.Close())
	pl.open()
}

// leave closes the backend and removes the place; rows that make many places
// leave them one by one.
func (pl *place) leave() {
	if pl.backend != nil {
		_ = pl.backend.Close() // the close rows judge errors
		pl.backend = nil
	}
	_ = os.RemoveAll(pl.dir)
}

func (p *probe) cleanUp() {
	for _, pl := range p.places {
		pl.leave()
	}
}
