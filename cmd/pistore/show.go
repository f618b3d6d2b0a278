package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"pistore"
	"pistore/session"
)

var showCommand = command{
	name: "show", args: "STORE [flags]",
	short: "the conversation of a lane as text",
	long: `Shows a lane from its beginning to where it stands. Calls of tools and their
results are folded to a line each; failed answers and places where another
branch leaves are marked.`,
	examples: []string{"pistore show session.jsonl", "pistore show ./store --last 20", "pistore show session.jsonl --markdown > chat.md"},
	run:      runShow,
}

// transcript is a path through the tree, oldest entry first, and how it is
// shown. Its entries come one by one, so that a long one needs no memory.
type transcript struct {
	info    pistore.Info
	name    string
	lane    string
	doing   string      // what the lane is doing, in words
	omitted int         // older entries that are left out
	from    pistore.Seq // of the newest of them
	steps   []pathStep
	// damage: the path cannot be followed to its root.
	damage error
	// fileDamage says that the file is damaged; empty: it is not.
	fileDamage string
	legacyID   func(pistore.ID) string // ids in the file; nil: no file
}

// pathStep is one entry of a path.
type pathStep struct {
	id, parent pistore.ID
	seq        pistore.Seq
	branches   int // other branches that leave from its parent
}

// transcriptWriter writes a transcript in one form.
type transcriptWriter interface {
	begin(t *transcript) error
	entry(step pathStep, e pistore.Entry) error
	end(t *transcript) error
}

func runShow(ctx context.Context, in *invocation) (err error) {
	lane := in.flags.String("lane", "main", "another `LANE` than main")
	last := in.flags.Int("last", 0, "the newest `N` entries only")
	markdown := in.flags.Bool("markdown", false, "as a Markdown document")
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	if *last < 0 || *last == 0 && in.set("last") {
		return usageError("--last takes a number above 0")
	}
	if *markdown && in.json {
		return usageError("--markdown and --json do not go together")
	}
	o, err := openSession(ctx, arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	t, err := newTranscript(ctx, o.session, *lane, *last)
	if err != nil {
		return err
	}
	t.fileDamage = o.damageOf()
	if o.file != nil {
		t.legacyID = o.legacyID
	}
	var w transcriptWriter
	switch {
	case in.json:
		w = &jsonTranscript{p: in.out}
	case *markdown:
		w = &markdownTranscript{p: in.out}
	default:
		w = &textTranscript{p: in.out}
	}
	return t.write(ctx, o.session, w)
}

// newTranscript follows a lane back to its root, without content.
func newTranscript(ctx context.Context, s pistore.Storage, lane string, last int) (*transcript, error) {
	leaf, err := laneLeaf(ctx, s, lane)
	if err != nil {
		return nil, err
	}
	t := &transcript{info: s.Info(), lane: lane}
	if t.name, _, err = session.New(s).Name(ctx); errors.Is(err, pistore.ErrCorrupt) {
		t.name, err = "", nil
	}
	if err != nil {
		return nil, err
	}
	if t.doing, err = laneInWords(ctx, s, lane); err != nil {
		t.doing = "its state cannot be read: " + err.Error()
	}
	if leaf == "" {
		return t, nil
	}
	for _, step := range []func() error{
		func() error { return t.followBack(ctx, s, leaf, last) },
		func() error { return t.countBranches(ctx, s) },
	} {
		err := step()
		if errors.Is(err, pistore.ErrCorrupt) || errors.Is(err, pistore.ErrNotFound) {
			t.damage, err = cmp.Or(t.damage, err), nil
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// followBack lists the path to an entry, the newest of it only if last is not 0.
func (t *transcript) followBack(ctx context.Context, s pistore.Storage, leaf pistore.ID, last int) (err error) {
	for e, branchErr := range s.Branch(ctx, pistore.BranchQuery{Start: leaf, StructureOnly: true}) {
		if err = branchErr; err != nil {
			break
		}
		if last > 0 && len(t.steps) == last {
			if t.omitted++; t.omitted == 1 {
				t.from = e.Seq // what leaves from it is newer
			}
			continue
		}
		t.steps = append(t.steps, pathStep{id: e.ID, parent: e.ParentID, seq: e.Seq})
	}
	slices.Reverse(t.steps)
	return err
}

// countBranches counts, for each entry of the path, what else leaves from its
// parent. It holds what is not on the path, which as a rule is little.
func (t *transcript) countBranches(ctx context.Context, s pistore.Storage) error {
	q := pistore.ScanQuery{Order: pistore.Reversed, FromSeq: t.from, StructureOnly: true}
	others := map[pistore.ID]int{}
	at := len(t.steps) - 1
	for e, err := range s.ScanEntries(ctx, q) {
		if err != nil {
			return err
		}
		if at >= 0 && e.Seq == t.steps[at].seq {
			at--
			continue
		}
		others[e.ParentID]++
	}
	for i := range t.steps {
		t.steps[i].branches = others[t.steps[i].parent]
	}
	return nil
}

// showBatch is how many entries are held with their content.
const showBatch = 64

func (t *transcript) write(ctx context.Context, s pistore.Storage, w transcriptWriter) error {
	if err := w.begin(t); err != nil {
		return err
	}
	for batch := range slices.Chunk(t.steps, showBatch) {
		ids := make([]pistore.ID, len(batch))
		for i, step := range batch {
			ids[i] = step.id
		}
		found, err := s.Entries(ctx, ids)
		if err != nil {
			return err
		}
		byID := make(map[pistore.ID]pistore.Entry, len(found))
		for _, e := range found {
			byID[e.ID] = e
		}
		for _, step := range batch {
			e, ok := byID[step.id]
			if !ok {
				return fmt.Errorf("the entry %s is on the branch and is not found by its id (invariant 4)", step.id)
			}
			e.Payload = readable(e.Payload)
			if err := w.entry(step, e); err != nil {
				return err
			}
		}
	}
	return w.end(t)
}
