package verify_test

import (
	"slices"

	"pistore"
	"pistore/registers"
)

type brokenStore struct {
	invariant int
	name      string
	says      string // part of the place or the message
	deep      bool   // found by a deep check only
	warning   bool
	store     func() *fake
}

// with returns a store made of the whole one.
func with(change func(*fake)) func() *fake {
	return func() *fake {
		f := whole()
		change(f)
		return f
	}
}

// inState returns a store with another state of the open run.
func inState(change func(*registers.RunState)) func() *fake {
	return func() *fake { return changed(change) }
}

// leafAt moves lane main.
func leafAt(f *fake, id pistore.ID) {
	f.set(registers.LaneLeafNS, "main", pistore.QuoteJSON(string(id)))
}

func pendingRequest(response, usage pistore.ID) *registers.AssistantPending {
	return &registers.AssistantPending{
		Context: registers.Context{
			StepID: "S1", TriggerEntryID: "E1", Configuration: config, StreamOptions: "{}", RetryPolicy: registers.RetryPolicy{MaxAttempts: 4},
		},
		Attempt: 1, ResponseEntryID: response, UsageID: usage,
	}
}

// requesting returns a store whose run has a request in flight.
func requesting(response, usage pistore.ID, change func(*fake)) func() *fake {
	return func() *fake {
		f := changed(func(s *registers.RunState) { s.Phase = pendingRequest(response, usage) })
		f.drop(registers.OpToolArgsNS, "O1:S1:0")
		f.drop(registers.OpToolArgsNS, "O1:S1:1")
		f.drop(registers.OpToolOutputNS, "O1:S1:1")
		change(f)
		return f
	}
}

var brokenStores = slices.Concat(brokenRows, brokenAnswers, brokenStates)

var brokenRows = []brokenStore{
	{invariant: 0, name: "no header", says: "header", store: with(func(f *fake) { f.header = pistore.Header{} })},
	{invariant: 0, name: "two headers", says: "header", store: with(func(f *fake) { f.rows = append(f.rows, f.header) })},
	{invariant: 0, name: "usage that is no object", says: "U2", store: with(func(f *fake) { f.add(pistore.UsageRow{ID: "U2", Usage: `7`}) })},

	{invariant: 1, name: "two entries", says: "E1", store: with(func(f *fake) { f.addEntry("E1", "", pistore.TypeMessage, user) })},
	{invariant: 1, name: "two usage rows", says: "U1", store: with(func(f *fake) { f.add(pistore.UsageRow{ID: "U1", Usage: `{}`}) })},
	{invariant: 1, name: "usage row with the id of an entry", says: "E1", store: with(func(f *fake) { f.add(pistore.UsageRow{ID: "E1", Usage: `{}`}) })},
	{invariant: 1, name: "entry with the id of a usage row", says: "U1", store: with(func(f *fake) { f.addEntry("U1", "B4", pistore.TypeMessage, user) })},

	{invariant: 2, name: "a seq twice", says: "seq 2 after 2", store: with(func(f *fake) {
		u := f.rows[2].(pistore.UsageRow)
		u.Seq = 2
		f.rows[2] = u
	})},
	{invariant: 2, name: "a register's seq falls", says: "app.mine", store: with(func(f *fake) {
		r := f.rows[len(f.rows)-1].(pistore.Register)
		r.Seq = 3
		f.rows[len(f.rows)-1] = r
	})},
	{invariant: 2, name: "next seq in use", says: "header", store: with(func(f *fake) { f.header.NextSeq-- })},

	{invariant: 3, name: "tombstone", says: "app.mine/gone", store: with(func(f *fake) { f.addRegister("app.mine", "gone", "") })},
	{invariant: 3, name: "no JSON", says: "app.mine/bad", store: with(func(f *fake) { f.addRegister("app.mine", "bad", "{") })},
	{invariant: 3, name: "a register twice", says: "app.mine/k", store: with(func(f *fake) { f.addRegister("app.mine", "k", "1") })},
	{invariant: 3, name: "unknown shape", says: "fact.name", store: with(func(f *fake) { f.set(registers.FactNameNS, "", "7") })},
	{invariant: 3, name: "a leaf of no shape", says: "lane.leaf", store: with(func(f *fake) { f.set(registers.LaneLeafNS, "main", "7") })},
	{invariant: 3, name: "a lane state of no shape", says: "lane.state", store: with(func(f *fake) { f.set(registers.LaneStateNS, "main", "7") })},
	{invariant: 3, name: "an operation state of no shape", says: "op.state", store: with(func(f *fake) { f.set(registers.OpStateNS, "O1", "{}") })},
	{invariant: 3, name: "acceptance data of no shape", says: "op.meta", store: with(func(f *fake) { f.set(registers.OpMetaNS, "O1", "{}") })},
	{invariant: 3, name: "key of no shape", says: "op.tool_args", store: with(func(f *fake) { f.addRegister(registers.OpToolArgsNS, "x", "{}") })},
	{invariant: 3, name: "white space", says: "stored form", store: with(func(f *fake) { f.set("app.mine", "k", "[ 1]") })},
	{invariant: 3, name: "unknown namespace", says: "foreign/k", warning: true, store: with(func(f *fake) { f.addRegister("foreign", "k", "1") })},

	{invariant: 6, name: "missing parent", says: "gone", store: with(func(f *fake) { f.addEntry("X", "gone", pistore.TypeMessage, user) })},
	{invariant: 6, name: "parent after child", says: "after it", store: with(func(f *fake) {
		f.addEntry("X", "Y", pistore.TypeMessage, user)
		f.addEntry("Y", "E1", pistore.TypeMessage, user)
	})},
	{invariant: 6, name: "its own parent", says: "X", store: with(func(f *fake) { f.addEntry("X", "X", pistore.TypeMessage, user) })},

	{invariant: 7, name: "unknown type", says: "strange", store: with(func(f *fake) { f.addEntry("X", "B4", "strange", "{}") })},
	{invariant: 7, name: "message without data", says: "message is missing", store: with(func(f *fake) { f.addEntry("X", "B4", pistore.TypeMessage, "{}") })},
	{invariant: 7, name: "message without role", says: "role", store: with(func(f *fake) { f.addEntry("X", "B4", pistore.TypeMessage, `{"message":{}}`) })},
	{invariant: 7, name: "pending response", says: "pending", store: with(func(f *fake) {
		f.addEntry("X", "B4", pistore.TypeMessage, `{"message":{"role":"assistant","content":"","stopReason":"pending"}}`)
	})},
	{invariant: 7, name: "payload is no JSON", says: "payload", store: with(func(f *fake) { f.addEntry("X", "B4", pistore.TypeMessage, `{"message"`) })},
	{invariant: 7, name: "compaction without data", says: "summary", store: with(func(f *fake) { f.addEntry("X", "B4", pistore.TypeCompaction, "{}") })},
	{invariant: 7, name: "retained tail of no messages", says: "retainedTail[0]", store: with(func(f *fake) {
		f.addEntry("X", "B4", pistore.TypeCompaction, `{"summary":"","retainedTail":[7]}`)
	})},
	{invariant: 7, name: "branch summary without data", says: "summary", store: with(func(f *fake) { f.addEntry("X", "B4", pistore.TypeBranchSummary, "{}") })},
	{invariant: 7, name: "customType on a message", says: "customType", store: with(func(f *fake) {
		f.change("B3", func(e *pistore.Entry) { e.CustomType = "x" })
	})},

	{invariant: 8, name: "custom entry that configures", says: "lane.config", store: with(func(f *fake) {
		f.add(pistore.Entry{ID: "X", ParentID: "B4", Type: pistore.TypeCustom, CustomType: registers.LaneConfigNS})
	})},
	{invariant: 8, name: "lane on queued content", says: "P2", store: with(func(f *fake) { f.set(registers.LaneLeafNS, "side", `"P2"`) })},
}

var brokenAnswers = []brokenStore{
	{invariant: 4, name: "id index without an entry", says: "by its id", deep: true, store: with(func(f *fake) {
		f.entry = func(e *pistore.Entry) bool { return e.ID != "E2" }
	})},
	{invariant: 4, name: "two payloads of one entry", says: "another", deep: true, store: with(func(f *fake) {
		f.entry = func(e *pistore.Entry) bool {
			if e.ID == "E2" {
				e.Payload = user
			}
			return true
		}
	})},
	{invariant: 4, name: "register not found", says: "by its address", deep: true, store: with(func(f *fake) {
		f.register = func(r *pistore.Register) bool { return r.Namespace != "app.mine" }
	})},
	{invariant: 4, name: "two values of one register", says: "another", deep: true, store: with(func(f *fake) {
		f.register = func(r *pistore.Register) bool {
			if r.Namespace == "app.mine" {
				r.Value = "2"
			}
			return true
		}
	})},
	{invariant: 4, name: "scan without an entry", says: "scan", deep: true, store: with(func(f *fake) {
		f.scan = func(e []pistore.Entry) []pistore.Entry { return e[:len(e)-1] }
	})},
	{invariant: 4, name: "scan with one entry more", says: "scan", deep: true, store: with(func(f *fake) {
		f.scan = func(e []pistore.Entry) []pistore.Entry { return append(e, e[0]) }
	})},
	{invariant: 4, name: "scan without a usage row", says: "scan", deep: true, store: with(func(f *fake) {
		f.ledger = func([]pistore.UsageRow) []pistore.UsageRow { return nil }
	})},
	{invariant: 4, name: "listing without a register", says: "listing", deep: true, store: with(func(f *fake) {
		f.listing = func(r []pistore.Register) []pistore.Register {
			if len(r) == 2 && r[0].Namespace == registers.LaneLeafNS {
				return r[:1]
			}
			return r
		}
	})},

	{invariant: 10, name: "another parent", says: `"B1" is found`, store: with(func(f *fake) {
		f.parentOf = func(e pistore.Entry) pistore.ID {
			if e.ID == "B3" {
				return "B1"
			}
			return e.ParentID
		}
	})},
	{invariant: 10, name: "a loop", says: `"B3" is found`, store: with(func(f *fake) {
		f.parentOf = func(e pistore.Entry) pistore.ID {
			if e.ID == "B2" {
				return "B3"
			}
			return e.ParentID
		}
	})},
	{invariant: 10, name: "a branch cut short", says: "ends before", store: with(func(f *fake) {
		f.parentOf = func(e pistore.Entry) pistore.ID {
			if e.ID == "B2" {
				return ""
			}
			return e.ParentID
		}
	})},

	{invariant: 19, name: "entry count", says: "entries", store: with(func(f *fake) { f.stats = func(s *pistore.Stats) { s.Entries++ } })},
	{invariant: 19, name: "message count", says: "messages", store: with(func(f *fake) { f.stats = func(s *pistore.Stats) { s.Messages-- } })},
	{invariant: 19, name: "ledger sum", says: "cost total", store: with(func(f *fake) { f.stats = func(s *pistore.Stats) { s.Usage.Cost.Total = "0.2" } })},
}

var brokenStates = []brokenStore{
	{invariant: 11, name: "no acceptance data", says: "op.meta", store: with(func(f *fake) { f.drop(registers.OpMetaNS, "O1") })},
	{invariant: 11, name: "no state", says: "op.state", store: with(func(f *fake) {
		f.drop(registers.OpStateNS, "O1")
	})},
	{invariant: 11, name: "accepted in another lane", says: "side", store: with(func(f *fake) {
		m := meta()
		m.Lane = "side"
		f.set(registers.OpMetaNS, "O1", registers.EncodeOpMeta(m))
	})},
	{invariant: 11, name: "open in two lanes", says: "already", store: with(func(f *fake) {
		f.set(registers.LaneStateNS, "side", registers.EncodeLaneState(registers.LaneState{CurrentOperationID: "O1", PendingNextRun: []pistore.ID{"P2"}}))
	})},
	{invariant: 11, name: "another kind than accepted", says: "compaction", store: with(func(f *fake) {
		m := meta()
		m.Intent = registers.Intent{Kind: registers.KindCompaction}
		f.set(registers.OpMetaNS, "O1", registers.EncodeOpMeta(m))
	})},

	{invariant: 12, name: "state of an ended operation", says: "not open", store: with(func(f *fake) {
		f.addRegister(registers.OpStateNS, "O9", registers.EncodeOpState(&registers.NavigationState{TargetID: "E1"}))
	})},
	{invariant: 12, name: "arguments of an ended operation", says: "not open", store: with(func(f *fake) { f.addRegister(registers.OpToolArgsNS, "O9:S1:0", "{}") })},
	{invariant: 12, name: "arguments of an earlier batch", says: "left over", store: with(func(f *fake) { f.addRegister(registers.OpToolArgsNS, "O1:S0:0", "{}") })},
	{invariant: 12, name: "preparation left over", says: "left over", store: with(func(f *fake) {
		f.addRegister(registers.OpPreparationNS, "O1:T1", `{"messagesToSummarize":[],"retainedTail":[],"tokensBefore":0}`)
	})},
	{invariant: 12, name: "content that nobody has queued", says: "P9", store: with(func(f *fake) { f.addRegister(registers.PendingEntryNS, "P9", queuedMsg) })},

	{invariant: 14, name: "queued and placed", says: "P1", store: with(func(f *fake) { f.addEntry("P1", "B4", pistore.TypeMessage, user) })},
	{invariant: 14, name: "queued and nowhere", says: "P1", store: with(func(f *fake) { f.drop(registers.PendingEntryNS, "P1") })},
	{invariant: 14, name: "queued for the next run and nowhere", says: "P2", store: with(func(f *fake) { f.drop(registers.PendingEntryNS, "P2") })},
	{invariant: 14, name: "placed and still queued", says: "placed already", store: with(func(f *fake) {
		f.drop(registers.PendingEntryNS, "P1")
		f.addEntry("P1", "B4", pistore.TypeMessage, user)
	})},
	{invariant: 14, name: "placed and not deleted", says: "placed", store: with(func(f *fake) { f.addRegister(registers.PendingEntryNS, "B3", queuedMsg) })},
	{invariant: 14, name: "queued twice", says: "queued by", store: with(func(f *fake) {
		f.set(registers.LaneStateNS, "side", registers.EncodeLaneState(registers.LaneState{PendingNextRun: []pistore.ID{"P2", "P1"}}))
	})},
	{invariant: 14, name: "result under a reserved id", says: "E4", store: with(func(f *fake) { f.addEntry("E4", "B4", pistore.TypeMessage, result) })},
	{invariant: 14, name: "response under a reserved id", says: "R1", store: requesting("R1", "U2", func(f *fake) { f.addEntry("R1", "B4", pistore.TypeMessage, answering) })},
	{invariant: 14, name: "usage row under a reserved id", says: "U2", store: requesting("R1", "U2", func(f *fake) { f.add(pistore.UsageRow{ID: "U2", Usage: "{}"}) })},
	{invariant: 14, name: "reserved id that is old", says: "U1", store: requesting("R1", "U1", func(*fake) {})},

	{invariant: 17, name: "aborted without a request", says: "aborted", store: func() *fake {
		f := changed(func(s *registers.RunState) {
			s.LatestAssistantEntryID = "X"
			s.Phase = &registers.Checkpoint{Continuation: &registers.NeedAssistant{}, TriggerEntryID: "E1"}
		})
		f.drop(registers.OpToolArgsNS, "O1:S1:0")
		f.drop(registers.OpToolArgsNS, "O1:S1:1")
		f.drop(registers.OpToolOutputNS, "O1:S1:1")
		f.addEntry("X", "E3", pistore.TypeMessage, aborted)
		leafAt(f, "X")
		return f
	}},

	{invariant: 21, name: "leaf that does not exist", says: "gone", store: with(func(f *fake) { f.set(registers.LaneLeafNS, "side", `"gone"`) })},
	{invariant: 21, name: "lane without leaf", says: "no leaf", store: with(func(f *fake) { f.drop(registers.LaneLeafNS, "side") })},
	{invariant: 21, name: "lane without state", says: "no state", store: with(func(f *fake) {
		f.addRegister(registers.LaneLeafNS, "third", "null")
	})},
	{invariant: 21, name: "open operation without configuration", says: "configuration", store: with(func(f *fake) { f.drop(registers.LaneConfigNS, "main") })},
	{invariant: 21, name: "arguments missing", says: "O1:S1:1", store: with(func(f *fake) { f.drop(registers.OpToolArgsNS, "O1:S1:1") })},
	{invariant: 21, name: "prompt missing", says: "gone", store: with(func(f *fake) {
		m := meta()
		m.Intent.PromptEntryIDs = []pistore.ID{"gone"}
		f.set(registers.OpMetaNS, "O1", registers.EncodeOpMeta(m))
	})},
	{invariant: 21, name: "latest response missing", says: "gone", store: inState(func(s *registers.RunState) { s.LatestAssistantEntryID = "gone" })},
	{invariant: 21, name: "latest response is none", says: "role assistant", store: inState(func(s *registers.RunState) { s.LatestAssistantEntryID = "E1" })},
	{invariant: 21, name: "latest response on another branch", says: "not on the branch", store: inState(func(s *registers.RunState) { s.LatestAssistantEntryID = "B3" })},
	{invariant: 21, name: "result is none", says: "role toolResult", store: inState(func(s *registers.RunState) { s.Phase.(*registers.Tools).Calls[0].ResultEntryID = "E1" })},
	{invariant: 21, name: "a call that the response does not make", says: "makes 2", store: func() *fake {
		f := changed(func(s *registers.RunState) { s.Phase.(*registers.Tools).Calls[1].SourceIndex = 2 })
		f.drop(registers.OpToolOutputNS, "O1:S1:1")
		f.drop(registers.OpToolArgsNS, "O1:S1:1")
		f.addRegister(registers.OpToolArgsNS, "O1:S1:2", "{}")
		return f
	}},
	{invariant: 21, name: "label of nothing", says: "fact.label/gone", warning: true, store: with(func(f *fake) { f.addRegister(registers.FactLabelNS, "gone", `"x"`) })},
	{invariant: 21, name: "last result of nothing", says: "gone", warning: true, store: with(func(f *fake) {
		f.set(registers.LaneLastResultNS, "side", `{"operationId":"O0","kind":"run","outcome":"completed","leafId":"gone"}`)
	})},
	{invariant: 21, name: "no lane main", says: "main", warning: true, store: func() *fake {
		f := &fake{header: pistore.Header{Info: pistore.Info{ID: "s"}, NextSeq: 1}}
		f.addRegister(registers.LaneLeafNS, "side", "null")
		f.addRegister(registers.LaneStateNS, "side", registers.EncodeLaneState(registers.LaneState{}))
		return f
	}},
}
