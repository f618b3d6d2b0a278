package jsonl

import (
	"fmt"
	"strconv"

	"pistore"
	"pistore/memstore"
	"pistore/registers"
)

// writer gives rows their seqs and puts them into the state.
type writer struct {
	state *memstore.State
	next  pistore.Seq
	seqs  [1]pistore.Seq
	one   [1]pistore.Write
}

func (w *writer) write(row pistore.Write, at pistore.UnixMS) {
	w.next++
	w.seqs[0], w.one[0] = w.next, row
	w.state.Apply(pistore.Transaction{FirstSeq: w.next, Seqs: w.seqs[:], Timestamp: at, Writes: w.one[:]})
}

// build writes the rows: entries, facts, lane registers, usage rows and the
// adjustment. origins gets the record of each entry, whose seq is its place.
func (im *importer) build(state *memstore.State) (origins []origin, err error) {
	w := &writer{state: state}
	n := 0
	for i := range im.inOrder {
		if n++; n%1024 == 0 && im.ctx.Err() != nil {
			return nil, im.ctx.Err()
		}
		r := &im.records[i]
		if !r.typ.retained() {
			continue
		}
		w.write(im.entryRow(i), pistore.UnixMS(r.time))
		origins = append(origins, origin{r.legacy, Place{r.line, r.offset}})
	}
	im.writeFacts(w)
	leaf := pistore.ID("")
	if im.last >= 0 {
		leaf = im.entryID(im.mapped[im.last])
	}
	w.write(pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: registers.MainLane, Value: registers.EncodeLaneLeaf(leaf)}, 0)
	w.write(pistore.SetRegister{Namespace: registers.LaneStateNS, Key: registers.MainLane, Value: registers.EncodeLaneState(registers.LaneState{})}, 0)
	for i := range im.records {
		if im.records[i].typ == typeUsage {
			w.write(im.usageRow(int32(i)), 0)
		}
	}
	if im.summed {
		w.write(pistore.InsertUsage{
			ID: im.adjustmentID(), Usage: im.adjustment(), Adjustment: true, Details: `{"source":"v3-import"}`,
		}, 0)
	}
	return origins, nil
}

func (im *importer) adjustmentID() pistore.ID {
	at := im.header.time
	if im.last >= 0 {
		at = im.records[im.last].time
	}
	return im.deriveID(max(at, 0), im.unique("v3-import"))
}

// entryRow returns the entry that a record becomes.
func (im *importer) entryRow(index int32) pistore.InsertEntry {
	r := &im.records[index]
	row := pistore.InsertEntry{ID: im.ids[index], ParentID: im.entryID(im.ancestor(index))}
	switch r.typ {
	case typeMessage:
		row.Type, row.Payload = pistore.TypeMessage, r.body
		return row
	case typeCustom, typeUnknown:
		row.Type, row.CustomType = pistore.TypeCustom, r.custom
	case typeCustomMessage:
		row.Type = pistore.TypeMessage
		r.body = im.customMessage(r)
	case typeContextEdit:
		row.Type, row.CustomType = pistore.TypeCustom, contextEdit
		r.body = im.contextEdit(index)
	case typeBranchSummary:
		row.Type = pistore.TypeBranchSummary
		r.body = im.branchSummary(index)
	case typeCompaction:
		row.Type = pistore.TypeCompaction
		r.body = im.compaction(index)
	default:
		panic(fmt.Sprintf("jsonl: a record of type %d is no entry", r.typ))
	}
	r.raw = false
	// What was put one level deeper, or grew, may exceed a limit that the line
	// kept. The entry stays, for others hang on it.
	payload, err := pistore.CheckEntry(row.Type, row.CustomType, r.body)
	if err != nil {
		im.faults.add(Fault{
			Severity: Error, Kind: kindTooLarge, Line: r.line, Offset: r.offset, record: index, cause: err,
			Message: "the content of the record cannot be kept: " + err.Error(),
		})
		row.Type, row.CustomType, payload = pistore.TypeCustom, legacyPrefix+"unnamed", "{}"
		r.typ, r.custom, r.body = typeUnknown, row.CustomType, payload
	}
	row.Payload = payload
	return row
}

// customMessage makes the message of role custom that a custom_message stands
// for, with its own members in their order.
func (im *importer) customMessage(r *record) pistore.JSON {
	message, payload := newObject(len(r.body)), newObject(len(r.body))
	message.put(`"role"`, `"custom"`)
	var extras []member
	for m := range members(r.body) {
		switch m.text() {
		case "customType", "content", "display", "details":
			message.put(m.name, m.value)
		default:
			extras = append(extras, m)
		}
	}
	message.put(`"timestamp"`, strconv.FormatInt(r.time, 10))
	payload.put(`"message"`, string(message.end()))
	for _, m := range extras {
		name := m.text()
		if name == "message" {
			m.name, name = `"`+legacyPrefix+`message"`, ""
		}
		putExtra(payload, m, name, "")
	}
	return payload.end()
}

// contextEdit keeps an edit, its target remapped. What has no content of its own
// is no target: the edit would change another message.
func (im *importer) contextEdit(index int32) pistore.JSON {
	r := &im.records[index]
	data := newObject(len(r.body) + 40)
	targets := 0
	for m := range members(r.body) {
		switch m.text() {
		case "type", "id", "parentId", "timestamp":
		case "targetId":
			targets++
			if id, ok := pistore.JSON(m.value).Text(); ok {
				target, known := im.byID[id]
				switch {
				case !known:
					im.dangling(index, fmt.Sprintf("a context edit of %s, which is nowhere in the file", show(id)))
				case !im.records[target].typ.retained():
					im.dangling(index, fmt.Sprintf("a context edit of %s, which is no entry", show(id)))
				default:
					im.targets[index] = target
					m.value = string(pistore.QuoteJSON(string(im.ids[target])))
				}
			} else {
				im.dangling(index, "a context edit whose targetId is "+kindOf(m.value))
			}
			data.put(m.name, m.value)
		default:
			data.put(m.name, m.value)
		}
	}
	if targets == 0 {
		im.dangling(index, "a context edit without targetId")
	}
	replacement, _ := r.body.Member("replacement")
	if content, _ := replacement.Member("content"); replacement != "null" && !readable(content) {
		im.warnAt(kindUnusable, im.at(index), index, "a context edit without a replacement that can be read; it changes nothing")
	}
	return newObject(data.Len()+16).put(`"data"`, string(data.end())).end()
}

// branchSummary keeps a branch summary, the entry that it came from remapped.
func (im *importer) branchSummary(index int32) pistore.JSON {
	r := &im.records[index]
	o := newObject(len(r.body) + 40)
	for m := range members(r.body) {
		name := m.text()
		if name == "fromId" && isString(m.value) {
			m.value = im.fromID(index, m.value)
		}
		putExtra(o, m, name, "")
	}
	return o.end()
}

const fromRoot = `"root"`

func (im *importer) fromID(index int32, value string) string {
	id, _ := pistore.JSON(value).Text()
	from, known := im.byID[id]
	switch {
	case !known && value == fromRoot:
		return value
	case !known:
		im.dangling(index, fmt.Sprintf("a branch summary from %s, which is nowhere in the file", show(id)))
		return value
	case im.mapped[from] < 0:
		return fromRoot
	default:
		return string(pistore.QuoteJSON(string(im.ids[im.mapped[from]])))
	}
}

// compaction keeps a compaction, what it retains written out.
func (im *importer) compaction(index int32) pistore.JSON {
	r := &im.records[index]
	first, problem := im.kept(index)
	if problem != "" {
		im.dangling(index, problem)
	}
	tail, err := im.tailOf(index, first)
	if err != nil {
		im.faults.add(Fault{
			Severity: Error, Kind: kindTooLarge, Line: r.line, Offset: r.offset, record: index,
			Message: err.Error() + "; this one keeps nothing", cause: fmt.Errorf("%w: %w", pistore.ErrTooLarge, err),
		})
	}
	size := len(r.body)
	for _, m := range tail.messages {
		size += len(m) + 48
	}
	o := newObject(size)
	for m := range members(r.body) {
		switch name := m.text(); name {
		case "firstKeptEntryId", "firstKeptEntryIndex":
		case "retainedTail", "retainedSources":
			o.put(`"`+legacyPrefix+name+`"`, m.value)
		default:
			putExtra(o, m, name, "")
		}
	}
	o.put(`"retainedTail"`, list(tail.messages))
	if len(tail.sources) > 0 {
		sources := make([]string, len(tail.sources))
		for i, id := range tail.sources {
			sources[i] = string(pistore.QuoteJSON(string(id)))
		}
		o.put(`"retainedSources"`, list(sources))
	}
	return o.end()
}

func (im *importer) dangling(index int32, message string) {
	im.warnAt(kindDangling, im.at(index), index, message)
}
