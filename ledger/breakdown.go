package ledger

import (
	"cmp"
	"slices"

	"pistore"
)

// Dimension is what a [Breakdown] groups rows by.
type Dimension int

// The dimensions. All but the day are read from a row's details.
const (
	ByModel   Dimension = iota // provider and modelId
	ByTool                     // toolName
	ByLane                     // lane
	ByPurpose                  // purpose
	ByDay                      // the UTC day of the row's id, as in 2025-03-09
	dimensions
)

// Group holds the totals of the rows that agree in one dimension.
type Group struct {
	Provider string // by model only
	// Name is the model, tool, lane, purpose or day. It is empty for the rows
	// that name none, so that the groups of a dimension add up to everything.
	Name   string
	Totals pistore.Totals
}

// Breakdown adds up usage rows, of one session or of many, in every dimension
// at once. The zero value is ready; it must not be copied after the first Add,
// and it is not safe for concurrent use.
type Breakdown struct {
	all    Sum
	groups [dimensions]map[groupKey]*Sum
}

type groupKey struct{ provider, name string }

// Add adds a row.
func (b *Breakdown) Add(row pistore.UsageRow) {
	var keys [dimensions]groupKey
	for name, value := range row.Details.Members() {
		switch name {
		case "provider":
			keys[ByModel].provider, _ = value.Text()
		case "modelId":
			keys[ByModel].name, _ = value.Text()
		case "toolName":
			keys[ByTool].name, _ = value.Text()
		case "lane":
			keys[ByLane].name, _ = value.Text()
		case "purpose":
			keys[ByPurpose].name, _ = value.Text()
		}
	}
	if keys[ByModel].name == "" {
		keys[ByModel].provider = "" // a provider without a model names no model
	}
	if t, ok := row.ID.Time(); ok {
		keys[ByDay].name = t.Time().UTC().Format("2006-01-02")
	}
	b.all.Add(row)
	for d, key := range keys {
		sum := b.groups[d][key]
		if sum == nil {
			if b.groups[d] == nil {
				b.groups[d] = make(map[groupKey]*Sum)
			}
			sum = new(Sum)
			b.groups[d][key] = sum
		}
		sum.Add(row)
	}
}

// Totals returns the totals of all rows.
func (b *Breakdown) Totals() pistore.Totals { return b.all.Totals() }

// By returns the groups of a dimension, by rising provider and name, and last the
// one without a name. It panics on a dimension that does not exist.
func (b *Breakdown) By(d Dimension) []Group {
	if d < 0 || d >= dimensions {
		panic("ledger: unknown dimension")
	}
	groups := make([]Group, 0, len(b.groups[d]))
	for key, sum := range b.groups[d] {
		groups = append(groups, Group{Provider: key.provider, Name: key.name, Totals: sum.Totals()})
	}
	slices.SortFunc(groups, func(a, b Group) int {
		if (a.Name == "") != (b.Name == "") {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name))
	})
	return groups
}
