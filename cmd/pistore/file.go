package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"pistore"
	"pistore/jsonl"
	"pistore/session"
	"pistore/verify"
)

// legacyView is what a file of formats 1 to 3 says beside its rows.
type legacyView struct {
	Version       int              `json:"version"`
	RecordsByType map[string]int64 `json:"recordsByType"`
	LeafID        string           `json:"leafId,omitempty"` // of the last record
	Model         *legacyModel     `json:"model,omitempty"`
	ThinkingLevel string           `json:"thinkingLevel,omitempty"`
	ActiveTools   []string         `json:"activeToolNames,omitzero"`
	LongerBranch  *longerBranch    `json:"longerBranch,omitempty"`
}

type legacyModel struct {
	Provider string `json:"provider"`
	ModelID  string `json:"modelId"`
}

// longerBranch goes on below the leaf of a file that ends in mere metadata.
type longerBranch struct {
	TipID       pistore.ID `json:"tipId"`
	LegacyTipID string     `json:"legacyTipId"`
	Entries     int        `json:"entries"`
}

// legacyOf returns nil for a file of format 4, whose rows say everything.
func legacyOf(r jsonl.Report) *legacyView {
	if r.Version == 4 {
		return nil
	}
	v := &legacyView{
		Version: r.Version, RecordsByType: r.RecordsByType, LeafID: r.LeafID,
		ThinkingLevel: r.ThinkingLevel, ActiveTools: r.ActiveTools,
	}
	if m := r.Model; m != nil {
		v.Model = &legacyModel{m.Provider, m.ModelID}
	}
	if b := r.LongerBranch; b != nil {
		v.LongerBranch = &longerBranch{b.TipID, b.LegacyTipID, b.Entries}
	}
	return v
}

// addFile completes a report with what only the file says.
func (r *inspectReport) addFile(o *opened) {
	if o.file == nil {
		return
	}
	file := o.file.Report()
	r.Legacy, r.LeftOut = legacyOf(file), file.LeftOut
	for i := range r.Lanes {
		r.Lanes[i].LegacyLeafID = o.legacyID(r.Lanes[i].LeafID)
	}
	for i := range r.Facts.Labels {
		r.Facts.Labels[i].LegacyEntryID = o.legacyID(r.Facts.Labels[i].EntryID)
	}
}

// rowsOnly hides what a file finds in itself, which is reported with more than
// a [pistore.CorruptError] holds.
type rowsOnly struct{ pistore.Storage }

// check checks the session, and adds what reading its file found.
func (o *opened) check(ctx context.Context, opts verify.Options) (verifyReport, error) {
	s := o.session
	if o.file != nil {
		s = rowsOnly{s}
	}
	checked, err := verify.Check(ctx, s, opts)
	r := verifyReportOf(checked)
	if o.file == nil {
		return r, err
	}
	err = errors.Join(err, r.locate(ctx, o.file))
	file := o.file.Report()
	r.OK = r.OK && file.Errors == 0
	r.Faults = append(fileFaults(file), r.Faults...)
	slices.SortStableFunc(r.Faults, func(a, b faultView) int { return cmp.Compare(a.lineOrEnd(), b.lineOrEnd()) })
	r.Omitted += file.Omitted()
	r.TornBytes = &file.TornBytes
	if file.Version == 4 {
		r.Checked.Transactions = &file.Transactions
	}
	return r, err
}

// schemaInvariant is broken by an entry without what its type demands.
const schemaInvariant = 7

// locate says of faults in entries and usage rows where these stand in the file.
func (r *verifyReport) locate(ctx context.Context, f *jsonl.File) error {
	var ids []pistore.ID
	for _, v := range r.Faults {
		if v.ID != "" {
			ids = append(ids, pistore.ID(v.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	places, err := f.Locate(ctx, ids)
	for i := range r.Faults {
		v := &r.Faults[i]
		at, ok := places[pistore.ID(v.ID)]
		if !ok {
			continue
		}
		v.LegacyID, _ = f.LegacyID(pistore.ID(v.ID))
		v.Line, v.Offset, v.Place = at.Line, &at.Offset, at.String()
		if v.Invariant == schemaInvariant {
			v.Kind = jsonl.KindSchema
		}
	}
	return err
}

// lineOrEnd is the line of a fault; one that has none comes last.
func (v *faultView) lineOrEnd() int64 {
	if v.Line == 0 {
		return math.MaxInt64
	}
	return v.Line
}

// fileFaults lists what reading a file found, by line.
func fileFaults(r jsonl.Report) []faultView {
	views := make([]faultView, 0, len(r.Faults))
	for i := range r.Faults {
		f := &r.Faults[i]
		views = append(views, faultView{
			Invariant: f.Invariant, Severity: string(f.Severity), Kind: f.Kind, Line: f.Line, Offset: &f.Offset,
			ID: string(f.ID), LegacyID: f.LegacyID, Place: f.Place(), Message: f.Message,
		})
	}
	return views
}

// damageOf says in one sentence that a file is damaged, empty if it is not.
func (o *opened) damageOf() string {
	if o.file == nil {
		return ""
	}
	r := o.file.Report()
	if r.Errors == 0 {
		return ""
	}
	for i := range r.Faults {
		if f := &r.Faults[i]; f.Severity == jsonl.Error {
			return fmt.Sprintf("the file is damaged: %s, the first at %s: %s", count(r.Errors, "error", "errors"), f.Place(), f.Message)
		}
	}
	return "the file is damaged: " + count(r.Errors, "error", "errors")
}

// fileFormats are the formats of files that this build opens.
var fileFormats = []string{string(jsonl.Pi1), string(jsonl.Pi2), string(jsonl.Pi3), string(jsonl.V4), string(jsonl.V4Values)}

// sizeOfFile is the size of a file and of its parts. Only in one of format 4
// some of it may be dead.
func sizeOfFile(r jsonl.Report) *sizeView {
	v := &sizeView{Bytes: r.Bytes, TornBytes: &r.TornBytes}
	if r.Format == jsonl.V4 {
		live := r.Bytes - r.TornBytes - r.DeadBytes
		v.LiveBytes, v.DeadBytes = &live, &r.DeadBytes
	}
	return v
}

// sessionFiles reads files for listings. It is a session.FileReader.
type sessionFiles struct{}

func (sessionFiles) ReadHeader(ctx context.Context, path string) (pistore.Info, error) {
	named := strings.HasSuffix(path, ".jsonl")
	if !named && !startsObject(path) {
		return pistore.Info{}, pistore.ErrForeignFormat
	}
	info, err := jsonl.ReadInfo(ctx, path)
	if err != nil {
		return pistore.Info{}, headerProblem(named, err)
	}
	return info, nil
}

func (sessionFiles) ReadName(ctx context.Context, path string) (string, error) {
	return jsonl.ReadName(ctx, path)
}

func (sessionFiles) OriginalOf(path string) (string, bool) { return jsonl.OriginalOf(path) }

// damagedAtStart returns the files of a listing that have no header to be listed by,
// and may still show what follows it, and what else was skipped.
func damagedAtStart(l session.Listing) (damaged []session.Listed, rest []session.Skipped) {
	for _, s := range l.Skipped {
		if errors.Is(s.Err, pistore.ErrCorrupt) {
			damaged = append(damaged, session.Listed{Path: s.Path})
		} else {
			rest = append(rest, s)
		}
	}
	return damaged, rest
}

// startsObject reports whether a file may hold JSON objects, so that the many
// files of a folder that cannot be sessions cost one small read.
func startsObject(path string) bool {
	head, err := readHead(path)
	if err != nil {
		return true // reading the header tells what it is
	}
	return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n\x00"), []byte("{"))
}

// headerProblem says why a file is not listed. Only files named as sessions are
// missed when nothing in them tells what they are.
func headerProblem(named bool, err error) error {
	switch {
	case errors.Is(err, pistore.ErrCorrupt) && named:
		return fmt.Errorf("%w: it has no header that can be read", pistore.ErrCorrupt)
	case errors.Is(err, pistore.ErrCorrupt):
		return pistore.ErrForeignFormat
	default:
		return err
	}
}
