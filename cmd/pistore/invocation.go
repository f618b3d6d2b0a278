package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// errHelp: the flags ask for the help of the command.
var errHelp = errors.New("help")

// invocation is one call of a command: its arguments and where it writes.
type invocation struct {
	command command
	all     []command // of the program
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
