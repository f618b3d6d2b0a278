package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pistore"
	"pistore/logstore"
	"pistore/registers"
	"pistore/session"
	"pistore/verify"
)

// The demo: a scripted run, driven by processes that are really killed. The
// parent only kills, looks and counts; demo_agent.go is what it kills.

// demoTimeout is a guard; the demo takes a few seconds.
const demoTimeout = 55 * time.Second

var demoCommand = command{
	name: "demo", args: "[--keep DIR]",
	short: "a run that is killed twice, resumed, verified and shown",
	long: "A scripted agent run on a logstore, without keys or network. The processes\n" +
		"are real and really killed. Nothing is left behind unless --keep names a new\n" +
		"folder for it.",
	examples: []string{"pistore demo", "pistore demo --keep run"},
	run:      runDemo,
}

func runDemo(ctx context.Context, in *invocation) error {
	keep := in.flags.String("keep", "", "keep what the demo made in the new folder `DIR`")
	agent := in.flags.String("agent", "", "") // what the demo starts its processes with; not for people
	stall := in.flags.String("stall", "", "")
	rest, err := in.parse()
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError("demo takes no argument; see \"pistore help demo\"")
	}
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	if *agent != "" {
		return demoAgent(ctx, *agent, *stall)
	}
	d := &demo{out: in.out, silent: in.json}
	if in.set("keep") {
		if err := freshFolder(*keep); err != nil {
			return err
		}
		d.dir, d.report.Store = *keep, filepath.Join(*keep, "store")
	}
	if err := d.playOnce(ctx); err != nil {
		return &exitError{exitFindings, err}
	}
	if in.json {
		return in.out.object(d.report)
	}
	return nil
}

type demo struct {
	out    *paper
	silent bool
	dir    string // the store, and beside it the files that the tools write
	report demoReport
}

// demoReport is the JSON of demo.
type demoReport struct {
	Kills       int         `json:"kills"`
	NeverStarts int         `json:"neverStarts"` // of the tool that must not run again
	SafeStarts  int         `json:"safeStarts"`  // of the tool that may
	Requests    int64       `json:"requests"`
	Cost        number      `json:"cost"`
	Faults      []faultView `json:"faults"`
	Store       string      `json:"store,omitempty"` // where it was kept
}

// freshFolder makes a folder, or takes one that is empty.
func freshFolder(place string) error {
	if place == "" {
		return usageError("--keep takes a folder")
	}
	if err := os.MkdirAll(place, 0o700); err != nil {
		return cannotWrite(place, err)
	}
	there, err := os.ReadDir(place)
	if len(there) > 0 {
		return usageError(place + " is not empty; name a new folder for --keep")
	}
	return err
}

// playOnce plays the demo where it is kept, or in a new folder, which it removes
// again.
func (d *demo) playOnce(ctx context.Context) (err error) {
	if kept := d.dir != ""; kept {
		if err := d.play(ctx); err != nil {
			return err
		}
		d.say("\nKept; look at it with: pistore inspect %s", d.store())
		return nil
	}
	if d.dir, err = os.MkdirTemp("", "pistore-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	return d.play(ctx)
}

func (d *demo) store() string { return filepath.Join(d.dir, "store") }

// say prints lines at once, since what comes next may take a moment.
func (d *demo) say(format string, args ...any) {
	if d.silent {
		return
	}
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		d.out.whole(line)
	}
	_ = d.out.flush() // the last flush of the command reports the error
}

func (d *demo) play(ctx context.Context) error {
	d.say("An agent run that is killed twice and loses nothing\n")
	d.say("1  A process starts a run. The model answers with two tool calls:")
	d.say("   %s (replay: never) and %s (replay: safe).\n", orderTool, stockTool)
	if err := d.killDuring(ctx, orderTool); err != nil {
		return err
	}
	d.say("2  SIGKILL in the middle of %s. The dead process has left:", orderTool)
	if err := d.look(ctx); err != nil {
		return err
	}
	if err := d.killDuring(ctx, stockTool); err != nil {
		return err
	}
	d.say("3  A new process read the program counter and resumed. %s", orderTool)
	d.say("   did not run again: the model gets an interrupted result. Then")
	d.say("   SIGKILL in the middle of %s. The dead process has left:", stockTool)
	if err := d.look(ctx); err != nil {
		return err
	}
	if err := d.child(ctx, "").Run(); err != nil {
		return fmt.Errorf("the last process failed: %w", err)
	}
	d.say("4  A third process resumed. %s is safe, so it ran again, and the", stockTool)
	d.say("   run went on to its end:")
	return d.conclude(ctx)
}

// child is a process that drives the run and stays in one tool for good.
func (d *demo) child(ctx context.Context, stall string) *exec.Cmd {
	self, err := exec.LookPath(os.Args[0]) // under the name that this process runs by
	if err != nil {
		self, _ = os.Executable()
	}
	c := exec.CommandContext(ctx, self, "demo", "--agent", d.dir, "--stall", stall)
	c.Stderr = os.Stderr
	return c
}

// killDuring starts a process and kills it when it says that it is inside a
// tool.
func (d *demo) killDuring(ctx context.Context, name string) error {
	c := d.child(ctx, name)
	lines, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	inside := false
	for in := bufio.NewScanner(lines); in.Scan(); {
		if in.Text() == "inside "+name {
			inside = true
			if err := c.Process.Kill(); err != nil {
				return err
			}
			d.report.Kills++
		}
	}
	_ = c.Wait() // it was killed
	if !inside {
		return fmt.Errorf("the process ended before it was inside %s", name)
	}
	return nil
}

// look opens the store of the dead process as an operator would, and counts
// what the tools did outside it.
func (d *demo) look(ctx context.Context) error {
	return d.open(ctx, func(s pistore.Storage) error {
		words, err := laneInWords(ctx, s, registers.MainLane)
		if err != nil {
			return err
		}
		orders, stock, err := d.starts()
		if err != nil {
			return err
		}
		d.say("     inspect  %s", words)
		d.say("     outside  %s started %s, %s %s\n", orderTool, times(orders), stockTool, times(stock))
		return nil
	})
}

// open opens the demo's session read-only for a moment.
func (d *demo) open(ctx context.Context, use func(pistore.Storage) error) (err error) {
	store, err := logstore.Open(d.store(), logstore.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := store.Open(ctx, demoSession, pistore.ReadOnly)
	if err != nil {
		return err
	}
	return use(s)
}

// starts counts, outside the processes and the store, how often each tool was
// started: one line a start.
func (d *demo) starts() (orders, stock int, err error) {
	count := func(name string) int {
		text, readErr := os.ReadFile(filepath.Join(d.dir, name+".log"))
		if readErr != nil && !errors.Is(readErr, os.ErrNotExist) {
			err = readErr
		}
		return strings.Count(string(text), "\n")
	}
	return count(orderTool), count(stockTool), err
}

func times(n int) string {
	if n == 1 {
		return "1 time"
	}
	return fmt.Sprintf("%d times", n)
}

// conclude verifies the store and shows what the run came to.
func (d *demo) conclude(ctx context.Context) error {
	return d.open(ctx, func(s pistore.Storage) error {
		if err := d.transcript(ctx, s); err != nil {
			return err
		}
		stats, err := s.Stats(ctx)
		if err != nil {
			return err
		}
		d.say("\n   Cost: %s USD for %s input and %s output tokens, %d requests.",
			stats.Usage.Cost.Total, stats.Usage.Input, stats.Usage.Output, stats.Usage.Rows)
		report, err := verify.Check(ctx, s, verify.Options{Deep: true})
		if err != nil {
			return err
		}
		for _, f := range report.Faults {
			d.say("   fault: %+v", f)
		}
		orders, stock, err := d.starts()
		if err != nil {
			return err
		}
		d.report.NeverStarts, d.report.SafeStarts = orders, stock
		d.report.Requests, d.report.Cost = stats.Usage.Rows, number(stats.Usage.Cost.Total)
		d.report.Faults = faultViews(report.Faults)
		verdict := "store verified"
		if len(report.Faults) > 0 {
			verdict = fmt.Sprintf("store has %d faults", len(report.Faults))
		}
		d.say("\nnever tool: started %s; safe tool: started %s; %s", times(orders), times(stock), verdict)
		if orders != 1 || stock != 2 || len(report.Faults) > 0 {
			return errors.New("the demo did not go as it should")
		}
		return nil
	})
}

// transcript prints what the model has seen and said.
func (d *demo) transcript(ctx context.Context, s pistore.Storage) error {
	in := session.New(s)
	lane, err := in.Lane(ctx, registers.MainLane)
	if err != nil {
		return err
	}
	projected, err := in.Project(ctx, lane.Leaf, nil)
	if err != nil {
		return err
	}
	for _, p := range projected.Messages {
		switch m := p.Message.(type) {
		case *session.UserMessage:
			d.line("user", session.JoinText(m.Content))
		case *session.AssistantMessage:
			d.line("assistant", session.JoinText(m.Content))
			for _, c := range m.ToolCalls() {
				d.line("  calls", c.Name+" "+string(c.Arguments))
			}
		case *session.ToolResultMessage:
			who := "  result"
			if m.IsError {
				who = "  error"
			}
			d.line(who, m.ToolName+": "+session.JoinText(m.Content))
		}
	}
	return nil
}

// line prints a text beside who said it, wrapped at 80 columns.
func (d *demo) line(who, text string) {
	const indent = 16
	rows := wrapped(safe(text), columns-indent)
	for i, row := range rows {
		if i > 0 {
			who = ""
		}
		d.say("   %-13s%s", who, row)
	}
}

// wrapped breaks text between words.
func wrapped(text string, width int) []string {
	rows := []string{""}
	for _, word := range strings.Fields(text) {
		last := &rows[len(rows)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			rows = append(rows, word)
		}
	}
	return rows
}
