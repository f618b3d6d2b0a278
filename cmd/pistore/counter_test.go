package main

import (
	"strings"
	"testing"

	"pistore"
	"pistore/memstore"
	"pistore/registers"
)

// A state that is missing is told as missing, by every command.
func TestMissingStates(t *testing.T) {
	b := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = b.Close() })
	s := must[pistore.Storage](t)(b.Create(t.Context(), pistore.Info{ID: "s"}))
	if _, err := s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{
		pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: "bare", Value: "null"},
		pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: "open", Value: "null"},
		pistore.SetRegister{Namespace: registers.LaneStateNS, Key: "open", Value: `{"currentOperationId":"op-1","pendingNextRun":[]}`},
	}}); err != nil {
		t.Fatal(err)
	}
	v := must[*survey](t)(takeSurvey(t.Context(), s, false))
	for lane, want := range map[string]string{"bare": "there is no lane.state", "open": "there is no op.state of op-1"} {
		view := v.lane(lane, func(pistore.ID) []string { return nil })
		words := view.problem
		if view.Operation != nil {
			words = view.Operation.words
		}
		if !strings.Contains(words, want) || strings.Contains(words, "JSON") {
			t.Errorf("inspect, lane %s: %q", lane, words)
		}
		if words, err := laneInWords(t.Context(), s, lane); !strings.Contains(words, want) || err != nil {
			t.Errorf("show, lane %s: %q, %v", lane, words, err)
		}
	}
}
