package page

import (
	"math"
	"strconv"

	"pistore"
)

// books give each request what it used, as numbers to draw; exact sums come from
// the ledger.
type books struct {
	byEntry map[pistore.ID]spend
	loose   []looseRow
	// imported is the seq of the row that stands for the answers of an imported
	// file, whose own numbers count then; 0: none.
	imported pistore.Seq
}

// looseRow names no entry, and belongs to the one that was written last.
type looseRow struct {
	after int // index; -1: before any
	spend spend
}

func (b *books) add(d *document, row pistore.UsageRow) {
	source, _ := row.Details.Member("source")
	switch {
	case row.Adjustment && source == `"v3-import"`:
		b.imported = row.Seq
	case row.EntryID != "":
		s := b.byEntry[row.EntryID]
		b.byEntry[row.EntryID] = s.plus(spendOf(row.Usage))
	default:
		b.loose = append(b.loose, looseRow{len(d.nodes) - 1, spendOf(row.Usage)})
	}
}

// settle decides between rows and what answers say of themselves.
func (b *books) settle(d *document) {
	for i := range d.nodes {
		n := &d.nodes[i]
		row, there := b.byEntry[n.id]
		switch {
		case there:
			n.spend = row
			delete(b.byEntry, n.id)
		case n.seq > b.imported:
			n.spend = spend{} // a copy in the entry is not what was charged
		}
	}
	for _, row := range b.byEntry {
		d.unplaced += row.cost
	}
	for _, l := range b.loose {
		if l.after < 0 {
			d.unplaced += l.spend.cost
			continue
		}
		n := &d.nodes[l.after]
		n.spend = n.spend.plus(l.spend)
	}
}

func (s spend) plus(o spend) spend {
	return spend{
		there: s.there || o.there, input: s.input + o.input, output: s.output + o.output,
		cacheRead: s.cacheRead + o.cacheRead, cacheWrite: s.cacheWrite + o.cacheWrite, cost: s.cost + o.cost,
	}
}

// sent is how many tokens a request sent.
func (s spend) sent() float64 { return s.input + s.cacheRead + s.cacheWrite }

func spendOf(usage pistore.JSON) (s spend) {
	for name, v := range usage.Members() {
		switch name {
		case "input":
			s.input = numberOf(v)
		case "output":
			s.output = numberOf(v)
		case "cacheRead":
			s.cacheRead = numberOf(v)
		case "cacheWrite":
			s.cacheWrite = numberOf(v)
		case "cost":
			total, _ := v.Member("total")
			s.cost = numberOf(total)
		default:
			continue
		}
		s.there = true
	}
	return s
}

// numberOf reads a number that can be drawn; any other is 0.
func numberOf(v pistore.JSON) float64 {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > 1e15 {
		return 0
	}
	return f
}
