package search

import (
	"strings"

	"pistore"
	"pistore/session"
)

// maxText bounds the text of an entry in the index: what stands behind it in a
// longer one is not found.
const maxText = 1 << 20

// textOf returns what of an entry can be found: all text that somebody wrote or
// read, calls and their arguments included, and its role.
func textOf(e pistore.Entry) (role, text string) {
	var b strings.Builder
	if _, err := pistore.CompactJSON(string(e.Payload)); err != nil {
		return "", ""
	}
	switch e.Type {
	case pistore.TypeMessage:
		m, err := session.EntryMessage(e)
		if err != nil {
			return "", ""
		}
		role = string(m.Role())
		messageText(&b, m)
	case pistore.TypeCompaction:
		if c, err := session.ParseCompaction(e.Payload); err == nil {
			line(&b, c.Summary)
		}
	case pistore.TypeBranchSummary:
		if s, err := session.ParseBranchSummary(e.Payload); err == nil {
			line(&b, s.Summary)
		}
	default:
		data, _ := e.Payload.Member("data")
		line(&b, e.CustomType)
		jsonTexts(&b, data, 0)
	}
	return role, strings.ToValidUTF8(strings.ReplaceAll(b.String(), "\x00", " "), "\ufffd")
}

func messageText(b *strings.Builder, m session.Message) {
	switch m := m.(type) {
	case *session.UserMessage:
		content(b, m.Content)
	case *session.SystemMessage:
		content(b, m.Content)
		jsonTexts(b, m.Sections, 0)
	case *session.CustomMessage:
		content(b, m.Content)
	case *session.AssistantMessage:
		content(b, m.Content)
		line(b, m.ErrorMessage)
	case *session.ToolResultMessage:
		line(b, m.ToolName)
		content(b, m.Content)
	case *session.BashMessage:
		line(b, m.Command)
		line(b, m.Output)
	case *session.SummaryMessage:
		line(b, m.Summary)
	case *session.UnknownMessage:
		jsonTexts(b, m.Raw, 0)
	}
}

func content(b *strings.Builder, blocks []session.Block) {
	for _, block := range blocks {
		switch c := block.(type) {
		case session.Text:
			line(b, c.Text)
		case session.Thinking:
			line(b, c.Thinking)
		case session.ToolCall:
			line(b, c.Name)
			jsonTexts(b, c.Arguments, 0)
		}
	}
}

func line(b *strings.Builder, text string) {
	if text == "" || b.Len() > maxText {
		return
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(text[:min(len(text), maxText+1)])
}

// maxDepth bounds how deep texts are sought in a JSON value.
const maxDepth = 16

// jsonTexts adds the texts in a JSON value, decoded, so that they are found as
// they read; numbers and names are not texts.
func jsonTexts(b *strings.Builder, value pistore.JSON, depth int) {
	if text, ok := value.Text(); ok {
		line(b, text)
		return
	}
	if depth == maxDepth || b.Len() > maxText {
		return
	}
	for _, inner := range value.Members() {
		jsonTexts(b, inner, depth+1)
	}
	for inner := range value.Elements() {
		jsonTexts(b, inner, depth+1)
	}
}
