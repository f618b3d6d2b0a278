// Command peers compares pistore with its peers, in rounds, on this machine, and
// writes BENCHMARKS.md: see README.md of the module.
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
	"path/filepath"
	"syscall"

	"pistore/bench/peers"
	"pistore/bench/peers/page"
	"pistore/bench/peers/rows"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case os.Getenv(childStore) != "":
		err = obey(ctx, os.Getenv(childStore), os.Getenv(childOrders))
	case os.Getenv(sideOrders) != "":
		err = doSide(ctx, os.Getenv(sideOrders), os.Stdout)
	default:
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

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	q, err := parse(args, out)
	if err != nil {
		return err
	}
	switch {
	case q.command == install:
		if err := peers.Install(ctx, q.node, progress); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, q.node)
		return err
	case q.render:
		return q.write()
	}
	if err := q.ready(); err != nil {
		return err
	}
	remove, err := q.build(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if q.command == writePage {
		err := q.measureAll(ctx, progress, func(r rows.Result) error { return errors.Join(q.keep(r), q.write()) })
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w; the rows before are kept, and --continue goes on", err)
		}
		_, werr := fmt.Fprintln(out, filepath.Join(q.out, "BENCHMARKS.md"))
		return errors.Join(err, werr)
	}
	var results []rows.Result
	err = q.measureAll(ctx, progress, func(r rows.Result) error {
		results = append(results, r)
		return nil
	})
	if q.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return errors.Join(err, e.Encode(results))
	}
	for _, r := range results {
		if _, werr := io.WriteString(out, page.Section(r)+"\n"); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}
