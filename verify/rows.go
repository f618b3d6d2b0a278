package verify

import (
	"fmt"
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
	byID    map[pistore.ID]int32
	highest pistore.ID           // in byID; ids rise as a rule, being UUIDv7
	lost    map[int32]pistore.ID // parents that do not stand before their entry
	sum     ledger.Sum
	// sumUnknown: a row has no usage that could be added.
	sumUnknown bool
	stats      pistore.Stats // of the rows; Usage is in sum until the end

	cells []cell // registers in the order of the export
	at    map[pistore.Address]pistore.Seq
	lanes map[string]*lane
	ops   map[pistore.ID]*operation

	texts map[string]string // one copy of each repeated text
	forms map[form]*form    // likewise
	form  *form             // of the newest entry
}

// node is the structure of an entry. There may be millions, so that it is kept
// small.
type node struct {
	id        pistore.ID
	seq       pistore.Seq
	timestamp pistore.UnixMS
	*form
	said
	parent   int32 // index; noParent: a root; lostParent: not before it
	inner    bool  // it has a child
	repeated bool  // its id was in use before
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
	if r.form != nil && *r.form == f {
		return r.form
	}
	known, ok := r.forms[f]
	if !ok {
		f.kind, f.customType = pistore.EntryType(r.intern(string(t))), r.intern(customType)
		known = &f
		r.forms[f] = known
	}
	r.form = known
	return known
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

// put says in byID where an id is.
func (r *rows) put(id pistore.ID, i int32) {
	r.byID[id] = i
	r.highest = max(r.highest, id)
}

// find returns what byID holds of an id. Most ask for a new one, or for the newest
// entry, which is the parent of the next one.
func (r *rows) find(id pistore.ID) (int32, bool) {
	if id > r.highest {
		return 0, false
	}
	if n := len(r.nodes) - 1; n >= 0 && r.nodes[n].id == id && !r.nodes[n].repeated {
		return int32(n), true
	}
	i, ok := r.byID[id]
	return i, ok
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
