package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pistore"
)

// checkStats compares the statistics with the rows.
func (c *checker) checkStats() error {
	got, err := c.storage.Stats(c.ctx)
	if err != nil {
		return err
	}
	want := c.rows.stats
	want.Usage = c.rows.sum.Totals()
	if c.rows.sumUnknown {
		want.Usage = got.Usage // a fault that is reported already
	}
	if got == want {
		return nil
	}
	var diffs []string
	differ := func(what string, got, want any) {
		if got != want {
			diffs = append(diffs, fmt.Sprintf("%s %.64q instead of %v", what, fmt.Sprint(got), want))
		}
	}
	differ("entries", got.Entries, want.Entries)
	differ("messages", got.Messages, want.Messages)
	differ("usage rows", got.Usage.Rows, want.Usage.Rows)
	differ("unusable rows", got.Usage.Unusable, want.Usage.Unusable)
	differ("input", got.Usage.Input, want.Usage.Input)
	differ("output", got.Usage.Output, want.Usage.Output)
	differ("cacheRead", got.Usage.CacheRead, want.Usage.CacheRead)
	differ("cacheWrite", got.Usage.CacheWrite, want.Usage.CacheWrite)
	differ("cacheWrite1h", got.Usage.CacheWrite1h, want.Usage.CacheWrite1h)
	differ("reasoning", got.Usage.Reasoning, want.Usage.Reasoning)
	differ("totalTokens", got.Usage.TotalTokens, want.Usage.TotalTokens)
	differ("cost input", got.Usage.Cost.Input, want.Usage.Cost.Input)
	differ("cost output", got.Usage.Cost.Output, want.Usage.Cost.Output)
	differ("cost cacheRead", got.Usage.Cost.CacheRead, want.Usage.Cost.CacheRead)
	differ("cost cacheWrite", got.Usage.Cost.CacheWrite, want.Usage.Cost.CacheWrite)
	differ("cost total", got.Usage.Cost.Total, want.Usage.Cost.Total)
	c.add(Fault{Invariant: 19, Severity: Error, Place: "statistics", Message: "the statistics differ from the rows: " + strings.Join(diffs, ", ")})
	return nil
}

// The rows of one batch of lookups, by number and by bytes of payload.
const (
	lookupRows  = 256
	lookupBytes = 1 << 20
)

// lookup asks for exported rows again by id and by address, in batches. It does
// nothing unless the check is deep.
type lookup struct {
	*checker
	entries   []pistore.Entry
	registers []pistore.Register
	bytes     int
}

func (l *lookup) add(row pistore.Row) error {
	if !l.deep {
		return nil
	}
	switch row := row.(type) {
	case pistore.Entry:
		l.entries = append(l.entries, row)
		l.bytes += len(row.Payload)
	case pistore.Register:
		l.registers = append(l.registers, row)
		l.bytes += len(row.Value)
	}
	if len(l.entries)+len(l.registers) < lookupRows && l.bytes < lookupBytes {
		return nil
	}
	return l.flush()
}

func (l *lookup) flush() error {
	defer func() { l.entries, l.registers, l.bytes = l.entries[:0], l.registers[:0], 0 }()
	if err := l.damage(l.lookEntries(), "entries by id"); err != nil {
		return err
	}
	return l.damage(l.lookRegisters(), "registers by address")
}

func (l *lookup) lookEntries() error {
	if len(l.entries) == 0 {
		return nil
	}
	ids := make([]pistore.ID, len(l.entries))
	for i, e := range l.entries {
		ids[i] = e.ID
	}
	got, err := l.storage.Entries(l.ctx, ids)
	if err != nil {
		return err
	}
	found := make(map[pistore.ID]pistore.Entry, len(got))
	for _, e := range got {
		found[e.ID] = e
	}
	for _, want := range l.entries {
		switch e, ok := found[want.ID]; {
		case !ok:
			l.row(4, want.ID, want.Seq, "the entry is not found by its id")
		case e != want:
			l.row(4, want.ID, want.Seq, "the entry that is found by this id is another")
		}
	}
	return nil
}

func (l *lookup) lookRegisters() error {
	if len(l.registers) == 0 {
		return nil
	}
	at := make([]pistore.Address, len(l.registers))
	for i, r := range l.registers {
		at[i] = r.Address()
	}
	got, err := l.storage.Registers(l.ctx, at)
	if err != nil {
		return err
	}
	found := make(map[pistore.Address]pistore.Register, len(got))
	for _, r := range got {
		found[r.Address()] = r
	}
	for _, want := range l.registers {
		switch r, ok := found[want.Address()]; {
		case !ok:
			l.cell(4, want.Address(), "the register is not found by its address")
		case r != want:
			l.cell(4, want.Address(), "the register that is found at this address is another")
		}
	}
	return nil
}

// checkIndexes compares every listing with the rows; the check is deep.
func (c *checker) checkIndexes() error {
	if !c.deep {
		return nil
	}
	if err := c.checkEntryScan(); err != nil {
		return err
	}
	if err := c.checkUsageScan(); err != nil {
		return err
	}
	return c.checkListings()
}

func (c *checker) checkEntryScan() error {
	i := 0
	for e, err := range c.storage.ScanEntries(c.ctx, pistore.ScanQuery{StructureOnly: true}) {
		if err != nil {
			return err
		}
		if i == len(c.rows.nodes) || !c.rows.same(i, e) {
			c.row(4, e.ID, e.Seq, "the scan yields this entry where the rows have another")
			return nil
		}
		i++
	}
	if i < len(c.rows.nodes) {
		c.row(4, c.rows.nodes[i].id, c.rows.nodes[i].seq, "the scan ends before this entry")
	}
	return nil
}

func (c *checker) checkUsageScan() error {
	i := 0
	for u, err := range c.storage.ScanUsage(c.ctx, pistore.ScanQuery{}) {
		if err != nil {
			return err
		}
		if i == len(c.rows.usage) || c.rows.usage[i] != (usageRow{u.ID, u.Seq}) {
			c.row(4, u.ID, u.Seq, "the scan yields this usage row where the rows have another")
			return nil
		}
		i++
	}
	if i < len(c.rows.usage) {
		c.row(4, c.rows.usage[i].id, c.rows.usage[i].seq, "the scan ends before this usage row")
	}
	return nil
}

// checkListings compares the listing of each namespace with its registers.
func (c *checker) checkListings() error {
	byNamespace := map[string][]cell{}
	for _, cell := range c.rows.cells {
		byNamespace[cell.at.Namespace] = append(byNamespace[cell.at.Namespace], cell)
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		want := byNamespace[namespace]
		slices.SortFunc(want, func(a, b cell) int { return strings.Compare(a.at.Key, b.at.Key) })
		if err := c.checkListing(namespace, want); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkListing(namespace string, want []cell) error {
	i := 0
	for r, err := range c.storage.RegistersByPrefix(c.ctx, namespace, "") {
		if err != nil {
			return err
		}
		if i == len(want) || want[i].at != r.Address() || want[i].seq != r.Seq {
			c.cell(4, r.Address(), "the listing yields this register where the rows have another")
			return nil
		}
		i++
	}
	if i < len(want) {
		c.cell(4, want[i].at, "the listing ends before this register")
	}
	return nil
}
