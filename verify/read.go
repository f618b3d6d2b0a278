package verify

import (
	"fmt"
	"math"
	"strings"

	"pistore"
	"pistore/internal/inorder"
)

// The rows of a batch, by number and by bytes of payload: enough that it costs
// little to hand it on.
const (
	batchRows  = 256
	batchBytes = 128 << 10
)

// batch is some rows of the export, in its order, and what each says by itself.
type batch struct {
	rows     []pistore.Row
	verdicts []verdict
	bytes    int
}

func (b *batch) judge() {
	for _, row := range b.rows {
		b.verdicts = append(b.verdicts, judge(row))
	}
}

// clear empties a batch and lets go of what it held.
func (b *batch) clear() {
	clear(b.rows)
	clear(b.verdicts)
	b.rows, b.verdicts, b.bytes = b.rows[:0], b.verdicts[:0], 0
}

// readRows reads the export once. What a row says by itself is checked for
// several batches of rows at once, the rest in the order of the export, on this
// goroutine: a check tells the same in the same order on any number of cores.
func (c *checker) readRows() error {
	look := lookup{checker: c}
	queue := inorder.New((*batch).judge, func(b *batch) error {
		defer b.clear()
		for i, row := range b.rows {
			if !c.readRow(row, &b.verdicts[i]) {
				continue
			}
			if err := look.add(row); err != nil {
				return err
			}
		}
		return nil
	})
	defer queue.Close()
	broken, err := c.sendRows(queue)
	if err == nil {
		err = queue.Drain()
	}
	if err != nil {
		return err
	}
	if broken != nil {
		c.report.Incomplete = true
		return c.damage(broken, "export")
	}
	return look.flush()
}

// sendRows hands the rows of the export on. It returns in broken what ended the
// export, and in err what ended the check of rows before.
func (c *checker) sendRows(queue *inorder.Queue[batch]) (broken, err error) {
	b, err := queue.Next()
	if err != nil {
		return nil, err
	}
	for row, broken := range c.storage.Export(c.ctx) {
		if broken != nil {
			queue.Send()
			return broken, nil
		}
		b.rows = append(b.rows, row)
		b.bytes += rowBytes(row)
		if len(b.rows) < batchRows && b.bytes < batchBytes {
			continue
		}
		queue.Send()
		if b, err = queue.Next(); err != nil {
			return nil, err
		}
	}
	queue.Send()
	return nil, nil
}

// rowBytes is how much of its payload a row holds in memory.
func rowBytes(row pistore.Row) int {
	switch row := row.(type) {
	case pistore.Entry:
		return len(row.Payload)
	case pistore.UsageRow:
		return len(row.Usage) + len(row.Details)
	case pistore.Register:
		return len(row.Value)
	default:
		return 0
	}
}

// readRow takes a row at its place in the order, and reports whether it can be
// looked up.
func (c *checker) readRow(row pistore.Row, v *verdict) bool {
	r := &c.rows
	if _, ok := row.(pistore.Header); !ok && r.headers == 0 {
		r.headers = math.MinInt // said once
		c.add(Fault{Severity: Error, Message: "the export does not start with a header"})
	}
	switch row := row.(type) {
	case pistore.Header:
		c.readHeader(row)
		return false
	case pistore.Entry:
		c.report.Checked.Entries++
		c.checkSeq(row, row.Seq)
		return c.readEntry(row, v)
	case pistore.UsageRow:
		c.report.Checked.Usage++
		c.checkSeq(row, row.Seq)
		return c.readUsage(row, v)
	case pistore.Register:
		c.report.Checked.Registers++
		c.checkSeq(row, row.Seq)
		return c.readRegister(row, v)
	default:
		c.add(Fault{Severity: Error, Message: "the export has a row of an unknown form"})
		return false
	}
}

func (c *checker) readHeader(h pistore.Header) {
	r := &c.rows
	if r.headers++; r.headers > 1 {
		c.add(Fault{Severity: Error, Message: "the export has more than one header"})
		return
	}
	if r.headers == 1 {
		r.header = h
		if err := h.Info.Check(); err != nil {
			c.add(Fault{Severity: Error, Place: "header", Message: err.Error()})
		}
	}
}

// addAll adds what a row says by itself.
func (c *checker) addAll(v *verdict) {
	for _, f := range v.faults {
		c.add(f)
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
	i, used := c.rows.find(id)
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

func (c *checker) readEntry(e pistore.Entry, v *verdict) bool {
	r := &c.rows
	n := node{
		id: e.ID, seq: e.Seq, timestamp: e.Timestamp,
		form: r.formOf(e.Type, e.CustomType), said: v.said, repeated: !c.claim(e.ID, e.Seq),
	}
	c.addAll(v)
	r.stats.Entries++
	if e.Type == pistore.TypeMessage {
		r.stats.Messages++
	}
	index := int32(len(r.nodes))
	n.parent = noParent
	if e.ParentID != "" {
		parent, ok := r.find(e.ParentID)
		if ok = ok && parent >= 0; ok {
			n.parent = parent
			r.nodes[parent].inner = r.nodes[parent].inner || !n.repeated
		} else {
			n.parent, r.lost[index] = lostParent, e.ParentID
		}
	}
	if !n.repeated {
		r.put(n.id, index)
	}
	r.nodes = append(r.nodes, n)
	return !n.repeated
}

func (c *checker) readUsage(u pistore.UsageRow, v *verdict) bool {
	r := &c.rows
	free := c.claim(u.ID, u.Seq)
	c.addAll(v)
	if v.ok {
		r.sum.Add(u)
	} else {
		r.sumUnknown = true
	}
	if free {
		r.put(u.ID, ^int32(len(r.usage)))
	}
	r.usage = append(r.usage, usageRow{u.ID, u.Seq})
	return free
}

// readRegister keeps what a register says of lanes and operations.
func (c *checker) readRegister(reg pistore.Register, v *verdict) bool {
	r := &c.rows
	at := pistore.Address{Namespace: r.intern(reg.Namespace), Key: strings.Clone(reg.Key)}
	if first, twice := r.at[at]; twice {
		c.cell(3, at, "the register is there twice, of seq %d and of seq %d", first, reg.Seq)
		return false
	}
	r.at[at] = reg.Seq
	c.addAll(v)
	r.cells = append(r.cells, cell{at: at, seq: reg.Seq, ok: v.ok})
	r.note(at, reg.Value)
	return true
}
