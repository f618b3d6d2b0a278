package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/registers"
)

// A commit tells of everything that it makes durable, in the order of its
// writes, with the start of a run before and the news of its rows behind.
func TestCommittedTellsOfEachWrite(t *testing.T) {
	about := About{Lane: "main", OperationID: "O", TurnID: "S"}
	content := registers.PendingEntry{Type: pistore.TypeCustom, CustomType: "note", Payload: `{"n":1}`}
	tx := pistore.Tx{Writes: []pistore.Write{
		pistore.SetRegister{Namespace: registers.PendingEntryNS, Key: "E1", Value: registers.EncodePendingEntry(content)},
		pistore.InsertEntry{ID: "E2", ParentID: "E0", Type: pistore.TypeMessage, Payload: `{"message":{}}`},
		pistore.SetRegister{Namespace: registers.LaneLeafNS, Key: "main", Value: `"E2"`},
		pistore.InsertUsage{ID: "U1", EntryID: "E2", Usage: `{"input":1}`, Details: `{}`},
		pistore.SetRegister{Namespace: registers.FactLabelNS, Key: "E2", Value: `"here"`},
		pistore.DeleteRegister{Namespace: registers.FactNameNS},
		pistore.DeleteRegister{Namespace: registers.PendingEntryNS, Key: "E2"},
	}}
	r := pistore.Receipt{Seqs: []pistore.Seq{11, 12, 13, 14, 15, 16, 17}, Timestamp: 99}
	want := []Event{
		RunStart{about},
		WritePending{about, "E1", content},
		EntryAdded{about, pistore.Entry{ID: "E2", ParentID: "E0", Seq: 12, Timestamp: 99, Type: pistore.TypeMessage, Payload: `{"message":{}}`}},
		UsageAdded{about, pistore.UsageRow{ID: "U1", Seq: 14, Usage: `{"input":1}`, EntryID: "E2", Details: `{}`}},
		FactUpdate{about, pistore.Address{Namespace: registers.FactLabelNS, Key: "E2"}, `"here"`},
		FactUpdate{about, pistore.Address{Namespace: registers.FactNameNS}, ""},
		QueueUpdate{about, Queues{NextRun: []pistore.ID{"E1"}}},
		TurnEnd{about},
	}
	from := &position{state: registers.LaneState{PendingNextRun: []pistore.ID{"E2"}}}
	to := &position{state: registers.LaneState{PendingNextRun: []pistore.ID{"E1"}}}
	got := committed(about, from, to, tx, r, []Event{RunStart{about}, TurnEnd{about}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
