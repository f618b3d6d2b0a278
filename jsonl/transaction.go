package jsonl

import (
	"errors"

	"pistore"
)

// decoder reads the transaction of a line. What it has read is valid until the
// next line.
type decoder struct {
	// foreign is set for a file that may have writes of other programs, and told
	// the types of entries that are not known.
	foreign func(name string)
	offset  int64 // of the line in the file
	// direct says that the line stands in the file as it is read, and that large
	// payloads are to stay there.
	direct bool
	// seqsOnly leaves out everything but seqs.
	seqsOnly bool
	newest   pistore.ID // of the entry read last, if it is spelled like that; else empty

	scanned write4 // the write at hand

	writes []pistore.Write
	seqs   []pistore.Seq
	times  []pistore.UnixMS // -1: the write has none
	spots  []place          // of payloads that were left in the file
	rows   int64            // bytes of entries and usage rows
	extra  map[pistore.Seq]string
}

// parse reads the writes of a line.
func (d *decoder) parse(text []byte) error {
	err := d.decode(text)
	if errors.Is(err, errShape) && d.foreign == nil {
		// Another program may write white space; it is no reason to give up.
		if compact, jsonErr := pistore.CompactJSONBytes(text); jsonErr == nil && len(compact) < len(text) {
			d.direct = false
			err = d.decode([]byte(compact))
		}
	}
	return err
}

// decode reads the writes of a line without white space.
func (d *decoder) decode(text []byte) error {
	clear(d.writes)
	clear(d.extra)
	d.writes, d.seqs, d.times, d.spots, d.rows = d.writes[:0], d.seqs[:0], d.times[:0], d.spots[:0], 0
	return scanLine(text, &d.scanned, d.write)
}

func (d *decoder) write(w *write4) error {
	if len(w.sum) > 0 {
		return misshapen("a sum where none belongs")
	}
	seq, err := w.seqOf()
	if err != nil {
		return err
	}
	if d.seqsOnly {
		d.seqs = append(d.seqs, seq)
		return nil
	}
	at := pistore.UnixMS(-1)
	var write pistore.Write
	switch string(w.kind) {
	case `"entry"`:
		write, at, err = d.entry(w, seq)
	case `"usage"`:
		write, err = w.usageRow()
		d.rows += int64(w.length)
		d.keepExtras(seq, w.extras(true))
	case `"register"`:
		write, err = w.register()
		d.keepExtras(seq, w.extras(false))
	case `"value"`, `"list"`:
		if d.foreign == nil {
			return misshapen("a file with sums holds no writes of kind %s", w.kind)
		}
		write, err = w.foreignWrite()
	default:
		return misshapen("the kind %s of a write is not known", shownValue(w.kind))
	}
	if err != nil {
		return err
	}
	d.writes, d.seqs, d.times = append(d.writes, write), append(d.seqs, seq), append(d.times, at)
	return nil
}

func (d *decoder) entry(w *write4, seq pistore.Seq) (pistore.Write, pistore.UnixMS, error) {
	if d.foreign != nil {
		if name, ok := w.foreignType(); ok {
			d.foreign(name)
		}
	}
	e, at, err := w.entry(d.newest)
	if err != nil {
		return nil, 0, err
	}
	if d.newest = ""; len(w.id) == len(e.ID)+2 { // without escapes
		d.newest = e.ID
	}
	if size := w.to - w.from; d.direct && !w.scattered && size >= minSpot {
		d.spots = append(d.spots, place{seq: seq, span: span{d.offset + int64(w.from), int64(size)}})
	} else {
		e.Payload = w.payload()
	}
	d.rows += int64(w.length)
	return e, at, nil
}

func (d *decoder) keepExtras(seq pistore.Seq, extras string) {
	if extras == "" {
		return
	}
	if d.extra == nil {
		d.extra = map[pistore.Seq]string{}
	}
	d.extra[seq] = extras
}
