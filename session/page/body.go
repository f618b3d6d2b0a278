package page

import (
	"fmt"
	"strconv"
	"strings"

	"pistore"
	"pistore/session"
)

// entryView is an entry in the transcript.
type entryView struct {
	N        int
	Kind     kind
	Who      string
	Beside   string // the model, the tool, the application's type
	Clock    string
	Machine  string
	Full     string
	Took     string
	Spent    string
	Turn     string // of a prompt: what followed from it
	Failed   bool
	Problem  string // how an answer failed, or that a parent is missing
	Label    string
	Lanes    []string
	Blocks   []block
	ID       string
	LegacyID string
	For      string // of a result by itself: the call that it belongs to
}

// block is one piece of content.
type block struct {
	Pieces  []piece // text
	Fold    string  // the summary under which it is folded; empty: open
	Thought bool
	Image   *imageView
	Call    *callView
}

// callView is a call of a tool with its result.
type callView struct {
	Name, Gist string
	Args       []arg
	Result     *resultView
	State      string // ok, failed, missing
	Took       string
}

type arg struct {
	Name  string
	Value []piece
	Short bool
}

type resultView struct {
	N      int
	Blocks []block
	Lines  string
}

// entry makes the view of an entry; results are those of its calls, one for each,
// nil where there is none.
func (w *writer) entry(at int, e pistore.Entry, results []*pistore.Entry, nodes []int) entryView {
	d, n := w.doc, &w.doc.nodes[at]
	v := entryView{
		N: at, Kind: n.kind, Who: whoOf[n.kind], Clock: clock(n.at), Machine: machine(n.at), Full: instant(n.at) + " UTC", Failed: n.failed,
		Label: oneLine(d.labels[n.id], 100), Lanes: d.laneNames(at), ID: oneLine(string(n.id), 200), LegacyID: oneLine(d.legacyID(n.id), 200),
	}
	if ms := d.took(at); ms > 0 {
		v.Took = duration(ms)
	}
	if s := n.spend; s.there && s.sent()+s.output > 0 {
		v.Spent = compact(s.sent()) + " in, " + compact(s.output) + " out"
		if s.cost != 0 {
			v.Spent += ", " + money(s.cost)
		}
	}
	if t := d.turns[at]; t != nil {
		v.Turn = t.words()
	}
	r := &room{d.limits.EntryBytes}
	if _, err := pistore.CompactJSON(string(e.Payload)); err != nil {
		v.Problem = "The content cannot be read."
		v.Blocks = []block{{Pieces: r.code(string(e.Payload))}}
	} else {
		w.content(&v, r, e, results, nodes)
	}
	if n.orphan {
		v.Failed = true
		v.Problem = strings.TrimSpace("The parent " + oneLine(string(e.ParentID), 80) + " is not there. " + v.Problem)
	}
	return v
}

var whoOf = map[kind]string{
	user: "You", model: "Model", toolResult: "Tool result", shell: "Shell", system: "System", summary: "Summary", other: "Entry",
}

func (w *writer) content(v *entryView, r *room, e pistore.Entry, results []*pistore.Entry, nodes []int) {
	switch e.Type {
	case pistore.TypeMessage:
		m, err := session.EntryMessage(e)
		if err != nil {
			raw, _ := e.Payload.Member("message")
			v.Problem = "The message cannot be read: " + oneLine(err.Error(), 300)
			v.Blocks = []block{{Fold: "As it is stored", Pieces: r.code(string(raw))}}
			return
		}
		w.message(v, r, m, results, nodes)
	case pistore.TypeCompaction:
		c, err := session.ParseCompaction(e.Payload)
		v.Who = "Compaction"
		if c.TokensBefore > 0 {
			v.Beside = compact(float64(c.TokensBefore)) + " tokens before"
		}
		if n := len(c.RetainedTail); n > 0 {
			v.Beside = strings.TrimPrefix(v.Beside+", ", ", ") + counted(n, "message", "messages") + " kept as they were"
		}
		v.text(r, c.Summary, err)
	case pistore.TypeBranchSummary:
		b, err := session.ParseBranchSummary(e.Payload)
		v.Who = "Branch summary"
		v.text(r, firstOf(b.Summary, "(empty)"), err)
	default:
		v.Who, v.Beside = "Application", oneLine(e.CustomType, 100)
		data, _ := e.Payload.Member("data")
		v.Blocks = []block{{Fold: "Data, " + sizeWords(int64(len(data))), Pieces: r.code(string(data))}}
	}
}

func (v *entryView) text(r *room, text string, err error) {
	if err != nil {
		v.Problem = "The content cannot be read: " + oneLine(err.Error(), 300)
	}
	v.Blocks = append(v.Blocks, block{Pieces: r.pieces(text)})
}

func (w *writer) message(v *entryView, r *room, m session.Message, results []*pistore.Entry, nodes []int) {
	switch m := m.(type) {
	case *session.UserMessage:
		v.Blocks = w.blocks(r, m.Content)
	case *session.SystemMessage:
		v.Blocks = fold(w.blocks(r, m.Content), "System prompt")
		if m.Sections != "" {
			v.Blocks = append(v.Blocks, block{Fold: "Sections", Pieces: r.code(string(m.Sections))})
		}
	case *session.CustomMessage:
		v.Who, v.Beside = "Application", oneLine(m.CustomType, 100)
		v.Blocks = w.blocks(r, m.Content)
	case *session.BashMessage:
		w.shell(v, r, m)
	case *session.SummaryMessage:
		v.Blocks = []block{{Pieces: r.pieces(m.Summary)}}
	case *session.UnknownMessage:
		v.Who, v.Beside = "Message", oneLine(string(m.RoleName), 100)
		v.Blocks = []block{{Fold: "As it is stored", Pieces: r.code(string(m.Raw))}}
	case *session.ToolResultMessage:
		v.Beside = oneLine(m.ToolName, 100)
		v.For = oneLine(m.ToolCallID, 100)
		v.Blocks = fold(w.output(r, m.Content), "Output, "+counted(lines(m.Content), "line", "lines"))
	case *session.AssistantMessage:
		if name := oneLine(modelName(m.Provider, firstOf(m.ResponseModel, m.Model)), 100); name != w.model {
			v.Beside, w.model = name, name
		}
		v.Problem = oneLine(stopWords(m), 600)
		v.Blocks = w.answer(r, m, results, nodes)
	}
}

// stopWords says how a response failed to be a whole answer.
func stopWords(m *session.AssistantMessage) string {
	because := ""
	if m.ErrorMessage != "" {
		because = ": " + m.ErrorMessage
	}
	switch m.StopReason {
	case session.StopError:
		return "The request failed" + because
	case session.StopAborted:
		return "The request was aborted" + because
	case session.StopDeferred:
		return "The provider answers later"
	case session.StopLength:
		return "Cut off at the output limit"
	default:
		return ""
	}
}

func (w *writer) shell(v *entryView, r *room, m *session.BashMessage) {
	v.Blocks = []block{{Pieces: r.code("$ " + m.Command)}}
	var how []string
	if m.Cancelled {
		how = append(how, "cancelled")
	}
	if m.ExitCode != nil && *m.ExitCode != 0 {
		how = append(how, fmt.Sprintf("exit code %d", *m.ExitCode))
	}
	if m.Truncated {
		how = append(how, "output truncated")
	}
	if m.ExcludeFromContext {
		how = append(how, "not sent to the model")
	}
	v.Beside = strings.Join(how, ", ")
	if m.Output != "" {
		v.Blocks = append(v.Blocks, block{Fold: "Output, " + counted(lineCount(m.Output), "line", "lines"), Pieces: r.code(m.Output)})
	}
}

func (w *writer) blocks(r *room, content []session.Block) []block {
	var blocks []block
	for _, b := range content {
		switch b := b.(type) {
		case session.Text:
			if p := r.pieces(b.Text); len(p) > 0 {
				blocks = append(blocks, block{Pieces: p})
			}
		case session.Thinking:
			blocks = append(blocks, thought(r, b))
		case session.Image:
			v := w.image(b)
			blocks = append(blocks, block{Image: &v})
		case session.ToolCall:
			blocks = append(blocks, block{Call: w.call(r, b, nil, -1)})
		case session.UnknownBlock:
			blocks = append(blocks, block{Fold: "Content of a kind that is not known", Pieces: r.code(string(b.Raw))})
		}
	}
	return blocks
}

// output is content of which nothing is prose.
func (w *writer) output(r *room, content []session.Block) []block {
	var blocks []block
	for _, b := range content {
		if t, ok := b.(session.Text); ok {
			if p := r.code(t.Text); len(p) > 0 {
				blocks = append(blocks, block{Pieces: p})
			}
			continue
		}
		blocks = append(blocks, w.blocks(r, []session.Block{b})...)
	}
	return blocks
}

func thought(r *room, b session.Thinking) block {
	if b.Redacted {
		return block{Thought: true, Fold: "Thinking, redacted by the provider", Pieces: []piece{{Text: "The provider keeps it."}}}
	}
	return block{Thought: true, Fold: "Thinking, " + counted(lineCount(b.Thinking), "line", "lines"), Pieces: r.pieces(b.Thinking)}
}

func fold(blocks []block, summary string) []block {
	for i := range blocks {
		if blocks[i].Fold == "" && blocks[i].Call == nil && blocks[i].Image == nil {
			blocks[i].Fold = summary
		}
	}
	return blocks
}

// answer shows an answer, its calls with their results.
func (w *writer) answer(r *room, m *session.AssistantMessage, results []*pistore.Entry, nodes []int) []block {
	var blocks []block
	k := 0
	for _, b := range m.Content {
		c, ok := b.(session.ToolCall)
		if !ok {
			blocks = append(blocks, w.blocks(r, []session.Block{b})...)
			continue
		}
		var result *pistore.Entry
		node := -1
		if k < len(results) {
			result, node = results[k], nodes[k]
		}
		k++
		blocks = append(blocks, block{Call: w.call(r, c, result, node)})
	}
	return blocks
}

func (w *writer) call(r *room, c session.ToolCall, result *pistore.Entry, node int) *callView {
	v := &callView{Name: oneLine(firstOf(c.Name, "a tool without a name"), 80), State: "missing"}
	if c.Arguments != "{}" && c.Arguments != "" {
		v.argue(r, "", c.Arguments, 0)
	}
	if result == nil {
		return v
	}
	m, err := session.EntryMessage(*result)
	t, ok := m.(*session.ToolResultMessage)
	if err != nil || !ok {
		return v
	}
	v.State = "ok"
	if t.IsError {
		v.State = "failed"
	}
	if ms := w.doc.took(node); ms > 0 {
		v.Took = duration(ms)
	}
	own := &room{w.doc.limits.EntryBytes} // a result is an entry of its own
	v.Result = &resultView{N: node, Blocks: w.output(own, t.Content), Lines: counted(lines(t.Content), "line", "lines")}
	return v
}

// Arguments of a call are shown one by one, so that texts in them read as they
// are; those that lie deeper, or are too many, as JSON.
const (
	maxArgs     = 64
	maxArgDepth = 4
)

func (v *callView) argue(r *room, name string, value pistore.JSON, depth int) {
	if len(v.Args) == maxArgs {
		v.Args = append(v.Args, arg{Name: "…", Value: []piece{{Cut: true, Text: "further arguments are left out"}}})
	}
	if len(v.Args) > maxArgs {
		return
	}
	if depth < maxArgDepth && value != "{}" && value != "[]" {
		inner := false
		for key, value := range value.Members() {
			v.argue(r, strings.TrimPrefix(name+"."+oneLine(key, 80), "."), value, depth+1)
			inner = true
		}
		if strings.HasPrefix(string(value), "[{") {
			n := 0
			for value := range value.Elements() {
				n++
				v.argue(r, fmt.Sprintf("%s %d", name, n), value, depth+1)
			}
			inner = true
		}
		if inner {
			return
		}
	}
	text, isText := value.Text()
	if !isText {
		text = string(value)
	}
	if v.Gist == "" {
		v.Gist = oneLine(text, 120)
	}
	short := len(text) < 80 && !strings.Contains(text, "\n")
	v.Args = append(v.Args, arg{Name: firstOf(name, "arguments"), Value: r.code(text), Short: short})
}

func lines(content []session.Block) int { return lineCount(session.JoinText(content)) }

func lineCount(text string) int {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return 0
	}
	return strings.Count(text, "\n") + 1
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
