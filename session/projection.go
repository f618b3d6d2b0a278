package session

import (
	"context"
	"fmt"

	"pistore"
)

// ProjectedMessage is one message of a projected context.
type ProjectedMessage struct {
	Role Role
	// Source is the entry that the message comes from: for what a compaction
	// retained, the compaction; for a synthetic result, its response.
	Source pistore.ID
	// LegacySource is the entry that a retained message was imported from,
	// where the import knows it.
	LegacySource string
	Raw          pistore.JSON // as stored, or as it would be
	Message      Message
	Synthetic    bool // an error result that stands in for one that is missing
}

// Projection is what of a conversation enters a request.
type Projection struct {
	Messages []ProjectedMessage // oldest first
	Notes    []Note             // what was left out and should not have been there
}

// Note names an entry that a projection left out or could not apply.
type Note struct {
	Entry   pistore.ID
	Problem string
}

// Projector gives a custom entry a place in the context, or none. It must give
// the same message for the same entry at all times: a context that changes
// anywhere but at its tail costs the provider's cache.
type Projector func(custom pistore.Entry) (Message, bool)

// Projectors are the registered projectors by customType.
type Projectors map[string]Projector

// ProjectBranch reads the path from a leaf back to the newest compaction,
// inclusive, and projects it. An empty leaf gives nothing; an unknown one is
// ErrNotFound. A compaction or a branch summary that cannot be read is
// ErrInvalid, since leaving it out would silently drop what it stands for.
func ProjectBranch(ctx context.Context, storage pistore.Storage, leaf pistore.ID, projectors Projectors) ([]ProjectedMessage, error) {
	p, err := projectBranch(ctx, storage, leaf, projectors)
	return p.Messages, err
}

// Project is ProjectBranch for this session, with notes.
func (s *Session) Project(ctx context.Context, leaf pistore.ID, projectors Projectors) (Projection, error) {
	return projectBranch(ctx, s.storage, leaf, projectors)
}

func projectBranch(ctx context.Context, storage pistore.Storage, leaf pistore.ID, projectors Projectors) (Projection, error) {
	if leaf == "" {
		return Projection{}, nil
	}
	var path []pistore.Entry
	q := pistore.BranchQuery{Start: leaf, StopAtType: pistore.TypeCompaction, Order: pistore.Reversed}
	for e, err := range storage.Branch(ctx, q) {
		if err != nil {
			return Projection{}, fmt.Errorf("session: project: %w", err)
		}
		path = append(path, e)
	}
	p, err := ProjectPath(path, projectors)
	if err != nil {
		return Projection{}, fmt.Errorf("session: project: %w", err)
	}
	return p, nil
}

// ProjectPath projects a path, oldest entry first. What stands before its
// newest compaction does not count.
func ProjectPath(path []pistore.Entry, projectors Projectors) (Projection, error) {
	path = path[begins(len(path), func(i int) pistore.EntryType { return path[i].Type }):]
	views := make([]*View, len(path))
	for i, e := range path {
		views[i] = ViewOf(e)
	}
	return ProjectViews(views, projectors)
}

// ProjectViews is [ProjectPath] for entries that are parsed. The messages of the
// projection are those of the views.
func ProjectViews(path []*View, projectors Projectors) (Projection, error) {
	path = path[begins(len(path), func(i int) pistore.EntryType { return path[i].Entry.Type }):]
	c := &collector{projectors: projectors, messages: make([]ProjectedMessage, 0, len(path))}
	for _, v := range path {
		if err := c.entry(v); err != nil {
			return Projection{}, fmt.Errorf("entry %s: %w", v.Entry.ID, err)
		}
	}
	c.applyEdits(path)
	c.dropUnsettled()
	return Projection{Messages: Pair(c.messages), Notes: c.notes}, nil
}

// begins is where, in a path of n entries, the newest compaction stands, or its
// first entry.
func begins(n int, typeOf func(int) pistore.EntryType) int {
	for i := n - 1; i > 0; i-- {
		if typeOf(i) == pistore.TypeCompaction {
			return i
		}
	}
	return 0
}

// collector gathers the messages of a path in order.
type collector struct {
	projectors Projectors
	messages   []ProjectedMessage
	edits      []edit
	notes      []Note
}

func (c *collector) note(entry pistore.ID, problem string) {
	c.notes = append(c.notes, Note{entry, problem})
}

func (c *collector) add(source pistore.ID, raw pistore.JSON, m Message) {
	if s, ok := m.(*SummaryMessage); ok && s.Kind == RoleBranchSummary && s.Summary == "" {
		return
	}
	c.messages = append(c.messages, ProjectedMessage{Role: m.Role(), Source: source, Raw: raw, Message: m})
}

func (c *collector) entry(v *View) error {
	switch e := v.Entry; e.Type {
	case pistore.TypeMessage:
		if v.problem != nil {
			c.note(e.ID, v.problem.Error())
			return nil
		}
		c.add(e.ID, v.raw, v.message)
	case pistore.TypeCompaction:
		return c.compaction(e)
	case pistore.TypeBranchSummary:
		b, err := ParseBranchSummary(e.Payload)
		if err != nil {
			return err
		}
		m := &SummaryMessage{Kind: RoleBranchSummary, Summary: b.Summary, FromID: b.FromID}
		c.add(e.ID, EncodeMessage(m), m)
	case pistore.TypeCustom:
		c.custom(e)
	default:
		c.note(e.ID, fmt.Sprintf("entry type %.64q has no place in a context", string(e.Type)))
	}
	return nil
}

// compaction gives the system message in force, the summary, and what was
// retained.
func (c *collector) compaction(e pistore.Entry) error {
	content, err := ParseCompaction(e.Payload)
	if err != nil {
		return err
	}
	if content.SystemMessage != "" {
		c.retained(e.ID, content.SystemMessage, "")
	}
	tokens, _ := e.Payload.Member("tokensBefore")
	m := &SummaryMessage{Kind: RoleCompactionSummary, Summary: content.Summary, TokensBefore: tokens}
	c.add(e.ID, EncodeMessage(m), m)
	for i, raw := range content.RetainedTail {
		source := ""
		if i < len(content.RetainedSources) {
			source = content.RetainedSources[i]
		}
		c.retained(e.ID, raw, source)
	}
	return nil
}

func (c *collector) retained(compaction pistore.ID, raw pistore.JSON, source string) {
	m, err := ParseMessage(raw)
	if err != nil {
		c.note(compaction, "a retained message: "+err.Error())
		return
	}
	n := len(c.messages)
	if c.add(compaction, raw, m); len(c.messages) > n {
		c.messages[n].LegacySource = source
	}
}

func (c *collector) custom(e pistore.Entry) {
	if e.CustomType == ContextEditType {
		c.edit(e)
		return
	}
	project := c.projectors[e.CustomType]
	if project == nil {
		return
	}
	m, ok := project(e)
	if !ok {
		return
	}
	raw := EncodeMessage(m)
	if _, err := pistore.CompactJSON(string(raw)); err != nil {
		c.note(e.ID, "a projector gave a message that cannot be written")
		return
	}
	c.add(e.ID, raw, m)
}

// dropUnsettled leaves out responses that ended in no answer. Their results go
// with them, when calls are paired.
func (c *collector) dropUnsettled() {
	kept := c.messages[:0]
	for _, m := range c.messages {
		if a, ok := m.Message.(*AssistantMessage); ok {
			switch a.StopReason {
			case StopError, StopAborted, StopDeferred:
				continue
			}
		}
		kept = append(kept, m)
	}
	c.messages = kept
}

// ExtendsContext reports whether next begins with prev, message for message as
// they are sent, and if it does not, at which message of prev they part.
func ExtendsContext(prev, next []ProjectedMessage) (at int, ok bool) {
	for i, m := range prev {
		if i == len(next) || next[i].Role != m.Role || next[i].Raw != m.Raw {
			return i, false
		}
	}
	return len(prev), true
}
