package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/internal/allocs"
	"pistore/registers"
	"pistore/session"
)

func TestCounterWords(t *testing.T) {
	ctx := registers.Context{RetryPolicy: registers.RetryPolicy{MaxAttempts: 4}}
	generating := func(g registers.Generation) registers.Summary {
		return registers.Summary{SummaryID: "T1", Generating: &registers.Generating{Context: ctx, Generation: g}}
	}
	run := func(p registers.Phase) registers.OpState { return &registers.RunState{Phase: p} }
	planned := registers.Call{Status: registers.CallPlanned}
	done := registers.Call{Status: registers.CallCompleted}
	never := registers.Call{Status: registers.CallEffectPending, SourceIndex: 1, Replay: registers.ReplayNever}
	safe := registers.Call{Status: registers.CallEffectPending, SourceIndex: 0, Replay: registers.ReplaySafe}
	tools := func(calls ...registers.Call) registers.OpState { return run(&registers.Tools{Calls: calls}) }
	names := []string{"read", "bash", "grep"}
	cancelled := &registers.RunState{
		Control: registers.Control{CancelRequested: true}, Phase: &registers.AssistantPending{Context: ctx, Attempt: 1},
	}
	for _, test := range []struct {
		state registers.OpState
		names []string
		want  string
	}{
		{run(&registers.Checkpoint{Continuation: &registers.NeedAssistant{}}), nil, "run: checkpoint — an assistant turn is owed"},
		{run(&registers.Checkpoint{Continuation: &registers.MayFinish{}}), nil, "run: checkpoint — may finish"},
		{run(&registers.AssistantReady{Context: ctx, NextAttempt: 1}), nil, "run: assistant request ready, attempt 1 of 4"},
		{run(&registers.AssistantPending{Context: ctx, Attempt: 2}), nil, "run: assistant request in flight, attempt 2 of 4"},
		{
			run(&registers.AssistantRetryWait{Context: ctx, NextAttempt: 2, NotBefore: 1741478400250, ErrorMessage: "busy\nvery"}), nil,
			"run: waiting for retry until 2025-03-09 00:00:00.250 UTC, attempt 2 of 4: busy",
		},
		{tools(done, never, planned), names, "run: tools — call 2 of 3 started (bash, replay never)"},
		{tools(done, never, planned), nil, "run: tools — call 2 of 3 started, replay never"},
		{tools(safe, never), names, "run: tools — calls 1 and 2 of 2 started (read, replay safe; bash, replay never)"},
		{tools(never, never), nil, "run: tools — calls 1 and 2 of 2 started, replay never"},
		{tools(planned, planned), names, "run: tools — 2 calls planned"},
		{tools(done, planned), names, "run: tools — 1 of 2 calls completed, call 2 is next"},
		{tools(done, done), names, "run: tools — all of 2 calls completed"},
		{run(&registers.RunCompaction{Reason: registers.ReasonOverflow}), nil, "run: compaction — overflow, deciding"},
		{run(&registers.DeferredSuspended{Poll: 1}), nil, "run: deferred — suspended after 1 poll, the next resume polls"},
		{run(&registers.DeferredPending{Poll: 2}), nil, "run: deferred — poll 2 in flight"},
		{
			run(&registers.FailureDrain{Error: registers.Failure{Code: "provider_error", Message: "no"}}), nil,
			"run: failure_drain — failed with provider_error: no",
		},
		{cancelled, nil, "run: assistant request in flight, attempt 1 of 4; cancel requested"},
		{&registers.CompactionState{}, nil, "compaction: deciding"},
		{
			&registers.CompactionState{Summary: generating(&registers.GenerationPending{Attempt: 1, Request: &registers.NestedRequest{}})}, nil,
			"compaction: generating — summary request 1 in flight, attempt 1 of 4",
		},
		{
			&registers.CompactionState{Summary: generating(&registers.GenerationReady{NextAttempt: 3})}, nil,
			"compaction: generating — summary request ready, attempt 3 of 4",
		},
		{&registers.NavigationState{TargetID: "E1"}, nil, "navigation: ready — to E1"},
	} {
		if got := counterOf(test.state, test.names).String(); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 日本 🙂 \\x":  "plain, ünïcödé 日本 🙂 \\x",
		"a\x00b\x1b[1m\x7f":        `a\x00b\x1b[1m\x7f`,
		"\u0085\u009b31m":          `\u0085\u009b31m`,
		"\u202a\u202e\u2066\u2069": `\u202a\u202e\u2066\u2069`,
		"a\nb\tc\r":                `a\nb\tc\r`,
		"\xff\xc3(\xe2\x80":        `\xff\xc3(\xe2\x80`,
		"\ufffd":                   "\ufffd",
		hostileText:                `\x1b]0;owned\x07\x1b[31mred\x1b[0m\u009b2J\r\x7f\x08\u202egnp.exe\u2066x\u2069 \u200fy\u2028z`,
	} {
		if got := safe(in); got != want || !clean(got) {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := safeLines("a\r\nb\tc\n\x1b\n\n"); cmp.Diff([]string{"a", "b    c", `\x1b`}, got) != "" {
		t.Errorf("%q", got)
	}
	if got := string(safeJSON([]byte("{\n\"a\":\"\u009b\x7f\u202e\xff日\"}"))); got != "{\n\"a\":\""+`\u009b\u007f\u202e\ufffd`+"日\"}" {
		t.Errorf("%s", got)
	}
}

func FuzzSafe(f *testing.F) {
	f.Add(hostileText)
	f.Add("\xff\u202e日\n\n  a")
	f.Fuzz(func(t *testing.T, s string) {
		allocs.Within(t, len(s), 200, 1<<20, func() {
			_ = safe(s)
			for _, line := range safeLines(s) {
				_ = breakLine(line, 20)
			}
		})
		if !clean(safe(s)) || safe(safe(s)) != safe(s) {
			t.Errorf("%q", safe(s))
		}
		for _, line := range safeLines(s) {
			for _, row := range breakLine(line, 20) {
				if !clean(row) || width(row) > 20 {
					t.Errorf("%q of %q", row, line)
				}
			}
			if w := cut(line, 10); width(w) > 10 {
				t.Errorf("cut: %q", w)
			}
		}
	})
}

func TestBreakLine(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
	}{
		{"", []string{""}},
		{"short", []string{"short"}},
		{"one two three", []string{"one two", "three"}},
		{"exactlyten and", []string{"exactlyten", "and"}},
		{"averyverylongword x", []string{"averyveryl", "ongword x"}},
		{"  indented text", []string{"  indented", "text"}},
		{"日本語日本語", []string{"日本語日本", "語"}},
	} {
		if diff := cmp.Diff(test.want, breakLine(test.line, 10)); diff != "" {
			t.Errorf("%q: %s", test.line, diff)
		}
	}
}

func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{"0": "0", "999": "999", "1000": "1,000", "-1234567.0891": "-1,234,567.0891"} {
		if got := grouped(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	for in, want := range map[int64]string{1: "1 byte", 999: "999 bytes", 1500: "1.5 kB", 2_500_000: "2.5 MB"} {
		if got := bytesOf(in); got != want {
			t.Errorf("%d: %s", in, got)
		}
	}
}

// A long conversation is a deep tree, and one with many answers a wide one.
func TestDeepAndWideTree(t *testing.T) {
	v := &survey{words: true, byID: map[pistore.ID]int{}}
	var parent pistore.ID
	for i := range 50_000 {
		id := pistore.ID(fmt.Sprint("n", i))
		v.add(pistore.Entry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: session.MessagePayload(&session.UserMessage{Content: text("x")})})
		if i%2 == 0 {
			parent = id // the others are branches; each goes on from the trunk
		}
	}
	got := printed(t, func(p *paper) { printTree(p, v, nil) })
	if n := strings.Count(got, "\n"); n != 50_000 {
		t.Errorf("%d rows", n)
	}
	v = &survey{words: true, byID: map[pistore.ID]int{}}
	for i := range 40 { // each a branch of the branch before
		v.add(pistore.Entry{ID: pistore.ID(fmt.Sprint("a", i)), ParentID: parentOf("a", i-1), Type: pistore.TypeCustom, CustomType: "c", Payload: "{}"})
	}
	for i := range 40 {
		v.add(pistore.Entry{ID: pistore.ID(fmt.Sprint("b", i)), ParentID: parentOf("a", 39-i), Type: pistore.TypeCustom, CustomType: "c", Payload: "{}"})
	}
	got = printed(t, func(p *paper) { printTree(p, v, nil) })
	for line := range strings.Lines(got) {
		if width(strings.TrimSpace(line)) > columns {
			t.Fatalf("too wide: %s", line)
		}
	}
	if n := strings.Count(got, "\n"); n != 80 {
		t.Errorf("%d rows:\n%s", n, got)
	}
}

func parentOf(prefix string, i int) pistore.ID {
	if i < 0 {
		return ""
	}
	return pistore.ID(fmt.Sprint(prefix, i))
}

func TestFind(t *testing.T) {
	v := &survey{words: true, byID: map[pistore.ID]int{}}
	for _, id := range []pistore.ID{"abc", "xbc", "bc", "q"} {
		v.add(pistore.Entry{ID: id, Type: pistore.TypeCustom, CustomType: "c", Payload: "{}"})
	}
	for id, want := range map[string]int{"abc": 0, "bc": 2, "q": 3, "xbc": 1} {
		if got, err := v.find(id); err != nil || got != want {
			t.Errorf("%s: %d, %v", id, got, err)
		}
	}
	for _, id := range []string{"c", "zz", ""} {
		if _, err := v.find(id); err == nil {
			t.Errorf("%q is found", id)
		}
	}
}

// An error is one line, names a path once, and says what to do about a limit.
func TestErrorText(t *testing.T) {
	denied := &fs.PathError{Op: "mkdir", Path: "/a/b", Err: fs.ErrPermission}
	limit := &pistore.LimitError{Limit: "payload bytes", Got: 7, Max: 5}
	for want, err := range map[string]error{
		"create /a/b/c: permission denied": fmt.Errorf("create /a/b/c: %w", denied),
		"mkdir /a/b: permission denied":    denied,
		"one; two":                         errors.Join(errors.New("one"), errors.New("two")),
		limit.Error() + "; every store has this limit: shorten it or leave it out": fmt.Errorf("%w", limit),
		"/s.jsonl: locked by another owner; look again":                            fmt.Errorf("%w; look again", fmt.Errorf("jsonl: open: %w", &pistore.LockedError{Place: "/s.jsonl"})),
		"d: faulted: disk full": fmt.Errorf("d: %w", fmt.Errorf("session: convert: %w", fmt.Errorf("logstore: load: %w", fmt.Errorf("logstore: %w: %w", pistore.ErrFaulted, errors.New("disk full"))))),
		`there is no file "f"`:  fmt.Errorf("jsonl: %w: there is no file %q", pistore.ErrNotFound, "f"),
	} {
		if got := errorText(err); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}
