package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"pistore"
	"pistore/harness"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/tool"
)

// runsOfSession is how many runs a session does before a new one takes over, so
// that the context of a run stays short however long a measurement takes.
const runsOfSession = 16

// script is what scripted runs need of the world.
type script struct {
	options harness.Options
	prompt  string
}

// newScript makes a script of runs with so many calls, one after the other, and
// then an answer. The provider answers at once and in one piece.
func newScript(seed uint64, tools int) (*script, error) {
	w := newWriter(seed)
	var steps []faux.Step
	for range tools {
		steps = append(steps, faux.Call("read", pistore.JSON(`{"path":`+w.quoted(30)+`}`)))
	}
	steps = append(steps, faux.Text(w.text(800)))
	always := func(provider.Request) bool { return true }
	result := w.text(1000)
	set, err := tool.NewSet(tool.Tool{
		Name: "read", Description: "reads a file", Replay: registers.ReplaySafe,
		Parameters: `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`,
		Execute:    func(context.Context, tool.Call) (tool.Result, error) { return tool.Text(result), nil },
	})
	if err != nil {
		return nil, err
	}
	return &script{
		prompt: w.text(200),
		options: harness.Options{
			Providers: provider.NewSet(faux.New(faux.Options{
				Script: faux.Script{{Name: "run", Match: always, Turns: faux.Turns(steps...)}}, ChunkRunes: 1 << 20, Forget: true,
			})),
			Tools: set, Configuration: configuration("read"), Compaction: harness.Compaction{ByHand: true},
		},
	}, nil
}

// open starts a harness over a session.
func (s *script) open(ctx context.Context, storage pistore.Storage) (*harness.Harness, *harness.Lane, error) {
	h, err := harness.New(storage, s.options)
	if err != nil {
		return nil, nil, err
	}
	lane, err := h.Lane(ctx, registers.MainLane)
	if err != nil {
		return nil, nil, errors.Join(err, h.Close(ctx))
	}
	return h, lane, nil
}

// run does one run and waits for its end.
func (s *script) run(ctx context.Context, lane *harness.Lane) error {
	handle, err := lane.Prompt(ctx, harness.Prompt{Text: s.prompt})
	if err != nil {
		return err
	}
	result, err := handle.Wait(ctx)
	if err == nil && (result.Ended == nil || result.Ended.Outcome != registers.Completed) {
		err = fmt.Errorf("a scripted run came to %+v", result)
	}
	return err
}

// runner does the runs of one session after the other.
type runner struct {
	script  *script
	create  func() (pistore.Storage, error)
	left    int // runs of this session
	storage pistore.Storage
	harness *harness.Harness
	lane    *harness.Lane
	all     tally // the commits of all its sessions
	ofRuns  tally // those of runs among them
}

// tally counts commits and the logical bytes in them.
type tally struct{ commits, bytes atomic.Int64 }

func (t *tally) add(tx pistore.Tx) {
	t.commits.Add(1)
	t.bytes.Add(logicalBytes(tx))
}

// prepare has a session ready for the next run.
func (r *runner) prepare(ctx context.Context) error {
	if r.left > 0 {
		return nil
	}
	if err := r.close(ctx); err != nil {
		return err
	}
	s, err := r.create()
	if err != nil {
		return err
	}
	r.storage, r.left = s, runsOfSession
	r.harness, r.lane, err = r.script.open(ctx, countingCommits{s, &r.all})
	return err
}

func (r *runner) run(ctx context.Context) error {
	r.left--
	commits, bytes := r.all.commits.Load(), r.all.bytes.Load()
	err := r.script.run(ctx, r.lane)
	r.ofRuns.commits.Add(r.all.commits.Load() - commits)
	r.ofRuns.bytes.Add(r.all.bytes.Load() - bytes)
	return err
}

func (r *runner) close(ctx context.Context) error {
	var err error
	if r.harness != nil {
		err = r.harness.Close(ctx)
	}
	if r.storage != nil {
		err = errors.Join(err, r.storage.Close())
	}
	r.harness, r.storage = nil, nil
	return err
}

// countingCommits counts the commits of a session.
type countingCommits struct {
	pistore.Storage
	of *tally
}

func (c countingCommits) Unwrap() pistore.Storage { return c.Storage }

func (c countingCommits) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	c.of.add(tx)
	return c.Storage.Commit(ctx, tx)
}

// runs does scripted runs.
func runs(ctx context.Context, r *run) error {
	script, err := newScript(r.Seed, r.Tools)
	if err != nil {
		return err
	}
	var runners []*runner
	return r.sideBySide(ctx, func(create func() (pistore.Storage, error)) (*worker, func() error) {
		s := &runner{script: script, create: create}
		runners = append(runners, s)
		return &worker{before: func() error { return s.prepare(ctx) }, do: s.run}, func() error { return s.close(context.WithoutCancel(ctx)) }
	}, func() (commits, bytes int64) {
		for _, s := range runners {
			commits, bytes = commits+s.ofRuns.commits.Load(), bytes+s.ofRuns.bytes.Load()
		}
		return commits, bytes
	})
}

// prepareAll prepares workers at once, so that they share syncs.
func prepareAll(workers []*worker) error {
	failed := make([]error, len(workers))
	var work sync.WaitGroup
	for i, w := range workers {
		work.Go(func() { failed[i] = w.prepare() })
	}
	work.Wait()
	return first(failed)
}

// sideBySide has workers share a store, each with sessions of its own, and
// reports. add makes one worker, and what ends its work; written tells how many
// commits there were in the end, and how many bytes in them.
func (r *run) sideBySide(ctx context.Context, add func(create func() (pistore.Storage, error)) (*worker, func() error), written func() (commits, bytes int64)) (err error) {
	store, err := r.open(r.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var sessions atomic.Int64
	create := func() (pistore.Storage, error) {
		return store.Create(ctx, pistore.Info{ID: sessionID(int(sessions.Add(1)))})
	}
	var workers []*worker
	for range r.Sessions {
		w, end := add(create)
		defer func() { err = errors.Join(err, end()) }()
		workers = append(workers, w)
	}
	r.Progress.enter("creating sessions") // the first ones are there before the clock starts
	if err := prepareAll(workers); err != nil {
		return err
	}
	r.Progress.enter("running")
	used := newGauge(store)
	if err := r.repeat(ctx, workers); err != nil {
		return err
	}
	used.report(r.report, allocations{})
	commits, bytes := written()
	r.report.perOp(CommitsPerOp, float64(commits))
	r.report.perOp(LogicalBytes, float64(bytes))
	r.report.Metrics[PerEffect] = r.report.Metrics[PerOp] / float64(2*r.Tools+1)
	r.report.Metrics[CommitRate] = r.report.Metrics[CommitsPerOp] * r.report.Metrics[PerSecond]
	return nil
}
