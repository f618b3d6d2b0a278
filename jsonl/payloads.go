package jsonl

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"pistore"
	"pistore/disk"
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
}

// fill reads the payload of an entry, unless it is there already.
func (v *view) fill(e *pistore.Entry) error {
	if e.Payload != "" {
		return nil
	}
	i, ok := slices.BinarySearchFunc(v.places, e.Seq, func(p place, seq pistore.Seq) int { return cmp.Compare(p.seq, seq) })
	if !ok {
		panic(fmt.Sprintf("jsonl: the payload of entry %s is nowhere", e.ID))
	}
	at := v.places[i]
	text := make([]byte, at.length+2)
	text[0], text[len(text)-1] = '{', '}'
	if err := readFull(v.src, text[1:len(text)-1], at.offset); err != nil {
		return altered(fmt.Errorf("jsonl: %q: payload of entry %s: %w", v.of.path, e.ID, err), v.of.session, v.of.path, at.offset)
	}
	// The sum of the line held when it was read first. What is no JSON now was
	// changed under this handle.
	payload, err := pistore.CompactJSONBytes(text)
	if err != nil {
		return &pistore.CorruptError{
			Backend: backend, Session: v.of.session, Place: fmt.Sprintf("%q, byte %d", v.of.path, at.offset),
			Problem: fmt.Sprintf("the payload of entry %s was changed since the file was opened: %v", e.ID, err),
		}
	}
	e.Payload = payload
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

// exported completes the entries of an export.
func (p *payloads) exported(rows iter.Seq2[pistore.Row, error]) iter.Seq2[pistore.Row, error] {
	if p == nil {
		return rows
	}
	return func(yield func(pistore.Row, error) bool) {
		var v *view
		defer func() {
			if v != nil {
				v.src.release() // read only: nothing can be lost
			}
		}()
		for row, err := range rows {
			if e, ok := row.(pistore.Entry); ok && err == nil {
				if v == nil {
					v = p.view()
				}
				err = v.fill(&e)
				row = e
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}
