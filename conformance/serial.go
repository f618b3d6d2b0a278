package conformance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"pistore"
)

// call is one call of several that ran at the same time: a commit or a read.
//
// The instants come from the monotonic clock and not from a shared counter, which
// would put the calls in an order for the race detector too and hide races.
type call struct {
	began, ended time.Duration // since the history began
	what         string

	commit  bool // else it is a read
	tx      pistore.Tx
	receipt pistore.Receipt

	shows   int                 // a read: how many commits the answer shows
	atLeast bool                // and may have been of any later state too
	differs func(*model) string // how the answer differs from a state; nil: it holds no state

	at position
}

// position is a place in the one order of all calls. A commit is at twice its
// number, counted from 1; a read of the state that n commits made is at 2n+1.
type position int

// history is all calls of a row, in the order in which they ended.
type history []call

// explain looks for the one order of all calls that the contract promises: commits
// by seq; each read between two of them, in the state that the former made; a call
// that had ended before another one began in front of it. It returns what
// contradicts such an order, or nothing.
func (h history) explain() string {
	if why := h.place(); why != "" {
		return why
	}
	slices.SortFunc(h, func(a, b call) int { return cmp.Compare(a.ended, b.ended) })
	foremost := make([]int, len(h)) // of the calls up to here, the one that is furthest on
	for i := range h {
		c := &h[i]
		if n := sort.Search(i, func(j int) bool { return h[j].ended >= c.began }); n > 0 {
			before := h[foremost[n-1]]
			switch {
			case c.at >= before.at:
			case c.atLeast:
				c.at = before.at
			default:
				return fmt.Sprintf("%s, though %s, which had ended %v before", c, &before, c.began-before.ended)
			}
		}
		foremost[i] = i
		if i > 0 && h[foremost[i-1]].at > c.at {
			foremost[i] = foremost[i-1]
		}
	}
	return ""
}

// place gives every call its position and compares every answer with the state at it.
func (h history) place() string {
	var commits, reads []*call
	for i := range h {
		if h[i].commit {
			commits = append(commits, &h[i])
		} else {
			reads = append(reads, &h[i])
		}
	}
	slices.SortFunc(commits, func(a, b *call) int { return cmp.Compare(a.receipt.FirstSeq, b.receipt.FirstSeq) })
	slices.SortStableFunc(reads, func(a, b *call) int { return cmp.Compare(a.shows, b.shows) })
	m := newModel()
	for n := 0; ; n++ {
		for ; len(reads) > 0 && reads[0].shows == n; reads = reads[1:] {
			r := reads[0]
			r.at = position(2*n + 1)
			if r.differs == nil {
				continue
			}
			if why := r.differs(m); why != "" {
				return fmt.Sprintf("%s; that state is another:\n%s", r, why)
			}
		}
		if n == len(commits) {
			break
		}
		c := commits[n]
		c.at = position(2 * (n + 1))
		if may, conflict := m.judge(c.tx); len(may) > 0 {
			return fmt.Sprintf("%s was acknowledged at seq %d, where it has to be refused: %v %v", c.what, c.receipt.FirstSeq, may, conflict)
		}
		if err := m.apply(c.tx, c.receipt); err != nil {
			return fmt.Sprintf("%s: %v", c.what, err)
		}
		if why := differ("statistics of the receipt of "+c.what, c.receipt.Stats, m.stats()); why != "" {
			return why
		}
	}
	if len(reads) > 0 {
		return fmt.Sprintf("%s, of %d that were made", reads[0], len(commits))
	}
	return ""
}

// String says where a call stands, as the beginning of a sentence.
func (c *call) String() string {
	switch {
	case c.commit:
		return fmt.Sprintf("%s is commit %d by its seq", c.what, c.at/2)
	case c.atLeast:
		return fmt.Sprintf("%s was answered after %d commits or more", c.what, c.shows)
	default:
		return fmt.Sprintf("%s shows %d commits", c.what, c.shows)
	}
}

// overlaps counts the reads that ran beside a commit: without any, a history
// proves little.
func (h history) overlaps() int {
	var commits, reads []call
	for _, c := range h {
		if c.commit {
			commits = append(commits, c)
		} else {
			reads = append(reads, c)
		}
	}
	// Of the commits that began before a read ended, one has to end after it began.
	slices.SortFunc(commits, func(a, b call) int { return cmp.Compare(a.began, b.began) })
	latest := make([]time.Duration, len(commits)+1)
	latest[0] = math.MinInt64
	for i, c := range commits {
		latest[i+1] = max(latest[i], c.ended)
	}
	n := 0
	for _, r := range reads {
		begun := sort.Search(len(commits), func(i int) bool { return commits[i].began > r.ended })
		if latest[begun] >= r.began {
			n++
		}
	}
	return n
}
