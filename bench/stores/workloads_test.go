package stores

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pistore"
	"pistore/bench"
	"pistore/conformance/crash"
)

// childEnv holds the backend and the orders of a process that a run has started.
const childEnv, ordersEnv = "PISTORE_BENCH_BACKEND", "PISTORE_BENCH_ORDERS"

func TestMain(m *testing.M) {
	crash.Child(openMeasured)
	measured.Flags(flag.CommandLine)
	if name := os.Getenv(childEnv); name != "" {
		c, err := Candidate(name, pistore.Process)
		if err == nil {
			err = bench.Obey(context.Background(), os.Getenv(ordersEnv), c.Open, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// small are sizes at which each workload is done in no time.
func small(t *testing.T, backend string, w bench.Workload) bench.Config {
	c := bench.Config{Workload: w.Name, Ops: 3, Dir: t.TempDir(), Child: func(orders string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+backend, ordersEnv+"="+orders)
		return cmd
	}}
	for name, field := range map[string]*int{"turns": &c.Turns, "lanes": &c.Lanes, "tools": &c.Tools, "sessions": &c.Sessions} {
		if _, uses := w.Defaults[name]; uses {
			*field = map[string]int{"turns": 120, "lanes": 2, "tools": 1, "sessions": 2}[name]
		}
	}
	if _, uses := w.Defaults["unflushed"]; uses {
		c.Unflushed = 20_000
	}
	if strings.HasPrefix(w.Name, "open") {
		c.Ops = 1 // each is a process or two
	}
	return c
}

// Every store of ours does every workload that it can.
func TestWorkloads(t *testing.T) {
	for _, name := range Names {
		for _, w := range bench.Workloads() {
			t.Run(name+"/"+w.Name, func(t *testing.T) {
				if name == Memory && (w.Name == "open" || w.Name == "open-killed") {
					return // nothing of it is left to be opened
				}
				c, err := Candidate(name, pistore.Process)
				if err != nil {
					t.Fatal(err)
				}
				r, err := bench.Run(t.Context(), c, small(t, name, w))
				if name == Memory && w.Name == "compact" {
					if !errors.Is(err, pistore.ErrUnsupported) {
						t.Error(err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				check(t, r, w)
			})
		}
	}
}

// check holds a report against what its workload promises.
func check(t *testing.T, r bench.Report, w bench.Workload) {
	t.Helper()
	for _, unit := range []bench.Unit{bench.PerOp, bench.PerSecond, bench.P50, bench.P999, bench.Longest} {
		if r.Metrics[unit] <= 0 {
			t.Errorf("%s is %v", unit, r.Metrics[unit])
		}
	}
	want := map[string]map[bench.Unit]float64{
		"restore":   {bench.ReadCalls: 0, bench.ReadRows: 0},
		"runs":      {bench.CommitsPerOp: 5, bench.LogicalBytes: 0, bench.PerEffect: r.Metrics[bench.PerOp] / 3},
		"runs-bare": {bench.CommitsPerOp: 5, bench.LogicalBytes: 0, bench.PerEffect: r.Metrics[bench.PerOp] / 3},
		"replay":    {bench.MBPerSecond: 0},
		"verify":    {bench.MBPerSecond: 0},
		"compact":   {bench.MBPerSecond: 0, bench.BeforeBytes: 0},
		"disk":      {bench.LiveBytes: 0},
		"open":      {bench.StoreOpen: 0, bench.SessionOpen: 0},
	}[w.Name]
	if _, ok := r.Metrics[bench.HeapPerSession]; ok != strings.HasPrefix(w.Name, "idle") {
		t.Errorf("memory of a session: %v", ok) // of two sessions it may be less than nothing
	}
	for unit, exact := range want {
		if got, ok := r.Metrics[unit]; !ok || got <= 0 || exact != 0 && got != exact {
			t.Errorf("%s is %v", unit, got)
		}
	}
}

// What a lane is restored from does not grow with its history.
func TestRestoreReadsTheSame(t *testing.T) {
	for _, name := range Names {
		c, err := Candidate(name, pistore.Process)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, turns := range []int{2, 3000} {
			r, err := bench.Run(t.Context(), c, bench.Config{Workload: "restore", Turns: turns, Ops: 2, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, fmt.Sprint(r.Metrics[bench.ReadCalls], r.Metrics[bench.ReadRows]))
		}
		if seen[0] != seen[1] {
			t.Errorf("%s: calls and rows are %v", name, seen)
		}
	}
}

// Bare Pebble is filled by commits, and read by ids.
func TestPebbleReads(t *testing.T) {
	if _, err := bench.Run(t.Context(), Pebble(pistore.Process), bench.Config{Workload: "read-ids", Turns: 700, Ops: 3, Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
}
