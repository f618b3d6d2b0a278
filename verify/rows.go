package verify

import (
	"fmt"
	"math"
	"strings"

	"pistore"
	"pistore/ledger"
	"pistore/registers"
	"pistore/session"
)

// rows is what is kept of a session: its structure, and what its registers say
// of it. Strings are copied, because a short one may share its memory with a
// large payload.
type rows struct {
	headers int
	header  pistore.Header
	last    pistore.Seq // largest seq so far

	nodes []node                     // entries in the order of the export
	byID  map[pistore.ID]int         // index of the first entry with the id
	usage []usageRow                 // in the order of the export
	used  map[pistore.ID]pistore.Seq // the first usage row with the id
	sum   ledger.Sum
	// sumUnknown: a row has no usage that could be added.
	sumUnknown bool
	stats      pistore.Stats // of the rows; Usage is in sum until the end

	cells []cell // registers in the order of the export
	at    map[pistore.Address]pistore.Seq
	lanes map[string]*lane
	ops   map[pistore.ID]*operation

	texts map[string]string // one copy of each repeated text
}

// node is the structure of an entry.
type node struct {
	id, parentID pistore.ID
	seq          pistore.Seq
	timestamp    pistore.UnixMS
	kind         pistore.EntryType
	customType   string
	parent       int // index; noParent: a root; lostParent: not before it
	children     int
	repeated     bool // its id was in use before

	role  session.Role       // of responses and results only
	stop  session.StopReason // of aborted responses only
	calls int                // tool calls of a response
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
		byID: map[pistore.ID]int{}, used: map[pistore.ID]pistore.Seq{},
		at:    map[pistore.Address]pistore.Seq{},
		lanes: map[string]*lane{}, ops: map[pistore.ID]*operation{},
		texts: map[string]string{},
	}
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
	if i, ok := r.byID[id]; ok {
		return &r.nodes[i]
	}
	return nil
}

// taken reports whether an entry or a usage row has an id.
func (r *rows) taken(id pistore.ID) bool {
	_, used := r.used[id]
	return used || r.entry(id) != nil
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
	first, used := c.rows.used[id]
	if n := c.rows.entry(id); n != nil {
		first, used = n.seq, true
	}
	if used {
		c.row(1, id, seq, "the id %.140q is in use since seq %d", string(id), first)
	}
	return !used
}

func (c *checker) readEntry(e pistore.Entry) bool {
	r := &c.rows
	n := node{
		id: pistore.ID(strings.Clone(string(e.ID))), parentID: pistore.ID(strings.Clone(string(e.ParentID))),
		seq: e.Seq, timestamp: e.Timestamp,
		kind: pistore.EntryType(r.intern(string(e.Type))), customType: r.intern(e.CustomType),
		repeated: !c.claim(e.ID, e.Seq),
	}
	c.checkEntry(e, &n)
	r.stats.Entries++
	if e.Type == pistore.TypeMessage {
		r.stats.Messages++
	}
	n.parent = noParent
	if n.parentID != "" {
		var ok bool
		if n.parent, ok = r.byID[n.parentID]; ok {
			n.parentID = r.nodes[n.parent].id // one copy of the text
			if !n.repeated {
				r.nodes[n.parent].children++
			}
		} else {
			n.parent = lostParent
		}
	}
	if !n.repeated {
		r.byID[n.id] = len(r.nodes)
	}
	r.nodes = append(r.nodes, n)
	return !n.repeated
}

func (c *checker) readUsage(u pistore.UsageRow) bool {
	r := &c.rows
	free := c.claim(u.ID, u.Seq)
	c.checkUsage(u)
	id := pistore.ID(strings.Clone(string(u.ID)))
	if free {
		r.used[id] = u.Seq
	}
	r.usage = append(r.usage, usageRow{id, u.Seq})
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
