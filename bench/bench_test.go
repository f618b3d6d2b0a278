package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/bench"
	"pistore/memstore"
)

var update = flag.Bool("update", false, "write the goldens anew")

// memory is a candidate whose content a test can look at afterwards.
type memory struct {
	pistore.Backend
	digests map[pistore.SessionID]string
}

func (m *memory) candidate() bench.Candidate {
	return bench.Candidate{Name: "backend=memory", Open: func(string) (pistore.Backend, error) {
		m.Backend = memstore.New(memstore.Options{Clock: func() pistore.UnixMS { return 1 }})
		return m, nil
	}}
}

// Close keeps the digest of each session.
func (m *memory) Close() error {
	m.digests = map[pistore.SessionID]string{}
	for info, err := range m.List(context.Background()) {
		if err != nil {
			return err
		}
		s, err := m.Open(context.Background(), info.ID, pistore.ReadOnly)
		if err != nil {
			return err
		}
		if m.digests[info.ID], err = pistore.Digest(context.Background(), s); err != nil {
			return err
		}
	}
	return m.Backend.Close()
}

// What a workload commits follows from the seed, and differs between sessions.
func TestContentFollowsFromTheSeed(t *testing.T) {
	for _, name := range []string{bench.Turn, bench.Small, bench.Bulk} {
		var of [3]memory
		for i, seed := range []uint64{5, 5, 6} {
			_, err := bench.Run(t.Context(), of[i].candidate(), bench.Config{Workload: name, Sessions: 2, Ops: 21, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(of[0].digests, of[1].digests); diff != "" {
			t.Errorf("%s: two runs of one seed differ:\n%s", name, diff)
		}
		for id, digest := range of[0].digests {
			if digest == of[2].digests[id] {
				t.Errorf("%s: two seeds give one session", name)
			}
		}
		if a, b := of[0].digests["0195c8d1-0000-7000-8000-000000000000"], of[0].digests["0195c8d1-0000-7000-8000-000000000001"]; a == b || a == "" || b == "" {
			t.Errorf("%s: sessions %q and %q", name, a, b)
		}
	}
}

// The transactions have the sizes and the writes that their descriptions name.
func TestSizesOfTransactions(t *testing.T) {
	for _, want := range []struct {
		workload           string
		entries, registers int
		bytes              [2]int // of all transactions, on average
		entry              [2]int // of each entry
	}{
		{bench.Turn, 1, 3, [2]int{3300, 3900}, [2]int{1000, 4100}},
		{bench.Small, 1, 1, [2]int{300, 420}, [2]int{130, 200}},
		{bench.Bulk, 100, 1, [2]int{80_000, 130_000}, [2]int{500, 1900}},
	} {
		content, err := bench.NewContent(want.workload, 1)
		if err != nil {
			t.Fatal(err)
		}
		stream, total := content.Stream(0), 0
		const n = 300
		for range n {
			entries, registers, usage := 0, 0, 0
			for _, w := range stream.Next().Writes {
				switch w := w.(type) {
				case pistore.InsertEntry:
					entries++
					total += len(w.Payload)
					if len(w.Payload) < want.entry[0] || len(w.Payload) > want.entry[1] {
						t.Errorf("%s: an entry of %d bytes", want.workload, len(w.Payload))
					}
				case pistore.SetRegister:
					registers++
					total += len(w.Value)
				case pistore.InsertUsage:
					usage++
					total += len(w.Usage)
				}
			}
			if entries != want.entries || registers != want.registers || usage != 1 {
				t.Fatalf("%s: %d entries, %d registers, %d usage rows", want.workload, entries, registers, usage)
			}
		}
		if mean := total / n; mean < want.bytes[0] || mean > want.bytes[1] {
			t.Errorf("%s: %d bytes a transaction", want.workload, mean)
		}
	}
}

// A report has the shape that docs/cli.md documents.
func TestShapeOfAReport(t *testing.T) {
	var m memory
	r, err := bench.Run(t.Context(), m.candidate(), bench.Config{Workload: bench.Turn, Sessions: 2, Ops: 3, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Metrics[bench.Fsyncs]; ok {
		t.Error("fsyncs of a store that does not count them")
	}
	r.ElapsedNS = 0
	for unit := range r.Metrics {
		switch {
		case strings.HasPrefix(string(unit), "device-"), unit == bench.Resident, unit == bench.PeakResident:
			delete(r.Metrics, unit) // not on every system
		case unit != bench.FewestOps && unit != bench.MostOps:
			r.Metrics[unit] = 0
		}
	}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", append(got, '\n'))
	golden(t, "report.txt", []byte(strings.ReplaceAll(r.Benchstat(), fmt.Sprintf("-%d\t", runtime.GOMAXPROCS(0)), "-P\t")+"\n"))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

// A Config that asks for what a workload does not have is refused, so that two
// reports of one name are of one work.
func TestConfigIsChecked(t *testing.T) {
	var m memory
	for _, c := range []bench.Config{
		{}, {Workload: "none"}, {Workload: bench.Turn, Turns: 5}, {Workload: bench.Turn, Ops: -1}, {Workload: bench.Turn, Unflushed: 5},
	} {
		if _, err := bench.Run(t.Context(), m.candidate(), c); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := bench.Run(t.Context(), bench.Candidate{Name: "nothing"}, bench.Config{Workload: bench.Turn}); !errors.Is(err, pistore.ErrInvalid) {
		t.Errorf("a candidate that does nothing: %v", err)
	}
}

// A run ends with its context, and leaves no folder behind.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	c := bench.Candidate{Name: "x", Open: func(string) (pistore.Backend, error) {
		stop()
		return memstore.New(memstore.Options{}), nil
	}}
	if _, err := bench.Run(ctx, c, bench.Config{Workload: bench.Turn, Ops: 1 << 40, Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Alternate runs a, b, a, b and compares pair by pair.
func TestAlternate(t *testing.T) {
	var ran []string
	candidate := func(name string, seconds ...int64) bench.Candidate {
		n := 0
		return bench.Candidate{Name: name, Run: func(_ context.Context, c bench.Config) (bench.Report, error) {
			ran = append(ran, name)
			n++
			return bench.Report{Ops: 100, ElapsedNS: seconds[n-1] * 1e9, Metrics: map[bench.Unit]float64{bench.Fsyncs: float64(n)}}, nil
		}}
	}
	got, err := bench.Alternate(t.Context(), candidate("a", 8, 8, 8), candidate("b", 16, 32, 8), bench.Config{Workload: bench.Turn}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "a", "b", "a", "b"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v", ran)
	}
	ratio, ok := got.Ratio(bench.PerSecond)
	if want := (bench.Ratio{Pairs: []float64{2, 4, 1}, Median: 2, Min: 1, Max: 4}); !ok || !cmp.Equal(ratio, want) {
		t.Errorf("ratio %+v", ratio)
	}
	if d, ok := got.Difference(bench.Fsyncs); !ok || d != 0 {
		t.Errorf("difference %v", d)
	}
	if d, ok := got.Difference(bench.PerOp); !ok || d != -8e7 {
		t.Errorf("difference %v of the time of an operation", d)
	}
	if _, ok := got.Ratio(bench.P99); ok {
		t.Error("a ratio of what nobody measured")
	}
	if m, ok := bench.Median(got.B, bench.Fsyncs); !ok || m != 2 {
		t.Errorf("median %v", m)
	}
	if name, want := got.A[0].Name(), "Turn/a/sessions=1"; name != want {
		t.Errorf("name %q, want %q", name, want)
	}
}

// Who imports the package gets no engine and no SQL driver with it.
func TestImportsNoEngine(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "pistore/bench").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, heavy := range []string{"cockroachdb/pebble", "modernc.org", "go.opentelemetry.io"} {
		if bytes.Contains(out, []byte(heavy)) {
			t.Errorf("pistore/bench depends on %s", heavy)
		}
	}
}
