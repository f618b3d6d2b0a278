package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"pistore/bench"
	"pistore/bench/stores"
)

// childStore and childOrders are the environment in which a run starts this
// program again, as a process that opens a store.
const childStore, childOrders = "PISTORE_PEERS_STORE", "PISTORE_PEERS_ORDERS"

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
