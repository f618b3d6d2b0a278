package page

import (
	"context"
	"errors"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
)

// kind is what an entry is to a reader; it is a class in the document.
type kind string

const (
	user       kind = "user"
	model      kind = "model"
	toolResult kind = "tool"
	shell      kind = "shell"
	system     kind = "system"
	summary    kind = "summary"
	other      kind = "other"
)

// node is what is held of an entry.
type node struct {
	id       pistore.ID
	seq      pistore.Seq
	at       pistore.UnixMS
	kind     kind
	failed   bool   // an answer or a call that failed, or content that cannot be read
	preview  string // one line
	bytes    int    // of content in the page, about
	stored   int64  // bytes of content
	orphan   bool   // its parent is not there
	compacts bool
	parent   int // index; -1: none
	children []int
	turn     int // the user entry that it follows from; -1: none

	calls  []string // ids of the calls that an answer makes
	callOf string   // the call that a result belongs to
	tool   string   // of a result
	spend  spend
	model  int // index into models; -1: none

	kept bool // its content is in the page
	seg  int  // the segment that it is in
}

// spend is what one request used.
type spend struct {
	there                                bool
	input, output, cacheRead, cacheWrite float64
	cost                                 float64
}

// document is a session as the page shows it.
type document struct {
	src    Source
	limits Limits

	header pistore.Header
	nodes  []node
	byID   map[pistore.ID]int
	labels map[pistore.ID]string
	name   string
	models []string
	broken bool // reading ended at damage

	segments []segment
	lanesAt  map[int][]int // lanes by the node that they stand on
	unplaced float64       // cost of rows that no time is known of

	turns       map[int]*turn
	keptEntries int
}

// read reads a session once, without holding content.
func read(ctx context.Context, src Source, limits Limits) (*document, error) {
	d := &document{
		src: src, limits: limits, header: pistore.Header{Info: src.Storage.Info()},
		byID: map[pistore.ID]int{}, labels: map[pistore.ID]string{}, lanesAt: map[int][]int{},
	}
	books := &books{byEntry: map[pistore.ID]spend{}}
	for row, err := range src.Storage.Export(ctx) {
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if !errors.Is(err, pistore.ErrCorrupt) {
				return nil, err
			}
			d.broken = true
			break
		}
		switch row := row.(type) {
		case pistore.Header:
			d.header = row
		case pistore.Entry:
			d.add(row)
		case pistore.UsageRow:
			books.add(d, row)
		case pistore.Register:
			d.fact(row)
		}
	}
	books.settle(d)
	d.turns = d.sumTurns()
	for i, l := range src.Lanes {
		if at, ok := d.byID[l.Leaf]; ok {
			d.lanesAt[at] = append(d.lanesAt[at], i)
		}
	}
	d.keep()
	d.split()
	return d, nil
}

func (d *document) fact(r pistore.Register) {
	switch r.Namespace {
	case registers.FactLabelNS:
		if text, err := registers.DecodeText(r.Value); err == nil {
			d.labels[pistore.ID(r.Key)] = text
		}
	case registers.FactNameNS:
		if text, err := registers.DecodeText(r.Value); err == nil {
			d.name = text
		}
	}
}

func (d *document) add(e pistore.Entry) {
	n := node{
		id: pistore.ID(strings.Clone(string(e.ID))), seq: e.Seq, at: e.Timestamp, parent: -1, turn: -1, model: -1,
		bytes: min(len(e.Payload), d.limits.EntryBytes), stored: int64(len(e.Payload)),
	}
	d.describe(&n, e)
	n.preview = strings.Clone(oneLine(n.preview, 160))
	i := len(d.nodes)
	if parent, ok := d.byID[e.ParentID]; ok && e.ParentID != "" {
		n.parent, n.turn = parent, d.nodes[parent].turn
		d.nodes[parent].children = append(d.nodes[parent].children, i)
	} else if e.ParentID != "" {
		n.orphan = true
	}
	if n.kind == user {
		n.turn = i
	}
	if _, twice := d.byID[n.id]; !twice {
		d.byID[n.id] = i
	}
	d.nodes = append(d.nodes, n)
}

// describe fills in what an entry's content says.
func (d *document) describe(n *node, e pistore.Entry) {
	n.kind = other
	if _, err := pistore.CompactJSON(string(e.Payload)); err != nil {
		n.failed, n.preview = true, "content that cannot be read"
		return
	}
	switch e.Type {
	case pistore.TypeMessage:
		m, err := session.EntryMessage(e)
		if err != nil {
			n.failed, n.preview = true, "content that cannot be read"
			return
		}
		d.describeMessage(n, m)
	case pistore.TypeCompaction:
		c, err := session.ParseCompaction(e.Payload)
		n.kind, n.compacts, n.preview, n.failed, n.spend = summary, true, c.Summary, err != nil, spendOf(c.Usage)
	case pistore.TypeBranchSummary:
		b, err := session.ParseBranchSummary(e.Payload)
		n.kind, n.preview, n.failed, n.spend = summary, b.Summary, err != nil, spendOf(b.Usage)
	default:
		n.preview = e.CustomType
	}
}

func (d *document) describeMessage(n *node, m session.Message) {
	switch m := m.(type) {
	case *session.UserMessage:
		n.kind, n.preview = user, contentLine(m.Content)
	case *session.SystemMessage:
		n.kind, n.preview = system, contentLine(m.Content)
	case *session.CustomMessage:
		n.preview = m.CustomType + ": " + contentLine(m.Content)
	case *session.BashMessage:
		n.kind, n.preview = shell, "$ "+m.Command
		n.failed = m.ExitCode != nil && *m.ExitCode != 0
	case *session.ToolResultMessage:
		n.kind, n.failed, n.preview = toolResult, m.IsError, m.ToolName+": "+contentLine(m.Content)
		n.callOf, n.tool, n.spend = strings.Clone(m.ToolCallID), strings.Clone(m.ToolName), spendOf(m.Usage)
	case *session.AssistantMessage:
		n.kind, n.preview, n.spend = model, contentLine(m.Content), spendOf(m.Usage)
		n.model = d.modelIndex(m)
		n.failed = m.StopReason == session.StopError || m.StopReason == session.StopAborted
		for _, c := range m.ToolCalls() {
			n.calls = append(n.calls, strings.Clone(c.ID))
		}
		if n.failed {
			n.preview = string(m.StopReason) + ": " + m.ErrorMessage
		}
	case *session.UnknownMessage:
		n.preview = string(m.RoleName)
	}
}

// modelIndex returns the number of an answer's model.
func (d *document) modelIndex(m *session.AssistantMessage) int {
	name := modelName(m.Provider, firstOf(m.ResponseModel, m.Model))
	for i, has := range d.models {
		if has == name {
			return i
		}
	}
	if name == "" || len(d.models) == 1000 {
		return -1
	}
	d.models = append(d.models, strings.Clone(name))
	return len(d.models) - 1
}

func modelName(provider, name string) string {
	if provider == "" || name == "" {
		return firstOf(name, provider)
	}
	return provider + "/" + name
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// contentLine is what content says first, or what it holds instead of text.
func contentLine(content []session.Block) string {
	images, thoughts := 0, 0
	var calls []string
	for _, b := range content {
		switch b := b.(type) {
		case session.Text:
			if line := oneLine(b.Text, 160); line != "" {
				return line
			}
		case session.Image:
			images++
		case session.Thinking:
			thoughts++
		case session.ToolCall:
			calls = append(calls, b.Name)
		}
	}
	switch {
	case len(calls) > 0:
		return "calls " + strings.Join(calls[:min(len(calls), 8)], ", ")
	case images > 0:
		return counted(images, "image", "images")
	case thoughts > 0:
		return "thinking only"
	default:
		return ""
	}
}
