package logstore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"pistore"
	"pistore/ledger"
)

// rowWriter puts rows of one session into batches and keeps what follows from
// them: ids, structure, statistics, nextSeq. Commits and loads write through
// it. Copying one and writing to the copy leaves the original as it was.
type rowWriter struct {
	lookup
	records  *recordWriter
	nextSeq  pistore.Seq
	entries  int64
	messages int64
	usage    ledger.Sum
}

// newRowWriter goes on from a stored state.
func newRowWriter(v view, s state) (rowWriter, error) {
	w := rowWriter{
		lookup:  lookup{view: v, idTimeEnd: s.idTimeEnd},
		records: newRecordWriter(v.codec),
		nextSeq: s.nextSeq, entries: s.stats.Entries, messages: s.stats.Messages,
	}
	if err := w.usage.AddTotals(s.stats.Usage); err != nil {
		return w, corrupt(v.session, stateKey(v.ord), err)
	}
	return w, nil
}

func (w *rowWriter) stats() pistore.Stats {
	return pistore.Stats{Entries: w.entries, Messages: w.messages, Usage: w.usage.Totals()}
}

// finish puts the state that the rows lead to.
func (w *rowWriter) finish(b *pebble.Batch, stats pistore.Stats) error {
	return b.Set(stateKey(w.view.ord), w.records.state(w.state(stats)), nil)
}

func (w *rowWriter) state(stats pistore.Stats) state {
	return state{nextSeq: w.nextSeq, idTimeEnd: w.idTimeEnd, stats: stats}
}

// putEntry puts an entry whose parent admission has found.
func (w *rowWriter) putEntry(b *pebble.Batch, e pistore.Entry) error {
	parentSeq := w.parentSeq(e.ParentID)
	if e.ParentID != "" && parentSeq == 0 {
		panic(fmt.Sprintf("logstore: entry %s was admitted without its parent", e.ID))
	}
	ord := w.view.ord
	if err := b.Set(seqKey(ord, tableEntry, e.Seq), w.records.entry(e, parentSeq), nil); err != nil {
		return err
	}
	if err := b.Set(seqKey(ord, tableStructure, e.Seq), w.records.structure(e, parentSeq), nil); err != nil {
		return err
	}
	if err := b.Set(idKey(ord, e.ID), w.records.idRow(idRow{seq: e.Seq}), nil); err != nil {
		return err
	}
	w.inserted(e.ID, e.Seq)
	w.entries++
	if e.Type == pistore.TypeMessage {
		w.messages++
	}
	w.nextSeq = e.Seq + 1
	return nil
}

func (w *rowWriter) putUsage(b *pebble.Batch, u pistore.UsageRow) error {
	ord := w.view.ord
	if err := b.Set(seqKey(ord, tableUsage, u.Seq), w.records.usage(u), nil); err != nil {
		return err
	}
	if err := b.Set(idKey(ord, u.ID), w.records.idRow(idRow{seq: u.Seq, usage: true}), nil); err != nil {
		return err
	}
	w.note(u.ID)
	w.usage.Add(u)
	w.nextSeq = u.Seq + 1
	return nil
}

func (w *rowWriter) putRegister(b *pebble.Batch, r pistore.Register) error {
	w.nextSeq = r.Seq + 1
	return b.Set(registerKey(w.view.ord, r.Namespace, r.Key), w.records.register(r.Seq, r.Value), nil)
}

func (w *rowWriter) dropRegister(b *pebble.Batch, namespace, key string) error {
	w.nextSeq++
	return b.Delete(registerKey(w.view.ord, namespace, key), nil)
}
