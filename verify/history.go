package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"pistore"
)

// seqHistorian is a Historian that can leave out what was written.
type seqHistorian interface {
	// HistorySeqs yields the seqs of each transaction of the history, valid until
	// the next.
	HistorySeqs(ctx context.Context) iter.Seq2[[]pistore.Seq, error]
}

// history is a reading of the history that goes on beside everything else.
type history struct {
	stop func() // ends it and waits for it
	done chan struct{}

	// What it found, when done is closed.
	collector
	transactions int64 // -1: the session has none
	err          error
	panicked     any // what the store panicked with
}

// readHistory counts transactions, and checks that their seqs rise.
func readHistory(ctx context.Context, s pistore.Storage) *history {
	ctx, cancel := context.WithCancel(ctx)
	h := &history{done: make(chan struct{}), transactions: -1}
	h.stop = func() { cancel(); <-h.done }
	seqs := historySeqs(ctx, s)
	if seqs == nil {
		close(h.done)
		return h
	}
	go func() {
		defer close(h.done)
		defer func() { h.panicked = recover() }()
		h.read(seqs)
	}()
	return h
}

// historySeqs returns the seqs of the transactions of a store, nil if it keeps no
// history.
func historySeqs(ctx context.Context, s pistore.Storage) iter.Seq2[[]pistore.Seq, error] {
	if h, ok := pistore.Find[seqHistorian](s); ok {
		return h.HistorySeqs(ctx)
	}
	h, ok := pistore.Find[pistore.Historian](s)
	if !ok {
		return nil
	}
	return func(yield func([]pistore.Seq, error) bool) {
		for tx, err := range h.History(ctx, 0) {
			if !yield(tx.Seqs, err) {
				return
			}
		}
	}
}

func (h *history) read(transactions iter.Seq2[[]pistore.Seq, error]) {
	h.transactions = 0
	var last pistore.Seq
	for seqs, err := range transactions {
		if errors.Is(err, pistore.ErrUnsupported) {
			h.transactions = -1 // this session has none
			return
		}
		if err != nil {
			h.err = h.damage(err, "history")
			return
		}
		h.transactions++
		for _, seq := range seqs {
			if seq <= last {
				h.add(Fault{
					Invariant: 2, Severity: Error, Place: fmt.Sprintf("transaction at seq %d", seqs[0]),
					Message: fmt.Sprintf("a write has seq %d after %d", seq, last),
				})
			}
			last = seq
		}
	}
}

// addHistory waits for what the history shows and adds it. A panic of the store
// goes on here, where whoever asked for the check can recover from it.
func (c *checker) addHistory(h *history) error {
	<-h.done
	if h.panicked != nil {
		panic(h.panicked)
	}
	c.report.Checked.Transactions = h.transactions
	c.addFrom(&h.collector)
	return h.err
}
