package peers

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"pistore"
	"pistore/bench"
)

// The stores of the reference implementation.
const (
	JSONL  = "jsonl"
	Memory = "memory"
)

// driver is the program that runs in Node.
//
//go:embed node/driver.mjs
var driver string

// TypeScript is a store of the reference implementation, JSONL or Memory, as a
// process of Node from a folder that Install has filled. It measures itself, so
// that no pipe is in a figure. Neither store syncs, so JSONL is at level Process.
// It finds duplicate ids and missing parents, and takes and hands out objects
// where our stores take and hand out JSON.
func TypeScript(storage, folder string) bench.Candidate {
	name := "backend=typescript-" + storage
	if storage == JSONL {
		name += "/durability=" + pistore.Process.String()
	}
	t := typeScript{storage, folder}
	return bench.Candidate{Name: name, Run: t.run}
}

type typeScript struct{ storage, folder string }

// orders are what Node is to do.
type orders struct {
	Do       string `json:"do"` // commit, read, open or replay
	Storage  string `json:"storage"`
	Workload string `json:"workload"`
	Dir      string `json:"dir"`

	Ops        int64   `json:"ops"`        // 0: any number
	DurationMS float64 `json:"durationMS"` // 0: any time

	// Of commit.
	Sessions  int                 `json:"sessions,omitempty"`
	Templates [][]json.RawMessage `json:"templates,omitempty"`

	// Of the others: where the session is, and how much is read of it.
	Path string       `json:"path,omitempty"`
	Leaf pistore.ID   `json:"leaf,omitempty"`
	IDs  []pistore.ID `json:"ids,omitempty"`
	Want int          `json:"want,omitempty"`
}

// answer is what Node has measured, latencies in nanoseconds.
type answer struct {
	Error         string  `json:"error"`
	Node          string  `json:"node"`
	Ops           int64   `json:"ops"`
	ElapsedNS     int64   `json:"elapsedNS"`
	P50           float64 `json:"p50"`
	P99           float64 `json:"p99"`
	P999          float64 `json:"p999"`
	Longest       float64 `json:"longest"`
	Fewest        float64 `json:"fewest"`
	Most          float64 `json:"most"`
	ResidentBytes float64 `json:"residentBytes"`
	PeakBytes     float64 `json:"peakBytes"`
}

func (t typeScript) run(ctx context.Context, c bench.Config) (_ bench.Report, err error) {
	if err := Installed(t.folder); err != nil {
		return bench.Report{}, err
	}
	dir, err := os.MkdirTemp(c.Dir, "pistore-peers-")
	if err != nil {
		return bench.Report{}, fmt.Errorf("peers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil { // Node runs in another folder
		return bench.Report{}, fmt.Errorf("peers: %w", err)
	}
	o := orders{
		Storage: t.storage, Workload: c.Workload, Dir: dir, Ops: c.Ops,
		DurationMS: float64(c.Duration) / float64(time.Millisecond),
	}
	switch c.Workload {
	case bench.Turn, bench.Small, bench.Bulk:
		return t.commits(ctx, o, c)
	case "read-ids", "read-latest", "read-context", "read-structure":
		return t.reads(ctx, o, c)
	case "open", "replay":
		if t.storage == JSONL {
			return t.opens(ctx, o, c)
		}
	}
	return bench.Report{}, fmt.Errorf("%w: the reference implementation has no %s that compares", pistore.ErrUnsupported, c.Workload)
}

func (t typeScript) commits(ctx context.Context, o orders, c bench.Config) (bench.Report, error) {
	o.Do, o.Sessions = "commit", c.Sessions
	var err error
	if o.Templates, err = templates(c.Workload, c.Seed); err != nil {
		return bench.Report{}, err
	}
	a, err := t.obey(ctx, o)
	if err != nil {
		return bench.Report{}, err
	}
	r := a.report()
	if c.Sessions > 1 {
		r.Metrics[bench.FewestOps], r.Metrics[bench.MostOps] = a.Fewest, a.Most
	}
	return r, nil
}

// reads repeats a read of a session with a history.
func (t typeScript) reads(ctx context.Context, o orders, c bench.Config) (bench.Report, error) {
	h := &bench.History{Turns: c.Turns, Lanes: c.Lanes, Seed: c.Seed}
	o.Do, o.Path = "read", filepath.Join(o.Dir, "history.jsonl")
	if _, err := writeSession(o.Path, h); err != nil {
		return bench.Report{}, err
	}
	switch o.Workload {
	case "read-ids":
		o.IDs, o.Want = h.Sample(), len(h.Sample())
	case "read-latest":
		o.Want = min(50, c.Turns)
	case "read-context":
		o.Want = min(101, c.Turns) // a history has a compaction that far behind its leaf
	case "read-structure":
		o.Want = c.Turns
	}
	o.Leaf = h.Leaf()
	a, err := t.obey(ctx, o)
	return a.report(), err
}

// opens opens a session file: in one process again and again to replay it, or
// each time in a fresh one.
func (t typeScript) opens(ctx context.Context, o orders, c bench.Config) (bench.Report, error) {
	h := &bench.History{Turns: c.Turns, Lanes: max(1, c.Lanes), Seed: c.Seed}
	o.Do, o.Path = c.Workload, filepath.Join(o.Dir, "history.jsonl")
	var err error
	if o.Want, err = writeSession(o.Path, h); err != nil {
		return bench.Report{}, err
	}
	if o.Do == "replay" {
		a, err := t.obey(ctx, o)
		r := a.report()
		r.Metrics[bench.MBPerSecond] = float64(h.LogicalBytes()) * float64(a.Ops) / (float64(a.ElapsedNS) / 1e3)
		return r, err
	}
	var all answer
	var took []float64
	for begin := time.Now(); ; {
		a, err := t.obey(ctx, o)
		if err != nil {
			return bench.Report{}, err
		}
		took = append(took, float64(a.ElapsedNS))
		all.Node, all.Ops, all.ElapsedNS = a.Node, all.Ops+1, all.ElapsedNS+a.ElapsedNS
		all.ResidentBytes, all.PeakBytes = max(all.ResidentBytes, a.ResidentBytes), max(all.PeakBytes, a.PeakBytes)
		if all.Ops == c.Ops || c.Duration > 0 && time.Since(begin) >= c.Duration {
			break
		}
	}
	slices.Sort(took)
	at := func(per1000 int) float64 { return took[max(0, (len(took)*per1000+999)/1000-1)] }
	all.P50, all.P99, all.P999, all.Longest = at(500), at(990), at(999), at(1000)
	return all.report(), nil
}

func (a answer) report() bench.Report {
	return bench.Report{
		Parameters: []bench.Parameter{{Key: "node", Value: a.Node}}, Ops: a.Ops, ElapsedNS: a.ElapsedNS,
		Metrics: map[bench.Unit]float64{
			bench.P50: a.P50, bench.P99: a.P99, bench.P999: a.P999, bench.Longest: a.Longest,
			bench.Resident: a.ResidentBytes, bench.PeakResident: a.PeakBytes,
		},
	}
}

// obey has a process of Node do what is ordered.
func (t typeScript) obey(ctx context.Context, o orders) (a answer, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return a, fmt.Errorf("peers: %w", err)
	}
	cmd := exec.CommandContext(ctx, nodeIn(t.folder), "--input-type=module", "--eval", driver)
	cmd.Dir = t.folder // where the driver finds the packages
	cmd.Stdin = bytes.NewReader(text)
	said, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case err != nil:
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return a, fmt.Errorf("peers: node: %w: %.300q", err, failed.Stderr)
		}
		return a, fmt.Errorf("peers: node: %w", err)
	}
	if err := json.Unmarshal(said, &a); err != nil {
		return a, fmt.Errorf("peers: node answered %.200q: %w", said, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("peers: the reference implementation: %q", a.Error)
	}
	return a, nil
}
