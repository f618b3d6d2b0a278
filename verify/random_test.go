package verify_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pistore"
	"pistore/internal/allocs"
	"pistore/registers"
	"pistore/verify"
)

// Whatever rows a store has, a check ends with a report: it does not panic, and
// it does not loop, though ids repeat and parents go in circles.
func TestRandomRows(t *testing.T) {
	good := whole()
	rapid.Check(t, func(t *rapid.T) {
		f := &fake{header: good.header, rows: slices.Clone(good.rows)}
		if rapid.Bool().Draw(t, "from nothing") {
			f.rows = nil
		}
		for _, row := range rapid.SliceOfN(rapid.Custom(drawRow), 0, 30).Draw(t, "rows") {
			at := rapid.IntRange(0, len(f.rows)).Draw(t, "at")
			if at < len(f.rows) && rapid.Bool().Draw(t, "replace") {
				f.rows[at] = row
			} else {
				f.rows = slices.Insert(f.rows, at, row)
			}
		}
		report, err := verify.Check(t.Context(), f, verify.Options{Deep: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Checked; int(n.Entries+n.Usage+n.Registers) > len(f.rows) {
			t.Fatalf("%+v of %d rows", n, len(f.rows))
		}
	})
}

// FuzzPayload lets the fuzzer write an entry's payload and a register's value.
func FuzzPayload(f *testing.F) {
	f.Add(user, "lane.state", "main", "null")
	f.Add(`{"message":{"role":"assistant","content":[{"type":"toolCall"}]}}`, "op.state", "O1", string(registers.EncodeOpState(tools())))
	f.Add(`{"`, "op.meta", "O1", `{"operationId":"O1"`)
	f.Fuzz(func(t *testing.T, payload, namespace, key, value string) {
		for _, kind := range []pistore.EntryType{pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary, pistore.TypeCustom} {
			s := whole()
			s.addEntry("X", "B4", kind, pistore.JSON(payload))
			s.addRegister(namespace, key, pistore.JSON(value))
			allocs.Within(t, len(payload)+len(namespace)+len(key)+len(value), 300, 4<<20, func() {
				if _, err := verify.Check(t.Context(), s, verify.Options{Deep: true}); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

func drawRow(t *rapid.T) pistore.Row {
	id := rapid.SampledFrom([]pistore.ID{"E1", "E2", "E3", "E4", "P1", "P2", "U1", "O1", "X", "Y", "", "\x00", "\xff"})
	seq := rapid.OneOf(rapid.Int64Range(1, 40), rapid.Int64())
	switch rapid.IntRange(0, 9).Draw(t, "form") {
	case 0:
		return pistore.Header{NextSeq: pistore.Seq(seq.Draw(t, "next"))}
	case 1:
		return nil
	case 2, 3:
		return pistore.UsageRow{
			ID: id.Draw(t, "id"), Seq: pistore.Seq(seq.Draw(t, "seq")),
			Usage: drawJSON(t, `{"input":1,"cost":{"total":-1}}`), Details: drawJSON(t, `{"lane":"main"}`),
		}
	case 4, 5, 6:
		return pistore.Entry{
			ID: id.Draw(t, "id"), ParentID: id.Draw(t, "parent"), Seq: pistore.Seq(seq.Draw(t, "seq")),
			Type:       rapid.SampledFrom([]pistore.EntryType{pistore.TypeMessage, pistore.TypeCompaction, pistore.TypeBranchSummary, pistore.TypeCustom, "", "odd"}).Draw(t, "type"),
			CustomType: rapid.SampledFrom([]string{"", "note", "op.state"}).Draw(t, "customType"),
			Payload:    drawJSON(t, user, calling, result, aborted, `{"summary":"s","retainedTail":[{}]}`),
		}
	default:
		names := []string{"app.x", "odd", ""}
		for _, n := range registers.Namespaces() {
			names = append(names, n.Name)
		}
		return pistore.Register{
			Namespace: rapid.SampledFrom(names).Draw(t, "namespace"), Seq: pistore.Seq(seq.Draw(t, "seq")),
			Key: rapid.SampledFrom([]string{"", "main", "side", "O1", "O2", "O1:S1:0", "O1:S1:1", "O1:T1", "P1", "E1", "::"}).Draw(t, "key"),
			Value: drawJSON(
				t, `"E1"`, "null", `{"currentOperationId":"O1","pendingNextRun":["P1","P2"]}`, `{"currentOperationId":null,"pendingNextRun":[]}`,
				string(registers.EncodeOpState(tools())), string(registers.EncodeOpState(&registers.NavigationState{TargetID: "E1"})),
				string(registers.EncodeOpMeta(meta())), queuedMsg,
			),
		}
	}
}

// drawJSON draws one of a few texts, whole or cut.
func drawJSON(t *rapid.T, texts ...string) pistore.JSON {
	text := rapid.SampledFrom(append(texts, "{}", "[]", "", "7", "{\"a\":[[[")).Draw(t, "json")
	if rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
		text = text[:rapid.IntRange(0, len(text)).Draw(t, "bytes")]
	}
	return pistore.JSON(text)
}
