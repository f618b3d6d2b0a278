package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"pistore"
	"pistore/conformance"
	"pistore/conformance/internal/watch"
)

// childEnv is the environment variable that holds the orders of a child, in JSON.
const childEnv = "PISTORE_CRASH_CHILD"

// orders say what a child does until it is killed.
type orders struct {
	Program      string                   `json:"program"` // commit, compact, names
	Dir          string                   `json:"dir"`
	Level        string                   `json:"level"`
	Sessions     int                      `json:"sessions"`
	From         int                      `json:"from"` // of names: the first session that is new
	PayloadBytes int                      `json:"payloadBytes"`
	Lacks        []conformance.Capability `json:"lacks,omitempty"`
}

// Child returns at once, unless the kit has started this process to kill it: then
// it opens the backend, commits as it is ordered to, and does not return. Call it
// first of all in TestMain, or in the main function of the program that
// Config.Child names.
//
// Before and after each call that counts the child writes a line to stdout, with
// one call to the system: "begun commit 1 27" and "done commit 1 27", with the
// name of the call, the session, and a number.
func Child(open func(at Place) (pistore.Backend, error)) {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	err := obey(text, open)
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(1)
}

func obey(text string, open func(at Place) (pistore.Backend, error)) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("%s: %w", childEnv, err)
	}
	level, err := pistore.ParseDurability(o.Level)
	if err != nil {
		return err
	}
	var w watch.Watch // which has a name for what is missing
	b, err := open(Place{Dir: o.Dir, Level: level})
	if b, err = w.Backend("the function that crash.Child got", b, err); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return o.work(context.Background(), b, &w, lines{})
}

// lines is a listener that writes lines.
type lines struct{}

func (lines) begun(c call) { say("begun", c) }
func (lines) done(c call)  { say("done", c) }

// say writes one line with one write(2), so that a kill cannot tear it.
func say(when string, c call) { fmt.Fprintf(os.Stdout, "%s %s %d %d\n", when, c.what, c.session, c.n) }

// hear tells a listener of a line.
func hear(line string, to listener) error {
	var when string
	var c call
	if _, err := fmt.Sscan(line, &when, &c.what, &c.session, &c.n); err != nil {
		return unheard(line)
	}
	switch when {
	case "begun":
		to.begun(c)
	case "done":
		to.done(c)
	default:
		return unheard(line)
	}
	return nil
}

// callChild is what to do about a child that is not the kit's.
const callChild = "call crash.Child first of all in TestMain, or in the main function of the program of Config.Child"

func unheard(line string) error {
	return fmt.Errorf("the child wrote %.200q, which the kit's program does not: it ran its tests, or something else; %s", line, callChild)
}

// work makes calls until one fails.
func (o orders) work(ctx context.Context, b pistore.Backend, w *watch.Watch, to listener) error {
	c := Config{PayloadBytes: o.PayloadBytes, Lacks: o.Lacks}
	if o.Program == "names" {
		return o.names(newDriver(ctx, b, w, c.chain(), to), c)
	}
	every := 0
	if o.Program == "compact" {
		every = 8
	}
	ctx, stop := context.WithCancel(ctx) // one that fails ends them all, or nobody would hear of it
	defer stop()
	failed := make(chan error, o.Sessions)
	var group sync.WaitGroup
	for i := range o.Sessions {
		group.Go(func() {
			failed <- <-apart(func() error { return forever(newDriver(ctx, b, w, c.chain(), to), i, every) })
			stop()
		})
	}
	group.Wait()
	return <-failed
}

// forever commits to one session, and compacts it now and then.
func forever(d *driver, i, compactEvery int) error {
	err := d.resume(i)
	for n := 1; err == nil && d.ctx.Err() == nil; n++ {
		err = d.commit(i, 1)
		if err == nil && compactEvery > 0 && n%compactEvery == 0 {
			err = d.compact(i)
		}
	}
	return err
}

// names makes sessions and removes them, in every way that the backend has.
func (o orders) names(d *driver, c Config) (err error) {
	var made []int
	for i := o.From; err == nil; i += 2 {
		if err = d.create(i); err == nil {
			err = d.commit(i, 3)
		}
		if err == nil {
			err = d.close(i)
		}
		made = append(made, i)
		if err == nil && !c.lacks(conformance.NoLoad) {
			err = d.load(i+1, 7)
			made = append(made, i+1)
			if err == nil && !c.lacks(conformance.NoRewrite) {
				err = d.rewrite(i+1, 7)
			}
		}
		for ; len(made) > 6 && err == nil && !c.lacks(conformance.NoDelete); made = made[1:] {
			err = d.delete(made[0])
		}
	}
	return err
}

// command is the process that obeys.
func (o orders) command(c Config) (*exec.Cmd, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	if testing.Testing() {
		cmd.Args = append(cmd.Args, "-test.run=^$") // one that does not call Child ends at once
	}
	if c.Child != nil {
		cmd = c.Child()
	}
	cmd.Env = append(cmd.Environ(), childEnv+"="+string(text))
	return cmd, nil
}

// last keeps the end of what a child says on stderr.
type last struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (l *last) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-2000):]
	return len(p), nil
}

func (l *last) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
