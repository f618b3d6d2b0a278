package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"pistore"
)

// Config says which work is done, and how much of it. The zero value of each
// field but Workload is usable.
type Config struct {
	Workload string // its name in [Workloads]
	Seed     uint64 // of all content

	// Ops is how many operations there are, of all sessions together; Duration
	// is how long they are repeated. With both, whichever ends first. With
	// neither the workload says.
	Ops      int64
	Duration time.Duration

	// Parameters of workloads; those that use one say so. 0 is a workload's own.
	Sessions  int   // at once
	Turns     int   // of history that a session has before
	Lanes     int   // that the history is interleaved of
	Tools     int   // calls in a run
	Unflushed int64 // bytes that were committed last before a kill

	// Dir is where stores are made, each in a new folder that is removed
	// afterwards. Empty: the system's folder for temporary files, which may be
	// memory.
	Dir string

	// Child returns a process that calls [Obey] with these orders, over the same
	// Candidate. Workloads that need a fresh process, or one to kill, fail
	// without it.
	Child func(orders string) *exec.Cmd `json:"-"`

	// Progress, if set, can be asked from another goroutine how far the run is.
	Progress *Progress `json:"-"`
}

// Progress tells how far a run is.
type Progress struct {
	phase atomic.Pointer[string]
	done  atomic.Int64
}

// String says what goes on.
func (p *Progress) String() string {
	phase := "preparing"
	if s := p.phase.Load(); s != nil {
		phase = *s
	}
	if n := p.done.Load(); n > 0 {
		phase += fmt.Sprintf(", %d done", n)
	}
	return phase
}

func (p *Progress) enter(phase string) {
	p.phase.Store(&phase)
	p.done.Store(0)
}

// Run does a workload over a candidate and returns what was measured.
func Run(ctx context.Context, candidate Candidate, c Config) (report Report, err error) {
	w, ok := Find(c.Workload)
	if !ok {
		return Report{}, fmt.Errorf("bench: %w: workload %.64q is none of %s", pistore.ErrInvalid, c.Workload, strings.Join(names(), ", "))
	}
	if c, err = w.complete(c); err != nil {
		return Report{}, err
	}
	report = newReport(candidate.Name, w, c)
	if candidate.Run != nil {
		theirs, err := candidate.Run(ctx, c)
		if err != nil {
			return Report{}, fmt.Errorf("bench: %s: %s: %w", candidate.Name, w.Name, err)
		}
		report.take(theirs)
		return report, nil
	}
	if candidate.Open == nil {
		return Report{}, fmt.Errorf("bench: %w: candidate %s can neither Open nor Run", pistore.ErrInvalid, candidate.Name)
	}
	dir, err := os.MkdirTemp(c.Dir, "pistore-bench-")
	if err != nil {
		return Report{}, fmt.Errorf("bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.Dir = dir
	r := &run{Config: c, workload: w, open: candidate.Open, report: &report}
	if err := w.run(ctx, r); err != nil {
		return Report{}, fmt.Errorf("bench: %s: %s: %w", candidate.Name, w.Name, err)
	}
	return report, nil
}

// complete returns a Config in which everything is set that the workload uses,
// and nothing else, so that two reports of one name are of the same work.
func (w Workload) complete(c Config) (Config, error) {
	if c.Ops < 0 || c.Duration < 0 || c.Sessions < 0 || c.Turns < 0 || c.Lanes < 0 || c.Tools < 0 || c.Unflushed < 0 {
		return c, fmt.Errorf("bench: %w: a negative number of something", pistore.ErrInvalid)
	}
	for name, field := range map[string]*int{"sessions": &c.Sessions, "turns": &c.Turns, "lanes": &c.Lanes, "tools": &c.Tools} {
		switch own, uses := w.Defaults[name]; {
		case !uses && *field != 0:
			return c, fmt.Errorf("bench: %w: the workload %s has no %s", pistore.ErrInvalid, w.Name, name)
		case uses && *field == 0:
			*field = int(own)
		}
	}
	own, uses := w.Defaults["unflushed"]
	if !uses && c.Unflushed != 0 {
		return c, fmt.Errorf("bench: %w: the workload %s has no unflushed", pistore.ErrInvalid, w.Name)
	}
	if uses && c.Unflushed == 0 {
		c.Unflushed = own
	}
	if c.Ops == 0 && c.Duration == 0 {
		c.Ops = w.Ops
		if c.Ops == 0 {
			c.Duration = time.Second
		}
	}
	if c.Progress == nil {
		c.Progress = new(Progress)
	}
	return c, nil
}

// Find returns the workload of a name.
func Find(name string) (Workload, bool) {
	all := Workloads()
	if i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name }); i >= 0 {
		return all[i], true
	}
	return Workload{}, false
}

func names() []string {
	var all []string
	for _, w := range Workloads() {
		all = append(all, w.Name)
	}
	return all
}
