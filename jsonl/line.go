package jsonl

import (
	"fmt"

	"pistore"
)

// MaxRowLineBytes bounds the line of one row.
const MaxRowLineBytes = 2*pistore.MaxPayloadBytes + 1<<20

// AppendRow appends the line of one row of an export, its header among them, as
// a file of format 4 has it, sum and newline included.
func AppendRow(buf []byte, row pistore.Row) []byte {
	e := encoder{buf: buf}
	if h, ok := row.(pistore.Header); ok {
		e.header(h.Info, h.NextSeq, 0, nil)
	} else {
		e.row(row)
	}
	return e.buf
}

// AppendObject appends the line of an object that is no row, in the same form.
// The object has members, and none that is named sum.
func AppendObject(buf []byte, object pistore.JSON) []byte {
	e := encoder{buf: append(buf, object[:len(object)-1]...)}
	e.endLine(len(buf), false)
	return e.buf
}

// ParseLine reads a line that AppendRow or AppendObject made, without its newline;
// the text is changed. An object that is no row is returned as it was. What is
// damaged is ErrCorrupt. That values are JSON is left to the sum.
func ParseLine(text []byte) (row pistore.Row, object pistore.JSON, err error) {
	comma, _, holds := checkSum(text)
	if !holds || text[0] != '{' {
		return nil, "", fmt.Errorf("%w: the line does not end in its sum", pistore.ErrCorrupt)
	}
	header := kindAt(text, 0) == `"header"`
	if header {
		h, err := readHeader4(text)
		if err == nil && !h.summed {
			err = fmt.Errorf("%w: a header without sums", pistore.ErrCorrupt)
		}
		return pistore.Header{Info: h.info, NextSeq: h.nextSeq}, "", err
	}
	text = withoutSum(text, comma)
	err = scanLine(text, new(write4), func(w *write4) error {
		row, err = w.row()
		return err
	})
	if err == errNoRow {
		return nil, pistore.JSON(text), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", pistore.ErrCorrupt, err)
	}
	return row, "", nil
}

// errNoRow: the object is of another kind.
var errNoRow = misshapen("no row")

// row reads the row that a write makes.
func (w *write4) row() (pistore.Row, error) {
	switch string(w.kind) {
	case `"entry"`, `"usage"`, `"register"`:
	default:
		return nil, errNoRow
	}
	seq, err := w.seqOf()
	if err != nil {
		return nil, err
	}
	switch string(w.kind) {
	case `"entry"`:
		e, at, err := w.entry("")
		return pistore.Entry{
			ID: e.ID, ParentID: e.ParentID, Seq: seq, Timestamp: at, Type: e.Type, CustomType: e.CustomType, Payload: w.payload(),
		}, err
	case `"usage"`:
		u, err := w.usageRow()
		return pistore.UsageRow{ID: u.ID, Seq: seq, Usage: u.Usage, EntryID: u.EntryID, Adjustment: u.Adjustment, Details: u.Details}, err
	default:
		write, err := w.register()
		set, ok := write.(pistore.SetRegister)
		if err == nil && !ok {
			err = misshapen("a register that is deleted is no row")
		}
		return pistore.Register{Namespace: set.Namespace, Key: set.Key, Value: set.Value, Seq: seq}, err
	}
}
