package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"pistore"
)

// TurnOptions say how much of the workload turn is run.
type TurnOptions struct {
	Sessions int    // that commit at once, each its own turns; at least 1
	Turns    int    // of each session
	Seed     uint64 // of the content
}

// Turn runs the workload turn: each session commits what one turn of an agent
// does: 1 entry of 1 to 4 KB, 3 registers of 0.2 to 2 KB, 1 usage row; about
// 3.5 KB together. Sessions commit side by side, each one turn after the other.
// The sessions stay in the backend, closed.
func Turn(ctx context.Context, b pistore.Backend, o TurnOptions) (Result, error) {
	if o.Sessions < 1 || o.Turns < 1 {
		return Result{}, fmt.Errorf("bench: %w: %d sessions of %d turns", pistore.ErrInvalid, o.Sessions, o.Turns)
	}
	sessions := make([]*turner, o.Sessions)
	for i := range sessions {
		s, err := b.Create(ctx, pistore.Info{})
		if err != nil {
			return Result{}, err
		}
		sessions[i] = newTurner(s, o.Seed+uint64(i), o.Turns)
	}
	var work sync.WaitGroup
	begin := time.Now()
	for _, t := range sessions {
		work.Go(func() { t.run(ctx) })
	}
	work.Wait()
	r := Result{Elapsed: time.Since(begin)}
	var all []time.Duration
	var err error
	for _, t := range sessions {
		r.Commits += len(t.latencies)
		r.Bytes += t.bytes
		all = append(all, t.latencies...)
		err = errors.Join(err, t.err, t.storage.Close())
	}
	r.quantiles(all)
	return r, err
}

// turner commits the turns of one session. Its transactions are made before
// the clock starts, but for their ids, which follow from the count.
type turner struct {
	storage   pistore.Storage
	ids       *pistore.IDs
	content   []turnContent // used round and round
	turns     int
	latencies []time.Duration
	bytes     int64
	err       error
}

type turnContent struct{ payload, opState, laneState, usage pistore.JSON }

func newTurner(s pistore.Storage, seed uint64, turns int) *turner {
	random := rand.New(rand.NewPCG(seed, 1))
	var key [32]byte
	for i := range key {
		key[i] = byte(random.Uint32())
	}
	now := pistore.UnixMS(1_700_000_000_000)
	t := &turner{storage: s, turns: turns, latencies: make([]time.Duration, 0, turns)}
	t.ids = pistore.NewIDs(func() pistore.UnixMS { now++; return now }, rand.NewChaCha8(key))
	for range 64 {
		t.content = append(t.content, newTurnContent(random))
	}
	return t
}

func (t *turner) run(ctx context.Context) {
	leaf := pistore.ID("")
	for i := range t.turns {
		c, entry := t.content[i%len(t.content)], t.ids.New()
		tx := pistore.Tx{Writes: []pistore.Write{
			pistore.InsertEntry{ID: entry, ParentID: leaf, Type: pistore.TypeMessage, Payload: c.payload},
			pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.QuoteJSON(string(entry))},
			pistore.InsertUsage{ID: t.ids.New(), EntryID: entry, Usage: c.usage},
			pistore.SetRegister{Namespace: "op.state", Key: "op", Value: c.opState},
			pistore.SetRegister{Namespace: "lane.state", Key: "main", Value: c.laneState},
		}}
		begin := time.Now()
		if _, t.err = t.storage.Commit(ctx, tx); t.err != nil {
			return
		}
		t.latencies = append(t.latencies, time.Since(begin))
		t.bytes += int64(len(c.payload) + len(c.opState) + len(c.laneState) + len(c.usage) + 4*36)
		leaf = entry
	}
}

func newTurnContent(random *rand.Rand) turnContent {
	return turnContent{
		payload: pistore.JSON(`{"message":{"role":"assistant","content":[{"type":"text","text":` +
			string(pistore.QuoteJSON(prose(random, 800+random.IntN(2700)))) +
			`},{"type":"toolCall","id":"call_0","name":"read","arguments":{"path":"src/main.go","limit":200}}],` +
			`"api":"messages","provider":"faux","model":"faux-1","stopReason":"toolUse","timestamp":1700000000000}}`),
		opState: pistore.JSON(`{"kind":"run","resumes":0,"control":{"status":"running"},"note":` +
			string(pistore.QuoteJSON(prose(random, 700+random.IntN(1200)))) + `}`),
		laneState: pistore.JSON(`{"currentOperationId":"op","pendingNextRun":[],"note":` +
			string(pistore.QuoteJSON(prose(random, 130+random.IntN(100)))) + `}`),
		usage: pistore.JSON(fmt.Sprintf(`{"input":%d,"output":%d,"cacheRead":%d,"cacheWrite":0,"totalTokens":%d,`+
			`"cost":{"input":0.%06d,"output":0.%06d,"cacheRead":0,"cacheWrite":0,"total":0.%06d}}`,
			random.IntN(5000), random.IntN(2000), random.IntN(100000), random.IntN(100000),
			random.IntN(100000), random.IntN(100000), random.IntN(100000))),
	}
}

var words = strings.Fields(`the a of file function returns error test run value because when store commit lane
	entry register build package import line read write check open close branch merge fix add remove rename
	"quoted" path/to/file.go 42 0x1f {} [] -> == := return nil err func type struct`)

// prose is text like that of a coding agent, with a line break here and there.
func prose(random *rand.Rand, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		b.WriteString(words[random.IntN(len(words))])
		if random.IntN(12) == 0 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}
