package conformance

import (
	"context"
	"runtime"
	"slices"
	"strconv"

	"pistore"
	"pistore/conformance/internal/watch"
)

// Rows of the optional abilities Historian and Follower. A backend without one
// skips its rows.
func historyRows() []row {
	return []row{
		{id: "HIS-01", title: "history tells each transaction as it was committed, once and in order", inv: []int{2},
			advice: "keep the writes of a transaction together, with the seqs they got; what was refused or wrote nothing is none", check: historyOfCommits},
		{id: "HIS-02", title: "history from a seq on starts with the transaction that has it, and ends by context and Close",
			advice: "a transaction counts by its last seq; check for closing and for the context", check: historyBounds},
		{id: "FOL-01", title: "a follower gets what is stored above a seq, then every new commit, once and in order", inv: []int{2},
			advice: "let no commit slip between the last stored one and the first that is waited for", check: followCommits},
		{id: "FOL-02", title: "a follower that waits ends by its context and by Close",
			advice: "wake those who wait when the session is closed", check: followEnds},
	}
}

// ability finds an ability or skips the row.
func ability[A any](s *session, name string) A {
	a, ok := pistore.Find[A](s.st)
	if !ok {
		s.p.skipf("the sessions lack the ability %s", name)
	}
	return a
}

// transactions are those that the history rows commit.
func historyTxs() [][]pistore.Write {
	return [][]pistore.Write{
		{message("a", ""), set("k", `1`), usage("u", `{"input":1}`)},
		{set("k", `2`)},
		{del("k"), del("absent")},
		{message("b", "a"), message("c", "b"), set("k", `null`), del("k"), set("k", `3`)},
		{usage("v", `{}`)},
	}
}

// told is what a receipt says of a transaction. Its time counts where an entry
// carries it; the other forms have none.
func told(r pistore.Receipt, writes []pistore.Write) pistore.Transaction {
	return timed(pistore.Transaction{FirstSeq: r.FirstSeq, Seqs: r.Seqs, Timestamp: r.Timestamp, Writes: writes})
}

func timed(t pistore.Transaction) pistore.Transaction {
	isEntry := func(w pistore.Write) bool { _, ok := w.(pistore.InsertEntry); return ok }
	if !slices.ContainsFunc(t.Writes, isEntry) {
		t.Timestamp = 0
	}
	return t
}

func (s *session) history(ctx context.Context, from pistore.Seq) ([]pistore.Transaction, error) {
	return drain(func(yield func(pistore.Transaction, error) bool) {
		for t, err := range watch.Rows(&s.p.watch, "History", ability[pistore.Historian](s, "Historian").History(ctx, from)) {
			if !yield(timed(t), err) {
				return
			}
		}
	})
}

// commitHistory commits the transactions of the rows, and between them what
// leaves no trace.
func (s *session) commitHistory() []pistore.Transaction {
	var all []pistore.Transaction
	for i, writes := range historyTxs() {
		all = append(all, told(s.commit(writes...), writes))
		s.commit()
		s.refuse(pistore.ErrDuplicateID, txOf(set("lost", `1`), message("a", "")))
		got, err := s.history(s.p.ctx, 0)
		s.p.noError("history", err)
		equal(s.p, "history", got, all[:i+1])
	}
	return all
}

func historyOfCommits(p *probe) {
	s := p.session()
	ability[pistore.Historian](s, "Historian")
	s.commitHistory()
}

func historyBounds(p *probe) {
	s := p.session()
	ability[pistore.Historian](s, "Historian")
	all := s.commitHistory()
	for i, t := range all {
		for _, seq := range t.Seqs {
			got, err := s.history(p.ctx, seq)
			p.noError("history", err)
			equal(p, "history from a seq on", got, all[i:])
		}
	}
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	_, err := s.history(ctx, 0)
	p.wantError("history under an ended context", err, context.Canceled)
	again := ability[pistore.Historian](s, "Historian")
	p.noError("Close", s.st.Close())
	_, err = drain(watch.Rows(&p.watch, "History", again.History(p.ctx, 0)))
	p.wantError("history after Close", err, pistore.ErrClosed)
}

// commitHere commits on the handle that is followed, which a reopening would end.
func (s *session) commitHere(writes []pistore.Write) pistore.Transaction {
	r, err := s.try(pistore.Tx{Writes: writes})
	s.p.noError("commit", err)
	return told(r, writes)
}

// pulled is what a follower yields.
type pulled struct {
	tx  pistore.Transaction
	err error
}

// maxIdle bounds the commits beside a follower that yields nothing.
const maxIdle = 10_000

func followCommits(p *probe) {
	s := p.session()
	follow := ability[pistore.Follower](s, "Follower")
	var all []pistore.Transaction
	txs := historyTxs()
	for _, writes := range txs[:3] {
		all = append(all, s.commitHere(writes))
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	came, after := make(chan pulled), all[0].Seqs[0]
	var following crew
	following.start(func() {
		defer close(came)
		for t, err := range watch.Rows(&p.watch, "Follow", follow.Follow(ctx, after)) {
			select {
			case came <- pulled{timed(t), err}:
			case <-ctx.Done():
				if err != nil {
					came <- pulled{err: err}
				}
			}
		}
	})
	for _, writes := range txs[3:] {
		all = append(all, s.commitHere(writes))
	}
	// Commits go on until the follower has come to what was committed while it
	// was at work.
	for i, idle := 0, 0; i < len(txs)+5; {
		select {
		case got, ok := <-came:
			if !ok {
				following.wait(p)
			}
			p.check(ok, "the follower ended by itself")
			p.noError("follow", got.err)
			p.check(i < len(all), "the follower yields more than was committed")
			equal(p, "followed", got.tx, all[i])
			i, idle = i+1, 0
		default:
			idle++
			p.check(idle < maxIdle, "%d commits, and the follower yields nothing", idle)
			all = append(all, s.commitHere([]pistore.Write{set("k", pistore.JSON(strconv.Itoa(idle)))}))
			runtime.Gosched()
		}
	}
	cancel()
	var last pulled
	for got := range came {
		last = got
	}
	following.wait(p)
	p.wantError("a follower whose context ended", last.err, context.Canceled)
}

func followEnds(p *probe) {
	s := p.session()
	follow := ability[pistore.Follower](s, "Follower")
	s.commitHere(historyTxs()[0])
	var following crew
	var ended error
	wait := func(ctx context.Context) {
		following.start(func() { _, ended = drain(watch.Rows(&p.watch, "Follow", follow.Follow(ctx, pistore.MaxSeq))) })
	}
	ctx, cancel := context.WithCancel(p.ctx)
	wait(ctx)
	cancel()
	following.wait(p)
	p.wantError("a follower whose context ended", ended, context.Canceled)
	wait(p.ctx)
	p.noError("Close", s.st.Close())
	following.wait(p)
	p.wantError("a follower of a closed session", ended, pistore.ErrClosed)
}
