package watch

import (
	"fmt"
	"strings"
	"time"

	"pistore/internal/stall"
)

// Patience is how long a row may make no progress at all before it counts as
// hanging; far beyond what any single call takes.
const Patience = time.Minute

// AdviceOnHang is what there is to say about a store that hangs, whatever the row.
const AdviceOnHang = "look at what that call waits for: a lock that nobody gives back, or something that does not come any more"

// HintOnHang is what a test says beside it.
const HintOnHang = "run this row alone with -timeout 30s: go test then prints where each goroutine stands"

// Await waits for a row's end, as long as progress changes. Else it tells what does
// not come on.
func Await[T any](w *Watch, done <-chan T, progress func() int64) (result T, hangs string) {
	result, ok := stall.Await(done, progress, Patience)
	if ok {
		return result, ""
	}
	hangs = w.stuck(Patience / 2)
	if hangs == "" {
		hangs = "each call returns, and what the row waits for does not come"
	}
	return result, fmt.Sprintf("no progress for %v: %s", Patience, hangs)
}

// maxStalls is how many rows may hang, or meet an iterator that does not end. Each
// takes long, so of a store in which a common call is such there would be no
// verdict.
const maxStalls = 2

// Stalls are the rows that hung or met an iterator that does not end.
type Stalls struct{ hung, endless []string }

// Hung adds a row that hung.
func (s *Stalls) Hung(row string) { s.hung = append(s.hung, row) }

// Endless adds a row that met an iterator that does not end.
func (s *Stalls) Endless(row string) { s.endless = append(s.endless, row) }

// Enough says why no more rows are run; empty: they are.
func (s *Stalls) Enough() string {
	if len(s.hung)+len(s.endless) < maxStalls {
		return ""
	}
	var why []string
	if len(s.hung) > 0 {
		why = append(why, "the store hangs in "+strings.Join(s.hung, " and "))
	}
	if len(s.endless) > 0 {
		why = append(why, "an iterator of the store does not end in "+strings.Join(s.endless, " and "))
	}
	return strings.Join(why, ", and ") + ", which is to be mended first"
}
