// Command pistore shows, checks and converts the stores of agent runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// The exit codes.
const (
	exitFine     = 0
	exitFindings = 1 // verify found a fault of severity error, or writing or a run failed
	exitUsage    = 2
	exitOpen     = 3 // the store cannot be opened or read
)

// command is one command of the program, in a file of its own.
type command struct {
	name     string
	args     string // what stands behind the name in a usage line
	short    string // what it does, in one line
	long     string // what else there is to say; lines of up to 78 columns
	examples []string
	choices  []string // what its argument may be; nil: a place

	// run declares its flags, parses and works.
	run func(ctx context.Context, in *invocation) error
}

// commands are all commands, in the order of the help.
var commands = []command{
	demoCommand,
	inspectCommand,
	showCommand,
	logCommand,
	verifyCommand,
	compactCommand,
	repairCommand,
	convertCommand,
	forkCommand,
	rewriteCommand,
	deleteCommand,
	backupCommand,
	restoreCommand,
	lsCommand,
	searchCommand,
	usageCommand,
	conformanceCommand,
	simCommand,
	benchCommand,
	storageServerCommand,
	completionCommand,
	versionCommand,
}

// gcPercent makes the collector keep the heap closer to what is in use: large
// files should fit, and a command does not run for long.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader that goes away makes writing fail, and what is half done is
	// cleared away. Without this the signal would end the program at once.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if os.Getenv("GOGC") == "" {
		// A large file fills much of the memory, and garbage is not to take as
		// much again.
		debug.SetGCPercent(50)
	}
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the program and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr *os.File) int {
	if len(args) == 0 {
		printHelp(newPaper(stderr))
		return exitUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return help(rest, stdout, stderr)
	case "-version", "--version":
		name = versionCommand.name
	}
	c, ok := find(name)
	if !ok {
		return report(stderr, "", usageError(fmt.Sprintf("there is no command %q; \"pistore help\" lists them", name)))
	}
	in := newInvocation(c, rest, stdout, stderr)
	in.all = commands
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in.out.failed = stop // nobody reads what comes next
	err := c.run(work, in)
	flushed := in.out.flush()
	switch {
	case errors.Is(err, errHelp):
		printCommandHelp(newPaper(stdout), c)
		return exitFine
	case errors.Is(flushed, syscall.EPIPE):
		return exitFindings // whoever read has left, and knows it
	case flushed != nil:
		err = &exitError{exitFindings, flushed}
	case err != nil && ctx.Err() != nil:
		err = &exitError{exitFindings, interrupted(err)}
	}
	return report(stderr, c.name, err)
}

func find(name string) (command, bool) {
	for _, c := range commands {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// exitError is an error that ends the program with a code of its own.
type exitError struct {
	code int
	err  error // nil: everything is said
}

func (e *exitError) Error() string { return fmt.Sprintf("exit %d: %v", e.code, e.err) }
func (e *exitError) Unwrap() error { return e.err }

func usageError(text string) error { return &exitError{exitUsage, errors.New(text)} }

// report prints an error as one line, and returns the exit code that it means.
func report(stderr io.Writer, name string, err error) int {
	if err == nil {
		return exitFine
	}
	code := exitOpen
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		err = exit.err
	}
	if err != nil {
		if name != "" {
			name = " " + name
		}
		fmt.Fprintf(stderr, "pistore%s: %s\n", name, brief(errorText(err), maxErrorColumns))
	}
	return code
}
