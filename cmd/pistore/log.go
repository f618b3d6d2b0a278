package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"pistore"
	"pistore/registers"
)

var logCommand = command{
	name: "log", args: "STORE [flags]",
	short: "what was written, transaction by transaction",
	long: `Lists the transactions of a session in order, with what each wrote in words,
and what changed in the state of an operation. Only a session file of format 4
keeps them, and only since it was compacted last: a compaction leaves what is
live, each row for itself.`,
	examples: []string{"pistore log session.jsonl", "pistore log session.jsonl --json", "pistore log session.jsonl --follow"},
	run:      runLog,
}

// logLine is a line of the JSON of log.
type logLine struct {
	FirstSeq  pistore.Seq    `json:"firstSeq"`
	Timestamp pistore.UnixMS `json:"timestamp,omitempty"` // of its entries
	Writes    []writeView    `json:"writes"`
}

// writeView is one write, with the members that its kind has.
type writeView struct {
	Kind string      `json:"kind"` // entry, usage or register
	Op   string      `json:"op,omitempty"`
	Seq  pistore.Seq `json:"seq"`

	ID         pistore.ID        `json:"id,omitempty"`
	ParentID   pistore.ID        `json:"parentId,omitempty"`
	Type       pistore.EntryType `json:"type,omitempty"`
	CustomType string            `json:"customType,omitempty"`
	Role       string            `json:"role,omitempty"`
	Payload    pistore.JSON      `json:"payload,omitempty"`

	EntryID    pistore.ID   `json:"entryId,omitempty"`
	Adjustment *bool        `json:"adjustment,omitempty"`
	Usage      pistore.JSON `json:"usage,omitempty"`
	Details    pistore.JSON `json:"details,omitempty"`

	Namespace string       `json:"namespace,omitempty"`
	Key       *string      `json:"key,omitempty"`
	Value     pistore.JSON `json:"value,omitempty"`
	// Changes are those of an operation's state since its last revision.
	Changes *[]change `json:"changes,omitempty"`

	words string // what is written, for people
}

func runLog(ctx context.Context, in *invocation) (err error) {
	follow := in.flags.Bool("follow", false, "go on with what comes, until Ctrl-C")
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	o, err := openSession(ctx, arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	h, ok := pistore.Find[pistore.Historian](o.session)
	if !ok || o.file != nil && !o.file.Report().Summed {
		return noHistory(o)
	}
	l := &logWriter{in: in, states: map[string]pistore.JSON{}}
	if damage := o.damageOf(); damage != "" {
		l.damage(damage)
	}
	if !*follow {
		return cutOff(ctx, o.place, l.write(h.History(ctx, 0)))
	}
	f, ok := pistore.Find[pistore.Follower](o.session)
	if !ok {
		return noHistory(o)
	}
	err = l.write(f.Follow(ctx, 0))
	if ctx.Err() != nil {
		return nil // that is how following ends
	}
	return cutOff(ctx, o.place, err)
}

// cutOff says why the lines end before the end of the session.
func cutOff(ctx context.Context, place string, err error) error {
	var corrupt *pistore.CorruptError
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.As(err, &corrupt):
		return fmt.Errorf("%s: %s", corrupt.Place, corrupt.Problem)
	case errors.Is(err, pistore.ErrNotFound):
		return fmt.Errorf("%s: the session is gone: its file was removed, or another one has its name now", place)
	default:
		return fmt.Errorf("%s: %w", place, cause(err))
	}
}

func noHistory(o *opened) error {
	return fmt.Errorf("%s keeps no history: only a session file of format 4, as pistore writes it, has one", o.place)
}

// logWriter writes transactions as they come.
type logWriter struct {
	in     *invocation
	states map[string]pistore.JSON // of open operations, for what changes in them
}

// damage says that lines are missing.
func (l *logWriter) damage(what string) {
	if l.in.json {
		l.in.out.raw("{\"fileDamage\":" + quoteJSON(what) + "}\n")
		return
	}
	l.in.out.labelled("", red, "✗ "+what)
	l.in.out.blank()
}

func (l *logWriter) write(transactions iter.Seq2[pistore.Transaction, error]) error {
	for tx, err := range transactions {
		if err != nil {
			return err
		}
		line := logLine{FirstSeq: tx.FirstSeq, Timestamp: tx.Timestamp, Writes: make([]writeView, 0, len(tx.Writes))}
		for i, w := range tx.Writes {
			line.Writes = append(line.Writes, l.view(w, tx.Seqs[i], tx.Timestamp))
		}
		if l.in.json {
			if err := l.in.out.row(line); err != nil {
				return err
			}
			l.in.out.raw("\n")
		} else {
			printTransaction(l.in.out, line)
		}
		if err := l.in.out.flush(); err != nil {
			return err
		}
	}
	return nil
}

// view describes one write.
func (l *logWriter) view(w pistore.Write, seq pistore.Seq, at pistore.UnixMS) writeView {
	switch w := w.(type) {
	case pistore.InsertEntry:
		e := pistore.Entry{ID: w.ID, ParentID: w.ParentID, Seq: seq, Timestamp: at, Type: w.Type, CustomType: w.CustomType, Payload: w.Payload}
		role, preview, _ := describe(e)
		return writeView{
			Kind: "entry", Seq: seq, ID: w.ID, ParentID: w.ParentID, Type: w.Type, CustomType: w.CustomType, Role: role,
			Payload: shown(w.Payload), words: flat(kindOf(node{entry: e, role: role}) + " " + shortID(w.ID) + "  " + preview),
		}
	case pistore.InsertUsage:
		return writeView{
			Kind: "usage", Seq: seq, ID: w.ID, EntryID: w.EntryID, Adjustment: &w.Adjustment, Usage: shown(w.Usage), Details: w.Details,
			words: "usage " + shortID(w.ID) + "  " + usageWords(w.Usage),
		}
	case pistore.SetRegister:
		v := writeView{Kind: "register", Op: "set", Seq: seq, Namespace: w.Namespace, Key: &w.Key, Value: shown(w.Value)}
		v.words = registerName(w.Namespace, w.Key) + "  " + registerWords(w)
		if w.Namespace == registers.OpStateNS {
			if old, ok := l.states[w.Key]; ok {
				list := changes(old, w.Value)
				v.Changes = &list
			}
			l.states[w.Key] = w.Value
		}
		return v
	case pistore.DeleteRegister:
		if w.Namespace == registers.OpStateNS {
			delete(l.states, w.Key)
		}
		return writeView{Kind: "register", Op: "delete", Seq: seq, Namespace: w.Namespace, Key: &w.Key, words: registerName(w.Namespace, w.Key)}
	default:
		panic(fmt.Sprintf("pistore: unknown write %T", w))
	}
}

// usageWords says what was used, as it is stored.
func usageWords(usage pistore.JSON) string {
	words := ""
	for _, name := range []string{"input", "output"} {
		if n, ok := usage.Member(name); ok {
			words = joinDetail(words, grouped(string(n))+" "+name)
		}
	}
	cost, _ := usage.Member("cost")
	if total, ok := cost.Member("total"); ok {
		words = joinDetail(words, "cost "+string(total))
	}
	return words
}

func registerName(namespace, key string) string {
	if key == "" {
		return namespace
	}
	return namespace + " " + brief(key, 40)
}

// registerWords says what a register holds now.
func registerWords(w pistore.SetRegister) string {
	switch w.Namespace {
	case registers.OpStateNS:
		if state, err := registers.DecodeOpState(w.Value); err == nil {
			return counterOf(state, nil).String()
		}
	case registers.LaneLeafNS:
		if leaf, err := registers.DecodeLaneLeaf(w.Value); err == nil && leaf != "" {
			return "at " + shortID(leaf)
		}
	}
	return string(w.Value)
}

// maxChanges bounds the changes of one revision that are shown.
const maxChanges = 20

func printTransaction(p *paper, line logLine) {
	seqs := fmt.Sprintf("seq %d", line.FirstSeq)
	if n := len(line.Writes); n > 1 {
		seqs = fmt.Sprintf("seq %d to %d", line.FirstSeq, line.Writes[n-1].Seq)
	}
	when := ""
	if line.Timestamp > 0 {
		when = "  " + instantMS(line.Timestamp)
	}
	p.line(bold(seqs), dim(when))
	for _, w := range line.Writes {
		mark, style := "= ", plain
		switch {
		case w.Op == "delete":
			mark, style = "− ", dim
		case w.Kind == "entry":
			mark, style = "+ ", green
		case w.Kind == "usage":
			mark, style = "$ ", yellow
		}
		p.line(plain("  "), style(mark+brief(w.words, columns-4)))
		if w.Changes != nil {
			printChanges(p, *w.Changes)
		}
	}
}

func printChanges(p *paper, list []change) {
	for i, c := range list {
		if i == maxChanges {
			p.line(dim(fmt.Sprintf("      and %d more changes", len(list)-i)))
			return
		}
		path := brief(c.Path, 40)
		switch {
		case c.From == "":
			p.line(plain("      "), cyan(path), plain(" is new: "), green(string(c.To)))
		case c.To == "":
			p.line(plain("      "), cyan(path), plain(" is gone: "), red(string(c.From)))
		default:
			p.line(plain("      "), cyan(path+" "), red(brief(string(c.From), 24)), plain(" → "), green(string(c.To)))
		}
	}
}
