// Command peers compares pistore with its peers, in pairs, on this machine: see
// README.md of the module.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"pistore/bench"
	"pistore/bench/peers"
	"pistore/bench/stores"
)

const usage = `usage: peers [flags]          compare, in pairs
       peers install [flags]  fetch Node and the reference implementation

`

// childStore and childOrders are the environment in which a run starts this
// program again, as a process that opens a store.
const childStore, childOrders = "PISTORE_PEERS_STORE", "PISTORE_PEERS_ORDERS"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if name := os.Getenv(childStore); name != "" {
		err = obey(ctx, name, os.Getenv(childOrders))
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// request is what the command line asks for.
type request struct {
	rows     []int
	pairs    int // 0: as many as a row asks for
	duration time.Duration
	turns    int
	seed     uint64
	dir      string
	node     string
	json     bool
	built    string // where the program is that opens session files
}

func parse(args []string, help io.Writer) (q request, install bool, err error) {
	if q.node, err = peers.DefaultNode(); err != nil {
		return q, false, err
	}
	if install = len(args) > 0 && args[0] == "install"; install {
		args = args[1:]
	}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is told once, by who gets it
	flags.StringVar(&q.node, "node", q.node, "`folder` of Node and the reference implementation")
	if !install {
		flags.Func("row", "`number` of a row, again for more; all if there is none", func(text string) error {
			n, err := strconv.Atoi(text)
			if err == nil {
				if _, ok := find(n); !ok {
					err = fmt.Errorf("there is no such row; there are %v", numbers())
				}
			}
			q.rows = append(q.rows, n)
			return err
		})
		flags.IntVar(&q.pairs, "pairs", 0, "how many; 0: as many as a row asks for, 5 or 9")
		flags.DurationVar(&q.duration, "duration", 0, "of each run of commits or reads; 0: as a row asks for")
		flags.IntVar(&q.turns, "turns", 100_000, "of the histories that are opened and read")
		flags.Uint64Var(&q.seed, "seed", 1, "of all content")
		flags.StringVar(&q.dir, "dir", "", "`folder` in which stores are made and removed; empty: that for temporary files, which may be memory")
		flags.BoolVar(&q.json, "json", false, "print every report and ratio as JSON")
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(help, usage)
		flags.SetOutput(help)
		flags.PrintDefaults()
		return q, install, err
	} else if err != nil {
		return q, install, fmt.Errorf("peers: %w; --help tells what there is", err)
	}
	if flags.NArg() > 0 {
		return q, install, fmt.Errorf("peers: %q is neither a flag nor install", flags.Arg(0))
	}
	if q.pairs < 0 || q.duration < 0 || q.turns < 0 {
		return q, install, errors.New("peers: a negative number of something")
	}
	if len(q.rows) == 0 {
		q.rows = numbers()
	}
	return q, install, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	q, install, err := parse(args, out)
	if err != nil {
		return err
	}
	if install {
		if err := peers.Install(ctx, q.node, progress); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, q.node)
		return err
	}
	if err := q.ready(); err != nil {
		return err
	}
	remove, err := q.build(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var results []result
	for _, n := range q.rows {
		r, _ := find(n)
		var measured result
		measured, err = q.measure(ctx, r, progress)
		if len(measured.Cells) > 0 {
			results = append(results, measured)
		}
		if err != nil {
			break // what there is already is shown
		}
	}
	if len(results) == 0 {
		return err
	}
	if q.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return errors.Join(err, e.Encode(results))
	}
	return errors.Join(err, printTable(out, results))
}

// ready says before an hour of work if a part of it cannot be done.
func (q request) ready() error {
	for _, n := range q.rows {
		r, _ := find(n)
		for _, c := range r.cells {
			if c.b.name != typescriptJSONL && c.b.name != typescriptMemory {
				continue
			}
			if err := peers.Installed(q.node); err != nil {
				return fmt.Errorf("row %d: %w", n, err)
			}
		}
	}
	return nil
}

// obey is the work of a process that a run has started.
func obey(ctx context.Context, name, orders string) error {
	s, err := parseStore(name)
	if err != nil {
		return err
	}
	c, err := s.candidate("")
	if err != nil {
		return err
	}
	return bench.Obey(ctx, orders, c.Open, os.Stdout)
}

// child returns how to start a process that obeys: this program again, or the
// one that opens session files.
func (q request) child(s store, workload string) (func(string) *exec.Cmd, error) {
	program, err := os.Executable()
	if opensFiles(s, workload) {
		program = filepath.Join(q.built, "open")
	}
	if err != nil {
		return nil, err
	}
	return func(orders string) *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), childStore+"="+s.String(), childOrders+"="+orders)
		cmd.Stderr = os.Stderr
		return cmd
	}, nil
}

func opensFiles(s store, workload string) bool { return s.name == stores.JSONL && workload == "open" }

// build builds the program that opens session files, if a row needs it.
func (q *request) build(ctx context.Context) (remove func() error, err error) {
	needed := slices.ContainsFunc(q.rows, func(n int) bool {
		r, _ := find(n)
		return slices.ContainsFunc(r.cells, func(c cell) bool { return opensFiles(c.a, c.ofA.Workload) })
	})
	if !needed {
		return func() error { return nil }, nil
	}
	if q.built, err = os.MkdirTemp("", "pistore-peers-"); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	remove = func() error { return os.RemoveAll(q.built) }
	said, err := exec.CommandContext(ctx, "go", "build", "-o", q.built, "pistore/bench/peers/cmd/open").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("peers: row 6 needs a program that is built in the folder bench/peers: %w: %.300q", err, said)
		return nil, errors.Join(err, remove())
	}
	return remove, nil
}
