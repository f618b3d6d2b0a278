package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pistore"
	"pistore/bench"
	"pistore/bench/peers"
	"pistore/bench/peers/rows"
	"pistore/bench/stores"
)

// Environment variables in which this program starts itself again: as a process
// that does the work of one side, so that its memory is its own and what ends it
// ends nothing else, and as a process that opens a store.
const (
	sideOrders              = "PISTORE_PEERS_SIDE"
	childStore, childOrders = "PISTORE_PEERS_STORE", "PISTORE_PEERS_ORDERS"
)

// sideWork is what such a process is to do.
type sideWork struct {
	Store string       `json:"store"`
	Node  string       `json:"node"`
	Built string       `json:"built"`
	Work  bench.Config `json:"work"`
}

func candidate(s rows.Store, node string) (bench.Candidate, error) {
	switch s.Name {
	case rows.SQLite:
		return peers.SQLite(s.Level), nil
	case rows.TypeScriptJSONL:
		return peers.TypeScript(peers.JSONL, node), nil
	case rows.TypeScriptMemory:
		return peers.TypeScript(peers.Memory, node), nil
	default:
		return stores.Candidate(s.Name, s.Level)
	}
}

// parseStore is a store by its name.
func parseStore(name string) (rows.Store, error) {
	s, ok := rows.ParseStore(name)
	if !ok {
		return s, fmt.Errorf("peers: %w: %.100q is no store", pistore.ErrInvalid, name)
	}
	return s, nil
}

// doSide does the work of a side and writes its report.
func doSide(ctx context.Context, text string, out io.Writer) error {
	var w sideWork
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	s, err := parseStore(w.Store)
	if err != nil {
		return err
	}
	c, err := candidate(s, w.Node)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	if opensFiles(s, w.Work.Workload) {
		program = filepath.Join(w.Built, "open")
	}
	w.Work.Child = func(orders string) *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), childStore+"="+w.Store, childOrders+"="+orders)
		cmd.Stderr = os.Stderr
		return cmd
	}
	report, err := bench.Run(ctx, c, w.Work)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(report)
}

// obey is the work of a process that a side has started.
func obey(ctx context.Context, name, orders string) error {
	s, err := parseStore(name)
	if err != nil {
		return err
	}
	c, err := candidate(s, "")
	if err != nil {
		return err
	}
	return bench.Obey(ctx, orders, c.Open, os.Stdout)
}

// side does the work of a side in a process of its own, which is ended when it
// takes much longer than it should.
func (q request) side(ctx context.Context, s rows.Side) (report bench.Report, err error) {
	dir, err := os.MkdirTemp(q.dir, "peers-")
	if err != nil {
		return report, fmt.Errorf("peers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := sideWork{Store: s.Store.String(), Node: q.node, Built: q.built, Work: s.Work}
	w.Work.Dir, w.Work.Seed = dir, q.seed
	text, err := json.Marshal(w)
	if err != nil {
		return report, fmt.Errorf("peers: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return report, fmt.Errorf("peers: %w", err)
	}
	limited, stop := context.WithTimeout(ctx, 2*time.Minute+20*estimate(s))
	defer stop()
	cmd := exec.CommandContext(limited, program)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it ends what it has started
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = append(os.Environ(), sideOrders+"="+string(text))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	said, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return report, ctx.Err()
	case limited.Err() != nil:
		return report, fmt.Errorf("peers: %s took more than twenty times as long as it should and was ended", s.Label)
	case err != nil:
		return report, fmt.Errorf("peers: %s: %w: %s", s.Label, err, inOneLine(complaint.String(), dir))
	}
	if err := json.Unmarshal(said, &report); err != nil {
		return report, fmt.Errorf("peers: %s reported %.200q: %w", s.Label, said, err)
	}
	return report, nil
}

// inOneLine is what a process complained of, without the folder that it worked in.
func inOneLine(text, dir string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, dir, "DIR")), " ")
	return fmt.Sprintf("%.400q", text)
}

func opensFiles(s rows.Store, workload string) bool {
	return s.Name == stores.JSONL && workload == "open"
}

// build builds the program that opens session files, if a row needs it.
func (q *request) build(ctx context.Context) (remove func() error, err error) {
	needed := slices.ContainsFunc(q.rows, func(name string) bool {
		r, _ := rows.Find(name)
		return slices.ContainsFunc(r.Tables, func(t rows.Table) bool {
			return slices.ContainsFunc(t.Sides, func(s rows.Side) bool { return opensFiles(s.Store, s.Work.Workload) })
		})
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
