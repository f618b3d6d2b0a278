package bench

import (
	"context"
	"errors"
	"slices"

	"pistore"
	"pistore/memstore"
)

// recorded are the transactions of a session of scripted runs.
type recorded struct {
	prelude []pistore.Tx   // before the first run
	runs    [][]pistore.Tx // of each run
}

// recording keeps the transactions of a session.
type recording struct {
	pistore.Storage
	txs []pistore.Tx // of one lane, so one after the other
}

func (c *recording) Unwrap() pistore.Storage { return c.Storage }

func (c *recording) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	c.txs = append(c.txs, pistore.Tx{Writes: slices.Clone(tx.Writes), Expect: slices.Clone(tx.Expect)})
	return c.Storage.Commit(ctx, tx)
}

// record does the runs of one session in memory.
func record(ctx context.Context, s *script) (out recorded, err error) {
	b := memstore.New(memstore.Options{})
	defer func() { err = errors.Join(err, b.Close()) }()
	storage, err := b.Create(ctx, pistore.Info{})
	if err != nil {
		return out, err
	}
	c := &recording{Storage: storage}
	h, lane, err := s.open(ctx, c)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, h.Close(ctx)) }()
	out.prelude, c.txs = c.txs, nil
	for range runsOfSession {
		if err := s.run(ctx, lane); err != nil {
			return out, err
		}
		out.runs = append(out.runs, c.txs)
		c.txs = nil
	}
	return out, nil
}

// runsBare commits what scripted runs commit.
func runsBare(ctx context.Context, r *run) error {
	script, err := newScript(r.Seed, r.Tools)
	if err != nil {
		return err
	}
	r.Progress.enter("recording")
	kept, err := record(ctx, script)
	if err != nil {
		return err
	}
	var played tally
	return r.sideBySide(ctx, func(create func() (pistore.Storage, error)) (*worker, func() error) {
		p := &player{recorded: kept, create: create, played: &played}
		return &worker{before: func() error { return p.prepare(ctx) }, do: p.run}, p.close
	}, func() (commits, bytes int64) { return played.commits.Load(), played.bytes.Load() })
}

// player commits recorded runs, to one session after the other.
type player struct {
	recorded
	create  func() (pistore.Storage, error)
	played  *tally
	session pistore.Storage
	done    int
}

func (p *player) prepare(ctx context.Context) error {
	if p.session != nil && p.done < len(p.runs) {
		return nil
	}
	err := p.close()
	if err != nil {
		return err
	}
	if p.session, err = p.create(); err != nil {
		return err
	}
	p.done = 0
	for _, tx := range p.prelude {
		if _, err := p.session.Commit(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) run(ctx context.Context) error {
	for _, tx := range p.runs[p.done] {
		if _, err := p.session.Commit(ctx, tx); err != nil {
			return err
		}
		p.played.add(tx)
	}
	p.done++
	return nil
}

func (p *player) close() error {
	if p.session == nil {
		return nil
	}
	s := p.session
	p.session = nil
	return s.Close()
}
