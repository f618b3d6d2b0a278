package jsonl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
)

// foreign gathers a file of format 4 that another program wrote, without sums.
// Its values and lists become registers here. Rows go into the state at the end,
// because to delete a list is to delete several registers with one seq.
type foreign struct {
	values  bool // there are values or lists
	rows    []pistore.Row
	ids     map[pistore.ID]bool // true: an entry
	cells   map[pistore.Address]cell
	lists   map[pistore.Address][]pistore.Seq
	leftOut map[string]int64
	next    pistore.Seq
}

// cell is a register, with the place of the write that set it.
type cell struct {
	value pistore.JSON
	seq   pistore.Seq
	at    line
}

func newForeign() *foreign {
	return &foreign{
		ids: map[pistore.ID]bool{}, cells: map[pistore.Address]cell{},
		lists: map[pistore.Address][]pistore.Seq{}, leftOut: map[string]int64{},
	}
}

// What the other writers have beside registers.
type (
	// setValue sets a value, deleteValue removes one.
	setValue    struct{ pistore.SetRegister }
	deleteValue struct{ pistore.DeleteRegister }
	// appendList adds an element to a list, deleteList removes all of them.
	appendList struct{ pistore.SetRegister }
	deleteList struct{ pistore.DeleteRegister }
)

// foreignWrite reads a write of kind value or list. Its namespace and key are
// checked under the names that they get here.
func (w *write4) foreignWrite() (pistore.Write, error) {
	namespace, err := plainText("namespace", w.namespace)
	if err != nil {
		return nil, err
	}
	key, err := plainText("key", w.key)
	if err != nil {
		return nil, err
	}
	set := pistore.SetRegister{Namespace: namespace, Key: key, Value: pistore.JSON(w.value)}
	remove := pistore.DeleteRegister{Namespace: namespace, Key: key}
	switch kind := string(w.kind) + string(w.op); {
	case kind == `"value""delete"`:
		return deleteValue{remove}, nil
	case kind == `"list""delete"`:
		return deleteList{remove}, nil
	case kind == `"value""set"` && w.value != nil:
		return setValue{set}, nil
	case kind == `"list""append"` && w.value != nil:
		return appendList{set}, nil
	default:
		return nil, misshapen("the operation %s on a %s is not known, or has no value", shownValue(w.op), w.kind)
	}
}

// foreignType makes an entry of an unknown type a custom one, and returns what
// the type was; ok is false if it is left alone.
func (w *write4) foreignType() (name string, ok bool) {
	switch string(w.typ) {
	case `"message"`, `"compaction"`, `"branch_summary"`, `"custom"`:
		return "", false
	}
	name, ok = pistore.JSON(w.typ).Text()
	if !ok || len(w.customType) > 0 {
		return "", false // no entry at all, which is found out later
	}
	w.typ, w.customType = []byte(`"custom"`), []byte(pistore.QuoteJSON(legacyType(name)))
	return name, true
}

// noteType warns of an entry whose type is not known.
func (r *replay) noteType(name string) {
	r.warn(kindUnknownType, fmt.Sprintf("the type %s of an entry is not known; it is kept as a custom entry", show(name)))
}

// HasID is part of [admit.State].
func (f *foreign) HasID(id pistore.ID) (bool, error) {
	_, ok := f.ids[id]
	return ok, nil
}

// HasEntry is part of [admit.State].
func (f *foreign) HasEntry(id pistore.ID) (bool, error) { return f.ids[id], nil }

// RegisterSeq is part of [admit.State].
func (f *foreign) RegisterSeq(at pistore.Address) (pistore.Seq, error) { return f.cells[at].seq, nil }

// add takes the transaction that was just read.
func (f *foreign) add(r *replay) {
	for i, w := range r.dec.writes {
		seq := r.dec.seqs[i]
		f.next = seq + 1
		switch w := w.(type) {
		case pistore.InsertEntry:
			f.ids[w.ID] = true
			f.rows = append(f.rows, pistore.Entry{
				ID: w.ID, ParentID: w.ParentID, Seq: seq, Timestamp: r.dec.times[i], Type: w.Type, CustomType: w.CustomType, Payload: w.Payload,
			})
		case pistore.InsertUsage:
			f.ids[w.ID] = false
			f.rows = append(f.rows, pistore.UsageRow{
				ID: w.ID, Seq: seq, Usage: w.Usage, EntryID: w.EntryID, Adjustment: w.Adjustment, Details: w.Details,
			})
		case pistore.SetRegister:
			f.cells[pistore.Address{Namespace: w.Namespace, Key: w.Key}] = cell{w.Value, seq, r.at}
		case pistore.DeleteRegister:
			delete(f.cells, pistore.Address(w))
		default:
			f.values = true
			f.value(w, seq, r)
		}
	}
}

// value takes a write of a value or a list.
func (f *foreign) value(w pistore.Write, seq pistore.Seq, r *replay) {
	switch w := w.(type) {
	case setValue:
		f.set(w.Namespace, w.Key, w.Value, seq, r)
	case deleteValue:
		f.remove(w.Namespace, w.Key)
	case appendList:
		at := pistore.Address{Namespace: w.Namespace, Key: w.Key}
		f.lists[at] = append(f.lists[at], seq)
		f.set(w.Namespace, elementKey(w.Key, seq), w.Value, seq, r)
	case deleteList:
		at := pistore.Address{Namespace: w.Namespace, Key: w.Key}
		for _, seq := range f.lists[at] {
			f.remove(w.Namespace, elementKey(w.Key, seq))
		}
		delete(f.lists, at)
	default:
		panic(fmt.Sprintf("jsonl: write %T", w))
	}
}

// elementKey is the key of the register that a list element becomes.
func elementKey(key string, seq pistore.Seq) string { return fmt.Sprintf("%s#%016x", key, int64(seq)) }

func (f *foreign) set(namespace, key string, value pistore.JSON, seq pistore.Seq, r *replay) {
	f.cells[pistore.Address{Namespace: namespace, Key: key}] = cell{value, seq, r.at}
}

func (f *foreign) remove(namespace, key string) {
	delete(f.cells, pistore.Address{Namespace: namespace, Key: key})
}

// mappedNames are the namespaces that mean the same here under another name.
var mappedNames = map[string]string{
	"pi.branch.tip":   registers.LaneLeafNS,
	"pi.lane.config":  registers.LaneConfigNS,
	"pi.lane.state":   registers.LaneStateNS,
	"pi.session.name": registers.FactNameNS,
	"pi.entry.label":  registers.FactLabelNS,
}

// mapped returns the register that a value becomes; ok is false if it is left out.
func mapped(at pistore.Address, value pistore.JSON) (pistore.Address, pistore.JSON, bool) {
	if name, known := mappedNames[at.Namespace]; known {
		at.Namespace = name
		if name == registers.LaneStateNS {
			value = registers.EncodeLaneState(registers.LaneState{}) // open operations are not carried
		}
		return at, value, true
	}
	if strings.HasPrefix(at.Namespace, "ext.") {
		at.Namespace = "app." + at.Namespace
		return at, value, true
	}
	return at, value, !strings.HasPrefix(at.Namespace, "pi.")
}

// finish puts what was gathered into the state.
func (f *foreign) finish(r *replay) {
	if f.values {
		f.mapCells(r)
	}
	rows := f.rows
	for at, c := range f.cells {
		rows = append(rows, pistore.Register{Namespace: at.Namespace, Key: at.Key, Value: c.value, Seq: c.seq})
	}
	slices.SortFunc(rows, func(a, b pistore.Row) int { return cmp.Compare(seqOfRow(a), seqOfRow(b)) })
	for _, row := range rows {
		w, seq, at := writeOf(row)
		r.state.Apply(pistore.Transaction{FirstSeq: seq, Seqs: []pistore.Seq{seq}, Timestamp: at, Writes: []pistore.Write{w}})
	}
	r.state.RaiseNextSeq(f.next)
	if f.values {
		info := r.head.info
		info.Format = string(V4Values)
		r.head.info = info
	}
}

func seqOfRow(row pistore.Row) pistore.Seq {
	_, seq, _ := writeOf(row)
	return seq
}

// mapCells gives the registers their names here, and idle states to lanes that
// have none.
func (f *foreign) mapCells(r *replay) {
	cells := make(map[pistore.Address]cell, len(f.cells))
	for at, c := range f.cells {
		to, value, ok := mapped(at, c.value)
		if !ok {
			f.leftOut[at.Namespace]++
			continue
		}
		if err := pistore.CheckAddress(to.Namespace, to.Key); err != nil {
			r.at = c.at
			r.warn(kindLeftOut, "a register cannot be kept and is left out: "+err.Error())
			f.leftOut[at.Namespace]++
			continue
		}
		if leaf, isText := value.Text(); to.Namespace == registers.LaneLeafNS && value != "null" && (!isText || !f.ids[pistore.ID(leaf)]) {
			r.at = c.at
			r.fail(kindDangling, 21, fmt.Sprintf("the branch %s ends at %s, which is no entry; it is left out", show(at.Key), shownValue([]byte(value))))
			continue
		}
		cells[to] = cell{value, c.seq, c.at}
	}
	for _, namespace := range slices.Sorted(maps.Keys(f.leftOut)) {
		r.at = line{number: 1}
		r.warn(kindLeftOut, fmt.Sprintf("what has no meaning here is left out: registers of namespace %s, %d in number", show(namespace), f.leftOut[namespace]))
	}
	var idle []string
	for at := range cells {
		if _, has := cells[pistore.Address{Namespace: registers.LaneStateNS, Key: at.Key}]; at.Namespace == registers.LaneLeafNS && !has {
			idle = append(idle, at.Key)
		}
	}
	slices.Sort(idle)
	f.next = max(f.next, r.head.nextSeq, 1)
	for _, lane := range idle {
		cells[pistore.Address{Namespace: registers.LaneStateNS, Key: lane}] = cell{
			value: registers.EncodeLaneState(registers.LaneState{}), seq: f.next,
		}
		f.next++
	}
	f.cells = cells
}
