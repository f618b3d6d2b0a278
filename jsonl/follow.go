package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"pistore"
	"pistore/disk"
)

// pollMS is how often a file that another process writes is looked at.
const pollMS = 100

// Follow yields the transactions that the file holds, those with a seq above
// after, and then new ones as they come, whichever process writes them. What is
// behind the last newline waits until it is whole. A rewrite of the file is
// followed: what stood in the old one comes first. Of what was written and
// compacted away between two looks only the rows come that are left, each as a
// transaction of its own, as in [File.History]. The wait ends with the context,
// with the file (ErrClosed), where its name is gone (ErrNotFound), and at a
// damaged line (ErrCorrupt).
//
// A file of formats 1 to 3 has nothing to follow until its first commit, which
// rewrites it: then all its rows come.
func (f *File) Follow(ctx context.Context, after pistore.Seq) iter.Seq2[pistore.Transaction, error] {
	return whileOpen(f, func(yield func(pistore.Transaction, error) bool) {
		w := &follower{file: f, ctx: ctx, last: after, yield: yield}
		defer w.leave()
		look := w.lookAtPath
		if f.log != nil {
			look = w.lookAtLog
		}
		for {
			wait, err := look()
			if err == nil {
				err = w.pause(wait)
			}
			switch {
			case err == errStopped:
				return
			case err != nil:
				yield(pistore.Transaction{}, err)
				return
			}
		}
	})
}

// errStopped says that nobody wants more.
var errStopped = errors.New("stopped")

// follower is one call of Follow at work.
type follower struct {
	file  *File
	ctx   context.Context
	last  pistore.Seq
	yield func(pistore.Transaction, error) bool

	src    *source // nil: none yet
	at     int64   // where its next line starts
	number int64   // of the lines up to there

	// Of a file that another process writes.
	id   disk.Identity
	size int64 // at the last look
	mute bool  // it holds no transactions, until another takes its place
}

// lookAtLog yields what this process has written since the last look, and
// returns what to wait for.
func (w *follower) lookAtLog() (changed <-chan struct{}, err error) {
	g := w.file.log
	g.commit.Lock()
	if err := w.file.usable(); err != nil {
		g.commit.Unlock()
		return nil, err
	}
	var src *source
	var end, before int64
	if g.upgrade == "" {
		src, end = g.src, g.size
		src.holders.Add(1)
	}
	if w.src != nil {
		before = w.src.end
	}
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	changed = g.changed
	g.commit.Unlock()

	switch {
	case src == nil:
		return changed, nil
	case w.src == src:
		_ = src.release() // it is held already
	default:
		if w.src != nil {
			if err := w.readWritten(before); err != nil {
				return nil, errors.Join(err, src.release())
			}
		}
		w.leave()
		w.src, w.at, w.number = src, 0, 0
	}
	return changed, w.readWritten(end)
}

// readWritten is read for what this process wrote, all of which has to be there.
func (w *follower) readWritten(end int64) error {
	err := w.read(end)
	return altered(err, w.file.Info().ID, w.file.path, w.at)
}

// lookAtPath yields what another process has written since the last look.
func (w *follower) lookAtPath() (changed <-chan struct{}, err error) {
	if err := w.file.usable(); err != nil {
		return nil, err
	}
	if w.src == nil {
		return nil, w.enter()
	}
	// What is at the name is asked first: then the file that was there until now
	// has all that it will ever have.
	now, nameErr := w.file.opts.FS.Stat(w.file.path)
	st, err := w.src.Stat()
	if err != nil {
		return nil, fmt.Errorf("jsonl: follow: %w", err)
	}
	switch {
	case w.mute:
	case st.Size < w.at:
		return nil, altered(errShrunk, w.file.Info().ID, w.file.path, st.Size)
	case st.Size != w.size || w.at < st.Size:
		w.size = st.Size
		// What was cut off since it was measured is a torn tail, or the next look
		// tells.
		if err := w.read(st.Size); err != nil && !errors.Is(err, errShrunk) {
			return nil, err
		}
	}
	switch {
	case errors.Is(nameErr, fs.ErrNotExist):
		return nil, wrapOpen(w.file.path, nameErr)
	case nameErr != nil:
		return nil, fmt.Errorf("jsonl: follow: %w", nameErr)
	case now.Identity != w.id:
		w.leave()
		return nil, w.enter()
	}
	return nil, nil
}

// enter opens what is at the name now and reads it.
func (w *follower) enter() error {
	f := w.file
	file, st, err := openAs(f.opts.FS, f.path, disk.Read)
	if err != nil {
		return err
	}
	src := newSource(file)
	h, err := readHead(w.ctx, src, st.Size)
	if err == nil {
		err = h.refusal()
	}
	mute := h.what != fileV4
	if err == nil && !mute {
		var four header4
		four, err = firstLine4(src, h.start, st.Size)
		mute = !four.summed
		if err == nil && four.info.ID != f.Info().ID {
			err = fmt.Errorf("%w: another session took the place of %s", pistore.ErrNotFound, f.Info().ID)
		}
	}
	if errors.Is(err, errShrunk) {
		return src.release() // the next look enters
	}
	if err != nil {
		return errors.Join(fmt.Errorf("jsonl: follow: %w", err), src.release())
	}
	w.src, w.id, w.size, w.at, w.number, w.mute = src, st.Identity, st.Size, 0, 0, mute
	if mute {
		return nil
	}
	if err := w.read(st.Size); err != nil && !errors.Is(err, errShrunk) {
		return err
	}
	return nil
}

// read yields the whole lines up to end. A line that is damaged may be one that
// was read while its writer wrote over a torn tail: it is read again, and waited
// for as long as nothing follows it.
func (w *follower) read(end int64) error {
	for bad := int64(-1); ; {
		first := w.number
		r := newTxReader(w.src, w.at, end, true)
		err := w.readFrom(r)
		switch {
		case err == io.EOF:
			return nil
		case !errors.Is(err, errShape):
			return err
		case r.end >= end:
			return nil
		case r.place.Offset == bad:
			at := Place{first + r.place.Line, bad}
			return &pistore.CorruptError{
				Backend: backend, Session: w.file.Info().ID, Place: fmt.Sprintf("%q, %s", w.file.path, at), Problem: err.Error(),
			}
		}
		bad = r.place.Offset
	}
}

func (w *follower) readFrom(r *txReader) error {
	for first := w.number; ; {
		if err := r.next(w.ctx); err != nil {
			return err
		}
		w.at, w.number = r.end, first+r.place.Line
		t := r.transaction()
		if lastSeq(t) <= w.last {
			continue
		}
		w.last = lastSeq(t)
		if !w.yield(t, nil) {
			return errStopped
		}
	}
}

// pause waits until there may be something new.
func (w *follower) pause(changed <-chan struct{}) error {
	var tick <-chan time.Time
	if changed == nil {
		timer := time.NewTimer(pollMS * time.Millisecond)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-changed:
		return nil
	case <-tick:
		return nil
	}
}

// leave gives the file up.
func (w *follower) leave() {
	if w.src != nil {
		_ = w.src.release() // read only: nothing can be lost
		w.src = nil
	}
}
