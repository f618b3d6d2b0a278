package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"pistore"
	"pistore/session"
)

// forProvider turns a projected context into the messages that a provider
// takes: summaries, custom messages and commands of the user are sent as user
// content. Ill-formed Unicode is mended here and only here, since what is
// stored stays as it was given. A message of an unknown role cannot be sent.
func forProvider(projected []session.ProjectedMessage) []session.Message {
	var out []session.Message
	for _, p := range projected {
		switch m := p.Message.(type) {
		case *session.UserMessage, *session.ToolResultMessage, *session.SystemMessage, *session.AssistantMessage:
			out = append(out, mended(m))
		case *session.CustomMessage:
			out = append(out, mended(&session.UserMessage{Content: m.Content, Timestamp: m.Timestamp}))
		case *session.BashMessage:
			if !m.ExcludeFromContext {
				out = append(out, &session.UserMessage{Content: session.TextContent(bashText(m)), Timestamp: m.Timestamp})
			}
		case *session.SummaryMessage:
			out = append(out, &session.UserMessage{Content: session.TextContent(summaryText(m))})
		case *session.UnknownMessage:
		default:
			panic(fmt.Sprintf("harness: message %T", m))
		}
	}
	return out
}

func bashText(m *session.BashMessage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The user ran this command:\n```\n%s\n```\n", m.Command)
	if m.Output == "" {
		b.WriteString("It printed nothing.")
	} else {
		fmt.Fprintf(&b, "Its output:\n```\n%s\n```", m.Output)
	}
	if m.Truncated {
		b.WriteString("\nThe output is cut.")
	}
	switch {
	case m.Cancelled:
		b.WriteString("\nThe user cancelled it.")
	case m.ExitCode != nil && *m.ExitCode != 0:
		fmt.Fprintf(&b, "\nIt exited with code %d.", *m.ExitCode)
	}
	return b.String()
}

func summaryText(m *session.SummaryMessage) string {
	if m.Kind == session.RoleBranchSummary {
		return "The conversation went on along another branch and came back here. Summary of that branch:\n\n" + m.Summary
	}
	return "What was said before this point was replaced by this summary:\n\n" + m.Summary
}

// mended returns a message that is well-formed Unicode: m itself if it is.
func mended(m session.Message) session.Message {
	switch m := m.(type) {
	case *session.UserMessage:
		if content, changed := mendedBlocks(m.Content); changed {
			return &session.UserMessage{Content: content, Timestamp: m.Timestamp}
		}
	case *session.AssistantMessage:
		if content, changed := mendedBlocks(m.Content); changed {
			out := *m
			out.Content = content
			return &out
		}
	case *session.ToolResultMessage:
		if content, changed := mendedBlocks(m.Content); changed {
			out := *m
			out.Content = content
			return &out
		}
	case *session.SystemMessage:
		out := *m
		out.Content, _ = mendedBlocks(m.Content)
		out.Sections, out.ToolsAdded, out.ToolsRemoved = mendEscapes(m.Sections), mendEscapes(m.ToolsAdded), mendEscapes(m.ToolsRemoved)
		return &out
	}
	return m
}

// mendedBlocks mends what of content is JSON text: what was text has been
// mended when it was decoded, that of a projector excepted.
func mendedBlocks(content []session.Block) (out []session.Block, changed bool) {
	out = content
	for i, b := range content {
		m := b
		switch b := b.(type) {
		case session.Text:
			m = session.Text{Text: strings.ToValidUTF8(b.Text, "\uFFFD")}
		case session.ToolCall:
			b.Arguments = mendEscapes(b.Arguments)
			m = b
		case session.UnknownBlock:
			m = session.UnknownBlock{Raw: mendEscapes(b.Raw)}
		}
		if m != b {
			if !changed {
				out, changed = slices.Clone(content), true
			}
			out[i] = m
		}
	}
	return out, changed
}

// mendEscapes replaces the escapes of lone surrogates by that of U+FFFD.
func mendEscapes(j pistore.JSON) pistore.JSON {
	rest := string(j)
	if !strings.Contains(rest, `\u`) {
		return j
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(rest, '\\')
		if i < 0 {
			b.WriteString(rest)
			return pistore.JSON(b.String())
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		n := 2 // bytes of the escape
		unit, isUnit := escapedUnit(rest)
		if isUnit {
			n = 6
		}
		if low, ok := escapedUnit(rest[n:]); isUnit && ok && utf16.DecodeRune(unit, low) != utf8.RuneError {
			n = 12
		} else if isUnit && utf16.IsSurrogate(unit) {
			b.WriteString(`\ufffd`)
			rest = rest[n:]
			continue
		}
		b.WriteString(rest[:n])
		rest = rest[n:]
	}
}

// escapedUnit reads the UTF-16 unit of an escape \uXXXX at the start of s.
func escapedUnit(s string) (rune, bool) {
	if !strings.HasPrefix(s, `\u`) || len(s) < 6 {
		return 0, false
	}
	unit, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(unit), err == nil
}
