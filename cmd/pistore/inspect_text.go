package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"pistore"
	"pistore/registers"
)

func printHeader(p *paper, r inspectReport) {
	p.line(bold("session "), plain(string(r.Session.ID)))
	if r.Session.Name != "" {
		p.line(plain("  "), bold(flat(r.Session.Name)))
	}
}

// printOverview prints a report for people, below its header.
func printOverview(p *paper, r inspectReport) {
	p.line(dim("  created  "), plain(instant(r.Session.CreatedAt)))
	if r.Session.CWD != "" {
		p.line(dim("  in       "), plain(brief(r.Session.CWD, columns-11)))
	}
	if r.Session.ParentSessionID != "" {
		p.line(dim("  forked   "), plain("from "+string(r.Session.ParentSessionID)))
	} else if r.Session.LegacyParentPath != "" {
		p.line(dim("  forked   "), plain(brief("from "+r.Session.LegacyParentPath, columns-11)))
	}
	p.labelled("  stored   ", plain, storedWords(r))
	p.labelled("  holds    ", plain, entriesWords(r.Entries))
	if r.Legacy != nil {
		printLegacy(p, *r.Legacy)
	}
	printLanes(p, r.Lanes)
	printFacts(p, r)
	printUsage(p, r.Usage)
}

func storedWords(r inspectReport) string {
	text := r.Format
	if r.Legacy == nil {
		text += fmt.Sprintf(", storage version %d", r.Session.StorageVersion)
	}
	s := r.Size
	if s == nil {
		return text
	}
	text += ", " + bytesOf(s.Bytes)
	if s.TornBytes == nil { // no file
		return text + " in the folder"
	}
	var parts []string
	if n := s.DeadBytes; n != nil && *n > 0 {
		parts = append(parts, bytesOf(*n)+" are dead")
	}
	if n := *s.TornBytes; n > 0 {
		parts = append(parts, bytesOf(n)+" at the end are torn")
	}
	if len(parts) > 0 {
		text += ", of which " + joined(parts)
	}
	return text
}

// printLegacy prints what a file of formats 1 to 3 says beside its rows.
func printLegacy(p *paper, l legacyView) {
	var types []string
	for _, name := range sortedKeys(l.RecordsByType) {
		types = append(types, fmt.Sprintf("%s %s", grouped(fmt.Sprint(l.RecordsByType[name])), brief(name, 24)))
	}
	if len(types) > 0 {
		p.labelled("  records  ", plain, strings.Join(types, ", "))
	}
	var settings []string
	if m := l.Model; m != nil {
		settings = append(settings, brief(m.Provider+"/"+m.ModelID, 40))
	}
	if l.ThinkingLevel != "" {
		settings = append(settings, "thinking "+brief(l.ThinkingLevel, 20))
	}
	if len(l.ActiveTools) > 0 {
		settings = append(settings, toolWords(l.ActiveTools))
	}
	if len(settings) > 0 {
		p.labelled("  last set ", plain, strings.Join(settings, " · "))
	}
	if l.LeafID != "" {
		p.line(dim("  ends at  "), plain("record "+brief(l.LeafID, columns-18)))
	}
	if b := l.LongerBranch; b != nil {
		p.line(dim("  longer   "), yellow(brief(fmt.Sprintf("a branch goes on for %s, to %s", count(int64(b.Entries), "entry", "entries"), b.LegacyTipID), columns-11)))
	}
}

func heading(p *paper, text string) {
	p.blank()
	p.line(bold(text))
}

func entriesWords(e entriesView) string {
	if e.Total == 0 {
		return "no entries"
	}
	text := count(e.Messages, "message", "messages")
	for _, t := range []struct {
		kind      pistore.EntryType
		one, many string
	}{
		{pistore.TypeCompaction, "compaction", "compactions"},
		{pistore.TypeBranchSummary, "branch summary", "branch summaries"},
		{pistore.TypeCustom, "custom entry", "custom entries"},
	} {
		if n := e.ByType[string(t.kind)]; n > 0 {
			text += ", " + count(n, t.one, t.many)
		}
	}
	if e.Roots > 1 {
		text += ", " + count(e.Roots, "root", "roots")
	}
	if e.Tips > 1 {
		text += ", " + count(e.Tips, "tip", "tips")
	}
	return text
}

const laneColumn = 12

func printLanes(p *paper, lanes []laneView) {
	heading(p, "Lanes")
	if len(lanes) == 0 {
		p.line(dim("  none"))
	}
	indent := strings.Repeat(" ", laneColumn+2)
	for _, l := range lanes {
		name, style, doing := safe(l.Name), dim, "idle"
		switch {
		case l.problem != "":
			style, doing = red, l.problem
		case l.Operation != nil:
			style, doing = yellow, l.Operation.words
		}
		if width(name) >= laneColumn {
			p.line(plain("  "), cyan(cut(name, columns-2)))
			name = ""
		}
		p.named(name, style, doing)
		for _, text := range laneDetails(l) {
			p.labelled(indent, dim, text)
		}
	}
}

// named writes what something is doing beside its name.
func (p *paper) named(name string, style func(string) span, doing string) {
	const room = columns - laneColumn - 2
	for _, row := range breakLine(brief(doing, maxRows*room), room) {
		p.line(plain("  "), cyan(pad(name, laneColumn)), style(row))
		name = ""
	}
}

// toolWords lists tools by name.
func toolWords(names []string) string {
	const most = 30
	words := make([]string, 0, most)
	for i, name := range names {
		if i == most {
			words = append(words, fmt.Sprintf("%d more", len(names)-most))
			break
		}
		words = append(words, brief(name, 24))
	}
	return "tools " + strings.Join(words, ", ")
}

// laneDetails are the lines below what a lane is doing.
func laneDetails(l laneView) []string {
	var lines []string
	where := "before any entry"
	if l.LeafID != "" {
		at := shortID(l.LeafID)
		if l.LegacyLeafID != "" {
			at = brief(l.LegacyLeafID, 40)
		}
		where = fmt.Sprintf("at %s, %s deep", at, count(int64(l.Depth), "entry", "entries"))
	}
	lines = append(lines, where)
	if c := l.config; c != nil {
		text := fmt.Sprintf("%s, thinking %s", brief(c.Model.Provider+"/"+c.Model.ModelID, 40), brief(c.ThinkingLevel, 20))
		if len(c.ActiveToolNames) > 0 {
			text += " · " + toolWords(c.ActiveToolNames)
		}
		lines = append(lines, text)
	}
	if op := l.Operation; op != nil {
		text := "operation " + string(op.ID)
		if op.Resumes > 0 {
			text += fmt.Sprintf(" · resumed %s", count(op.Resumes, "time", "times"))
		}
		if op.Queued > 0 {
			text += fmt.Sprintf(" · %s queued", count(int64(op.Queued), "input", "inputs"))
		}
		lines = append(lines, text)
	}
	if l.NextRun > 0 {
		lines = append(lines, count(int64(l.NextRun), "input waits", "inputs wait")+" for the next run")
	}
	if l.last != nil {
		lines = append(lines, lastResultWords(*l.last))
	}
	return lines
}

func lastResultWords(r registers.LastResult) string {
	text := fmt.Sprintf("last %s: %s", r.Kind, r.Outcome)
	if r.RunCompletion == registers.WithTerminateTools {
		text += " by tools"
	}
	if r.Error != nil {
		text += ", " + r.Error.Code + because(r.Error.Message)
	}
	return text
}

// maxLabels bounds the labels of an overview; a tree shows all of them.
const maxLabels = 20

func printFacts(p *paper, r inspectReport) {
	if len(r.Facts.Labels)+len(r.Facts.Custom) > 0 {
		heading(p, "Facts")
	}
	for i, l := range r.Facts.Labels {
		if i == maxLabels {
			p.line(dim(fmt.Sprintf("  and %s more labels (--json has them all)", grouped(fmt.Sprint(len(r.Facts.Labels)-maxLabels)))))
			break
		}
		at := shortID(l.EntryID)
		if l.LegacyEntryID != "" {
			at = brief(l.LegacyEntryID, 12)
		}
		p.line(dim("  label       "), plain(pad(at, 14)), plain(brief(l.Label, columns-28)))
	}
	printValues(p, "custom", r.Facts.Custom)
	if len(r.Documents) > 0 {
		heading(p, "Documents")
	}
	for _, d := range r.Documents {
		name := d.Kind
		if d.Lane != "" {
			name += " of " + d.Lane
		}
		name = brief(name, 30)
		p.line(plain("  "+name+"  "), dim(brief(string(d.Value), columns-4-width(name))))
	}
	if len(r.Tasks)+len(r.Timers) > 0 {
		heading(p, "Tasks and timers")
	}
	for _, t := range r.Tasks {
		p.line(dim("  task        "), plain(brief(t.ID, 36)), plain(" "), dim(brief(string(t.State), columns-52)))
	}
	for _, t := range r.Timers {
		p.line(dim("  timer       "), plain(instant(t.DueAt)+"  "), dim(brief(t.ID, columns-40)))
	}
}

func printValues(p *paper, what string, values map[string]pistore.JSON) {
	for _, key := range sortedKeys(values) {
		name := brief(key, 28)
		p.line(dim(pad("  "+what, 14)), plain(name+" = "), plain(brief(string(values[key]), columns-18-width(name))))
	}
}

func printUsage(p *paper, u usageView) {
	if u.Rows == 0 {
		return
	}
	heading(p, "Usage")
	printSumsHead(p, "model")
	rows := int64(0)
	for _, m := range u.ByModel {
		name := m.Provider + "/" + m.ModelID
		if m.ModelID == "" {
			name = "no model"
		}
		rows += m.Rows
		printSums(p, plain, name, m.Rows, m.sumsView)
	}
	if len(u.ByModel) != 1 {
		printSums(p, bold, "total", rows, u.sumsView)
	}
	printUnusable(p, u.Unusable)
}

func printEntries(p *paper, v *survey) {
	for _, n := range v.nodes {
		e := n.entry
		kind := string(e.Type)
		switch {
		case n.role != "":
			kind = n.role
		case e.CustomType != "":
			kind = e.CustomType
		}
		parent := v.short(e.ParentID)
		if e.ParentID == "" {
			parent = "root"
		}
		p.line(padLeftDim(fmt.Sprint(e.Seq), 8), plain("  "), cyan(pad(safe(v.short(e.ID)), 13)), dim("← "+pad(safe(parent), 13)),
			plain(pad(brief(kind, 18), 19)), dim(minute(e.Timestamp)))
	}
}

func padLeftDim(s string, columns int) span { return dim(padLeft(s, columns)) }

func printRegisters(p *paper, cells []registerView) {
	last := ""
	for _, r := range cells {
		if r.Namespace != last {
			last = r.Namespace
			p.line(plain("  "), cyan(brief(r.Namespace, columns-2)))
		}
		key := plain(brief(r.Key, columns-22))
		if r.Key == "" {
			key = dim("empty key")
		}
		p.line(plain("    "), key, dim(fmt.Sprintf("  seq %d", r.Seq)))
		p.block(plain, "      ", string(r.Value))
	}
}

func printEntry(p *paper, e entryView) error {
	p.line(bold("entry "), plain(string(e.ID)))
	if e.LegacyID != "" {
		p.line(dim("  in file   "), plain(brief(e.LegacyID, columns-12)))
	}
	parent := string(e.ParentID)
	if parent == "" {
		parent = "none, it is a root"
	}
	kind := string(e.Type)
	if e.CustomType != "" {
		kind += " " + e.CustomType
	}
	if e.Role != "" {
		kind += " of " + e.Role
	}
	p.line(dim("  parent    "), plain(brief(parent, columns-12)))
	p.line(dim("  type      "), plain(brief(kind, columns-12)))
	p.line(dim("  written   "), plain(fmt.Sprintf("%s, seq %d", instantMS(e.Timestamp), e.Seq)))
	if e.Label != "" {
		p.line(dim("  label     "), plain(brief(e.Label, columns-12)))
	}
	for _, child := range e.Children {
		p.line(dim("  child     "), plain(string(child)))
	}
	p.blank()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(e.Payload), "", "  "); err != nil {
		return err
	}
	p.raw(string(safeJSON(b.Bytes())))
	p.raw("\n")
	return nil
}

func printContext(p *paper, lane string, r contextReport) {
	p.line(bold("context of "), cyan(lane), plain(": "+count(int64(len(r.Messages)), "message", "messages")))
	for i, m := range r.Messages {
		mark := ""
		if m.Synthetic {
			mark = " (stands in for a result that is missing)"
		}
		p.blank()
		p.line(dim(padLeft(fmt.Sprint(i+1), 4)+"  "), bold(string(m.Role)), dim("  from "+sourceWords(m)+mark))
		printMessage(p, "      ", m.view, contextStyle)
	}
	if len(r.Notes) > 0 {
		heading(p, "Left out")
	}
	for _, n := range r.Notes {
		p.line(plain("  "), yellow(shortID(n.EntryID)))
		p.labelled("    ", plain, n.Problem)
	}
}

// sourceWords names the entry that a message comes from, by its id in the file
// where it has one.
func sourceWords(m contextMessage) string {
	if m.LegacySource != "" {
		return shortID(pistore.ID(m.LegacySource))
	}
	return shortID(m.Source)
}
