package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pistore"
	"pistore/ledger"
	"pistore/registers"
	"pistore/session"
)

// survey is what is read of a session to inspect it: structure, registers and
// sums, and of each entry's content one line if it is asked for. It takes
// whatever a damaged store yields.
type survey struct {
	words  bool // role and content of entries are looked at
	header pistore.Header
	nodes  []node
	byID   map[pistore.ID]int // the first entry with the id

	registers []pistore.Register
	at        map[pistore.Address]pistore.JSON
	usage     ledger.Breakdown
	texts     map[string]string
	legacy    func(pistore.ID) string // ids in the file; nil: no file
}

// legacyID returns the id that an entry has in the file, empty if it has none.
func (v *survey) legacyID(id pistore.ID) string {
	if v.legacy == nil {
		return ""
	}
	return v.legacy(id)
}

// short is how an entry is named where there is little room: by its id in the
// file, where people can look it up, else by a part of its own.
func (v *survey) short(id pistore.ID) string {
	if legacy := v.legacyID(id); legacy != "" {
		return brief(legacy, 12)
	}
	return shortID(id)
}

// node is an entry without its content.
type node struct {
	entry    pistore.Entry // Payload is empty
	role     string        // stored role of a message
	preview  string        // one line, not yet safe
	bad      bool          // an answer that failed, or content that cannot be read
	parent   int           // index; -1: none, or one that is not there
	children int           // how many
	// Indexes that chain the children of an entry; 0: none, since the first entry
	// is nobody's child.
	firstChild, lastChild, next int32
}

// takeSurvey reads a session once. With words it looks into entries, which takes
// most of the time and memory. An error says that nothing could be shown.
func takeSurvey(ctx context.Context, s pistore.Storage, words bool) (*survey, error) {
	v := &survey{
		words:  words,
		header: pistore.Header{Info: s.Info()},
		byID:   map[pistore.ID]int{}, at: map[pistore.Address]pistore.JSON{},
	}
	for row, err := range s.Export(ctx) {
		if err != nil {
			if !errors.Is(err, pistore.ErrCorrupt) {
				return nil, err
			}
			break // the check names the damage
		}
		switch row := row.(type) {
		case pistore.Header:
			v.header = row
		case pistore.Entry:
			v.add(row)
		case pistore.UsageRow:
			if _, err := pistore.CompactJSON(string(row.Usage)); err == nil {
				v.usage.Add(row)
			}
		case pistore.Register:
			v.registers = append(v.registers, row)
			v.at[row.Address()] = row.Value
		}
	}
	return v, nil
}

func (v *survey) add(e pistore.Entry) {
	n := node{parent: -1}
	// Short texts may share the memory of the payload, which is not kept.
	if v.words {
		n.role, n.preview, n.bad = describe(e)
		n.role, n.preview = v.intern(n.role), strings.Clone(cutBytes(n.preview, 400))
	}
	e.ID, e.Payload = pistore.ID(strings.Clone(string(e.ID))), ""
	e.Type, e.CustomType = pistore.EntryType(v.intern(string(e.Type))), v.intern(e.CustomType)
	i := len(v.nodes)
	if parent, ok := v.byID[e.ParentID]; ok && e.ParentID != "" {
		n.parent = parent
		e.ParentID = v.nodes[parent].entry.ID
		v.chain(parent, int32(i))
	} else {
		e.ParentID = pistore.ID(strings.Clone(string(e.ParentID)))
	}
	n.entry = e
	if _, twice := v.byID[e.ID]; !twice {
		v.byID[e.ID] = i
	}
	v.nodes = append(v.nodes, n)
}

// chain makes an entry the last child of another.
func (v *survey) chain(parent int, child int32) {
	p := &v.nodes[parent]
	p.children++
	if p.lastChild == 0 {
		p.firstChild = child
	} else {
		v.nodes[p.lastChild].next = child
	}
	p.lastChild = child
}

// childrenOf lists the children of an entry, oldest first.
func (v *survey) childrenOf(n node) []int {
	list := make([]int, 0, n.children)
	for at := n.firstChild; at != 0; at = v.nodes[at].next {
		list = append(list, int(at))
	}
	return list
}

// intern returns the one copy of a text that many entries have.
func (v *survey) intern(s string) string {
	if v.texts == nil {
		v.texts = map[string]string{}
	}
	t, ok := v.texts[s]
	if !ok {
		t = strings.Clone(s)
		v.texts[t] = t
	}
	return t
}

func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// find returns the entry with an id, its own or that of the file, or the only
// one whose id ends in it.
func (v *survey) find(id string) (int, error) {
	if id == "" {
		return 0, usageError("an ID is empty; it is that of an entry, or the end of it")
	}
	if i, ok := v.byID[pistore.ID(id)]; ok {
		return i, nil
	}
	found, ends := 0, 0
	for i, n := range v.nodes {
		if v.legacyID(n.entry.ID) == id {
			return i, nil
		}
		if strings.HasSuffix(string(n.entry.ID), id) {
			found = i
			ends++
		}
	}
	switch {
	case ends > 1:
		return 0, usageError(fmt.Sprintf("several entries end in %s; write more of the id", id))
	case ends == 0:
		return 0, usageError(fmt.Sprintf("there is no entry %s (\"inspect STORE --tree\" lists them)", id))
	}
	return found, nil
}

// depth counts the entries from a root to an entry.
func (v *survey) depth(id pistore.ID) int {
	i, ok := v.byID[id]
	if !ok {
		return 0
	}
	n := 0
	for ; i >= 0; i = v.nodes[i].parent {
		n++
	}
	return n
}

// label returns the label of an entry, empty if it has none.
func (v *survey) label(id pistore.ID) string {
	text, _ := v.at[pistore.Address{Namespace: registers.FactLabelNS, Key: string(id)}].Text()
	return text
}

// name returns the name of the session, empty if it has none.
func (v *survey) name() string {
	text, _ := v.at[pistore.Address{Namespace: registers.FactNameNS}].Text()
	return text
}

// describe says in one line what an entry holds.
func describe(e pistore.Entry) (role, preview string, bad bool) {
	if _, err := pistore.CompactJSON(string(e.Payload)); err != nil {
		return "", "content that cannot be read", true
	}
	switch e.Type {
	case pistore.TypeMessage:
		raw, _ := e.Payload.Member("message")
		text, _ := raw.Member("role")
		role, _ = text.Text()
		m, err := session.EntryMessage(e)
		if err != nil {
			return role, "content that cannot be read", true
		}
		preview, bad = describeMessage(m)
		return role, preview, bad
	case pistore.TypeCompaction:
		c, err := session.ParseCompaction(e.Payload)
		return "", firstLine(c.Summary), err != nil
	case pistore.TypeBranchSummary:
		b, err := session.ParseBranchSummary(e.Payload)
		return "", firstLine(b.Summary), err != nil
	default:
		data, _ := e.Payload.Member("data")
		return "", string(data), false
	}
}

func describeMessage(m session.Message) (preview string, bad bool) {
	switch m := m.(type) {
	case *session.UserMessage:
		return contentLine(m.Content), false
	case *session.SystemMessage:
		return contentLine(m.Content), false
	case *session.CustomMessage:
		return m.CustomType + ": " + contentLine(m.Content), false
	case *session.BashMessage:
		return "$ " + firstLine(m.Command), false
	case *session.SummaryMessage:
		return firstLine(m.Summary), false
	case *session.ToolResultMessage:
		if m.IsError {
			return m.ToolName + " failed: " + contentLine(m.Content), true
		}
		return m.ToolName + ": " + contentLine(m.Content), false
	case *session.AssistantMessage:
		return describeResponse(m)
	default:
		return "", false
	}
}

func describeResponse(m *session.AssistantMessage) (preview string, bad bool) {
	if why := stopWords(m); why != "" {
		return why, true
	}
	var names []string
	for _, c := range m.ToolCalls() {
		names = append(names, c.Name)
	}
	text := firstLine(session.JoinText(m.Content))
	switch {
	case len(names) == 0:
		return contentLine(m.Content), false
	case text == "":
		return "calls " + strings.Join(names, ", "), false
	default:
		return "calls " + strings.Join(names, ", ") + ": " + text, false
	}
}

// stopWords says how a response failed to be an answer, empty if it is one.
func stopWords(m *session.AssistantMessage) string {
	switch m.StopReason {
	case session.StopError:
		return "error" + because(m.ErrorMessage)
	case session.StopAborted:
		return "aborted" + because(m.ErrorMessage)
	case session.StopDeferred:
		return "deferred: the provider answers later"
	case session.StopLength:
		return "cut off at the output limit"
	default:
		return ""
	}
}

// contentLine is the first line of content, or what it holds instead of text.
func contentLine(content []session.Block) string {
	if text := firstLine(session.JoinText(content)); text != "" {
		return text
	}
	images, thoughts := int64(0), int64(0)
	for _, b := range content {
		switch b.(type) {
		case session.Image:
			images++
		case session.Thinking:
			thoughts++
		}
	}
	switch {
	case images > 0:
		return count(images, "image", "images")
	case thoughts > 0:
		return "thinking only"
	default:
		return ""
	}
}
