package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"pistore"
)

// History yields the transactions that the file holds, those with a seq from
// from on. A compaction keeps what is live of each, and takes it apart: every row
// comes as a transaction of its own. A deletion comes with time 0, as does all
// that writes no entry. Lines that were damaged when the file was opened are passed
// over: the report names them. A file of formats 1 to 3, or without sums, has no
// history: ErrUnsupported.
func (f *File) History(ctx context.Context, from pistore.Seq) iter.Seq2[pistore.Transaction, error] {
	return whileOpen(f, func(yield func(pistore.Transaction, error) bool) {
		for r, err := range f.historyLines(ctx, false) {
			if err != nil {
				yield(pistore.Transaction{}, err)
				return
			}
			if t := r.transaction(); lastSeq(t) >= from && !yield(t, nil) {
				return
			}
		}
	})
}

// HistorySeqs yields the seqs of the transactions that History yields, without
// reading what they wrote. They are valid until the next.
func (f *File) HistorySeqs(ctx context.Context) iter.Seq2[[]pistore.Seq, error] {
	return whileOpen(f, func(yield func([]pistore.Seq, error) bool) {
		for r, err := range f.historyLines(ctx, true) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(r.dec.seqs, nil) {
				return
			}
		}
	})
}

func (f *File) historyLines(ctx context.Context, seqsOnly bool) iter.Seq2[*txReader, error] {
	src, size, summed := f.snapshot()
	if src == nil || !summed {
		if src != nil {
			_ = src.release() // read only: nothing can be lost
		}
		return func(yield func(*txReader, error) bool) {
			yield(nil, fmt.Errorf("jsonl: %w: a file of this format has no history", pistore.ErrUnsupported))
		}
	}
	r := newTxReader(src, 0, size, true)
	r.dec.seqsOnly = seqsOnly
	return f.linesOf(ctx, src, r, size, true)
}

// snapshot returns the file of format 4 as it is now, or as it was opened
// read-only, where its last line ends, and whether its lines have sums. It is
// held for the caller; nil: there is none.
func (f *File) snapshot() (src *source, end int64, summed bool) {
	if g := f.log; g != nil {
		g.commit.Lock()
		defer g.commit.Unlock()
		src, end, summed = g.src, g.size, g.upgrade == ""
	} else {
		src, end, summed = f.src, f.report.Bytes-f.report.TornBytes, !f.unsummed
	}
	if src == nil || f.closed.Load() {
		return nil, 0, false
	}
	src.holders.Add(1)
	return src, end, summed
}

// linesOf reads the sound lines of a snapshot, and releases it. Of a file that was
// sound a line that is not any more is an error.
func (f *File) linesOf(ctx context.Context, src *source, r *txReader, size int64, summed bool) iter.Seq2[*txReader, error] {
	return func(yield func(*txReader, error) bool) {
		defer src.release() // read only: nothing can be lost
		sound := summed && f.report.Errors == 0
		for {
			err := r.next(ctx)
			switch {
			case err == io.EOF && sound && r.end < size:
				err = altered(misshapen("its newline is gone"), f.Info().ID, f.path, r.end)
			case err == io.EOF:
				return
			case errors.Is(err, errShape) && sound:
				err = altered(err, f.Info().ID, f.path, r.place.Offset)
			case errors.Is(err, errShape):
				continue
			case err != nil:
				err = altered(err, f.Info().ID, f.path, r.end)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// txReader reads transactions from the lines of a file of format 4.
type txReader struct {
	lines *lineReader
	base  int64 // where the lines start
	place Place // of the line read last
	end   int64 // behind that line
	// headed says that the header stands before the next line.
	headed bool
	dec    decoder
}

// newTxReader reads the lines of src from a byte on, the header's first one or
// that of a line behind it.
func newTxReader(src io.ReaderAt, from, size int64, summed bool) *txReader {
	lines := newLineReader(io.NewSectionReader(src, from, size-from), size-from)
	lines.limit = maxLine4Bytes
	r := &txReader{lines: lines, base: from, end: from, headed: from > 0}
	if !summed {
		r.dec.foreign = func(string) {} // opening warned
	}
	return r
}

// next reads the next transaction. Blank lines and the header are passed over;
// any other line that holds none is errShape, and what is not ended io.EOF.
func (r *txReader) next(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		l, ok, err := r.lines.next()
		switch {
		case err != nil:
			return fmt.Errorf("jsonl: %w", err)
		case !ok || !l.ended:
			return io.EOF
		}
		r.place, r.end = Place{l.number, r.base + l.offset}, r.base+l.offset+l.length+1
		text := bytes.TrimSuffix(l.text, []byte("\r"))
		if isBlank(text) && l.long == nil {
			continue
		}
		if !r.headed {
			r.headed = true
			continue
		}
		if r.dec.foreign != nil {
			compact, err := pistore.CompactJSONBytes(text)
			if err != nil || compact == "[]" {
				return misshapen("it is no transaction")
			}
			return r.dec.parse([]byte(compact))
		}
		comma, _, holds := checkSum(text)
		if !holds {
			return misshapen("the sum does not hold")
		}
		return r.dec.parse(withoutSum(text, comma))
	}
}

// transaction returns the transaction that was read last.
func (r *txReader) transaction() pistore.Transaction {
	seqs := r.dec.seqs
	t := pistore.Transaction{FirstSeq: seqs[0], Seqs: slices.Clone(seqs), Writes: slices.Clone(r.dec.writes)}
	for _, at := range r.dec.times {
		if at >= 0 {
			t.Timestamp = at
			break
		}
	}
	return t
}

func lastSeq(t pistore.Transaction) pistore.Seq { return t.Seqs[len(t.Seqs)-1] }
