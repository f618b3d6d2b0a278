package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"pistore"
	"pistore/bench"
	"pistore/bench/peers/page"
	"pistore/bench/peers/rows"
)

// errNotAll is that a part of what was asked for was not measured.
var errNotAll = errors.New("peers: not everything was measured; the results say what was not, and why")

// measureAll measures rows and gives the result of each away as it comes. What
// fails is a part of a result, and the next row is measured; an interrupted row
// is none.
func (q request) measureAll(ctx context.Context, progress io.Writer, give func(rows.Result) error) error {
	c := clock{progress: progress, begin: time.Now()}
	var all []rows.Row
	for _, name := range q.rows {
		r, _ := rows.Find(name)
		all = append(all, r.In(q.form))
		c.left += estimateRow(all[len(all)-1])
	}
	c.all = c.left
	c.say("%d rows, about %s", len(all), minutes(c.left))
	machine, revision := machineOf(q.dir), revision(ctx)
	var reached []string
	failed := false
	for _, r := range all {
		begin := time.Now()
		result := rows.Result{Row: r.Name, Run: q.name, Form: q.form, Revision: revision, Machine: machine}
		for _, t := range r.Tables {
			measured, err := q.table(ctx, r, t, &c)
			if err != nil {
				return err
			}
			failed = failed || measured.Failed != ""
			result.Tables = append(result.Tables, measured)
		}
		result.Measured, result.TookMS = time.Now().UTC().Truncate(time.Second), time.Since(begin).Milliseconds()
		if err := give(result); err != nil {
			return err
		}
		reached = append(reached, page.Summary(result))
		c.say("%s", reached[len(reached)-1])
	}
	fmt.Fprintf(progress, "\n%s\n", strings.Join(reached, "\n"))
	if failed {
		return errNotAll
	}
	return nil
}

// table runs the sides in turn. A side that fails has the reports of the rounds
// before. An error is that of the context; others are a part of what was measured.
func (q request) table(ctx context.Context, r rows.Row, t rows.Table, c *clock) (rows.Measured, error) {
	m := rows.Measured{Name: t.Name}
	for _, s := range t.Sides {
		m.Sides = append(m.Sides, rows.Reported{Label: s.Label, Reports: []bench.Report{}})
	}
	failed := make([]bool, len(t.Sides))
	for round := range t.Rounds {
		for i, s := range t.Sides {
			if failed[i] { // what fails once fails again
				c.left -= estimate(s)
				continue
			}
			c.say("row %s, %sround %d of %d: %s", r.Name, comma(t.Name), round+1, t.Rounds, s.Label)
			report, err := q.side(ctx, s)
			c.left -= estimate(s)
			if ctx.Err() != nil {
				return m, fmt.Errorf("peers: interrupted: %w", ctx.Err())
			}
			if err != nil {
				failed[i], m.Failed = true, strings.TrimPrefix(m.Failed+"; "+err.Error(), "; ")
				c.say("%s", err)
				continue
			}
			m.Sides[i].Reports = append(m.Sides[i].Reports, report)
		}
	}
	return m, nil
}

func comma(name string) string {
	if name == "" {
		return ""
	}
	return name + ", "
}

// clock says what goes on, and how long it will go on.
type clock struct {
	progress  io.Writer
	begin     time.Time
	all, left time.Duration // estimates
}

func (c *clock) say(text string, args ...any) {
	gone := time.Since(c.begin)
	left := c.left
	if done := c.all - c.left; done > time.Minute { // this machine is as fast as it has been until now
		left = time.Duration(float64(left) * min(4, float64(gone)/float64(done)))
	}
	fmt.Fprintf(c.progress, "%s, %s left: %s\n", minutes(gone), minutes(left), fmt.Sprintf(text, args...))
}

func minutes(d time.Duration) string {
	return fmt.Sprintf("%d:%02d min", int(d.Minutes()), int(d.Seconds())%60)
}

func estimateRow(r rows.Row) (all time.Duration) {
	for _, t := range r.Tables {
		all += estimateSides(t.Sides) * time.Duration(t.Rounds)
	}
	return all
}

func estimateSides(sides []rows.Side) (all time.Duration) {
	for _, s := range sides {
		all += estimate(s)
	}
	return all
}

// estimate is how long a side takes, roughly: its time, its history, which is
// made first, and what is behind.
func estimate(s rows.Side) time.Duration {
	w := s.Work
	d := 300*time.Millisecond + w.Duration + time.Duration(w.Turns)*time.Duration(max(1, sessionsWithHistory(w)))*30*time.Microsecond
	switch {
	case w.Workload == "open" || w.Workload == "open-killed":
		d += time.Duration(w.Ops) * (time.Second + time.Duration(w.Turns)*2*time.Microsecond)
	case w.Workload == "verify" && s.Work.Duration == 0, w.Workload == "disk":
		d += 2 * time.Second
	case w.Workload == "runs" || w.Workload == "runs-bare":
		d += time.Duration(w.Ops) * 300 * time.Microsecond
	case w.Duration == 0 && w.Ops > 0:
		d += time.Duration(w.Ops) * perCommit(s)
	}
	if s.Store.NeedsNode() {
		d += time.Second + time.Duration(w.Turns)*20*time.Microsecond
	}
	return d
}

// perCommit is how long a commit takes, roughly, for runs of so many.
func perCommit(s rows.Side) time.Duration {
	switch {
	case s.Store.NeedsNode():
		return 200 * time.Microsecond
	case s.Store.Level == pistore.Power && s.Work.Sessions == 1:
		return 500 * time.Microsecond
	case s.Store.Name == rows.SQLite:
		return 300 * time.Microsecond
	default:
		return 50 * time.Microsecond
	}
}

func sessionsWithHistory(c bench.Config) int {
	if strings.HasPrefix(c.Workload, "idle") {
		return c.Sessions
	}
	return 1
}

// revision is that of the source; empty where there is none. The results that a
// run has left are no change of it.
func revision(ctx context.Context) string {
	said, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(said))
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ":/*.go", ":/*.mod", ":/*.mjs").Run() != nil {
		name += " with changes"
	}
	return name
}
