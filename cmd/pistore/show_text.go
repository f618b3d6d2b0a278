package main

import (
	"fmt"
	"strings"

	"pistore"
	"pistore/session"
)

// textTranscript writes for a terminal.
type textTranscript struct {
	p *paper
	// who spoke last: results stand below the response without a heading.
	who string
}

func (t *textTranscript) begin(of *transcript) error {
	name := of.name
	if name == "" {
		name = "session " + string(of.info.ID)
	}
	t.p.line(bold(brief(flat(name), columns-24)), dim("  lane "), cyan(brief(of.lane, 16)))
	if of.fileDamage != "" {
		t.p.labelled("  ", red, "✗ "+of.fileDamage)
	}
	if of.damage != nil {
		t.p.labelled("  ", red, "✗ the beginning is missing: "+of.damage.Error())
	}
	if of.omitted > 0 {
		t.p.line(dim("  … " + count(int64(of.omitted), "earlier entry", "earlier entries")))
	}
	if len(of.steps) == 0 {
		t.p.line(dim("  nothing was said"))
	}
	return nil
}

func (t *textTranscript) entry(step pathStep, e pistore.Entry) error {
	if step.branches > 0 {
		t.p.blank()
		t.p.line(yellow("  ├─ " + branchWords(step.branches)))
		t.who = ""
	}
	switch e.Type {
	case pistore.TypeMessage:
		t.message(e)
	case pistore.TypeCompaction:
		c, err := session.ParseCompaction(e.Payload)
		words := "compaction"
		if c.TokensBefore > 0 {
			words += " of " + count(c.TokensBefore, "token", "tokens")
		}
		if n := len(c.RetainedTail); n > 0 {
			words += ", " + count(int64(n), "message", "messages") + " kept"
		}
		t.rule(words, c.Summary, err)
	case pistore.TypeBranchSummary:
		b, err := session.ParseBranchSummary(e.Payload)
		t.rule("summary of a branch that was left", b.Summary, err)
	default:
		t.who = ""
		data, _ := e.Payload.Member("data")
		t.p.blank()
		t.p.line(dim("  "+brief(string(e.Type)+" "+e.CustomType, 30)+"  "), dim(brief(string(data), columns-36)))
	}
	return nil
}

func branchWords(n int) string {
	return count(int64(n), "other branch leaves", "other branches leave") + " here"
}

func (t *textTranscript) message(e pistore.Entry) {
	m, err := session.EntryMessage(e)
	if err != nil {
		t.who = ""
		t.p.blank()
		t.p.labelled("  ", red, "✗ "+err.Error())
		return
	}
	who, beside := headingOf(e, m)
	if _, result := m.(*session.ToolResultMessage); !result || t.who != "assistant" && t.who != "toolResult" {
		t.p.blank()
		t.head(who, beside, e.Timestamp)
	}
	t.who = who
	printMessage(t.p, "  ", m, showStyle)
}

func (t *textTranscript) head(who, beside string, at pistore.UnixMS) {
	who, when := brief(who, 20), minute(at)
	beside = brief(beside, columns-4-width(who)-width(when))
	gap := max(1, columns-2-width(who)-width(beside)-width(when))
	t.p.line(bold(who), plain("  "), dim(beside+strings.Repeat(" ", gap)+when))
}

// rule writes a summary, which stands between messages.
func (t *textTranscript) rule(words, summary string, err error) {
	t.who = ""
	t.p.blank()
	t.p.line(yellow("── " + words + " " + strings.Repeat("─", max(0, columns-4-width(words)))))
	if err != nil {
		t.p.labelled("  ", red, "✗ "+err.Error())
	}
	if summary != "" {
		t.p.block(dim, "  ", summary)
	}
}

func (t *textTranscript) end(of *transcript) error {
	if of.doing != "idle" {
		t.p.blank()
		t.p.labelled("", yellow, "⏸ "+of.doing)
	}
	return nil
}

// jsonTranscript writes the JSON of show, entry by entry.
type jsonTranscript struct {
	p     *paper
	of    *transcript
	count int
}

// shownEntry is one entry in the JSON of show.
type shownEntry struct {
	treeNode
	// OtherBranches leave from the same parent.
	OtherBranches int          `json:"otherBranches"`
	Payload       pistore.JSON `json:"payload"`
}

func (t *jsonTranscript) begin(of *transcript) error {
	t.of = of
	t.p.raw(fmt.Sprintf("{\"session\":%s,\"lane\":%s,\"doing\":%s,\"omitted\":%d,\"entries\":[",
		quoteJSON(string(of.info.ID)), quoteJSON(of.lane), quoteJSON(of.doing), of.omitted))
	return nil
}

func quoteJSON(s string) string { return string(safeJSON([]byte(pistore.QuoteJSON(s)))) }

func (t *jsonTranscript) entry(step pathStep, e pistore.Entry) error {
	if t.count++; t.count > 1 {
		t.p.raw(",")
	}
	t.p.raw("\n")
	role, _, _ := describe(e)
	legacy := ""
	if t.of.legacyID != nil {
		legacy = t.of.legacyID(e.ID)
	}
	return t.p.row(shownEntry{
		treeNode:      nodeOf(e, role, legacy),
		OtherBranches: step.branches, Payload: shown(e.Payload),
	})
}

func (t *jsonTranscript) end(of *transcript) error {
	t.p.raw("\n]")
	if of.damage != nil {
		t.p.raw(",\"damage\":" + quoteJSON(of.damage.Error()))
	}
	if of.fileDamage != "" {
		t.p.raw(",\"fileDamage\":" + quoteJSON(of.fileDamage))
	}
	t.p.raw("}\n")
	return nil
}
