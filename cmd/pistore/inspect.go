package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pistore"
	"pistore/registers"
	"pistore/session"
	"pistore/verify"
)

var inspectCommand = command{
	name: "inspect", args: "STORE [flags]",
	short: "what a store or session file holds, and what each lane is doing",
	long: `Shows the session, its lanes with their program counters, facts, documents,
tasks, timers, cost by model, and every fault that a check finds. A damaged
store shows what can be read of it. A store of several sessions lists them.`,
	examples: []string{
		"pistore inspect session.jsonl", "pistore inspect session.jsonl --tree", "pistore inspect ./store --context main --json",
		"pistore inspect session.jsonl --html session.html",
	},
	run: runInspect,
}

// inspectFlags say what to show beside or instead of the overview.
type inspectFlags struct {
	tree, entries, registers bool
	entry, context, html     string
	hasEntry, hasContext     bool
}

func runInspect(ctx context.Context, in *invocation) (err error) {
	var f inspectFlags
	in.flags.BoolVar(&f.tree, "tree", false, "branches, labels, compactions, and where lanes stand")
	in.flags.BoolVar(&f.entries, "entries", false, "every entry by seq, without content")
	in.flags.BoolVar(&f.registers, "registers", false, "every register with its value")
	in.flags.StringVar(&f.entry, "entry", "", "one entry `ID` with its content; the end of an id is enough, or its id in the file")
	in.flags.StringVar(&f.context, "context", "", "exactly what the next request of a `LANE` would contain")
	in.flags.StringVar(&f.html, "html", "", "a page to look at in a browser, everything in one new `FILE`: tree, transcript, timeline, cost")
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	f.hasEntry, f.hasContext = in.set("entry"), in.set("context")
	if err := f.check(in.set("html")); err != nil {
		return err
	}
	open := openStore
	if f != (inspectFlags{}) {
		open = openSession // what they show is of one session
	}
	o, err := open(ctx, arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if o.session == nil {
		return listSessions(in, o)
	}
	if f.hasContext {
		return inspectContext(ctx, in, o, f.context)
	}
	stop := in.progress("reading")
	defer stop()
	if f.hasEntry {
		v, err := o.survey(ctx, false)
		stop()
		if err != nil {
			return err
		}
		return inspectEntry(ctx, in, o.session, v, f.entry)
	}
	v, r, err := o.report(ctx, f.tree || f.entries)
	stop()
	if err != nil {
		return err
	}
	if f.html != "" {
		return inspectHTML(ctx, in, o, r, f.html)
	}
	return printInspect(in, v, r, f)
}

// check checks that the flags go together: tree, entries and registers do, and
// each of the others stands alone. A value that is empty names nothing.
func (f inspectFlags) check(hasHTML bool) error {
	alone := 0
	for _, given := range []bool{f.hasEntry, f.hasContext, hasHTML} {
		if given {
			alone++
		}
	}
	switch {
	case alone > 1, alone == 1 && (f.tree || f.entries || f.registers):
		return usageError("--entry, --context and --html stand alone; only --tree, --entries and --registers go together")
	case hasHTML && f.html == "":
		return usageError("--html takes a file to write")
	}
	return nil
}

// survey reads the session.
func (o *opened) survey(ctx context.Context, words bool) (*survey, error) {
	v, err := takeSurvey(ctx, o.session, words)
	if err != nil {
		return nil, refused(o.place, err)
	}
	if o.file != nil {
		v.legacy = o.legacyID
	}
	return v, nil
}

// report checks the session, whose memory is then free again, surveys it, and
// makes of both what inspect shows.
func (o *opened) report(ctx context.Context, words bool) (*survey, inspectReport, error) {
	checked, err := o.check(ctx, verify.Options{})
	if ctx.Err() != nil {
		return nil, inspectReport{}, ctx.Err()
	}
	v, surveyErr := o.survey(ctx, words)
	if surveyErr != nil {
		return nil, inspectReport{}, surveyErr
	}
	if err != nil { // what was read is shown all the same
		checked.Faults = append(checked.Faults, faultView{Severity: string(verify.Error), Message: "the check ended early: " + err.Error()})
		checked.OK = false
	}
	r := buildReport(v, checked, o.size(), func(id pistore.ID) []string { return toolNames(ctx, o.session, id) })
	if spent, err := spending(ctx, o.session); err == nil {
		r.Usage.ByModel = modelsOf(spent)
	}
	r.addFile(o)
	return v, r, nil
}

func printInspect(in *invocation, v *survey, r inspectReport, f inspectFlags) error {
	if in.json {
		if f.entries || f.tree {
			tree := v.tree()
			r.Tree = &tree
		}
		if f.registers {
			cells := v.cells()
			r.Registers = &cells
		}
		return in.out.object(r)
	}
	p := in.out
	printHeader(p, r)
	if !f.tree && !f.entries && !f.registers {
		printOverview(p, r)
	}
	if f.tree {
		heading(p, "Tree")
		printTree(p, v, r.Lanes)
	}
	if f.entries {
		heading(p, "Entries")
		printEntries(p, v)
	}
	if f.registers {
		heading(p, "Registers")
		printRegisters(p, v.cells())
	}
	if r.Incomplete {
		p.blank()
		p.line(yellow("Reading ended early, at damage; what was not read is not shown."))
	}
	if len(r.Faults) > 0 {
		heading(p, "Faults")
		printFaults(p, r.Faults, r.OmittedFaults)
	}
	return nil
}

// sessionList is the JSON of inspect for a store that holds not exactly one
// session.
type sessionList struct {
	Format   string        `json:"format"`
	Sessions []sessionView `json:"sessions"`
}

func listSessions(in *invocation, o *opened) error {
	list := sessionList{Format: "logstore", Sessions: []sessionView{}}
	for _, info := range o.sessions {
		list.Format = info.Format
		list.Sessions = append(list.Sessions, sessionView{
			ID: info.ID, CreatedAt: info.CreatedAt, CWD: info.CWD, ParentSessionID: info.ParentSessionID,
			LegacyParentPath: info.LegacyParentPath,
			StorageVersion:   info.StorageVersion, Generation: info.Generation,
		})
	}
	slices.SortStableFunc(list.Sessions, func(a, b sessionView) int { return int(min(max(b.CreatedAt-a.CreatedAt, -1), 1)) })
	if in.json {
		return in.out.object(list)
	}
	p := in.out
	p.line(bold(count(int64(len(list.Sessions)), "session", "sessions")), plain(", newest first"))
	for _, s := range list.Sessions {
		p.line(plain("  "), cyan(pad(safe(string(s.ID)), 38)), plain(minute(s.CreatedAt)))
		if s.CWD != "" {
			p.line(dim("    in " + brief(s.CWD, columns-7)))
		}
	}
	if len(list.Sessions) > 0 {
		p.blank()
		p.line(dim("  Name one to see it: pistore inspect 'STORE#SESSION'"))
	}
	return nil
}

// entryView is the JSON of inspect --entry.
type entryView struct {
	treeNode
	Label    string       `json:"label,omitempty"`
	Children []pistore.ID `json:"children"`
	Payload  pistore.JSON `json:"payload"`
}

func inspectEntry(ctx context.Context, in *invocation, s pistore.Storage, v *survey, id string) error {
	i, err := v.find(id)
	if err != nil {
		return err
	}
	n := v.nodes[i]
	e := n.entry
	found, err := s.Entries(ctx, []pistore.ID{e.ID})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("the entry %s is there and is not found by its id (invariant 4)", e.ID)
	}
	if err != nil {
		return err
	}
	role, _, _ := describe(found[0])
	view := entryView{
		treeNode: nodeOf(e, role, v.legacyID(e.ID)),
		Label:    v.label(e.ID), Children: []pistore.ID{}, Payload: shown(found[0].Payload),
	}
	for _, child := range v.childrenOf(n) {
		view.Children = append(view.Children, v.nodes[child].entry.ID)
	}
	if in.json {
		return in.out.object(view)
	}
	return printEntry(in.out, view)
}

// contextReport is the JSON of inspect --context.
type contextReport struct {
	Messages []contextMessage `json:"messages"`
	Notes    []contextNote    `json:"notes"`
}

type contextMessage struct {
	Role         session.Role `json:"role"`
	Source       pistore.ID   `json:"source,omitempty"`
	LegacySource string       `json:"legacySource,omitempty"`
	Synthetic    bool         `json:"synthetic"`
	Message      pistore.JSON `json:"message"`

	view session.Message
}

type contextNote struct {
	EntryID pistore.ID `json:"entryId"`
	Problem string     `json:"problem"`
}

// contextOf makes the report of a projection. In a file every message has the
// id that its record has there.
func contextOf(p session.Projection, legacyID func(pistore.ID) string) contextReport {
	r := contextReport{Messages: []contextMessage{}, Notes: []contextNote{}}
	for _, m := range p.Messages {
		from := m.LegacySource
		original := pistore.ID(from)
		if from == "" {
			original = m.Source
		}
		if legacy := legacyID(original); legacy != "" {
			from = legacy
		}
		r.Messages = append(r.Messages, contextMessage{m.Role, m.Source, from, m.Synthetic, shown(m.Raw), m.Message})
	}
	for _, n := range p.Notes {
		r.Notes = append(r.Notes, contextNote{n.Entry, n.Problem})
	}
	return r
}

func inspectContext(ctx context.Context, in *invocation, o *opened, lane string) error {
	s := o.session
	leaf, err := laneLeaf(ctx, s, lane)
	if err != nil {
		return err
	}
	projection, err := session.New(s).Project(ctx, leaf, nil)
	if err != nil {
		return err
	}
	r := contextOf(projection, o.legacyID)
	if in.json {
		return in.out.object(r)
	}
	printContext(in.out, lane, r)
	return nil
}

// laneLeaf returns where a lane stands, empty before any entry. A lane that
// does not exist is a mistake in the arguments, so the error lists those that do.
func laneLeaf(ctx context.Context, s pistore.Storage, lane string) (pistore.ID, error) {
	value, there, err := registerValue(ctx, s, registers.LaneLeafNS, lane)
	if err != nil {
		return "", err
	}
	if there {
		return registers.DecodeLaneLeaf(value)
	}
	var lanes []string
	for r, err := range s.RegistersByPrefix(ctx, registers.LaneLeafNS, "") {
		if err != nil {
			return "", err
		}
		lanes = append(lanes, r.Key)
	}
	if len(lanes) == 0 && lane == registers.MainLane {
		return "", nil // a session in which nothing has happened yet
	}
	if len(lanes) == 0 {
		return "", usageError(fmt.Sprintf("there is no lane %q: the session has none", lane))
	}
	return "", usageError(fmt.Sprintf("there is no lane %q; there are: %s", lane, strings.Join(lanes, ", ")))
}
