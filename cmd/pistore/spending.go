package main

import (
	"context"

	"pistore"
	"pistore/jsonl"
	"pistore/ledger"
)

// spending breaks down what a session used.
//
// The ledger of an imported session has one row for all that its answers used,
// since a file of formats 1 to 3 keeps that in the answers. That row says
// nothing of models, tools and days, so the answers are taken in its place,
// provided that they add up to exactly what it says.
func spending(ctx context.Context, s pistore.Storage) (*ledger.Breakdown, error) {
	var rows, detailed ledger.Breakdown
	imports, last := 0, pistore.Seq(0)
	for row, err := range s.ScanUsage(ctx, pistore.ScanQuery{}) {
		if err != nil {
			return nil, err
		}
		rows.Add(row)
		if isImport(row) {
			imports, last = imports+1, row.Seq
		} else {
			detailed.Add(row)
		}
	}
	if imports != 1 {
		return &rows, nil
	}
	// What was imported stands before the row; what came later has its own.
	for e, err := range s.ScanEntries(ctx, pistore.ScanQuery{ToSeq: last}) {
		if err != nil {
			return nil, err
		}
		if row, ok := usageOf(e); ok {
			detailed.Add(row)
		}
	}
	if !sameSums(rows.Totals(), detailed.Totals()) {
		return &rows, nil
	}
	return &detailed, nil
}

// isImport reports whether a row stands for what imported answers used.
func isImport(row pistore.UsageRow) bool {
	source, _ := row.Details.Member("source")
	return row.Adjustment && source == `"v3-import"`
}

// usageOf makes a row of what an imported entry used.
func usageOf(e pistore.Entry) (pistore.UsageRow, bool) {
	row := pistore.UsageRow{ID: e.ID, EntryID: e.ID}
	of := e.Payload
	details := `{"lane":"main"`
	add := func(name string, value pistore.JSON) {
		if _, ok := value.Text(); ok {
			details += `,"` + name + `":` + string(value)
		}
	}
	switch e.Type {
	case pistore.TypeMessage:
		of, _ = e.Payload.Member("message")
		role, _ := of.Member("role")
		switch role {
		case `"assistant"`:
			provider, _ := of.Member("provider")
			add("provider", provider)
			model, _ := of.Member("responseModel")
			if _, ok := model.Text(); !ok {
				model, _ = of.Member("model")
			}
			add("modelId", model)
		case `"toolResult"`:
			tool, _ := of.Member("toolName")
			add("toolName", tool)
		default:
			return row, false
		}
	case pistore.TypeCompaction, pistore.TypeBranchSummary:
	default:
		return row, false
	}
	usage, _ := of.Member("usage")
	row.Usage = jsonl.ImportedUsage(usage)
	row.Details = pistore.JSON(details + "}")
	return row, row.Usage != "" && row.Usage != "null"
}

// sameSums compares totals, whatever number of rows they come from.
func sameSums(a, b pistore.Totals) bool {
	a.Rows, a.Unusable, b.Rows, b.Unusable = 0, 0, 0, 0
	return a == b
}
