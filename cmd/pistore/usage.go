package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pistore"
	"pistore/jsonl"
	"pistore/ledger"
	"pistore/session"
)

var usageCommand = command{
	name: "usage", args: "STORE... [flags]",
	short: "what sessions cost: money and tokens",
	long: `Adds up what the sessions of all STOREs used. A logstore counts with all its
sessions unless one is named, a folder of session files with all of them.
Totals are exact. A session that several STOREs hold counts several times.`,
	examples: []string{"pistore usage session.jsonl", "pistore usage ~/.pi/agent/sessions --by day", "pistore usage ./store other.jsonl --by model --csv"},
	run:      runUsage,
}

// dimension is one way to break usage down.
type dimension struct {
	name string
	by   ledger.Dimension
	none string // what rows are called that name none
}

var dimensions = []dimension{
	{"model", ledger.ByModel, "no model"}, {"tool", ledger.ByTool, "no tool"},
	{"lane", ledger.ByLane, "no lane"}, {"day", ledger.ByDay, "no day"},
}

// usageReport is the JSON of usage. Without --by it has every list.
type usageReport struct {
	Sessions int64 `json:"sessions"`
	Rows     int64 `json:"rows"`
	Unusable int64 `json:"unusable"`
	sumsView
	ByModel *[]groupView `json:"byModel,omitempty"`
	ByTool  *[]groupView `json:"byTool,omitempty"`
	ByLane  *[]groupView `json:"byLane,omitempty"`
	ByDay   *[]groupView `json:"byDay,omitempty"`
	// Damaged could not be read wholly; what could was counted.
	Damaged []skippedView `json:"damaged"`
	Skipped []skippedView `json:"skipped"` // what could not be read
	Omitted int64         `json:"omitted"`
}

// groupView is one group; the one without a name holds the rows that name none.
type groupView struct {
	Provider string `json:"provider,omitempty"`
	ModelID  string `json:"modelId,omitempty"`
	Name     string `json:"name,omitempty"` // of a tool, lane or day
	Rows     int64  `json:"rows"`
	sumsView
}

func runUsage(ctx context.Context, in *invocation) (err error) {
	by := in.flags.String("by", "", "`model|tool|lane|day`: what to break it down by; days are those of UTC")
	asCSV := in.flags.Bool("csv", false, "as comma-separated values")
	rest, err := in.parse()
	if err != nil {
		return err
	}
	if len(rest) == 0 || slices.Contains(rest, "") {
		return usageError("usage takes one STORE or more; see \"pistore help usage\"")
	}
	chosen := slices.IndexFunc(dimensions, func(d dimension) bool { return d.name == *by })
	if chosen < 0 && in.set("by") {
		return usageError(fmt.Sprintf("--by takes model, tool, lane or day, not %q", *by))
	}
	if *asCSV && in.json {
		return usageError("--csv and --json do not go together")
	}
	var t tally
	stop := in.progress("adding up")
	defer stop()
	unread, err := t.stores(ctx, rest)
	if err != nil {
		return err
	}
	stop()
	switch d := dimensions[max(chosen, 0)]; {
	case in.json:
		err = in.out.object(t.report(chosen))
	case *asCSV:
		err = t.csv(in.out, d)
	default:
		t.print(in.out, d)
	}
	return cmp.Or(err, unread)
}

// tally adds up sessions, in every dimension at once. What it holds grows with
// the number of groups, not with that of the rows.
type tally struct {
	sessions int64
	all      ledger.Sum
	groups   [4]map[groupKey]*ledger.Sum // as in dimensions
	damaged  problems
	skipped  problems
}

// problems are places with what is wrong there, of which the first are kept.
type problems struct {
	list    []skippedView
	omitted int64
}

func (p *problems) add(path, problem string) {
	if len(p.list) < 1000 {
		p.list = append(p.list, skippedView{path, problem})
	} else {
		p.omitted++
	}
}

func (p *problems) views() []skippedView { return append([]skippedView{}, p.list...) }

type groupKey struct{ provider, name string }

// stores adds the sessions of all arguments. One that cannot be read does not keep
// the others from being shown: unread says so behind them.
func (t *tally) stores(ctx context.Context, args []string) (unread, err error) {
	failed := 0
	for _, arg := range args {
		err := t.store(ctx, arg)
		var wrong *exitError // an argument that means nothing
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil || len(args) == 1 || errors.As(err, &wrong):
			return nil, err
		}
		failed++
		t.skipped.add(arg, errorText(err))
		unread = err
	}
	switch {
	case t.sessions == 0 && len(t.skipped.list) > 0:
		return errors.New("nothing could be read"), nil
	case failed > 0:
		return fmt.Errorf("%d of %d places could not be read: %w; the totals are of the rest", failed, len(args), unread), nil
	default:
		return nil, nil
	}
}

// store adds the sessions of one argument.
func (t *tally) store(ctx context.Context, arg string) error {
	if place, id, err := splitStore(arg); err == nil && id == "" && isFolderOfFiles(place) {
		return t.folder(ctx, place)
	}
	o, err := openStore(ctx, arg)
	if err != nil {
		return err
	}
	return errors.Join(t.opened(ctx, o), o.close())
}

func isFolderOfFiles(place string) bool {
	is, err := isLogstore(place)
	return err == nil && !is && isFolder(place)
}

// opened adds the session that is named, or else all of the store.
func (t *tally) opened(ctx context.Context, o *opened) error {
	if damage := o.damageOf(); damage != "" {
		t.damaged.add(o.place, damage)
	}
	if o.session != nil {
		return t.session(ctx, o.place, o.session)
	}
	for _, info := range o.sessions {
		s, err := o.backend.Open(ctx, info.ID, pistore.ReadOnly)
		if err != nil {
			return refused(o.place, err)
		}
		if err := errors.Join(t.session(ctx, o.place, s), s.Close()); err != nil {
			return err
		}
	}
	return nil
}

// folder adds the session files of a folder, one after the other.
func (t *tally) folder(ctx context.Context, place string) error {
	l, err := session.FolderRepo(place, sessionFiles{}).List(ctx, session.ListQuery{})
	if err != nil {
		return refused(place, err)
	}
	damaged, skipped := damagedAtStart(l)
	for _, s := range append(l.Sessions, damaged...) {
		f, err := jsonl.OpenFile(ctx, s.Path, pistore.ReadOnly, jsonl.Options{})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			t.skipped.add(s.Path, refusedFile(ctx, s.Path, err).Error())
			continue
		}
		o := &opened{place: s.Path, file: f, session: f}
		err = errors.Join(t.opened(ctx, o), o.close())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			t.skipped.add(s.Path, errorText(err))
		}
	}
	for _, s := range skipped {
		t.skipped.add(s.Path, problemOf(s.Path, s.Err))
	}
	t.skipped.omitted += l.Omitted
	return nil
}

// session adds one session.
func (t *tally) session(ctx context.Context, place string, s pistore.Storage) error {
	spent, err := spending(ctx, s)
	if err != nil {
		return refused(place, err)
	}
	t.sessions++
	err = t.all.AddTotals(spent.Totals())
	for d, of := range dimensions {
		if t.groups[d] == nil {
			t.groups[d] = map[groupKey]*ledger.Sum{}
		}
		for _, g := range spent.By(of.by) {
			key := groupKey{g.Provider, g.Name}
			if t.groups[d][key] == nil {
				t.groups[d][key] = new(ledger.Sum)
			}
			err = errors.Join(err, t.groups[d][key].AddTotals(g.Totals))
		}
	}
	return err
}

// by lists the groups of a dimension by provider and name, the rows without one
// last.
func (t *tally) by(d int) []groupView {
	keys := slices.SortedFunc(maps.Keys(t.groups[d]), func(a, b groupKey) int {
		if (a.name == "") != (b.name == "") {
			return cmp.Compare(b.name, a.name)
		}
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.name, b.name))
	})
	views := make([]groupView, 0, len(keys))
	for _, key := range keys {
		totals := t.groups[d][key].Totals()
		v := groupView{Provider: key.provider, Name: key.name, Rows: totals.Rows, sumsView: sumsOf(totals)}
		if dimensions[d].by == ledger.ByModel {
			v.ModelID, v.Name = v.Name, ""
		}
		views = append(views, v)
	}
	return views
}

func (t *tally) report(chosen int) usageReport {
	totals := t.all.Totals()
	r := usageReport{
		Sessions: t.sessions, Rows: totals.Rows, Unusable: totals.Unusable, sumsView: sumsOf(totals),
		Damaged: t.damaged.views(), Skipped: t.skipped.views(), Omitted: t.damaged.omitted + t.skipped.omitted,
	}
	for d, list := range []**[]groupView{&r.ByModel, &r.ByTool, &r.ByLane, &r.ByDay} {
		if chosen < 0 || chosen == d {
			groups := t.by(d)
			*list = &groups
		}
	}
	return r
}

// words is what a group is called.
func (g groupView) words(d dimension) string {
	switch {
	case g.Name+g.ModelID == "":
		return d.none
	case g.Provider == "":
		return g.Name + g.ModelID
	default:
		return g.Provider + "/" + g.ModelID
	}
}

func (t *tally) print(p *paper, d dimension) {
	r := t.report(-1)
	p.line(bold(count(r.Sessions, "session", "sessions")))
	p.blank()
	printSumsHead(p, d.name)
	groups := t.by(slices.Index(dimensions, d))
	for _, g := range groups {
		printSums(p, plain, g.words(d), g.Rows, g.sumsView)
	}
	if len(groups) != 1 {
		printSums(p, bold, "total", r.Rows, r.sumsView)
	}
	printUnusable(p, r.Unusable)
	printProblems(p, "damaged; what can be read was counted:", r.Damaged, t.damaged.omitted)
	printProblems(p, "skipped:", r.Skipped, t.skipped.omitted)
}

// csv writes one line for each group. Numbers have all their digits; texts are
// escaped as everywhere.
func (t *tally) csv(p *paper, d dimension) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	head := []string{d.name}
	if d.by == ledger.ByModel {
		head = []string{"provider", "model"}
	}
	head = append(head, "rows", "input", "output", "cacheRead", "cacheWrite", "totalTokens",
		"costInput", "costOutput", "costCacheRead", "costCacheWrite", "costTotal")
	err := w.Write(head)
	for _, g := range t.by(slices.Index(dimensions, d)) {
		row := []string{safe(g.Name)}
		if d.by == ledger.ByModel {
			row = []string{safe(g.Provider), safe(g.ModelID)}
		}
		row = append(row, fmt.Sprint(g.Rows))
		for _, n := range []number{
			g.Input, g.Output, g.CacheRead, g.CacheWrite, g.TotalTokens,
			g.Cost.Input, g.Cost.Output, g.Cost.CacheRead, g.Cost.CacheWrite, g.Cost.Total,
		} {
			row = append(row, string(n))
		}
		err = errors.Join(err, w.Write(row))
	}
	w.Flush()
	p.raw(b.String())
	return errors.Join(err, w.Error())
}
