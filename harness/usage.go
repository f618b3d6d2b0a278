package harness

import (
	"context"
	"fmt"

	"pistore"
)

// Spent is what an application spent beside the requests and tools of the
// harness.
type Spent struct {
	Usage    pistore.JSON // an object
	Purpose  string       // empty: "application"
	Provider string       // optional, as are the rest
	ModelID  string
	Tool     string
	EntryID  pistore.ID // an entry that it was spent for
}

// RecordUsage writes a row of the ledger, at any time, and returns its id. It
// changes nothing else. Errors: pistore.ErrInvalid, pistore.ErrTooLarge.
func (l *Lane) RecordUsage(ctx context.Context, s Spent) (id pistore.ID, err error) {
	if !s.Usage.IsObject() {
		return "", fmt.Errorf("harness: lane %s: %w: the usage is not a JSON object", l.name, pistore.ErrInvalid)
	}
	if s.Purpose == "" {
		s.Purpose = "application"
	}
	if err := l.take(ctx); err != nil {
		return "", err
	}
	defer l.give()
	_, err = l.decide(ctx, func(p *position, m mint, c *change) (*position, error) {
		id, c.moved = m.New(), true
		d := usageDetails{Lane: p.lane, Purpose: s.Purpose, Provider: s.Provider, ModelID: s.ModelID, Tool: s.Tool}
		if p.op != nil {
			d.OperationID = p.op.meta.OperationID
		}
		c.content = append(c.content, pistore.InsertUsage{ID: id, EntryID: s.EntryID, Usage: s.Usage, Details: d.encode()})
		return p, nil
	})
	if err != nil {
		return "", err
	}
	return id, nil
}
