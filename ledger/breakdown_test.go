package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/ledger"
)

func TestBreakdown(t *testing.T) {
	at := func(day, hour, minute int) pistore.ID {
		return pistore.UUIDv7(pistore.UnixMS(time.Date(2025, 3, day, hour, minute, 0, 0, time.UTC).UnixMilli()), make([]byte, 10))
	}
	march8, march9 := at(8, 23, 59), at(9, 0, 0)
	rows := []pistore.UsageRow{
		{ID: march8, Usage: `{"input":1}`, Details: `{"lane":"main","purpose":"assistant","provider":"p","modelId":"m","operationId":"o"}`},
		{ID: march9, Usage: `{"input":2}`, Details: `{"lane":"side","purpose":"assistant","provider":"q","modelId":"m"}`},
		{ID: march9, Usage: `{"input":4}`, Details: `{"lane":"main","purpose":"tool","toolName":"read"}`},
		{ID: "not-a-uuid", Usage: `{"input":8}`},
		{ID: march9, Usage: `{"input":-16}`, Adjustment: true, Details: `{"source":"v3-import","provider":"q","lane":7}`},
		{ID: march8, Usage: `{"input":null}`, Details: `["lane"]`},
	}
	type line struct {
		Provider, Name string
		Rows, Unusable int64
		Input          pistore.Decimal
	}
	want := map[ledger.Dimension][]line{
		ledger.ByModel:   {{"p", "m", 1, 0, "1"}, {"q", "m", 1, 0, "2"}, {"", "", 4, 1, "-4"}},
		ledger.ByTool:    {{"", "read", 1, 0, "4"}, {"", "", 5, 1, "-5"}},
		ledger.ByLane:    {{"", "main", 2, 0, "5"}, {"", "side", 1, 0, "2"}, {"", "", 3, 1, "-8"}},
		ledger.ByPurpose: {{"", "assistant", 2, 0, "3"}, {"", "tool", 1, 0, "4"}, {"", "", 3, 1, "-8"}},
		ledger.ByDay:     {{"", "2025-03-08", 2, 1, "1"}, {"", "2025-03-09", 3, 0, "-10"}, {"", "", 1, 0, "8"}},
	}
	var b ledger.Breakdown
	for _, r := range rows {
		b.Add(r)
	}
	if got := b.Totals(); got.Rows != 6 || got.Unusable != 1 || got.Input != "-1" {
		t.Errorf("all: %+v", got)
	}
	for d, want := range want {
		var got []line
		for _, g := range b.By(d) {
			got = append(got, line{g.Provider, g.Name, g.Totals.Rows, g.Totals.Unusable, g.Totals.Input})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dimension %d: -want +got\n%s", d, diff)
		}
	}
}

func TestBreakdownOfNothing(t *testing.T) {
	var b ledger.Breakdown
	if got := b.By(ledger.ByLane); len(got) != 0 {
		t.Errorf("groups %v", got)
	}
	if diff := cmp.Diff(ledger.Zero(), b.Totals()); diff != "" {
		t.Error(diff)
	}
}
