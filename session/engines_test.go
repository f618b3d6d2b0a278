package session_test

import (
	"context"
	"path/filepath"
	"testing"

	"pistore"
	"pistore/jsonl"
	"pistore/logstore"
	"pistore/registers"
	"pistore/session"
	"pistore/verify"
)

// engines open an empty place of each engine.
var engines = map[string]func(*testing.T) pistore.Backend{
	"memory": newBackend,
	"jsonl": func(t *testing.T) pistore.Backend {
		b := jsonl.NewFolder(t.TempDir(), jsonl.Options{})
		t.Cleanup(func() { _ = b.Close() })
		return b
	},
	"jsonl, payloads on disk": func(t *testing.T) pistore.Backend {
		b := jsonl.NewFolder(t.TempDir(), jsonl.Options{DiskPayloadBytes: 1})
		t.Cleanup(func() { _ = b.Close() })
		return b
	},
	"one file": func(t *testing.T) pistore.Backend {
		b := jsonl.NewSingle(filepath.Join(t.TempDir(), "only.jsonl"), jsonl.Options{})
		t.Cleanup(func() { _ = b.Close() })
		return b
	},
	"logstore": func(t *testing.T) pistore.Backend {
		b, err := logstore.Open(filepath.Join(t.TempDir(), "db"), logstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	},
}

// onEach runs a test on each engine.
func onEach(t *testing.T, test func(t *testing.T, open func(*testing.T) pistore.Backend)) {
	for name, open := range engines {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// contentOf reads what a session holds, as texts by id or address. It closes s.
func contentOf(t *testing.T, s pistore.Storage) (entries map[pistore.ID]pistore.JSON, cells map[string]pistore.JSON, usage int) {
	t.Helper()
	entries, cells = map[pistore.ID]pistore.JSON{}, map[string]pistore.JSON{}
	for row, err := range s.Export(context.Background()) {
		switch r := row.(type) {
		case pistore.Entry:
			entries[r.ID] = r.Payload
		case pistore.Register:
			cells[r.Namespace+"/"+r.Key] = r.Value
		case pistore.UsageRow:
			usage++
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return entries, cells, usage
}

// opened opens a session for reading.
func opened(t *testing.T, b pistore.Backend, id pistore.SessionID) pistore.Storage {
	t.Helper()
	s, err := b.Open(t.Context(), id, pistore.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sound fails the test unless a session is free of faults.
func sound(t *testing.T, b pistore.Backend, id pistore.SessionID) {
	t.Helper()
	s := opened(t, b, id)
	r, err := verify.Check(t.Context(), s, verify.Options{Deep: true})
	if err != nil || len(r.Faults) > 0 {
		t.Errorf("session %s: %v, faults %v", id, err, r.Faults)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// write makes transactions on a new session and closes it.
func write(t *testing.T, b pistore.Backend, id pistore.SessionID, txs ...[]pistore.Write) {
	t.Helper()
	s, err := b.Create(t.Context(), pistore.Info{ID: id, CWD: "/w", CreatedAt: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, writes := range txs {
		if _, err := s.Commit(t.Context(), pistore.Tx{Writes: writes}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func said(id, parent pistore.ID, text string) pistore.Write {
	m := &session.UserMessage{Content: session.TextContent(text), Timestamp: 5}
	return pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: session.MessagePayload(m)}
}

func cell(namespace, key string, value pistore.JSON) pistore.Write {
	return pistore.SetRegister{Namespace: namespace, Key: key, Value: value}
}

var laneConfig = registers.EncodeLaneConfiguration(registers.LaneConfiguration{
	Model: registers.ModelRef{Provider: "faux", ModelID: "m"}, ThinkingLevel: "off", ActiveToolNames: []string{},
})

// laneAt is the registers of a lane; an open operation makes it busy.
func laneAt(name string, leaf, operation pistore.ID) []pistore.Write {
	return []pistore.Write{
		cell(registers.LaneLeafNS, name, registers.EncodeLaneLeaf(leaf)),
		cell(registers.LaneStateNS, name, registers.EncodeLaneState(registers.LaneState{CurrentOperationID: operation})),
		cell(registers.LaneConfigNS, name, laneConfig),
	}
}
