package page

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pistore/bench/peers/rows"
)

// File is one of what is written. Path is below the repository, with slashes.
type File struct {
	Path string
	Text []byte
}

// charts is the folder of charts.
const charts = "docs/benchmarks/"

// Render writes the page and its charts from results.
func Render(results []rows.Result) []File {
	var b strings.Builder
	var files []File
	full, gib := map[string]rows.Result{}, map[string]rows.Result{}
	for _, r := range results {
		if r.Form == rows.GiB {
			gib[r.Row] = r
		} else {
			full[r.Row] = r
		}
	}
	top(&b, results)
	b.WriteString(glance(full))
	if text, ok := targetsChart(full); ok {
		files = append(files, File{charts + "targets.svg", text})
		b.WriteString("![How far each target is reached](" + charts + "targets.svg)\n\n")
	}
	for _, row := range rows.All() {
		r, ok := full[row.Name]
		if !ok {
			heading(&b, row)
			fmt.Fprintf(&b, "Not measured yet.\n\n    %s\n\n", command(row, rows.Full))
			continue
		}
		section := Section(r)
		for _, c := range chartsOf(row, r) {
			files = append(files, c.File)
			section = strings.Replace(section, "Not shown: ", "!["+c.alt+"]("+c.Path+")\n\nNot shown: ", 1)
		}
		b.WriteString(section + "\n")
		if large, ok := gib[row.Name]; ok {
			b.WriteString("With 1 GiB of content a side, once:\n\n" + provenance(row, large))
			tables(&b, row, large)
		}
	}
	b.WriteString(samework + "\n" + bottom)
	files = append(files, File{"BENCHMARKS.md", []byte(strings.TrimRight(b.String(), "\n") + "\n")})
	return files
}

// samework says where a peer does less or more than our stores.
//
//go:embed peers.md
var samework string

const intro = `# Benchmarks

What a commit, an opening, a read and a run cost, beside what else one could use:
SQLite, the engine alone, raw logs, and the reference implementation in TypeScript.
For those who choose a durability level by numbers, and for those who measure a
store of their own with the same work (` + "`pistore bench`, `bench.Run`" + `).

All of it is made by one command:

    cd bench/peers
    go run ./cmd/peers install             # once: Node and the reference implementation
    go run ./cmd/peers page --dir DIR      # a folder on the disk in question

How to read it: the sides of a table took turns, each in a process of its own, and
each round ran every side once. Figures are medians over the rounds, and ratios are
medians of the ratios of the rounds, with the least and the most: on a machine that
does other things too only ratios within a round mean something. Times are of one
operation. "By" divides: "A by B" is how much more A has than B. What a side cannot
measure is a dash. Memory is that of the process of a side, and allocations are
those of the Go runtime. The peers do the same work, duplicate ids and validation of
JSON included, at the same durability; [where that is impossible](#is-it-the-same-work)
is written below. No figure is of a configuration that was not killed:
the crash kit kills the very candidates that are measured here
(` + "`TestCrashAsMeasured`" + ` in bench/stores).

`

const bottom = `## How many commits does a run take?

N + 2 for a run with N effects (requests and tool calls), since every transition
between two effects is folded into one transaction; ` + "`TestCommitsPerRun`" + ` holds it.
A prompt with one tool call and an answer has three effects and takes five
commits.

## What all of this does not show

Other machines and disks, a machine that is busy with other things, payloads of
another size, the growth of a store over weeks.
`

// top says what the page is of.
func top(b *strings.Builder, results []rows.Result) {
	b.WriteString(intro)
	if slices.ContainsFunc(results, func(r rows.Result) bool { return r.Form == rows.Quick }) {
		b.WriteString("**This page has rows that were made with `--quick`, to try the command: their figures say nothing.**\n\n")
	}
	var machines []rows.Machine
	for _, r := range results {
		if !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
	}
	for _, m := range machines {
		fmt.Fprintf(b, "Machine: %s, %s, %.0f GiB of memory, %s, %s, Go %s", cell(m.CPU), count(m.Cores, "core", "cores"), float64(m.MemoryBytes)/(1<<30), cell(m.Kernel), cell(m.FileSystem), cell(m.Go))
		if len(machines) > 1 {
			fmt.Fprintf(b, "; %s", rowsOn(results, m))
		}
		b.WriteString(".\n\n")
	}
	took := time.Duration(0)
	for _, r := range results {
		took += time.Duration(r.TookMS) * time.Millisecond
	}
	if minutes := math.Round(took.Minutes()); minutes > 0 {
		fmt.Fprintf(b, "The command took %.0f minutes for what is here.\n\n", minutes)
	}
}

func rowsOn(results []rows.Result, m rows.Machine) string {
	var names []string
	for _, r := range results {
		if r.Machine == m && !slices.Contains(names, r.Row) {
			names = append(names, r.Row)
		}
	}
	return "rows " + strings.Join(names, ", ")
}

// glance is all rows in one table.
func glance(full map[string]rows.Result) string {
	var b strings.Builder
	b.WriteString("## At a glance\n\n| row | question | |\n|---|---|---|\n")
	for _, row := range rows.All() {
		if row.Name == rows.Levels {
			continue
		}
		text := "not measured yet"
		if r, ok := full[row.Name]; ok {
			text = scoreOf(row, r).String()
			if slices.ContainsFunc(r.Tables, func(m rows.Measured) bool { return m.Failed != "" }) {
				text += ", a part failed"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.Name, row.Question, text)
	}
	return b.String() + "\n"
}
