package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"pistore"
	"pistore/conformance"
)

// call is a call to the store, told when it begins and when it is acknowledged.
type call struct {
	what    string // create, commit, sync, compact, delete, load, rewrite
	session int
	n       int // of a commit: which; of a load: how many commits it holds
}

// listener hears of calls.
type listener interface {
	begun(c call)
	done(c call)
}

// maybe is what is known of a thing that crashes decide.
type maybe int

const (
	no maybe = iota
	either
	yes
)

// fate is what is known of one session.
type fate struct {
	there maybe
	bare  maybe // a rewrite took its registers
	acked int   // commits that were acknowledged
	begun int   // commits that were begun
	safe  int   // commits that survive a power cut at any level
	whole int   // commits that came in one piece: all of them are there, or no session
}

// known is what somebody outside knows of a store: what was begun, what was
// acknowledged.
type known struct {
	mu       sync.Mutex // guards what follows
	sessions map[int]fate
	syncing  map[int]int // commits acknowledged when a sync began
	open     map[int]int // calls under way
}

func newKnown() *known {
	return &known{sessions: map[int]fate{}, syncing: map[int]int{}, open: map[int]int{}}
}

// copy is what is known at this moment.
func (k *known) copy() *known {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &known{sessions: maps.Clone(k.sessions), syncing: map[int]int{}, open: maps.Clone(k.open)}
}

// inside tells whether a call is under way.
func (k *known) inside() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.open {
		if n > 0 {
			return true
		}
	}
	return false
}

func (k *known) begun(c call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[c.session]++
	f := k.sessions[c.session]
	switch c.what {
	case "create":
		f = fate{there: either}
	case "delete":
		f.there = either
	case "load":
		f = fate{there: either, acked: c.n, begun: c.n, whole: c.n}
	case "commit":
		f.begun = c.n + 1
	case "sync":
		k.syncing[c.session] = f.acked
	case "rewrite":
		f.bare = either
	case "compact":
	default:
		panic("crash: call " + c.what)
	}
	k.sessions[c.session] = f
}

func (k *known) done(c call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[c.session]--
	f := k.sessions[c.session]
	switch c.what {
	case "create", "load":
		f.there = yes
	case "delete":
		f = fate{begun: f.begun, bare: f.bare} // at Process it may come back
	case "commit":
		f.acked = c.n + 1
	case "sync":
		f.safe = k.syncing[c.session]
	case "rewrite":
		f.bare = yes
	default:
	}
	k.sessions[c.session] = f
}

// refused takes a call back that failed before it was admitted.
func (k *known) refused(c call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open[c.session]--
	if f := k.sessions[c.session]; c.what == "commit" {
		f.begun = f.acked
		k.sessions[c.session] = f
	}
}

// absent settles that there is nothing, if that may be.
func (k *known) absent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.sessions {
		if f.there == yes {
			return false
		}
	}
	clear(k.sessions)
	return true
}

func (k *known) acknowledged() (n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.sessions {
		n += int64(f.acked)
	}
	return n
}

// loss is what may be missing after a crash.
type loss int

const (
	nothing  loss = iota // every acknowledged commit is there
	unsynced             // a prefix of whole commits is, or the store refuses
	newest               // one commit, the newest of the store, may count as torn
	tail                 // a prefix of whole commits is: files were cut
)

// settle looks at every session that is known and replaces what was known by
// what is found. What the store may not show is an error; one that the loss does
// not allow has to be judged by the caller. It returns how many commits are lost.
func (k *known) settle(ctx context.Context, b pistore.Backend, cfg Config, mode pistore.Mode, may loss) (lost int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(k.sessions)) {
		f := k.sessions[i]
		found, err := f.find(ctx, b, i, cfg, mode, may)
		if err != nil {
			return lost, fmt.Errorf("session %s: %w", sessionID(i), err)
		}
		lost += max(0, f.acked-found.acked)
		k.sessions[i] = found
	}
	clear(k.open)
	if may == newest && lost > 1 {
		return lost, fmt.Errorf("%w: %d commits are missing, and only the newest may count as torn", errWrong, lost)
	}
	if cfg.lacks(conformance.NoList) || cfg.lacks(conformance.NoSessions) {
		return lost, nil
	}
	listed, err := drain(b.List(ctx))
	if err != nil {
		return lost, fmt.Errorf("list: %w", err)
	}
	for _, info := range listed {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(k.sessions)), func(i int) bool {
			return sessionID(i) == info.ID && k.sessions[i].there == yes
		}) {
			return lost, fmt.Errorf("%w: session %s is listed, and it is no session that is there", errWrong, info.ID)
		}
	}
	return lost, nil
}

// find looks at one session.
func (f fate) find(ctx context.Context, b pistore.Backend, i int, cfg Config, mode pistore.Mode, may loss) (fate, error) {
	st, err := b.Open(ctx, sessionID(i), mode)
	if errors.Is(err, pistore.ErrNotFound) {
		// At Process a session, too, is made as commits are.
		if f.there == yes && may != tail && !(may == unsynced && f.safe == 0) {
			return f, fmt.Errorf("%w: it is not there, and was, with %d commits acknowledged: %w", errWrong, f.acked, err)
		}
		return fate{}, nil
	}
	if err != nil {
		return f, fmt.Errorf("open: %w", err)
	}
	n, bare, err := cfg.chain().read(ctx, st)
	if err == nil {
		err = st.Close()
	} else {
		_ = st.Close() // the first failure says more
	}
	least := f.acked
	switch may {
	case unsynced:
		least = max(f.safe, f.whole)
	case newest:
		least = max(0, f.acked-1)
	case tail:
		least = 0
	default:
	}
	switch {
	case err != nil:
		return f, err
	case f.there == no && may == nothing:
		return f, fmt.Errorf("%w: it is there with %d commits, and was deleted, or never made", errWrong, n)
	case n > f.begun:
		return f, fmt.Errorf("%w: it has %d commits, and only %d were begun", errWrong, n, f.begun)
	case n < least:
		return f, fmt.Errorf("%w: it has %d commits; %d were acknowledged, of which at least %d have to be there", errWrong, n, f.acked, least)
	case bare && f.bare == no:
		return f, fmt.Errorf("%w: its registers are gone", errWrong)
	case !bare && f.bare == yes && n > 0 && f.there == yes && may == nothing:
		return f, fmt.Errorf("%w: it is as it was before it was rewritten", errWrong)
	}
	found := fate{there: yes, acked: n, begun: n, safe: min(n, f.safe)}
	if bare {
		found.bare = yes
	}
	return found, nil
}
