package main

import (
	"fmt"

	"pistore"
	"pistore/session"
)

// messageStyle says how much of a message is printed.
type messageStyle struct {
	// fold keeps thinking, arguments and results to one line each.
	fold bool
}

var (
	contextStyle = messageStyle{}
	showStyle    = messageStyle{fold: true}
)

// printMessage prints the content of a message below its heading.
func printMessage(p *paper, indent string, m session.Message, style messageStyle) {
	switch m := m.(type) {
	case *session.UserMessage:
		printBlocks(p, indent, m.Content, style)
	case *session.SystemMessage:
		printBlocks(p, indent, m.Content, style)
		if m.Sections != "" {
			p.line(plain(indent), dim("sections "), plain(brief(string(m.Sections), columns-width(indent)-9)))
		}
	case *session.CustomMessage:
		printBlocks(p, indent, m.Content, style)
	case *session.AssistantMessage:
		printBlocks(p, indent, m.Content, style)
		if why := stopWords(m); why != "" {
			p.block(red, indent, "✗ "+why)
		}
	case *session.ToolResultMessage:
		printResult(p, indent, m, style)
	case *session.BashMessage:
		printBash(p, indent, m, style)
	case *session.SummaryMessage:
		p.block(plain, indent, m.Summary)
	case *session.UnknownMessage:
		p.line(plain(indent), dim(brief(string(m.Raw), columns-width(indent))))
	default:
		panic(fmt.Sprintf("pistore: unknown message %T", m))
	}
}

func printBlocks(p *paper, indent string, content []session.Block, style messageStyle) {
	for _, b := range content {
		switch b := b.(type) {
		case session.Text:
			if b.Text != "" {
				p.block(plain, indent, b.Text)
			}
		case session.Thinking:
			printThinking(p, indent, b, style)
		case session.Image:
			p.line(plain(indent), dim(imageWords(b)))
		case session.ToolCall:
			printCall(p, indent, b, style)
		case session.UnknownBlock:
			p.line(plain(indent), dim(brief(string(b.Raw), columns-width(indent))))
		default:
			panic(fmt.Sprintf("pistore: unknown block %T", b))
		}
	}
}

func imageWords(b session.Image) string {
	return fmt.Sprintf("image, %s, %s", brief(b.MIMEType, 40), bytesOf(int64(len(b.Data))*3/4))
}

func printThinking(p *paper, indent string, b session.Thinking, style messageStyle) {
	if style.fold || b.Redacted {
		words := "thinking, " + count(lineCount(b.Thinking), "line", "lines")
		if b.Redacted {
			words = "thinking, redacted"
		}
		p.line(plain(indent), dim(words))
		return
	}
	p.block(dim, indent, b.Thinking)
}

func printCall(p *paper, indent string, c session.ToolCall, style messageStyle) {
	if style.fold {
		name := brief(c.Name, 24)
		p.line(plain(indent), cyan("→ "+name+" "), dim(brief(string(c.Arguments), columns-width(indent)-3-width(name))))
		return
	}
	p.line(plain(indent), cyan("→ "+c.Name), dim(" "+c.ID))
	p.block(dim, indent+"  ", string(c.Arguments))
}

func printResult(p *paper, indent string, m *session.ToolResultMessage, style messageStyle) {
	mark, paint := "← ", green
	if m.IsError {
		mark, paint = "✗ ", red
	}
	if !style.fold {
		p.line(plain(indent), paint(mark+m.ToolName), dim(" "+m.ToolCallID))
		printBlocks(p, indent+"  ", m.Content, style)
		return
	}
	name := brief(m.ToolName, 24)
	text := contentLine(m.Content)
	if n := lineCount(session.JoinText(m.Content)); n > 1 {
		text = fmt.Sprintf("%s lines: %s", grouped(fmt.Sprint(n)), text)
	}
	p.line(plain(indent), paint(mark+name+" "), plain(brief(text, columns-width(indent)-3-width(name))))
}

func printBash(p *paper, indent string, m *session.BashMessage, style messageStyle) {
	p.block(cyan, indent, "$ "+m.Command)
	how := ""
	switch {
	case m.Cancelled:
		how = "cancelled"
	case m.ExitCode != nil && *m.ExitCode != 0:
		how = fmt.Sprintf("exit %d", *m.ExitCode)
	}
	if m.Truncated {
		how = joinDetail(how, "output truncated")
	}
	if m.ExcludeFromContext {
		how = joinDetail(how, "not in the context")
	}
	if !style.fold {
		p.block(plain, indent+"  ", m.Output)
	} else if n := lineCount(m.Output); n > 0 {
		how = joinDetail(how, count(n, "line", "lines")+" of output")
	}
	if how != "" {
		p.line(plain(indent), dim(how))
	}
}

// headingOf is who speaks, and what else stands beside it.
func headingOf(e pistore.Entry, m session.Message) (who, beside string) {
	switch m := m.(type) {
	case *session.AssistantMessage:
		return "assistant", modelWords(m)
	case *session.CustomMessage:
		return "custom", m.CustomType
	case *session.BashMessage:
		return "shell", "run by the user"
	case nil:
		return string(e.Type), e.CustomType
	default:
		return string(m.Role()), ""
	}
}

func modelWords(m *session.AssistantMessage) string {
	switch {
	case m.Model == "":
		return m.Provider
	case m.Provider == "":
		return m.Model
	default:
		return m.Provider + "/" + m.Model
	}
}
