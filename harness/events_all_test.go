package harness_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/harness"
	"pistore/provider/faux"
	"pistore/session"
	"pistore/tool"
)

// declaredEvents are the names of all types that are events of a listener.
func declaredEvents(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "isHarnessEvent" {
			names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	if len(names) < 25 {
		t.Fatalf("only %d events are declared", len(names))
	}
	return names
}

// Every event that is declared is told by something that happens.
func TestEveryEventIsTold(t *testing.T) {
	told := map[string]bool{}
	hear := func(c config) config {
		log := &eventLog{before: func(ev harness.Event) { told[eventName(ev)] = true }}
		c.onEvent = log.hear
		return c
	}
	closed := func(r *rig) { r.check(r.h.Close(r.ctx)) }

	chatty := faux.Script{{Turns: []faux.Turn{{faux.Call("append", `{"text":"one"}`)}, {faux.Fail("overloaded", true), faux.Text("Done.")}}}}
	r := newRig(t, hear(config{script: chatty}))
	r.completed(r.prompt("go"))
	_, err := r.h.CreateLane(r.ctx, "side", r.lane.Leaf())
	r.check(err)
	r.check(r.lane.SetModel(r.ctx, r.lane.Configuration().Model))
	_, err = r.lane.NextRun(r.ctx, harness.Prompt{Text: "later"})
	r.check(err)
	closed(r)

	r = newRig(t, hear(config{script: faux.Script{{Turns: faux.Turns(faux.Call("talk", `{}`), faux.Defer(faux.Pending()))}}, extra: talking()}))
	r.suspended(r.prompt("go"))
	abort(r)
	r.finish()
	closed(r)

	r = newSummaryRig(t, hear(config{}), fill, summaryScene(faux.Text("SUMMARY")))
	r.completed(r.prompt("fill"))
	ids, _ := r.messages()
	_, err = r.lane.Compact(r.ctx, "")
	r.check(err)
	r.completed(r.finish())
	_, err = r.lane.Navigate(r.ctx, harness.Navigation{TargetID: ids[0], Label: "here"})
	r.check(err)
	r.completed(r.finish())
	closed(r)

	r = newRig(t, hear(config{script: toolRun, rows: stoppedAt(t, "checkpoint"), options: hooked(harness.Hooks{
		BeforeRequest: []func(context.Context, harness.RequestPlan) (harness.RequestPlan, error){
			func(_ context.Context, q harness.RequestPlan) (harness.RequestPlan, error) { return q, errHook },
		},
	})}))
	r.completed(r.resume())
	closed(r)

	var broken *failing
	r = newRig(t, hear(config{script: oneTool, wrap: func(s pistore.Storage) pistore.Storage {
		broken = &failing{Storage: s}
		return broken
	}}))
	broken.fail(pistore.ErrFaulted)
	if _, err := r.lane.Prompt(r.ctx, harness.Prompt{Text: "go"}); !isError(err, pistore.ErrFaulted) {
		t.Errorf("prompt: %v", err)
	}
	closed(r)

	missing := slices.DeleteFunc(declaredEvents(t), func(name string) bool { return told[name] })
	if len(missing) > 0 {
		t.Errorf("nothing tells %s", strings.Join(missing, ", "))
	}
}

// talking is a tool that reports.
func talking() []tool.Tool {
	return []tool.Tool{{Name: "talk", Parameters: anyObject, Execute: func(_ context.Context, c tool.Call) (tool.Result, error) {
		c.Progress("half")
		return tool.Result{Content: session.TextContent("whole")}, nil
	}}}
}
