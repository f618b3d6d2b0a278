package verify

import (
	"context"
	"fmt"

	"pistore"
)

// Options say how much is checked.
type Options struct {
	// Deep also reads every row a second time through every index, and has the
	// backend re-derive what it keeps beside the rows.
	Deep bool
}

// Check checks a session. It reads the rows once, by Export, and keeps their
// structure but no payloads. Beside the invariants it reports what the backend
// finds in itself, where it is a [pistore.Verifier].
//
// A damaged store is not an error but a report. An error says that reading
// failed, or, as ErrBusy, that commits came in between and what was read at
// different moments does not agree; the report holds what was found until then.
func Check(ctx context.Context, s pistore.Storage, o Options) (Report, error) {
	c := &checker{ctx: ctx, storage: s, deep: o.Deep}
	c.report.Checked.Transactions = -1
	err := c.check()
	return c.report, err
}

// checker is one check of one session.
type checker struct {
	collector
	ctx     context.Context
	storage pistore.Storage
	deep    bool

	rows rows
}

func (c *checker) check() error {
	history := readHistory(c.ctx, c.storage)
	defer history.stop()
	c.rows = newRows()
	if err := c.readRows(); err != nil {
		return fmt.Errorf("verify: read: %w", err)
	}
	c.checkEnds()
	if !c.report.Incomplete {
		c.checkParents()
		c.checkState()
		if err := c.checkProjections(); err != nil {
			return err
		}
	}
	if err := c.addHistory(history); err != nil {
		return fmt.Errorf("verify: history: %w", err)
	}
	if err := c.askBackend(); err != nil {
		return fmt.Errorf("verify: backend: %w", err)
	}
	return nil
}

// checkProjections compares what the store answers with the rows that it
// holds. The answers are of later moments than the rows, so a difference counts
// only if nothing was committed meanwhile.
func (c *checker) checkProjections() error {
	before := c.report.Errors
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"statistics", c.checkStats},
		{"branches", c.checkBranches},
		{"indexes", c.checkIndexes},
	} {
		if err := c.damage(step.run(), step.name); err != nil {
			return fmt.Errorf("verify: %s: %w", step.name, err)
		}
	}
	if c.report.Errors == before {
		return nil
	}
	next, err := c.nextSeq()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if next != c.rows.header.NextSeq {
		return fmt.Errorf("verify: %w: commits came in between (next seq was %d and is %d)", pistore.ErrBusy, c.rows.header.NextSeq, next)
	}
	return nil
}

// nextSeq reads the header again.
func (c *checker) nextSeq() (pistore.Seq, error) {
	for row, err := range c.storage.Export(c.ctx) {
		if err != nil {
			return 0, err
		}
		if h, ok := row.(pistore.Header); ok {
			return h.NextSeq, nil
		}
		break
	}
	return c.rows.header.NextSeq, nil // no header is a fault that is known
}

// askBackend adds what the backend finds in itself.
func (c *checker) askBackend() error {
	v, ok := pistore.Find[pistore.Verifier](c.storage)
	if !ok {
		return nil
	}
	for fault, err := range v.VerifyStorage(c.ctx, c.deep) {
		if err != nil {
			return c.damage(err, "backend")
		}
		if fault != nil {
			c.add(Fault{Invariant: fault.Invariant, Severity: Error, Place: fault.Place, Message: fault.Problem})
		}
	}
	return nil
}
