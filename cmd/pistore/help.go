package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// flagDoc is a flag as help and completion show it.
type flagDoc struct {
	name  string
	value string // what stands behind the name, choices as a|b|c; empty: nothing
	about string
}

// commonFlags are those that every command has.
var commonFlags = []string{"json", "quiet"}

// flagsOf returns the flags of a command by name, without those that every
// command has and those that are not for people, which say nothing of
// themselves.
func flagsOf(c command) []flagDoc {
	in := newInvocation(c, []string{"--help"}, os.Stdout, os.Stderr)
	if err := c.run(context.Background(), in); !errors.Is(err, errHelp) {
		panic(fmt.Sprintf("pistore: the command %s does not parse its arguments: %v", c.name, err))
	}
	var docs []flagDoc
	in.flags.VisitAll(func(f *flag.Flag) {
		if f.Usage == "" || f.Name == commonFlags[0] || f.Name == commonFlags[1] {
			return
		}
		value, about := flag.UnquoteUsage(f)
		about = strings.TrimLeft(strings.TrimPrefix(about, value), ": ")
		docs = append(docs, flagDoc{f.Name, value, about})
	})
	return docs
}

// choices are the values that a flag takes, nil if they are not known.
func (d flagDoc) choices() []string {
	if !strings.Contains(d.value, "|") {
		return nil
	}
	return strings.Split(d.value, "|")
}

// joinedLines makes one line of each paragraph, which is then broken where it is
// printed. A line that starts with a space stays a line.
func joinedLines(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		switch {
		case i == 0:
		case line == "" || line[0] == ' ' || strings.HasSuffix(b.String(), "\n"):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}

// printFlags prints what each flag means beside it.
func printFlags(p *paper, flags []flagDoc) {
	const most = 18
	room := 0
	for _, f := range flags {
		if w := width(f.String()); w <= most {
			room = max(room, w)
		}
	}
	for _, f := range flags {
		head := f.String()
		if width(head) > room {
			p.line(plain("  " + head))
			head = ""
		}
		p.labelled("  "+pad(head, room)+"  ", plain, f.about)
	}
}

func (d flagDoc) String() string { return strings.TrimSpace("--" + d.name + " " + d.value) }

// help prints the help of the program or of one command.
func help(args []string, stdout, stderr *os.File) int {
	if len(args) == 0 {
		printHelp(newPaper(stdout))
		return exitFine
	}
	c, ok := find(args[0])
	if !ok || len(args) > 1 {
		return report(stderr, "help", usageError(fmt.Sprintf("there is no command %q", strings.Join(args, " "))))
	}
	printCommandHelp(newPaper(stdout), c)
	return exitFine
}

func printHelp(p *paper) {
	p.line(bold("pistore"), plain(" shows, checks and converts the stores of agent runs"))
	p.blank()
	for _, c := range commands {
		p.labelled("  "+pad(c.name, 16), plain, c.short)
	}
	p.blank()
	p.line(plain("  STORE is a session file (our own, or of the Pi coding agent), a logstore"))
	p.line(plain("  folder, or STORE#SESSION where that holds several sessions."))
	p.line(plain("  \"pistore help COMMAND\" shows flags and an example of each."))
	p.flush()
}

func printCommandHelp(p *paper, c command) {
	p.line(bold("pistore "+c.name), plain(" "+c.args))
	p.blank()
	p.block(plain, "  ", c.short)
	if c.long != "" {
		p.blank()
		p.block(plain, "  ", joinedLines(c.long))
	}
	if flags := flagsOf(c); len(flags) > 0 {
		p.blank()
		printFlags(p, flags)
	}
	p.blank()
	p.line(dim("  Every command has --json and --quiet. Flags stand before or behind arguments."))
	p.blank()
	p.line(dim("  For example:"))
	for _, e := range c.examples {
		p.whole("    " + e) // to be copied
	}
	p.blank()
	p.line(dim("  Exit codes: 0 fine, 1 findings, 2 usage, 3 the store cannot be opened."))
	p.flush()
}
