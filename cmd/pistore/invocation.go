package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// errHelp: the flags ask for the help of the command.
var errHelp = errors.New("help")

// invocation is one call of a command: its arguments and where it writes.
type invocation struct {
	command command
	args    []string
	out     *paper
	errors  *os.File // progress; errors are returned

	flags *flag.FlagSet
	json  bool
	quiet bool
}

func newInvocation(c command, args []string, stdout, stderr *os.File) *invocation {
	in := &invocation{command: c, args: args, out: newPaper(stdout), errors: stderr, flags: flag.NewFlagSet(c.name, flag.ContinueOnError)}
	in.flags.SetOutput(io.Discard) // what it prints is not escaped
	in.flags.BoolVar(&in.json, "json", false, "print JSON")
	in.flags.BoolVar(&in.quiet, "quiet", false, "print errors only")
	return in
}

// parse reads flags, which may stand before, between and behind the other
// arguments, and returns those; "--" ends the flags.
func (in *invocation) parse() (rest []string, err error) {
	args := in.args
	for {
		err := in.flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		}
		if err != nil {
			return nil, usageError(fmt.Sprintf("%v; see \"pistore help %s\"", err, in.command.name))
		}
		left := in.flags.Args()
		if used := len(args) - len(left); used > 0 && args[used-1] == "--" {
			return in.ready(append(rest, left...))
		}
		if len(left) == 0 {
			return in.ready(rest)
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

func (in *invocation) ready(rest []string) ([]string, error) {
	if in.quiet {
		in.out.discard()
	}
	return rest, nil
}

// parseThese parses and returns as many arguments as are named, none of them
// empty.
func (in *invocation) parseThese(names ...string) ([]string, error) {
	rest, err := in.parse()
	if err != nil {
		return nil, err
	}
	if len(rest) != len(names) {
		want := joined(names)
		if len(names) == 1 {
			want = "one " + want
		}
		return nil, usageError(fmt.Sprintf("%s takes %s, not %s; see \"pistore help %s\"",
			in.command.name, want, count(int64(len(rest)), "argument", "arguments"), in.command.name))
	}
	for i, arg := range rest {
		if arg == "" {
			return nil, usageError(fmt.Sprintf("%s is empty; see \"pistore help %s\"", names[i], in.command.name))
		}
	}
	return rest, nil
}

// parseStore parses and returns the one argument, a store.
func (in *invocation) parseStore() (string, error) {
	rest, err := in.parseThese("STORE")
	if err != nil {
		return "", err
	}
	return rest[0], nil
}

// set reports whether a flag was given.
func (in *invocation) set(name string) bool {
	given := false
	in.flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

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
		if !c.hidden {
			p.line(plain("  "), bold(pad(c.name, 10)), plain(c.short))
		}
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
	p.line(plain("  " + c.short))
	if c.long != "" {
		p.blank()
		for line := range strings.Lines(c.long) {
			p.line(plain("  " + strings.TrimSuffix(line, "\n")))
		}
	}
	p.blank()
	p.line(dim("  Every command has --json and --quiet. Flags stand before or behind arguments."))
	p.blank()
	p.line(dim("  For example:"))
	for _, e := range c.examples {
		p.line(plain("    " + e))
	}
	p.blank()
	p.line(dim("  Exit codes: 0 fine, 1 findings, 2 usage, 3 the store cannot be opened."))
	p.flush()
}
