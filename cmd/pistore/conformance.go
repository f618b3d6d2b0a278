package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"pistore"
	"pistore/conformance"
	"pistore/conformance/pipe"
)

var conformanceCommand = command{
	name: "conformance", args: "--exec COMMAND [flags]",
	short: "check a store, written in any language",
	long: `Starts COMMAND, which speaks the store protocol (docs/store-protocol.md) on stdin
and stdout, again and again at new locations, and checks it row by row against
the storage contract. What fails says what was seen, what to do about it, and the
command that shows it again. --location is the name that a location has behind
its folder. --reopen-every N closes and opens the session after every N-th commit.
docs/conformance.md explains the rows and their capabilities.`,
	examples: []string{
		`pistore conformance --exec "pistore storage-server" --only TX-01 --only MOD-01 --transactions 100`,
		`pistore conformance --exec "pistore storage-server" --location s.jsonl --only REO-01 --json`,
	},
	run: runConformance,
}

// piped is what the protocol has no words for.
var piped = []conformance.Capability{
	conformance.NoLoad, conformance.NoRewrite, conformance.NoDelete, conformance.NoList, conformance.NoExport,
	conformance.NoSessions, conformance.NoGeneration, conformance.NoErrorDetails,
}

// lackable are the capabilities that --lacks names.
var lackable = map[string]conformance.Capability{
	"read-only": conformance.NoReadOnly, "ownership": conformance.NoOwnership,
	"reopening": conformance.NoReopen, "large": conformance.NoLarge,
}

// words are the values of a flag that may be given several times.
type words []string

func (w *words) String() string     { return strings.Join(*w, " ") }
func (w *words) Set(s string) error { *w = append(*w, s); return nil }

func runConformance(ctx context.Context, in *invocation) (err error) {
	var lacks, only words
	command := in.flags.String("exec", "", "the `COMMAND` that speaks the protocol; a shell reads it")
	location := in.flags.String("location", "store", "the last part of each location, a `NAME`")
	level := in.flags.String("durability", "process", "`process|power`: the level at which commits are acknowledged")
	in.flags.Var(&lacks, "lacks", "`read-only|ownership|reopening|large`: what the store does not do; may be repeated")
	in.flags.Var(&only, "only", "a row to run, by `ID`; may be repeated")
	cfg := conformance.Config{Lacks: append([]conformance.Capability{}, piped...)}
	in.flags.Int64Var(&cfg.Seed, "seed", 1, "a number `N`, from which everything random follows")
	in.flags.IntVar(&cfg.Transactions, "transactions", 1000, "`N` generated transactions of the model row")
	in.flags.IntVar(&cfg.ReopenEvery, "reopen-every", 0, "reopen after every `N`-th commit; 0: where rows ask for it")
	rest, err := in.parse()
	if err != nil {
		return err
	}
	durability, err := pistore.ParseDurability(*level)
	if err != nil {
		return usageError(fmt.Sprintf("--durability: %v", err))
	}
	switch {
	case len(rest) != 0 || *command == "":
		return usageError(`conformance takes --exec COMMAND; see "pistore help conformance"`)
	case *location == "" || *location != filepath.Base(*location):
		return usageError(fmt.Sprintf("--location %q is not the name of a file", *location))
	case cfg.Transactions < 1 || cfg.ReopenEvery < 0:
		return usageError("--transactions is 1 or more, --reopen-every 0 or more")
	}
	for _, name := range lacks {
		c, ok := lackable[name]
		if !ok {
			return usageError(fmt.Sprintf("--lacks %q is none of read-only, ownership, reopening, large", name))
		}
		cfg.Lacks = append(cfg.Lacks, c)
	}
	for _, id := range only {
		if !slices.Contains(conformance.RowIDs(), id) {
			return usageError(fmt.Sprintf("--only %q is no row; a run with --json names all of them", id))
		}
	}
	cfg.Only = only
	dir, err := os.MkdirTemp("", "pistore-conformance-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg.Dir = dir
	open := func(ctx context.Context, place string) pistore.Backend {
		return pipe.New(pipe.Options{
			Command:    func() *exec.Cmd { return shell(ctx, *command) },
			Location:   filepath.Join(place, *location),
			Durability: durability,
		})
	}
	if err := speaks(ctx, func(ctx context.Context) pistore.Backend { return open(ctx, dir) }); err != nil {
		return err
	}
	cfg.Open = func(place string) (pistore.Backend, error) { return open(ctx, place), ctx.Err() }
	again := "pistore conformance --exec " + quoteShell(*command)
	if *location != "store" {
		again += " --location " + quoteShell(*location)
	}
	if *level != "process" {
		again += " --durability " + *level
	}
	for _, name := range lacks {
		again += " --lacks " + name
	}
	return in.reportConformance(ctx, cfg, again)
}

// quoteShell makes one word of a shell's command line.
func quoteShell(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=+,@", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// speaks asks a command to make a store, so that one which does not start, or
// does not speak the protocol, is told as that and not row by row.
func speaks(ctx context.Context, open func(context.Context) pistore.Backend) error {
	trial, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	b := open(trial)
	_, err := b.Create(trial, pistore.Info{})
	silent := trial.Err() != nil
	closed := b.Close()
	switch {
	case ctx.Err() != nil:
		return &exitError{exitFindings, errors.New("interrupted")}
	case silent:
		return fmt.Errorf("the command gave no answer within %v; docs/store-protocol.md says what it is asked", answerTime)
	case errors.Is(err, pistore.ErrFaulted):
		return fmt.Errorf("the command does not speak the store protocol: %w", err)
	case err == nil && closed != nil:
		return fmt.Errorf("the command does not end when its input does: %w", closed)
	default:
		return nil // what a store refuses is for the rows to judge
	}
}

// answerTime is how long the first answer of a store may take.
const answerTime = 30 * time.Second

// shell starts a command line as a shell reads it.
func shell(ctx context.Context, line string) *exec.Cmd {
	if runtime.GOOS == "windows" {
		return exec.CommandContext(ctx, "cmd", "/c", line)
	}
	return exec.CommandContext(ctx, "sh", "-c", line)
}

func (in *invocation) reportConformance(ctx context.Context, cfg conformance.Config, again string) error {
	total := len(cfg.Only)
	if total == 0 {
		total = len(conformance.RowIDs())
	}
	var done atomic.Int64
	ended := conformance.Report{Seed: cfg.Seed, Transactions: cfg.Transactions}
	cfg.Progress = func(r conformance.Result) {
		if done.Add(1); ctx.Err() == nil { // what fails behind an interrupt fails of it
			ended.Add(r)
		}
	}
	stop := in.progressOf(func() string { return fmt.Sprintf("%d of %s", done.Load(), count(int64(total), "row", "rows")) })
	report := conformance.Check(cfg)
	stop()
	if ctx.Err() != nil {
		report = ended
	}
	if in.json {
		if err := in.out.object(report); err != nil {
			return err
		}
	} else {
		printConformance(in.out, report, again)
	}
	switch {
	case ctx.Err() != nil:
		return &exitError{exitFindings, errors.New("interrupted")}
	case report.OK():
		return nil
	case report.Failed == 0:
		return &exitError{exitFindings, errors.New("nothing was checked: every row that was asked for is skipped")}
	default:
		return &exitError{code: exitFindings}
	}
}

// printConformance prints the report; again is the command that made it, which a
// replay asks more of.
func printConformance(p *paper, r conformance.Report, again string) {
	for _, result := range r.Results {
		switch result.Outcome {
		case conformance.Fail:
			p.line(red("FAIL "), bold(result.ID), plain("  "+result.Title))
			for line := range strings.Lines(result.Why) {
				p.whole("     " + strings.TrimSuffix(line, "\n"))
			}
			p.whole("     replay: " + again + replayFlags(*result.Replay))
		case conformance.Skip:
			p.whole("skip " + result.ID + "  " + result.Title + ": " + result.Why)
		default:
		}
	}
	p.line(plain(fmt.Sprintf("%d rows passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)))
}

func replayFlags(r conformance.Replay) string {
	flags := fmt.Sprintf(" --only %s --seed %d", r.Row, r.Seed)
	if r.Transactions > 0 {
		flags += fmt.Sprintf(" --transactions %d", r.Transactions)
	}
	if r.ReopenEvery > 0 {
		flags += fmt.Sprintf(" --reopen-every %d", r.ReopenEvery)
	}
	return flags
}
