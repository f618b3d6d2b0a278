package main

import (
	"cmp"
	"maps"
	"slices"

	"pistore"
	"pistore/ledger"
	"pistore/registers"
)

// The JSON of inspect. Fields are added, never renamed; docs/cli.md documents
// them and a golden test holds them.
type inspectReport struct {
	Format    string         `json:"format"`
	Session   sessionView    `json:"session"`
	Entries   entriesView    `json:"entries"`
	Lanes     []laneView     `json:"lanes"`
	Facts     factsView      `json:"facts"`
	Documents []documentView `json:"documents"`
	Tasks     []taskView     `json:"tasks"`
	Timers    []timerView    `json:"timers"`
	Usage     usageView      `json:"usage"`
	Size      *sizeView      `json:"size,omitempty"`
	Legacy    *legacyView    `json:"legacy,omitempty"` // of a file of formats 1 to 3
	// LeftOut counts, by namespace, what of another program's format 4 has no
	// meaning here.
	LeftOut map[string]int64 `json:"leftOut,omitzero"`
	Faults  []faultView      `json:"faults"`

	// OmittedFaults counts faults that were found and are not listed.
	OmittedFaults int64 `json:"omittedFaults"`
	// Incomplete: damage kept rows from being read.
	Incomplete bool `json:"incomplete"`

	Tree      *[]treeNode     `json:"tree,omitempty"`      // with --entries
	Registers *[]registerView `json:"registers,omitempty"` // with --registers
}

type sessionView struct {
	ID              pistore.SessionID `json:"id"`
	CreatedAt       pistore.UnixMS    `json:"createdAt"`
	CWD             string            `json:"cwd,omitempty"`
	Name            string            `json:"name,omitempty"`
	ParentSessionID pistore.SessionID `json:"parentSessionId,omitempty"`
	// LegacyParentPath is the parent's file, where it could not be resolved.
	LegacyParentPath string      `json:"legacyParentSessionPath,omitempty"`
	StorageVersion   int         `json:"storageVersion"`
	Generation       string      `json:"generation,omitempty"`
	NextSeq          pistore.Seq `json:"nextSeq,omitempty"`
}

type entriesView struct {
	Total    int64            `json:"total"`
	Messages int64            `json:"messages"`
	ByType   map[string]int64 `json:"byType"`
	Roots    int64            `json:"roots"`
	Tips     int64            `json:"tips"`
}

type laneView struct {
	Name         string         `json:"name"`
	LeafID       pistore.ID     `json:"leafId,omitempty"`
	LegacyLeafID string         `json:"legacyLeafId,omitempty"` // its id in the file
	Depth        int            `json:"depth"`
	Config       pistore.JSON   `json:"config,omitempty"`
	Operation    *operationView `json:"operation,omitempty"`
	NextRun      int            `json:"pendingNextRun"` // queued inputs
	LastResult   pistore.JSON   `json:"lastResult,omitempty"`

	config  *registers.LaneConfiguration
	last    *registers.LastResult
	problem string // why it is not known what the lane is doing
}

type operationView struct {
	ID      pistore.ID `json:"id"`
	Kind    string     `json:"kind"`
	Phase   string     `json:"phase"`
	Detail  string     `json:"detail,omitempty"`
	Control string     `json:"control"`
	Resumes int64      `json:"resumes"`
	Queued  int        `json:"queued"`

	words string // for people, with the names of tools
}

type factsView struct {
	Labels []labelView             `json:"labels"`
	Custom map[string]pistore.JSON `json:"custom"`
}

type labelView struct {
	EntryID       pistore.ID `json:"entryId"`
	LegacyEntryID string     `json:"legacyEntryId,omitempty"`
	Label         string     `json:"label"`
}

type documentView struct {
	Kind  string       `json:"kind"`
	Lane  string       `json:"lane,omitempty"`
	Value pistore.JSON `json:"value"`
}

type taskView struct {
	ID    string       `json:"id"`
	Meta  pistore.JSON `json:"meta,omitempty"`
	State pistore.JSON `json:"state,omitempty"`
}

type timerView struct {
	DueAt pistore.UnixMS `json:"dueAt"`
	ID    string         `json:"id"`
	Value pistore.JSON   `json:"value"`
}

type usageView struct {
	Rows     int64 `json:"rows"`
	Unusable int64 `json:"unusable"` // rows with a value that counts as unknown
	sumsView
	ByModel []modelView `json:"byModel"`
}

type modelView struct {
	Provider string `json:"provider,omitempty"`
	ModelID  string `json:"modelId,omitempty"`
	Rows     int64  `json:"rows"`
	sumsView
}

type sumsView struct {
	Input       number   `json:"input"`
	Output      number   `json:"output"`
	CacheRead   number   `json:"cacheRead"`
	CacheWrite  number   `json:"cacheWrite"`
	TotalTokens number   `json:"totalTokens"`
	Cost        costView `json:"cost"`
}

type costView struct {
	Input      number `json:"input"`
	Output     number `json:"output"`
	CacheRead  number `json:"cacheRead"`
	CacheWrite number `json:"cacheWrite"`
	Total      number `json:"total"`
}

// number is an exact sum, written as a JSON number with all its digits.
type number pistore.Decimal

func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

type sizeView struct {
	Bytes int64 `json:"bytes"` // of the file, or of the whole folder with all its sessions
	// LiveBytes are what the session needs and DeadBytes what a compaction would
	// give back, of a file of format 4; nil: another store.
	LiveBytes *int64 `json:"liveBytes,omitempty"`
	DeadBytes *int64 `json:"deadBytes,omitempty"`
	// TornBytes stand at the end of a file and are set aside; nil: no file.
	TornBytes *int64 `json:"tornBytes,omitempty"`
}

type treeNode struct {
	ID         pistore.ID        `json:"id"`
	LegacyID   string            `json:"legacyId,omitempty"` // its id in the file
	ParentID   pistore.ID        `json:"parentId,omitempty"`
	Seq        pistore.Seq       `json:"seq"`
	Timestamp  pistore.UnixMS    `json:"timestamp"`
	Type       pistore.EntryType `json:"type"`
	CustomType string            `json:"customType,omitempty"`
	Role       string            `json:"role,omitempty"`
}

type registerView struct {
	Namespace string       `json:"namespace"`
	Key       string       `json:"key"`
	Seq       pistore.Seq  `json:"seq"`
	Value     pistore.JSON `json:"value"`
}

// buildReport makes the report of a survey. names returns the tools that a
// response calls.
func buildReport(v *survey, checked verifyReport, size *sizeView, names func(response pistore.ID) []string) inspectReport {
	info := v.header.Info
	return inspectReport{
		Format: info.Format,
		Session: sessionView{
			ID: info.ID, CreatedAt: info.CreatedAt, CWD: info.CWD, Name: v.name(), ParentSessionID: info.ParentSessionID,
			LegacyParentPath: info.LegacyParentPath,
			StorageVersion:   info.StorageVersion, Generation: info.Generation, NextSeq: v.header.NextSeq,
		},
		Entries: v.entries(), Lanes: v.lanes(names), Facts: v.facts(),
		Documents: v.documents(), Tasks: v.tasks(), Timers: v.timers(),
		Usage: ledgerOf(&v.usage), Size: size,
		Faults: checked.Faults, OmittedFaults: checked.Omitted, Incomplete: checked.Incomplete,
	}
}

func (v *survey) entries() entriesView {
	e := entriesView{Total: int64(len(v.nodes)), ByType: map[string]int64{
		string(pistore.TypeMessage): 0, string(pistore.TypeCompaction): 0, string(pistore.TypeBranchSummary): 0, string(pistore.TypeCustom): 0,
	}}
	for _, n := range v.nodes {
		e.ByType[string(n.entry.Type)]++
		if n.entry.ParentID == "" {
			e.Roots++
		}
		if n.children == 0 {
			e.Tips++
		}
	}
	e.Messages = e.ByType[string(pistore.TypeMessage)]
	return e
}

// lanes lists the lanes, main first.
func (v *survey) lanes(names func(pistore.ID) []string) []laneView {
	there := map[string]bool{}
	for _, r := range v.registers {
		switch r.Namespace {
		case registers.LaneLeafNS, registers.LaneStateNS, registers.LaneConfigNS, registers.LaneLastResultNS:
			there[r.Key] = true
		}
	}
	views := []laneView{}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		view := v.lane(name, names)
		if name == registers.MainLane {
			views = slices.Insert(views, 0, view)
		} else {
			views = append(views, view)
		}
	}
	return views
}

func (v *survey) lane(name string, names func(pistore.ID) []string) laneView {
	get := func(namespace string) pistore.JSON { return v.at[pistore.Address{Namespace: namespace, Key: name}] }
	l := laneView{Name: name, Config: readable(get(registers.LaneConfigNS)), LastResult: readable(get(registers.LaneLastResultNS))}
	l.LeafID, _ = registers.DecodeLaneLeaf(get(registers.LaneLeafNS))
	l.Depth = v.depth(l.LeafID)
	if c, err := registers.DecodeLaneConfiguration(get(registers.LaneConfigNS)); err == nil {
		l.config = &c
	}
	if r, err := registers.DecodeLastResult(get(registers.LaneLastResultNS)); err == nil {
		l.last = &r
	}
	value, there := v.at[pistore.Address{Namespace: registers.LaneStateNS, Key: name}]
	if !there {
		l.problem = noLaneState
		return l
	}
	state, err := registers.DecodeLaneState(value)
	if err != nil {
		l.problem = "its state cannot be read: " + err.Error()
		return l
	}
	l.NextRun = len(state.PendingNextRun)
	if op := state.CurrentOperationID; op != "" {
		view := v.operation(op, names)
		l.Operation = &view
	}
	return l
}

func (v *survey) operation(op pistore.ID, names func(pistore.ID) []string) operationView {
	value, there := v.at[pistore.Address{Namespace: registers.OpStateNS, Key: string(op)}]
	view := operationView{ID: op, Kind: "unknown", Phase: "unknown", Control: "unknown", Detail: "there is no op.state"}
	if !there {
		view.words = noOpState(op)
		return view
	}
	state, err := registers.DecodeOpState(value)
	if err == nil {
		return operationOf(op, state, names(batchOf(state)))
	}
	view.Detail = err.Error()
	view.words = "an operation whose state cannot be read: " + view.Detail
	return view
}

func operationOf(op pistore.ID, state registers.OpState, names []string) operationView {
	c := counterOf(state, nil)
	view := operationView{
		ID: op, Kind: string(c.kind), Phase: c.phase, Detail: c.detail, Control: "running", Resumes: c.resumes, Queued: c.queued,
		words: counterOf(state, names).String(),
	}
	if c.cancelled {
		view.Control = "cancel_requested"
	}
	return view
}

func (v *survey) facts() factsView {
	f := factsView{Labels: []labelView{}, Custom: map[string]pistore.JSON{}}
	for _, r := range v.registers {
		switch r.Namespace {
		case registers.FactLabelNS:
			if text, err := registers.DecodeText(r.Value); err == nil {
				f.Labels = append(f.Labels, labelView{EntryID: pistore.ID(r.Key), Label: text})
			}
		case registers.FactCustomNS:
			f.Custom[r.Key] = shown(r.Value)
		}
	}
	slices.SortFunc(f.Labels, func(a, b labelView) int { return cmp.Compare(a.EntryID, b.EntryID) })
	return f
}

func (v *survey) documents() []documentView {
	views := []documentView{}
	for _, r := range v.registers {
		if r.Namespace != registers.DocNS {
			continue
		}
		if kind, lane, err := registers.ParseDocKey(r.Key); err == nil {
			views = append(views, documentView{kind, lane, shown(r.Value)})
		}
	}
	slices.SortFunc(views, func(a, b documentView) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Lane, b.Lane)) })
	return views
}

func (v *survey) tasks() []taskView {
	byID := map[string]*taskView{}
	for _, r := range v.registers {
		if r.Namespace != registers.TaskMetaNS && r.Namespace != registers.TaskStateNS {
			continue
		}
		t := byID[r.Key]
		if t == nil {
			t = &taskView{ID: r.Key}
			byID[r.Key] = t
		}
		if r.Namespace == registers.TaskMetaNS {
			t.Meta = readable(r.Value)
		} else {
			t.State = readable(r.Value)
		}
	}
	views := []taskView{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		views = append(views, *byID[id])
	}
	return views
}

func (v *survey) timers() []timerView {
	views := []timerView{}
	for _, r := range v.registers {
		if r.Namespace != registers.TimerNS {
			continue
		}
		if due, id, err := registers.ParseTimerKey(r.Key); err == nil {
			views = append(views, timerView{due, string(id), shown(r.Value)})
		}
	}
	slices.SortFunc(views, func(a, b timerView) int { return cmp.Or(cmp.Compare(a.DueAt, b.DueAt), cmp.Compare(a.ID, b.ID)) })
	return views
}

func ledgerOf(b *ledger.Breakdown) usageView {
	t := b.Totals()
	return usageView{Rows: t.Rows, Unusable: t.Unusable, sumsView: sumsOf(t), ByModel: modelsOf(b)}
}

func modelsOf(b *ledger.Breakdown) []modelView {
	models := []modelView{}
	for _, g := range b.By(ledger.ByModel) {
		models = append(models, modelView{Provider: g.Provider, ModelID: g.Name, Rows: g.Totals.Rows, sumsView: sumsOf(g.Totals)})
	}
	return models
}

func sumsOf(t pistore.Totals) sumsView {
	return sumsView{
		Input: number(t.Input), Output: number(t.Output), CacheRead: number(t.CacheRead), CacheWrite: number(t.CacheWrite),
		TotalTokens: number(t.TotalTokens),
		Cost: costView{
			Input: number(t.Cost.Input), Output: number(t.Cost.Output), CacheRead: number(t.Cost.CacheRead),
			CacheWrite: number(t.Cost.CacheWrite), Total: number(t.Cost.Total),
		},
	}
}

func nodeOf(e pistore.Entry, role, legacy string) treeNode {
	return treeNode{e.ID, legacy, e.ParentID, e.Seq, e.Timestamp, e.Type, e.CustomType, role}
}

func (v *survey) tree() []treeNode {
	nodes := make([]treeNode, 0, len(v.nodes))
	for _, n := range v.nodes {
		nodes = append(nodes, nodeOf(n.entry, n.role, v.legacyID(n.entry.ID)))
	}
	return nodes
}

// cells lists every register, by namespace and key.
func (v *survey) cells() []registerView {
	views := make([]registerView, 0, len(v.registers))
	for _, r := range v.registers {
		views = append(views, registerView{r.Namespace, r.Key, r.Seq, shown(r.Value)})
	}
	slices.SortFunc(views, func(a, b registerView) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
	})
	return views
}

// readable returns a stored value if it is JSON, else nothing: a damaged store
// may hold anything.
func readable(value pistore.JSON) pistore.JSON {
	if _, err := pistore.CompactJSON(string(value)); err != nil {
		return ""
	}
	return value
}

// shown returns a stored value, as a string if it is no JSON.
func shown(value pistore.JSON) pistore.JSON {
	if readable(value) == "" {
		return pistore.QuoteJSON(string(value))
	}
	return value
}
