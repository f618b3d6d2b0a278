package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pistore"
	"pistore/harness"
	"pistore/logstore"
	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// What the demo kills: a process that opens the store, resumes the run or
// starts it, and drives it to its end.

const demoSession = pistore.SessionID("demo")

const (
	orderTool  = "place_order"
	stockTool  = "check_stock"
	demoPrompt = "Order 3 keyboards, then tell me how many are left."
)

// demoScript is what the model says. Which line comes next follows from the
// conversation, so every process goes on where the one before it was.
var demoScript = faux.Script{{Turns: faux.Turns(
	faux.Step{Content: []session.Block{
		session.Text{Text: "I place the order and then look at the stock."},
		session.ToolCall{Name: orderTool, Arguments: `{"item":"keyboard","count":3}`},
		session.ToolCall{Name: stockTool, Arguments: `{"item":"keyboard"}`},
	}},
	faux.Text("The order was interrupted, so I checked before repeating it: the stock went from 42 to 39. It went through, once. 39 keyboards are left."),
)}}

// demoAgent drives the demo's run. Inside the tool named stall it stays until
// it is killed.
func demoAgent(ctx context.Context, dir, stall string) (err error) {
	store, err := logstore.Open(filepath.Join(dir, "store"), logstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := store.Open(ctx, demoSession, pistore.ReadWrite)
	if errors.Is(err, pistore.ErrNotFound) {
		s, err = store.Create(ctx, pistore.Info{ID: demoSession, CWD: dir})
	}
	if err != nil {
		return err
	}
	tools, err := demoTools(dir, stall)
	if err != nil {
		return err
	}
	h, err := harness.New(s, harness.Options{
		Providers:     provider.NewSet(faux.New(faux.Options{Script: demoScript})),
		Tools:         tools,
		Configuration: registers.LaneConfiguration{Model: registers.ModelRef{Provider: "faux", ModelID: "faux-1"}},
		ToolExecution: registers.Sequential,
		SystemPrompt:  "You keep the shop's stock.",
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(ctx)) }()
	lane, err := h.Lane(ctx, registers.MainLane)
	if err != nil {
		return err
	}
	run, err := lane.Resume(ctx)
	if errors.Is(err, harness.ErrNothingToResume) {
		run, err = lane.Prompt(ctx, harness.Prompt{Text: demoPrompt})
	}
	if err != nil {
		return err
	}
	result, err := run.Wait(ctx)
	if err != nil {
		return err
	}
	if result.Ended == nil || result.Ended.Outcome != registers.Completed {
		return fmt.Errorf("the run came to %+v", result)
	}
	return nil
}

// demoTools are two tools that write a line to a file of their own when they
// start, which is how their starts are counted from outside.
func demoTools(dir, stall string) (*tool.Set, error) {
	started := func(name string) error {
		f, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(f, "started"); err != nil {
			return errors.Join(err, f.Close())
		}
		return f.Close()
	}
	linger := func(ctx context.Context, name string) {
		if name == stall {
			fmt.Println("inside " + name)
			<-ctx.Done()
		}
	}
	return tool.NewSet(
		tool.Tool{
			Name: orderTool, Description: "Orders items from the shop.",
			Parameters: `{"type":"object","properties":{"item":{"type":"string"},"count":{"type":"integer"}},"required":["item","count"]}`,
			Replay:     registers.ReplayNever,
			Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				if err := started(orderTool); err != nil {
					return tool.Result{}, err
				}
				linger(ctx, orderTool)
				return tool.Text("ordered"), ctx.Err()
			},
		},
		tool.Tool{
			Name: stockTool, Description: "Counts what is left of an item.",
			Parameters: `{"type":"object","properties":{"item":{"type":"string"}},"required":["item"]}`,
			Replay:     registers.ReplaySafe,
			Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				if err := started(stockTool); err != nil {
					return tool.Result{}, err
				}
				linger(ctx, stockTool)
				orders, err := os.ReadFile(filepath.Join(dir, orderTool+".log"))
				if err != nil {
					return tool.Result{}, err
				}
				return tool.Text(fmt.Sprintf("42 before, %d now", 42-3*strings.Count(string(orders), "\n"))), ctx.Err()
			},
		},
	)
}
