package verify

import (
	"fmt"
	"math"
	"strings"

	"pistore"
	"pistore/ledger"
	"pistore/registers"
)

// rows is what is kept of a session: its structure, and what its registers say
// of it. Ids are kept as the store gives them, which in many stores has them in
// memory anyway; types and names are copied, once each.
type rows struct {
	headers int
	header  pistore.Header
	last    pistore.Seq // largest seq so far

	nodes []node     // entries in the order of the export
	usage []usageRow // in the order of the export
	// byID holds i where entry i was the first with an id, ^i where usage row i
	// was.
	byID map[pistore.ID]int32
	lost map[int32]pistore.ID // parents that do not stand before their entry
	sum  ledger.Sum
	// sumUnknown: a row has no usage that could be added.
	sumUnknown bool
	stats      pistore.Stats // of the rows; Usage is in sum until the end

	cells []cell // registers in the order of the export
	at    map[pistore.Address]pistore.Seq
	lanes map[string]*lane
	ops   map[pistore.ID]*operation

	texts map[string]string // one copy of each repeated text
	forms map[form]*form    // likewise
}

// node is the structure of an entry. There may be millions, so that it is kept
// small.
type node struct {
	id        pistore.ID
	seq       pistore.Seq
	timestamp pistore.UnixMS
	*form
	parent   int32 // index; noParent: a root; lostParent: not before it
	calls    int32 // tool calls of a response
	inner    bool  // it has a child
	repeated bool  // its id was in use before

	response, result bool // a message of that role
	aborted          bool // a response that was
}

// form is the type of an entry.
type form struct {
	kind       pistore.EntryType
	customType string
}

const (
	noParent   = -1
	lostParent = -2
)

type usageRow struct {
	id  pistore.ID
	seq pistore.Seq
}

type cell struct {
	at  pistore.Address
	seq pistore.Seq
	ok  bool // key and value are as declared
}

// lane is what the registers of a lane say. A register whose value cannot be
// read is there and unknown.
type lane struct {
	hasLeaf, hasState, hasConfig bool

	leaf  *pistore.ID
	state *registers.LaneState
	last  *registers.LastResult
}

// operation is what op.meta and op.state say, nil where absent or unreadable.
type operation struct {
	hasMeta, hasState bool

	meta  *registers.OpMeta
	state registers.OpState
}

func newRows() rows {
	return rows{
		byID: map[pistore.ID]int32{}, lost: map[int32]pistore.ID{}, forms: map[form]*form{},
		at:    map[pistore.Address]pistore.Seq{},
		lanes: map[string]*lane{}, ops: map[pistore.ID]*operation{},
		texts: map[string]string{},
	}
}

// formOf returns the one copy of a form.
func (r *rows) formOf(t pistore.EntryType, customType string) *form {
	f := form{t, customType}
	if known, ok := r.forms[f]; ok {
		return known
	}
	f.kind, f.customType = pistore.EntryType(r.intern(string(t))), r.intern(customType)
	r.forms[f] = &f
	return &f
}

// intern returns a copy of a text that many rows have.
func (r *rows) intern(s string) string {
	if s == "" {
		return ""
	}
	if t, ok := r.texts[s]; ok {
		return t
	}
	s = strings.Clone(s)
	r.texts[s] = s
	return s
}

func (r *rows) lane(name string) *lane {
	l := r.lanes[name]
	if l == nil {
		l = &lane{}
		r.lanes[name] = l
	}
	return l
}

func (r *rows) op(id pistore.ID) *operation {
	o := r.ops[id]
	if o == nil {
		o = &operation{}
		r.ops[id] = o
	}
	return o
}

// entry returns the entry with an id, nil if there is none.
func (r *rows) entry(id pistore.ID) *node {
	if i, ok := r.byID[id]; ok && i >= 0 {
		return &r.nodes[i]
	}
	return nil
}

// hasUsage reports whether a usage row has an id.
func (r *rows) hasUsage(id pistore.ID) bool {
	i, ok := r.byID[id]
	return ok && i < 0
}

// taken reports whether an entry or a usage row has an id.
func (r *rows) taken(id pistore.ID) bool {
	_, ok := r.byID[id]
	return ok
}

// parentID returns the id of the parent that entry i names, empty for a root.
func (r *rows) parentID(i int) pistore.ID {
	switch parent := r.nodes[i].parent; parent {
	case noParent:
		return ""
	case lostParent:
		return r.lost[int32(i)]
	default:
		return r.nodes[parent].id
	}
}

// readRows reads the export once and checks each row by itself.
func (c *checker) readRows() error {
	look := lookup{checker: c}
	for row, err := range c.storage.Export(c.ctx) {
		if err != nil {
			c.report.Incomplete = true
			return c.damage(err, "export")
		}
		if !c.readRow(row) {
			continue
		}
		if err := look.add(row); err != nil {
			return err
		}
	}
	return look.flush()
}

// readRow checks a row by itself, and reports whether it can be looked up.
func (c *checker) readRow(row pistore.Row) bool {
	r := &c.rows
	if _, ok := row.(pistore.Header); !ok && r.headers == 0 {
		r.headers = math.MinInt // said once
		c.add(Fault{Severity: Error, Message: "the export does not start with a header"})
	}
	switch row := row.(type) {
	case pistore.Header:
		if r.headers++; r.headers > 1 {
			c.add(Fault{Severity: Error, Message: "the export has more than one header"})
			return false
		}
		if r.headers == 1 {
			r.header = row
			if err := row.Info.Check(); err != nil {
				c.add(Fault{Severity: Error, Place: "header", Message: err.Error()})
			}
		}
		return false
	case pistore.Entry:
		c.report.Checked.Entries++
		c.checkSeq(row, row.Seq)
		return c.readEntry(row)
	case pistore.UsageRow:
		c.report.Checked.Usage++
		c.checkSeq(row, row.Seq)
		return c.readUsage(row)
	case pistore.Register:
		c.report.Checked.Registers++
		c.checkSeq(row, row.Seq)
		return c.readRegister(row)
	default:
		c.add(Fault{Severity: Error, Message: "the export has a row of an unknown form"})
		return false
	}
}

// checkSeq checks that a row stands behind the one before it.
func (c *checker) checkSeq(row pistore.Row, seq pistore.Seq) {
	last := c.rows.last
	if seq > last && seq <= pistore.MaxSeq {
		c.rows.last = seq
		return
	}
	f := Fault{
		Invariant: 2, Severity: Error, Place: seqPlace(seq),
		Message: fmt.Sprintf("seq %d after %d; it must rise, up to %d", seq, last, int64(pistore.MaxSeq)),
	}
	switch row := row.(type) {
	case pistore.Entry:
		f.ID = row.ID
	case pistore.UsageRow:
		f.ID = row.ID
	case pistore.Register:
		f.Place = cellPlace(row.Address())
	}
	c.add(f)
}

// claim reports whether the id of a row is free, and adds a fault if it is not.
func (c *checker) claim(id pistore.ID, seq pistore.Seq) bool {
	i, used := c.rows.byID[id]
	switch {
	case !used:
		return true
	case i >= 0:
		c.row(1, id, seq, "the id %.140q is in use since seq %d", string(id), c.rows.nodes[i].seq)
	default:
		c.row(1, id, seq, "the id %.140q is in use since seq %d", string(id), c.rows.usage[^i].seq)
	}
	return false
}

func (c *checker) readEntry(e pistore.Entry) bool {
	r := &c.rows
	n := node{
		id: e.ID, seq: e.Seq, timestamp: e.Timestamp,
		form: r.formOf(e.Type, e.CustomType), repeated: !c.claim(e.ID, e.Seq),
	}
	c.checkEntry(e, &n)
	r.stats.Entries++
	if e.Type == pistore.TypeMessage {
		r.stats.Messages++
	}
	index := int32(len(r.nodes))
	n.parent = noParent
	if e.ParentID != "" {
		parent, ok := r.byID[e.ParentID]
		if ok = ok && parent >= 0; ok {
			n.parent = parent
			r.nodes[parent].inner = r.nodes[parent].inner || !n.repeated
		} else {
			n.parent, r.lost[index] = lostParent, e.ParentID
		}
	}
	if !n.repeated {
		r.byID[n.id] = index
	}
	r.nodes = append(r.nodes, n)
	return !n.repeated
}

func (c *checker) readUsage(u pistore.UsageRow) bool {
	r := &c.rows
	free := c.claim(u.ID, u.Seq)
	c.checkUsage(u)
	if free {
		r.byID[u.ID] = ^int32(len(r.usage))
	}
	r.usage = append(r.usage, usageRow{u.ID, u.Seq})
	return free
}

// checkEnds checks what the end of the rows shows.
func (c *checker) checkEnds() {
	r := &c.rows
	if r.headers == 0 && !c.report.Incomplete {
		c.add(Fault{Severity: Error, Message: "the export has no header"})
	}
	if next := r.header.NextSeq; r.headers >= 1 && (next <= r.last || next > pistore.MaxSeq+1) {
		c.add(Fault{
			Invariant: 2, Severity: Error, Place: "header",
			Message: fmt.Sprintf("the next seq is %d and the largest present %d", next, r.last),
		})
	}
}
