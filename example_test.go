package pistore_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pistore"
	"pistore/conformance"
	"pistore/harness"
	"pistore/logstore"
	"pistore/memstore"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/tool"
)

// The examples of the README. TestReadme holds that each snippet there stands
// here, to the letter.

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A store: an entry, a register and a usage row in one transaction, durable
// when Commit returns.
func Example_store() {
	ctx, dir := context.Background(), must(os.MkdirTemp("", "pistore-example-"))
	defer os.RemoveAll(dir)

	db := must(logstore.Open(dir, logstore.Options{}))
	defer db.Close()
	s := must(db.Create(ctx, pistore.Info{ID: "first"}))
	receipt := must(s.Commit(ctx, pistore.Tx{Writes: []pistore.Write{
		pistore.InsertEntry{ID: "e1", Type: pistore.TypeMessage, Payload: `{"message":{"role":"user","content":"hi"}}`},
		pistore.SetRegister{Namespace: "app.todo", Key: "1", Value: `"say hi back"`},
		pistore.InsertUsage{ID: "u1", EntryID: "e1", Usage: `{"input":12,"cost":{"total":0.0001}}`},
	}}))
	fmt.Println(receipt.Seqs, receipt.Stats.Usage.Cost.Total)
	// Output: [1 2 3] 0.0001
}

// A durable run: kill the process anywhere, start it again with the same code,
// and it goes on.
func Example_run() {
	ctx, dir := context.Background(), must(os.MkdirTemp("", "pistore-example-"))
	defer os.RemoveAll(dir)
	db := must(logstore.Open(dir, logstore.Options{}))
	defer db.Close()
	s := must(db.Create(ctx, pistore.Info{ID: "first"}))

	tools := must(tool.NewSet(tool.Tool{
		Name: "greet", Description: "Greets somebody.",
		Parameters: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
		Replay:     registers.ReplayNever, // after a crash in the middle, never run it again
		Execute: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return tool.Text("greeted"), nil
		},
	}))
	script := faux.Script{{Turns: faux.Turns(faux.Call("greet", `{"name":"Ada"}`), faux.Text("I greeted Ada."))}}
	h := must(harness.New(s, harness.Options{
		Providers:     provider.NewSet(faux.New(faux.Options{Script: script})),
		Tools:         tools,
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}},
	}))
	defer h.Close(ctx)
	lane := must(h.Lane(ctx, "main"))
	run, err := lane.Resume(ctx) // what a crash left, or
	if errors.Is(err, harness.ErrNothingToResume) {
		run, err = lane.Prompt(ctx, harness.Prompt{Text: "Greet Ada."})
	}
	result := must(must(run, err).Wait(ctx))
	fmt.Println(result.Ended.Outcome)
	// Output: completed
}

// A backend of your own, checked against every row of the contract.
func Example_conformance() {
	verdict := conformance.Check(conformance.Config{
		Open:     func(dir string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil },
		Volatile: true, // it forgets when the process ends; a store on disk leaves this out
	})
	fmt.Println(verdict.OK())
	// Output: true
}
