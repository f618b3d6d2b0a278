package main

import (
	"fmt"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"pistore"
	"pistore/session"
)

// markdownTranscript writes a Markdown document. What people and models wrote
// is Markdown as a rule and stays as it is, escapes of control characters aside;
// what tools took and gave is code.
type markdownTranscript struct{ p *paper }

func (t *markdownTranscript) begin(of *transcript) error {
	name := flat(of.name)
	if name == "" {
		name = "Session " + string(of.info.ID)
	}
	t.heading("# " + name)
	t.heading(fmt.Sprintf("*Session %s, lane %s, %s*", of.info.ID, brief(of.lane, 20), instant(of.info.CreatedAt)))
	if of.fileDamage != "" {
		t.text("**Damaged:** " + of.fileDamage)
	}
	if of.damage != nil {
		t.text("**The beginning is missing:** " + of.damage.Error())
	}
	if of.omitted > 0 {
		t.text("*… " + count(int64(of.omitted), "earlier entry", "earlier entries") + "*")
	}
	return nil
}

// text writes paragraphs.
func (t *markdownTranscript) text(s string) {
	for _, line := range safeLines(s) {
		t.p.whole(line)
	}
	t.p.blank()
}

// maxHeading bounds a heading: with an id and a name it may be wider than a
// terminal.
const maxHeading = 200

// heading writes one line.
func (t *markdownTranscript) heading(s string) {
	t.p.whole(brief(flat(s), maxHeading))
	t.p.blank()
}

// fold writes a section that is closed until somebody opens it.
func (t *markdownTranscript) fold(summary, body string) {
	t.p.whole("<details><summary>" + html.EscapeString(brief(flat(summary), maxHeading)) + "</summary>")
	t.p.blank()
	fence := "```"
	for strings.Contains(body, fence) {
		fence += "`"
	}
	t.p.whole(fence + "text")
	for _, line := range safeLines(body) {
		t.p.whole(line)
	}
	t.p.whole(fence)
	t.p.blank()
	t.p.line(plain("</details>"))
	t.p.blank()
}

func (t *markdownTranscript) entry(step pathStep, e pistore.Entry) error {
	if step.branches > 0 {
		t.text("> ├─ " + branchWords(step.branches))
	}
	switch e.Type {
	case pistore.TypeMessage:
		m, err := session.EntryMessage(e)
		if err != nil {
			t.text("**Cannot be read:** " + err.Error())
			return nil
		}
		t.message(e, m)
	case pistore.TypeCompaction:
		c, err := session.ParseCompaction(e.Payload)
		t.text("---\n\n*Compaction*\n\n" + c.Summary + errorWords(err))
	case pistore.TypeBranchSummary:
		b, err := session.ParseBranchSummary(e.Payload)
		t.text("---\n\n*Summary of a branch that was left*\n\n" + b.Summary + errorWords(err))
	default:
		data, _ := e.Payload.Member("data")
		t.fold("custom: "+e.CustomType, string(data))
	}
	return nil
}

func errorWords(err error) string {
	if err == nil {
		return ""
	}
	return "\n\n**Cannot be read:** " + err.Error()
}

func (t *markdownTranscript) message(e pistore.Entry, m session.Message) {
	switch m := m.(type) {
	case *session.ToolResultMessage:
		what := "result of " + m.ToolName
		if m.IsError {
			what = "error of " + m.ToolName
		}
		t.fold(what, blocksText(m.Content))
		return
	case *session.BashMessage:
		t.heading("## Shell")
		t.fold("$ "+firstLine(m.Command), "$ "+m.Command+"\n"+m.Output)
		return
	}
	who, beside := headingOf(e, m)
	if beside != "" {
		beside = " (" + beside + ")"
	}
	t.heading("## " + titled(who) + beside)
	switch m := m.(type) {
	case *session.AssistantMessage:
		t.blocks(m.Content)
		if why := stopWords(m); why != "" {
			t.text("**✗ " + why + "**")
		}
	case *session.UserMessage:
		t.blocks(m.Content)
	case *session.SystemMessage:
		t.blocks(m.Content)
	case *session.CustomMessage:
		t.blocks(m.Content)
	case *session.SummaryMessage:
		t.text(m.Summary)
	case *session.UnknownMessage:
		t.fold("a message of role "+string(m.RoleName), string(m.Raw))
	default:
		panic(fmt.Sprintf("pistore: unknown message %T", m))
	}
}

// titled writes the first letter of a role large.
func titled(who string) string {
	r, size := utf8.DecodeRuneInString(who)
	return string(unicode.ToUpper(r)) + who[size:]
}

func (t *markdownTranscript) blocks(content []session.Block) {
	for _, b := range content {
		switch b := b.(type) {
		case session.Text:
			t.text(b.Text)
		case session.Thinking:
			t.fold("thinking", b.Thinking)
		case session.Image:
			t.text("*" + imageWords(b) + "*")
		case session.ToolCall:
			t.fold("call of "+b.Name, string(b.Arguments))
		case session.UnknownBlock:
			t.fold("a block of another kind", string(b.Raw))
		default:
			panic(fmt.Sprintf("pistore: unknown block %T", b))
		}
	}
}

// blocksText is content as plain text.
func blocksText(content []session.Block) string {
	var parts []string
	for _, b := range content {
		switch b := b.(type) {
		case session.Text:
			parts = append(parts, b.Text)
		case session.Image:
			parts = append(parts, imageWords(b))
		}
	}
	return strings.Join(parts, "\n")
}

func (t *markdownTranscript) end(of *transcript) error {
	if of.doing != "idle" {
		t.text("> ⏸ " + of.doing)
	}
	return nil
}

var _, _, _ transcriptWriter = (*textTranscript)(nil), (*jsonTranscript)(nil), (*markdownTranscript)(nil)
