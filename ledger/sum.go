package ledger

import (
	"fmt"

	"pistore"
)

// The known fields, in the order of [pistore.Totals]; those of cost come last.
const (
	input = iota
	output
	cacheRead
	cacheWrite
	cacheWrite1h
	reasoning
	totalTokens
	costInput
	costOutput
	costCacheRead
	costCacheWrite
	costTotal
	fields
)

// Sum adds up usage rows. The zero value is the sum of none; a Sum may be
// copied, and a copy goes its own way. It is not safe for concurrent use.
type Sum struct {
	rows, unusable int64
	sums           [fields]number
}

// Add adds a row of the ledger.
func (s *Sum) Add(row pistore.UsageRow) { s.AddUsage(row.Usage, row.Adjustment) }

// AddUsage adds a row by what counts of it: its usage, and whether it is an
// adjustment, whose numbers may be negative. A usage that is no JSON object,
// which no row has, is unusable.
func (s *Sum) AddUsage(usage pistore.JSON, adjustment bool) {
	// Of duplicate members the last one wins, so nothing is added before all
	// are read.
	var values [fields]pistore.JSON
	unusable := !usage.IsObject()
	var cost pistore.JSON
	for name, value := range usage.Members() {
		if name == "cost" {
			cost = value
		} else if f := tokenField(name); f >= 0 {
			values[f] = value
		}
	}
	if cost != "" && !cost.IsObject() {
		unusable = true
	}
	for name, value := range cost.Members() {
		if f := costField(name); f >= 0 {
			values[f] = value
		}
	}
	for f, value := range values {
		if value == "" {
			continue
		}
		l, ok := parseLiteral(string(value))
		if !ok || l.neg && !adjustment && !l.zero() {
			unusable = true
			continue
		}
		s.sums[f].add(l)
	}
	s.rows++
	if unusable {
		s.unusable++
	}
}

// Unusable returns how many of the rows added so far had an unusable value.
func (s *Sum) Unusable() int64 { return s.unusable }

// AddTotals adds totals that a Sum returned before, exactly: a stored sum goes
// on from where it was, and sums of parts add up to that of the whole. Totals
// that no Sum returns are ErrInvalid, and nothing is added.
func (s *Sum) AddTotals(t pistore.Totals) error {
	if t.Rows < 0 || t.Unusable < 0 || t.Unusable > t.Rows {
		return fmt.Errorf("ledger: %w: %d rows, %d of them unusable", pistore.ErrInvalid, t.Rows, t.Unusable)
	}
	var added [fields]number
	for f, d := range decimals(&t) {
		var err error
		if added[f], err = parseDecimal(*d); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	for f := range added {
		s.sums[f].addNumber(added[f])
	}
	s.rows += t.Rows
	s.unusable += t.Unusable
	return nil
}

// Totals returns the sums as canonical decimals.
func (s *Sum) Totals() pistore.Totals {
	// One string holds all texts, since this runs with each commit that writes
	// usage.
	var room [256]byte
	text := room[:0]
	var ends [fields]int
	for f := range s.sums {
		text = s.sums[f].append(text)
		ends[f] = len(text)
	}
	all := string(text)
	t := pistore.Totals{Rows: s.rows, Unusable: s.unusable}
	start := 0
	for f, d := range decimals(&t) {
		*d = pistore.Decimal(all[start:ends[f]])
		start = ends[f]
	}
	return t
}

// Zero returns the totals of no rows.
func Zero() pistore.Totals { return new(Sum).Totals() }

// decimals returns where t holds each field.
func decimals(t *pistore.Totals) [fields]*pistore.Decimal {
	return [fields]*pistore.Decimal{
		input:          &t.Input,
		output:         &t.Output,
		cacheRead:      &t.CacheRead,
		cacheWrite:     &t.CacheWrite,
		cacheWrite1h:   &t.CacheWrite1h,
		reasoning:      &t.Reasoning,
		totalTokens:    &t.TotalTokens,
		costInput:      &t.Cost.Input,
		costOutput:     &t.Cost.Output,
		costCacheRead:  &t.Cost.CacheRead,
		costCacheWrite: &t.Cost.CacheWrite,
		costTotal:      &t.Cost.Total,
	}
}

// tokenField returns the field of a member of a usage object, -1 if it is not
// known. Names are matched in exact case.
func tokenField(name string) int {
	switch name {
	case "input":
		return input
	case "output":
		return output
	case "cacheRead":
		return cacheRead
	case "cacheWrite":
		return cacheWrite
	case "cacheWrite1h":
		return cacheWrite1h
	case "reasoning":
		return reasoning
	case "totalTokens":
		return totalTokens
	default:
		return -1
	}
}

// costField is tokenField for a member of its cost.
func costField(name string) int {
	switch name {
	case "input":
		return costInput
	case "output":
		return costOutput
	case "cacheRead":
		return costCacheRead
	case "cacheWrite":
		return costCacheWrite
	case "total":
		return costTotal
	default:
		return -1
	}
}
