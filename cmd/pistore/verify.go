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
store answers with.
  --deep   also look up every row again through every index, and have the
           backend check what it keeps beside the rows
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
	Omitted int64 `json:"omitted,omitempty"`
	// Incomplete: damage kept rows from being read.
	Incomplete bool `json:"incomplete,omitempty"`
}

type checkedCount struct {
	Entries      int64  `json:"entries"`
	Registers    int64  `json:"registers"`
	Usage        int64  `json:"usage"`
	Transactions *int64 `json:"transactions,omitempty"`
}

// faultView is one fault, as inspect and verify show it.
type faultView struct {
	Invariant int    `json:"invariant"`
	Severity  string `json:"severity"`
	ID        string `json:"id,omitempty"`
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
		views = append(views, faultView{f.Invariant, string(f.Severity), string(f.ID), f.Place, f.Message})
	}
	return views
}

func runVerify(ctx context.Context, in *invocation) (err error) {
	deep := in.flags.Bool("deep", false, "")
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
	report, err := verify.Check(ctx, o.session, verify.Options{Deep: *deep})
	stop()
	if err != nil {
		return refused(o.place, err)
	}
	view := verifyReportOf(report)
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
	checked := fmt.Sprintf("%s, %s, %s", count(r.Checked.Entries, "entry", "entries"),
		count(r.Checked.Registers, "register", "registers"), count(r.Checked.Usage, "usage row", "usage rows"))
	if n := r.Checked.Transactions; n != nil {
		checked += ", " + count(*n, "transaction", "transactions")
	}
	verdict := green("fine")
	switch {
	case !r.OK:
		verdict = red("faults")
	case len(r.Faults) > 0:
		verdict = yellow("fine, with warnings")
	}
	p.line(bold("session "), plain(string(info.ID)), plain("  "), verdict)
	p.line(dim("  checked " + checked))
	if r.Incomplete {
		p.line(yellow("  reading ended early; what was not read is not checked"))
	}
	if len(r.Faults) > 0 {
		p.blank()
		printFaults(p, r.Faults, r.Omitted)
	}
}

// printFaults prints faults, two lines each or more.
func printFaults(p *paper, faults []faultView, omitted int64) {
	for _, f := range faults {
		name := "damage"
		if f.Invariant != 0 {
			name = fmt.Sprintf("invariant %d", f.Invariant)
		}
		style := red
		if f.Severity == string(verify.Warning) {
			style = yellow
		}
		where := f.Place
		if f.ID != "" {
			where += " · " + f.ID
		}
		p.line(plain("  "), style(pad(f.Severity, 8)), bold(pad(name, 13)), plain(brief(where, columns-23)))
		p.block(plain, "          ", f.Message)
	}
	if omitted > 0 {
		p.line(dim(fmt.Sprintf("  and %d more", omitted)))
	}
}
