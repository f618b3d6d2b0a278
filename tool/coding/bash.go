package coding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"pistore"
	"pistore/registers"
	"pistore/session"
	"pistore/tool"
)

// Bounds of a command.
const (
	headBytes         = 10 << 10 // of output that the model sees
	tailBytes         = 40 << 10
	maxTimeoutSeconds = 3600
	drainWait         = 250 * time.Millisecond // for output of what escaped the group
	pipeReadBytes     = 32 << 10
)

// Bash returns the tool that runs a command. It is never replayed, since nobody
// knows what a command does. It starts in the root folder, with the environment
// of this process and no input, and is not confined.
//
// A command is over when its shell ends; whatever it left running in its process
// group is killed then, as the whole group is when the call is cancelled or
// takes too long. What makes a group of its own (setsid) escapes, and so does
// everything when this process is killed. An exit code other than 0 is an error
// result with the output in it, so that the model notices.
func (t *Tools) Bash() tool.Tool {
	return tool.Tool{
		Name: "bash",
		Description: "Run a command with bash in the root folder. Returns its output (stdout and stderr as they come) and its exit code if that is not 0. " +
			"Of long output the beginning and the end are kept. There is no input. Processes left in the background are killed when the command ends.",
		Parameters: pistore.JSON(fmt.Sprintf(`{"type":"object","properties":{`+
			`"command":{"type":"string","minLength":1,"description":"The command."},`+
			`"timeout":{"type":"integer","minimum":1,"maximum":%d,"description":"After how many seconds to kill it; %d if left out."}},`+
			`"required":["command"],"additionalProperties":false}`, maxTimeoutSeconds, t.options.BashTimeoutSeconds)),
		Replay:  registers.ReplayNever,
		Execute: t.bash,
	}
}

// bashDetails are the details of a command. Of ExitCode, Signal, TimedOut and
// Cancelled one is set.
type bashDetails struct {
	ExitCode     *int   `json:"exitCode,omitempty"`
	Signal       string `json:"signal,omitempty"`
	TimedOut     bool   `json:"timedOut,omitempty"`
	Cancelled    bool   `json:"cancelled,omitempty"`
	DroppedBytes int64  `json:"droppedBytes,omitempty"` // of output that the model does not see
}

func (t *Tools) bash(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		Command string
		Timeout count
	}
	if err := decode(call.Arguments, &args); err != nil {
		return tool.Result{}, err
	}
	if strings.ContainsRune(args.Command, 0) {
		return tool.Result{}, errors.New("the command has a NUL character")
	}
	seconds := int64(args.Timeout)
	if seconds == 0 {
		seconds = t.options.BashTimeoutSeconds
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, fmt.Errorf("the command was not started: %w", err)
	}
	output := tool.NewOutput(headBytes, tailBytes)
	state, ended, err := t.run(ctx, args.Command, time.Duration(seconds)*time.Second, output, call.Progress)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s could not be started: %w", t.options.Shell, err)
	}
	return report(output, state, ended, seconds), nil
}

// how a command came to its end.
type how int

const (
	byItself how = iota
	byTimeout
	byCancel
)

// run runs a command to its end and gathers its output. An error means that it
// did not start. When run returns, the group is gone and nothing calls progress.
func (t *Tools) run(ctx context.Context, command string, timeout time.Duration, output *tool.Output, progress func(string)) (*os.ProcessState, how, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	cmd := exec.Command(t.options.Shell, "-c", command)
	cmd.Dir = t.real
	cmd.Stdout, cmd.Stderr = w, w
	ownGroup(cmd)
	err = cmd.Start()
	w.Close() // the child has it
	if err != nil {
		r.Close()
		return nil, 0, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		gather(r, output, progress)
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // what it says is in ProcessState
	}()
	ended := byItself
	select {
	case <-exited:
	case <-ctx.Done():
		ended = byCancel
	case <-t.after(timeout):
		ended = byTimeout
	}
	killGroup(cmd.Process) // also what a shell that ended left behind
	<-exited
	_ = r.SetReadDeadline(time.Now().Add(drainWait)) // pipes have deadlines
	<-read
	r.Close()
	return cmd.ProcessState, ended, nil
}

// gather reads output until nobody can write any more, or the deadline.
func gather(r io.Reader, output *tool.Output, progress func(string)) {
	report := func(text string) {
		if text != "" {
			progress(text)
		}
	}
	buffer := make([]byte, pipeReadBytes)
	for {
		n, err := r.Read(buffer)
		report(output.Write(buffer[:n]))
		if err != nil {
			report(output.Close())
			return
		}
	}
}

// report makes the result of a command.
func report(output *tool.Output, state *os.ProcessState, ended how, seconds int64) tool.Result {
	var d bashDetails
	_, _, d.DroppedBytes = output.Parts()
	note := ""
	switch {
	case ended == byCancel:
		d.Cancelled, note = true, "[The command was cancelled and killed.]"
	case ended == byTimeout:
		d.TimedOut, note = true, fmt.Sprintf("[The command was killed after its timeout of %d seconds.]", seconds)
	case state.Exited():
		code := state.ExitCode()
		d.ExitCode = &code
		if code != 0 {
			note = fmt.Sprintf("[The command ended with exit code %d.]", code)
		}
	default:
		d.Signal = state.String()
		note = fmt.Sprintf("[The command was ended by a signal: %s.]", d.Signal)
	}
	text := output.String()
	if text == "" && note == "" {
		text = "[The command gave no output.]"
	}
	if text != "" && note != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return tool.Result{Content: session.TextContent(text + note), Details: details(d), IsError: note != ""}
}
