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
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"pistore/bench/peers"
)

const usage = `usage: peers [flags]          compare, in pairs
       peers install [flags]  fetch Node and the reference implementation

`

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
	results, err := q.all(ctx, progress)
	switch {
	case len(results) == 0:
		return err
	case q.json:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return errors.Join(err, e.Encode(results))
	default:
		return errors.Join(err, printTable(out, results))
	}
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
