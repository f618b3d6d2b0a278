package sim

import (
	"context"
	"runtime"
	"sync"
)

// Sweep is many seeds, one after the other.
type Sweep struct {
	Config
	First uint64
	Seeds uint64 // how many; 0: until the context ends
	// Each is told of every result, by one goroutine at a time and in no order.
	Each func(Result)
}

// Run simulates the seeds, several at a time, until one has a finding: that of
// the lowest seed is returned, cut down as [Shrink] does. The context may end it
// at any time, which is no error.
func (s Sweep) Run(ctx context.Context) (*Result, error) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex // guards what follows, and calls of Each
	next, failed := s.First, error(nil)
	var found *Result
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if found != nil || failed != nil || s.Seeds > 0 && next-s.First >= s.Seeds {
			return 0, false
		}
		next++
		return next - 1, true
	}
	give := func(r Result, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case work.Err() != nil: // it did not come to its end
		case err != nil:
			failed = err
		default:
			if s.Each != nil {
				s.Each(r)
			}
			if r.Finding != nil && (found == nil || r.Seed < found.Seed) {
				found = &r
			}
		}
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed, ok := take(); ok && work.Err() == nil; seed, ok = take() {
				give(Run(work, seed, s.Config))
			}
		})
	}
	wg.Wait()
	if found == nil || failed != nil {
		return nil, failed
	}
	shrunk, err := Shrink(ctx, *found, s.Config)
	return &shrunk, err
}

// Shrink cuts the program of a seed that has a finding as short as it can be with
// the same check failing, and returns that run with its trace. Acts and Mishaps
// of the result are what [Config] needs for it.
func Shrink(ctx context.Context, r Result, c Config) (Result, error) {
	c.Trace = true
	best, err := Run(ctx, r.Seed, c)
	if err != nil || best.Finding == nil {
		return r, err
	}
	try := func(acts, mishaps int) (bool, error) {
		shorter := c
		shorter.Acts, shorter.Mishaps = acts, mishaps
		got, err := Run(ctx, r.Seed, shorter)
		if err != nil || got.Finding == nil || got.Finding.Check != best.Finding.Check {
			return false, err
		}
		best, c = got, shorter
		return true, nil
	}
	for acts := 1; acts < best.Acts; acts++ {
		if done, err := try(acts, c.Mishaps); err != nil {
			return best, err
		} else if done {
			break
		}
	}
	for mishaps := 0; mishaps < best.Mishaps; mishaps++ {
		if done, err := try(c.Acts, orNone(mishaps)); err != nil {
			return best, err
		} else if done {
			break
		}
	}
	best.Acts, best.Mishaps = c.Acts, c.Mishaps
	return best, nil
}

// orNone is a bound as [Config] takes it, where 0 is no bound.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
