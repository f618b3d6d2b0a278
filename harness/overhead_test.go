package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pistore"
	"pistore/harness"
	"pistore/logstore"
	"pistore/memstore"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// keeper keeps the transactions of a session.
type keeper struct {
	pistore.Storage
	txs []pistore.Tx
}

func (k *keeper) Unwrap() pistore.Storage { return k.Storage }

func (k *keeper) Commit(ctx context.Context, tx pistore.Tx) (pistore.Receipt, error) {
	k.txs = append(k.txs, tx)
	return k.Storage.Commit(ctx, tx)
}

// BenchmarkOverhead runs prompt, call of a tool, answer (three effects) in a new
// session, and then commits the same transactions bare to another. What the
// harness adds is the difference; both figures come from one run.
func BenchmarkOverhead(b *testing.B) {
	for _, store := range []struct {
		name string
		open func(b *testing.B) pistore.Backend
	}{
		{"backend=memory", func(*testing.B) pistore.Backend { return memstore.New(memstore.Options{}) }},
		{"backend=logstore/durability=process", func(b *testing.B) pistore.Backend { return openedLogstore(b, pistore.Process) }},
		{"backend=logstore/durability=power", func(b *testing.B) pistore.Backend { return openedLogstore(b, pistore.Power) }},
	} {
		b.Run(store.name, func(b *testing.B) { benchmarkOverhead(b, store.open(b)) })
	}
}

func openedLogstore(b *testing.B, level pistore.Durability) pistore.Backend {
	s, err := logstore.Open(b.TempDir(), logstore.Options{Durability: level})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchmarkOverhead(b *testing.B, store pistore.Backend) {
	ctx := context.Background()
	defer store.Close()
	created := func() pistore.Storage {
		s, err := store.Create(ctx, pistore.Info{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	bytes, commits := 0, 0
	var harnessed, replayed time.Duration
	for b.Loop() {
		k, bare := &keeper{Storage: created()}, created()
		lane, closeLane := lookingUp(b, k)
		k.txs = nil // what makes a lane
		begin := time.Now()
		handle, err := lane.Prompt(ctx, harness.Prompt{Text: strings.Repeat("a question ", 30)})
		if err == nil {
			_, err = handle.Wait(ctx)
		}
		harnessed += time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		begin = time.Now()
		for _, tx := range k.txs {
			tx.Expect = nil // seqs of the other session
			if _, err := bare.Commit(ctx, tx); err != nil {
				b.Fatal(err)
			}
		}
		replayed += time.Since(begin)
		for _, tx := range k.txs {
			bytes += txBytes(tx)
		}
		commits += len(k.txs)
		closeLane()
		if err := errors.Join(k.Close(), bare.Close()); err != nil {
			b.Fatal(err)
		}
	}
	const effects = 3
	n := float64(b.N)
	b.ReportMetric(float64(commits)/n, "commits/run")
	b.ReportMetric(float64(bytes)/n, "bytes/run")
	b.ReportMetric(harnessed.Seconds()*1e6/n, "µs/run")
	b.ReportMetric(replayed.Seconds()*1e6/n, "bare-µs/run")
	b.ReportMetric((harnessed-replayed).Seconds()*1e6/n/effects, "overhead-µs/effect")
}

// lookingUp is a lane whose model calls a tool once and then answers.
func lookingUp(b *testing.B, s pistore.Storage) (*harness.Lane, func()) {
	call := session.ToolCall{Name: "look", Arguments: `{"text":"` + pistore.JSON(strings.Repeat("where ", 20)) + `"}`}
	script := faux.Script{{Rest: func(_ provider.Request, at faux.Position) faux.Step {
		if at.Turn%2 == 0 {
			return faux.Step{Content: []session.Block{call}}
		}
		return faux.Text(strings.Repeat("an answer ", 150))
	}}}
	look := tool.Tool{
		Name: "look", Description: "looks", Parameters: anyObject,
		Execute: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Text(strings.Repeat("a finding ", 100)), nil
		},
	}
	tools, err := tool.NewSet(look)
	if err != nil {
		b.Fatal(err)
	}
	h, err := harness.New(s, harness.Options{
		Providers: provider.NewSet(faux.New(faux.Options{Script: script, Forget: true})),
		Tools:     tools,
		Configuration: registers.LaneConfiguration{
			Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}, ThinkingLevel: "off", ActiveToolNames: []string{"look"},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	lane, err := h.Lane(context.Background(), registers.MainLane)
	if err != nil {
		b.Fatal(err)
	}
	return lane, func() {
		if err := h.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func txBytes(tx pistore.Tx) int {
	size := 0
	for _, w := range tx.Writes {
		switch w := w.(type) {
		case pistore.InsertEntry:
			size += len(w.ID) + len(w.ParentID) + len(w.Payload)
		case pistore.InsertUsage:
			size += len(w.ID) + len(w.EntryID) + len(w.Usage) + len(w.Details)
		case pistore.SetRegister:
			size += len(w.Namespace) + len(w.Key) + len(w.Value)
		case pistore.DeleteRegister:
			size += len(w.Namespace) + len(w.Key)
		}
	}
	return size
}
