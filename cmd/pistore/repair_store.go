package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"pistore"
	"pistore/logstore"
	"pistore/verify"
)

// repairStoreReport is the JSON of repair for a logstore.
type repairStoreReport struct {
	SourceFormat string            `json:"sourceFormat"`
	Format       string            `json:"format"`
	OmittedBytes int64             `json:"omittedBytes"` // behind the first damage of logs and MANIFEST
	StrayTables  []string          `json:"strayTables"`  // that a damaged MANIFEST no longer names; not read
	Faults       []faultView       `json:"faults"`       // of files and catalog
	Sessions     []repairedSession `json:"sessions"`
}

// repairedSession is what became of a session.
type repairedSession struct {
	ID      pistore.SessionID `json:"id"`
	Saved   bool              `json:"saved"`
	Unnamed bool              `json:"unnamed"` // its name is lost, and it has a new one
	Lost    bool              `json:"lost"`    // some of it is
	Kept    *checkedCount     `json:"kept,omitempty"`
	Faults  []faultView       `json:"faults"` // of the damaged one
	// What could be read and leads to what was lost.
	LeftEntries   []pistore.ID  `json:"leftEntries"`
	LeftRegisters []leftAddress `json:"leftRegisters"`
	Remaining     []faultView   `json:"remaining"` // faults of the saved one
}

type leftAddress struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
}

func runRepairStore(ctx context.Context, in *invocation, place, out string, keepGoing bool) error {
	stop := in.progress("repairing")
	r, err := repairStore(ctx, place, out, keepGoing)
	stop()
	if err != nil {
		return err
	}
	if in.json {
		err = in.out.object(r)
	} else {
		printRepairStore(in.out, r, place, out)
	}
	if err == nil && len(r.StrayTables) > 0 {
		err = &exitError{code: exitFindings}
	}
	for _, s := range r.Sessions {
		if err == nil && (!s.Saved || hasErrors(s.Remaining)) {
			err = &exitError{code: exitFindings}
		}
	}
	return err
}

// repairStore repairs, and checks what came out.
func repairStore(ctx context.Context, place, out string, keepGoing bool) (r repairStoreReport, err error) {
	made, err := logstore.Repair(ctx, place, out, logstore.Options{}, logstore.RepairOptions{KeepGoing: keepGoing})
	switch {
	case errors.Is(err, pistore.ErrNotFound), errors.Is(err, pistore.ErrForeignFormat):
		return r, cmp.Or(detectFolder(place), refused(place, err))
	case errors.Is(err, pistore.ErrCorrupt), errors.Is(err, pistore.ErrNewerVersion):
		return r, refused(place, err)
	case errors.Is(err, pistore.ErrInvalid):
		return r, usageError(err.Error())
	case err != nil:
		return r, leftAsItWas(out, err)
	}
	r = repairStoreReport{
		SourceFormat: "logstore", Format: "logstore", OmittedBytes: made.OmittedBytes,
		StrayTables: append([]string{}, made.StrayTables...), Faults: damageViews(made.Damage),
		Sessions: []repairedSession{},
	}
	db, err := logstore.Open(out, logstore.Options{ReadOnly: true})
	if err != nil {
		return r, refused(out, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, s := range made.Sessions {
		view, err := repairedView(ctx, db, s)
		if err != nil {
			return r, refused(out, err)
		}
		r.Sessions = append(r.Sessions, view)
	}
	return r, nil
}

func repairedView(ctx context.Context, db pistore.Backend, s logstore.RepairedSession) (v repairedSession, err error) {
	v = repairedSession{
		ID: s.Info.ID, Saved: s.Saved, Unnamed: s.Unnamed, Lost: s.Lost, Faults: damageViews(s.Damage),
		LeftEntries: append([]pistore.ID{}, s.LeftEntries...), LeftRegisters: []leftAddress{}, Remaining: []faultView{},
	}
	for _, at := range s.LeftRegisters {
		v.LeftRegisters = append(v.LeftRegisters, leftAddress(at))
	}
	if !s.Saved {
		return v, nil
	}
	saved, err := db.Open(ctx, s.Info.ID, pistore.ReadOnly)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, saved.Close()) }()
	checked, err := verify.Check(ctx, saved, verify.Options{})
	report := verifyReportOf(checked)
	v.Kept, v.Remaining = &report.Checked, report.Faults
	return v, err
}

// damageViews shows what a backend found in itself.
func damageViews(damage []*pistore.CorruptError) []faultView {
	views := make([]faultView, 0, len(damage))
	for _, d := range damage {
		views = append(views, faultView{Invariant: d.Invariant, Severity: string(verify.Error), Place: d.Place, Message: d.Problem})
	}
	return views
}

func printRepairStore(p *paper, r repairStoreReport, place, out string) {
	p.line(bold(count(int64(len(r.Sessions)), "session", "sessions")))
	p.line(dim("  from      "), plain(place))
	p.line(dim("  into      "), plain(out))
	if r.OmittedBytes > 0 {
		p.line(dim("  left out  "), plain(bytesOf(r.OmittedBytes)+" of the log behind its first damage"))
	}
	if n := len(r.StrayTables); n > 0 {
		p.labelled("  not read  ", red, count(int64(n), "table", "tables")+" that the damaged MANIFEST no longer names; sessions may be missing or old")
	}
	for _, s := range r.Sessions {
		p.blank()
		p.line(bold("session "), plain(string(s.ID)), plain("  "), s.verdict(r.OmittedBytes > 0))
		if s.Kept != nil {
			p.line(dim("  kept      "), plain(s.Kept.String()))
		}
		if left := s.leftWords(); left != "" {
			p.line(dim("  left out  "), plain(left))
		}
		printFaults(p, s.Faults, 0)
		if len(s.Remaining) > 0 {
			p.line(red("  what still is wrong:"))
			printFaults(p, s.Remaining, 0)
		}
	}
	if len(r.Faults) > 0 {
		heading(p, "Damage of the folder")
		printFaults(p, r.Faults, 0)
	}
}

// verdict says what became of a session. What a log has lost may be of any.
func (s repairedSession) verdict(cutLog bool) span {
	switch {
	case !s.Saved:
		return red("not saved: some of it is lost (--keep-going keeps the rest)")
	case s.Unnamed:
		return yellow("saved under a new id: its own is lost")
	case s.Lost:
		return yellow("saved in part")
	case cutLog:
		return yellow("saved as it was before the damage of the log")
	default:
		return green("saved whole")
	}
}

func (s repairedSession) leftWords() string {
	words := ""
	if n := len(s.LeftEntries); n > 0 {
		words = count(int64(n), "entry", "entries")
	}
	if n := len(s.LeftRegisters); n > 0 {
		words = joinDetail(words, count(int64(n), "register", "registers"))
	}
	if words != "" {
		words = fmt.Sprintf("%s that lead to what is lost", words)
	}
	return words
}
