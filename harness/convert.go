package harness

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pistore/session"
)

// forProvider turns a projected context into the messages that a provider
// takes: summaries, custom messages and commands of the user are sent as user
// content. Ill-formed Unicode is mended here and only here, since what is
// stored stays as it was given. A message of an unknown role cannot be sent. The
// messages may be those of the projection.
func forProvider(projected []session.ProjectedMessage) []session.Message {
	out := make([]session.Message, 0, len(projected))
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
		out.Sections, out.ToolsAdded, out.ToolsRemoved = m.Sections.ToWellFormed(), m.ToolsAdded.ToWellFormed(), m.ToolsRemoved.ToWellFormed()
		return &out
	}
	return m
}

// mendedBlocks mends what of content is JSON text: what was text has been
// mended when it was decoded, that of a projector excepted.
func mendedBlocks(content []session.Block) (out []session.Block, changed bool) {
	out = content
	set := func(i int, b session.Block) {
		if !changed {
			out, changed = slices.Clone(content), true
		}
		out[i] = b
	}
	for i, b := range content {
		switch b := b.(type) {
		case session.Text:
			if !utf8.ValidString(b.Text) {
				set(i, session.Text{Text: strings.ToValidUTF8(b.Text, "\uFFFD")})
			}
		case session.ToolCall:
			if args := b.Arguments.ToWellFormed(); args != b.Arguments {
				b.Arguments = args
				set(i, b)
			}
		case session.UnknownBlock:
			if raw := b.Raw.ToWellFormed(); raw != b.Raw {
				set(i, session.UnknownBlock{Raw: raw})
			}
		}
	}
	return out, changed
}
