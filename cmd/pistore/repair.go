package main

import (
	"context"
	"errors"

	"pistore"
	"pistore/jsonl"
	"pistore/verify"
)

var repairCommand = command{
	name: "repair", args: "STORE --out FILE [flags]",
	short: "salvage a damaged store into a new one",
	long: `Writes what can be saved of a session file into FILE, a new session file of
format 4, or of a logstore into a new folder FILE, checks it, and lists what was
left out. STORE is not changed. Of a file of format 4 it keeps the longest
beginning in which nothing is damaged; of a logstore the sessions that have lost
nothing.`,
	examples: []string{
		"pistore repair session.jsonl --out saved.jsonl", "pistore repair session.jsonl --out saved.jsonl --keep-going --json",
		"pistore repair ./store --out ./saved",
	},
	run: runRepair,
}

// repairReport is the JSON of repair.
type repairReport struct {
	Session      pistore.SessionID `json:"session"`
	SourceFormat string            `json:"sourceFormat"`
	Format       string            `json:"format"` // of FILE
	Kept         checkedCount      `json:"kept"`
	// OmittedBytes stand behind the beginning that was kept.
	OmittedBytes int64       `json:"omittedBytes"`
	TornBytes    int64       `json:"tornBytes"`
	Faults       []faultView `json:"faults"`  // of STORE
	Omitted      int64       `json:"omitted"` // of them
	// Remaining are the faults of FILE.
	Remaining []faultView `json:"remaining"`
}

func runRepair(ctx context.Context, in *invocation) error {
	out := in.flags.String("out", "", "the new `FILE` or folder, which must not be there yet")
	keepGoing := in.flags.Bool("keep-going", false, "keep everything that still fits, also behind damage")
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	if *out == "" {
		return usageError("repair takes --out FILE, the file or folder to write")
	}
	place, id, err := splitStore(arg)
	if err != nil {
		return err
	}
	if err := isFree(*out); err != nil {
		return err
	}
	if isFolder(place) {
		if id != "" {
			return usageError("repair salvages all sessions of a logstore; name none")
		}
		return runRepairStore(ctx, in, place, *out, *keepGoing)
	}
	if _, err := detect(place); err != nil {
		return err
	}
	if id != "" { // a wrong name is found out before anything is written
		o, err := openFile(ctx, place, id)
		if err = errors.Join(err, closing(o)); err != nil {
			return err
		}
	}
	stop := in.progress("repairing")
	r, err := repairFile(ctx, place, *out, *keepGoing)
	stop()
	if err != nil {
		return err
	}
	if in.json {
		err = in.out.object(r)
	} else {
		printRepair(in.out, r, place, *out)
	}
	if err == nil && hasErrors(r.Remaining) {
		err = &exitError{code: exitFindings}
	}
	return err
}

func closing(o *opened) error {
	if o == nil {
		return nil
	}
	return o.close()
}

// repairFile repairs, and checks what came out.
func repairFile(ctx context.Context, place, out string, keepGoing bool) (r repairReport, err error) {
	made, err := jsonl.Repair(ctx, place, out, jsonl.Options{Durability: pistore.Power}, jsonl.RepairOptions{KeepGoing: keepGoing})
	if err != nil {
		var unreadable *jsonl.UnreadableError
		if errors.As(err, &unreadable) || errors.Is(err, pistore.ErrForeignFormat) || errors.Is(err, pistore.ErrNewerVersion) {
			return r, refusedFile(ctx, place, err)
		}
		return r, leftAsItWas(out, err)
	}
	r = repairReport{
		Session: made.Info.ID, SourceFormat: string(made.Report.Format), Format: made.Info.Format,
		OmittedBytes: made.OmittedBytes, TornBytes: made.Report.TornBytes,
		Faults: fileFaults(made.Report), Omitted: made.Report.Omitted(),
	}
	o, err := openFile(ctx, out, "")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	checked, err := o.check(ctx, verify.Options{})
	if err != nil {
		return r, refused(out, err)
	}
	r.Kept, r.Remaining = checked.Checked, checked.Faults
	r.Kept.Transactions = nil
	return r, nil
}

func hasErrors(faults []faultView) bool { return firstError(faults) != "" }

func printRepair(p *paper, r repairReport, place, out string) {
	verdict := green("repaired")
	if hasErrors(r.Remaining) {
		verdict = red("repaired, with faults that remain")
	}
	p.line(bold("session "), plain(string(r.Session)), plain("  "), verdict)
	p.line(dim("  from      "), plain(place))
	p.line(dim("  into      "), plain(out))
	p.line(dim("  kept      "), plain(r.Kept.String()))
	if r.OmittedBytes > 0 {
		p.line(dim("  left out  "), plain(bytesOf(r.OmittedBytes)+" behind the damage (--keep-going looks at them)"))
	}
	if r.TornBytes > 0 {
		p.line(dim("  torn      "), plain(bytesOf(r.TornBytes)+" at the end, never acknowledged"))
	}
	if len(r.Faults) > 0 {
		heading(p, "What was wrong, and is left out or put right")
		printFaults(p, r.Faults, r.Omitted)
	}
	if len(r.Remaining) > 0 {
		heading(p, "What still is")
		printFaults(p, r.Remaining, 0)
	}
}
