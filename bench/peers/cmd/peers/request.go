package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pistore/bench/peers"
	"pistore/bench/peers/rows"
)

const usage = `usage: peers install [flags]  fetch Node and the reference implementation
       peers page [flags]     compare, keep what was measured, and write BENCHMARKS.md
       peers [flags]          compare, and print it

`

// The commands beside the one without a name.
const install, writePage = "install", "page"

// request is what the command line asks for.
type request struct {
	command string
	rows    []string
	form    rows.Form
	seed    uint64
	dir     string
	node    string
	out     string // where the page goes, and all that belongs to it
	name    string // of the run, which is when it began
	more    bool   // go on with the run before
	render  bool   // only write the page
	json    bool
	built   string // where the program is that opens session files
}

func parse(args []string, help io.Writer) (q request, err error) {
	if q.node, err = peers.DefaultNode(); err != nil {
		return q, err
	}
	if len(args) > 0 && (args[0] == install || args[0] == writePage) {
		q.command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is told once, by who gets it
	flags.StringVar(&q.node, "node", q.node, "`folder` of Node and the reference implementation")
	quick, gib := new(bool), new(bool)
	if q.command != install {
		flags.Func("row", "`name` of a row, again for more; all if there is none: "+strings.Join(rows.Names(), " "), q.addRow)
		flags.Uint64Var(&q.seed, "seed", 1, "of all content")
		flags.StringVar(&q.dir, "dir", "", "`folder` in which stores are made and removed; empty: that for temporary files, which may be memory")
		quick = flags.Bool("quick", false, "short, one round, little content: for trying")
		gib = flags.Bool("gib", false, "one round with 1 GiB of content a side, of the rows that have such a form")
	}
	switch q.command {
	case writePage:
		flags.StringVar(&q.out, "out", "", "`folder` of the page, its charts and results; empty: the repository, or with --quick a folder in --dir")
		flags.BoolVar(&q.more, "continue", false, "go on with a run that was interrupted: rows that it has are not measured again")
		flags.BoolVar(&q.render, "render", false, "measure nothing, write the page from the results that there are")
	case "":
		flags.BoolVar(&q.json, "json", false, "print results as JSON")
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(help, usage)
		flags.SetOutput(help)
		flags.PrintDefaults()
		return q, err
	} else if err != nil {
		return q, fmt.Errorf("peers: %w; --help tells what there is", err)
	}
	switch {
	case flags.NArg() > 0:
		return q, fmt.Errorf("peers: %q is no flag, and the commands are install and page", flags.Arg(0))
	case *quick && *gib:
		return q, errors.New("peers: --quick and --gib exclude each other")
	case q.render && (q.more || len(q.rows) > 0 || *gib):
		return q, errors.New("peers: --render measures nothing, so it takes no --row, --continue and --gib")
	}
	return q.complete(*quick, *gib)
}

func (q *request) addRow(name string) error {
	if _, ok := rows.Find(name); !ok {
		return fmt.Errorf("there is no such row; there are %s", strings.Join(rows.Names(), " "))
	}
	q.rows = append(q.rows, name)
	return nil
}

// complete fills in what the command line leaves open.
func (q request) complete(quick, gib bool) (request, error) {
	q.form, q.name = rows.Full, time.Now().UTC().Format(time.RFC3339)
	switch {
	case quick:
		q.form = rows.Quick
	case gib:
		q.form = rows.GiB
	}
	if len(q.rows) == 0 {
		q.rows = rows.Names()
	}
	if gib {
		q.rows = slices.DeleteFunc(q.rows, func(name string) bool {
			r, _ := rows.Find(name)
			return !r.GiB
		})
		if len(q.rows) == 0 {
			return q, errors.New("peers: no such row has a form with 1 GiB")
		}
	}
	var err error
	if q.dir == "" {
		q.dir = os.TempDir()
	}
	if q.dir, err = filepath.Abs(q.dir); err != nil {
		return q, fmt.Errorf("peers: %w", err)
	}
	if q.command != writePage {
		return q, nil
	}
	if q.out == "" && quick {
		q.out = filepath.Join(q.dir, "peers-quick")
	}
	if q.out == "" {
		q.out = filepath.Join("..", "..")
		if _, err := os.Stat(filepath.Join(q.out, "bench", "peers", "go.mod")); err != nil {
			return q, errors.New("peers: run it in the folder bench/peers of the repository, or say where the page goes with --out")
		}
	}
	if !q.more {
		return q, nil
	}
	return q.rest()
}

// ready says before an hour of work if a part of it cannot be done.
func (q request) ready() error {
	if info, err := os.Stat(q.dir); err != nil || !info.IsDir() {
		return fmt.Errorf("peers: --dir %q is no folder", q.dir)
	}
	for _, name := range q.rows {
		r, _ := rows.Find(name)
		for _, t := range r.Tables {
			if !slices.ContainsFunc(t.Sides, func(s rows.Side) bool { return s.Store.NeedsNode() }) {
				continue
			}
			if err := peers.Installed(q.node); err != nil {
				return fmt.Errorf("row %s: %w", name, err)
			}
		}
	}
	return nil
}
