package jsonl

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"pistore"
	"pistore/disk"
	"pistore/memstore"
)

// source is an open file that several hold; the last one closes it.
type source struct {
	disk.File
	holders atomic.Int64
	end     int64 // of its last line, once another file took its place
}

// newSource returns a file that its caller holds.
func newSource(f disk.File) *source {
	s := &source{File: f}
	s.holders.Store(1)
	return s
}

// release gives a hold up.
func (s *source) release() error {
	if s.holders.Add(-1) == 0 {
		return s.Close()
	}
	return nil
}

// payloads are what entries of a large session hold, left on disk. A file whose
// payloads are in memory has none.
type payloads struct {
	session pistore.SessionID
	path    string

	mu     sync.Mutex // guards the rest
	src    *source
	places []place // by rising seq, only ever appended to or replaced
}

// set replaces the file and the places in it.
func (p *payloads) set(src *source, places []place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.src, p.places = src, places
}

// add tells where entries of a new commit stand.
func (p *payloads) add(places []place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places = append(p.places, places...)
}

// view is a snapshot. Its file stays open until it is released, also when a
// compaction puts another in its place.
func (p *payloads) view() *view {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.src.holders.Add(1)
	return &view{of: p, src: p.src, places: p.places}
}

type view struct {
	of     *payloads
	src    *source
	places []place

	next  int    // in places, behind the last one that was asked for
	text  []byte // of the payload that was read last
	ahead []byte // what was read of the file in advance
	from  int64  // where that stands
	end   int64  // of the last payload in the file
}

// Payloads that follow each other within nearBytes are read in advance, so many
// bytes at once.
const (
	readAheadBytes = 256 << 10
	nearBytes      = 16 << 10
)

// fill reads the payload of an entry, unless it is there already.
func (v *view) fill(e *pistore.Entry) error {
	if e.Payload != "" {
		return nil
	}
	at, ok := v.place(e.Seq)
	if !ok {
		panic(fmt.Sprintf("jsonl: the payload of entry %s is nowhere", e.ID))
	}
	if err := v.read(at); err != nil {
		return altered(fmt.Errorf("jsonl: %q: payload of entry %s: %w", v.of.path, e.ID, err), v.of.session, v.of.path, at.offset)
	}
	// The sum of the line held when it was read first. What is no JSON now was
	// changed under this handle.
	payload, err := pistore.CompactJSONBytes(v.text)
	if err != nil {
		return &pistore.CorruptError{
			Backend: backend, Session: v.of.session, Place: fmt.Sprintf("%q, byte %d", v.of.path, at.offset),
			Problem: fmt.Sprintf("the payload of entry %s was changed since the file was opened: %v", e.ID, err),
		}
	}
	e.Payload = payload
	return nil
}

// place returns where the payload of the entry with a seq stands.
func (v *view) place(seq pistore.Seq) (place, bool) {
	i, ok := v.next, v.next < len(v.places) && v.places[v.next].seq == seq
	if !ok {
		i, ok = slices.BinarySearchFunc(v.places, seq, func(p place, seq pistore.Seq) int { return cmp.Compare(p.seq, seq) })
	}
	if !ok {
		return place{}, false
	}
	v.next = i + 1
	return v.places[i], true
}

// read reads a payload into text.
func (v *view) read(at place) error {
	v.text = append(slices.Grow(v.text[:0], int(at.length)+len("{}")), '{')
	members := v.text[1 : 1+at.length]
	near := v.end > 0 && v.end <= at.offset && at.offset <= v.end+nearBytes
	v.end = at.offset + at.length
	if near && (at.offset < v.from || v.end > v.from+int64(len(v.ahead))) && at.length < readAheadBytes {
		v.ahead, v.from = slices.Grow(v.ahead[:0], readAheadBytes)[:readAheadBytes], at.offset
		n, _ := v.src.ReadAt(v.ahead, v.from) // what is missing is read again, and its error told
		v.ahead = v.ahead[:n]
	}
	if v.from <= at.offset && v.end <= v.from+int64(len(v.ahead)) {
		copy(members, v.ahead[at.offset-v.from:])
	} else if err := readFull(v.src, members, at.offset); err != nil {
		return err
	}
	v.text = append(v.text[:1+at.length], '}')
	return nil
}

// filled completes entries as they come. The snapshot is taken behind that of
// the rows, so that it has the places of all of them.
func (p *payloads) filled(rows iter.Seq2[pistore.Entry, error]) iter.Seq2[pistore.Entry, error] {
	if p == nil {
		return rows
	}
	return func(yield func(pistore.Entry, error) bool) {
		var v *view
		defer func() {
			if v != nil {
				v.src.release() // read only: nothing can be lost
			}
		}()
		for e, err := range rows {
			if err == nil {
				if v == nil {
					v = p.view()
				}
				err = v.fill(&e)
			}
			if err != nil {
				yield(pistore.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// export is the export of a state whose payloads these are.
func (p *payloads) export(ctx context.Context, state *memstore.State) iter.Seq2[pistore.Row, error] {
	if p == nil {
		return state.Export(ctx)
	}
	return func(yield func(pistore.Row, error) bool) {
		var v *view // taken behind that of the rows, as in filled
		defer func() {
			if v != nil {
				v.src.release() // read only: nothing can be lost
			}
		}()
		payload := func(e pistore.Entry) (pistore.JSON, error) {
			if v == nil {
				v = p.view()
			}
			err := v.fill(&e)
			return e.Payload, err
		}
		state.ExportFilled(ctx, payload)(yield)
	}
}
