package main

import (
	"context"
	"errors"
	"fmt"

	"pistore"
	"pistore/verify"
)

var verifyCommand = command{
	name: "verify", args: "STORE [flags]",
	short: "check every invariant, by number",
	long: `Reads every row once and checks what the rows say of each other: ids, order,
parents, lanes, operations, queues, and the statistics and branches that the
store answers with. Of a session file it also says what reading it found, line
by line.
A fault of severity error makes the exit code 1; a warning does not.`,
	examples: []string{"pistore verify ./store", "pistore verify ./store#0195c8d1-52a1-7c3e-8f00-1234567890ab --deep --json"},
	run:      runVerify,
}

// verifyReport is the JSON of verify.
type verifyReport struct {
	OK      bool         `json:"ok"`
	Checked checkedCount `json:"checked"`
	Faults  []faultView  `json:"faults"`
	// Omitted counts faults that were found and are not listed.
	Omitted int64 `json:"omitted"`
	// Incomplete: damage kept rows from being read.
	Incomplete bool `json:"incomplete"`
	// TornBytes stand at the end of a file and are set aside; nil: no file.
	TornBytes *int64 `json:"tornBytes,omitempty"`
}

type checkedCount struct {
	Entries      int64  `json:"entries"`
	Registers    int64  `json:"registers"`
	Usage        int64  `json:"usage"`
	Transactions *int64 `json:"transactions,omitempty"`
}

func (c checkedCount) String() string {
	text := fmt.Sprintf("%s, %s, %s", count(c.Entries, "entry", "entries"),
		count(c.Registers, "register", "registers"), count(c.Usage, "usage row", "usage rows"))
	if n := c.Transactions; n != nil {
		text += ", " + count(*n, "transaction", "transactions")
	}
	return text
}

// faultView is one fault, as inspect and verify show it.
type faultView struct {
	Invariant int    `json:"invariant"`
	Severity  string `json:"severity"`
	Kind      string `json:"kind,omitempty"`   // of a fault of a file, a stable word
	Line      int64  `json:"line,omitempty"`   // from 1
	Offset    *int64 `json:"offset,omitempty"` // in bytes
	ID        string `json:"id,omitempty"`
	LegacyID  string `json:"legacyId,omitempty"` // its id in the file
	Place     string `json:"place,omitempty"`
	Message   string `json:"message"`
}

func verifyReportOf(r verify.Report) verifyReport {
	v := verifyReport{
		OK:      r.OK(),
		Checked: checkedCount{Entries: r.Checked.Entries, Registers: r.Checked.Registers, Usage: r.Checked.Usage},
		Faults:  faultViews(r.Faults), Omitted: r.Omitted(), Incomplete: r.Incomplete,
	}
	if n := r.Checked.Transactions; n >= 0 {
		v.Checked.Transactions = &n
	}
	return v
}

func faultViews(faults []verify.Fault) []faultView {
	views := make([]faultView, 0, len(faults))
	for _, f := range faults {
		views = append(views, faultView{
			Invariant: f.Invariant, Severity: string(f.Severity), ID: string(f.ID), Place: f.Place, Message: f.Message,
		})
	}
	return views
}

func runVerify(ctx context.Context, in *invocation) (err error) {
	deep := in.flags.Bool("deep", false, "also look up every row again through every index, and have the backend check what it keeps beside the rows")
	arg, err := in.parseStore()
	if err != nil {
		return err
	}
	o, err := openSession(ctx, arg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	stop := in.progress("checking")
	view, err := o.check(ctx, verify.Options{Deep: *deep})
	stop()
	if err != nil {
		return refused(o.place, err)
	}
	if in.json {
		err = in.out.object(view)
	} else {
		printVerify(in.out, o.session.Info(), view)
	}
	if err == nil && !view.OK {
		err = &exitError{code: exitFindings}
	}
	return err
}

func printVerify(p *paper, info pistore.Info, r verifyReport) {
	verdict := green("fine")
	switch {
	case !r.OK:
		verdict = red("faults")
	case len(r.Faults) > 0:
		verdict = yellow("fine, with warnings")
	}
	p.line(bold("session "), plain(string(info.ID)), plain("  "), verdict)
	p.line(dim("  checked " + r.Checked.String()))
	if r.Incomplete {
		p.line(yellow("  reading ended early; what was not read is not checked"))
	}
	if len(r.Faults) > 0 {
		p.blank()
		printFaults(p, r.Faults, r.Omitted)
	}
}

// name is what kind of fault it is, for people.
func (f faultView) name() string {
	switch {
	case f.Kind != "":
		return f.Kind
	case f.Invariant != 0:
		return fmt.Sprintf("invariant %d", f.Invariant)
	default:
		return "damage"
	}
}

// printFaults prints faults, two lines each or more.
func printFaults(p *paper, faults []faultView, omitted int64) {
	for _, f := range faults {
		name := f.name()
		style := red
		if f.Severity == string(verify.Warning) {
			style = yellow
		}
		where := f.Place
		if f.LegacyID != "" {
			where += " · " + f.LegacyID
		} else if f.ID != "" {
			where += " · " + f.ID
		}
		name = pad(name, 12) + " "
		p.line(plain("  "), style(pad(f.Severity, 8)), bold(name), plain(brief(where, columns-10-width(name))))
		p.labelled("          ", plain, f.Message)
	}
	if omitted > 0 {
		p.line(dim(fmt.Sprintf("  and %d more", omitted)))
	}
}
