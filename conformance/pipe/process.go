package pipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"pistore"
)

const (
	// tailBytes is how much of what a store says on stderr is kept for errors.
	tailBytes = 2 << 10
	// exitGrace is how long a store has to end once its input has ended.
	exitGrace = 10 * time.Second
	// outputGrace is how long what a store has started may keep its output open
	// once the store has ended.
	outputGrace = 2 * time.Second
)

// process is a running store. Requests go one at a time.
type process struct {
	cmd peer
	in  io.WriteCloser
	out *bufio.Reader
	err tail

	mu   sync.Mutex // guards what follows; held while a request is under way
	last int        // number of the last request
	dead error      // why nothing can be asked any more
}

// peer is what stands behind the pipe.
type peer interface {
	Kill() error
	Wait() error    // until it has ended
	String() string // how it ended
}

// program is a process.
type program struct{ *exec.Cmd }

func (c program) Kill() error    { return killGroup(c.Cmd) }
func (c program) String() string { return c.ProcessState.String() }

func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: program{cmd}}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: start: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: start: %w", err)
	}
	cmd.Stderr = &p.err
	cmd.WaitDelay = outputGrace
	ownGroup(cmd)
	if cmd.Cancel != nil { // it was made with a context
		cmd.Cancel = func() error { return killGroup(cmd) }
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("pipe: start: %w", err)
	}
	p.in, p.out = in, bufio.NewReaderSize(out, 64<<10)
	return p, nil
}

// call asks and waits for the answer. An error of the store has its sentinel; a
// store that is gone, or that answers nonsense, is ErrFaulted.
func (p *process) call(method string, params pistore.JSON) (reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead != nil {
		return reader{}, p.dead
	}
	p.last++
	line := fmt.Appendf(nil, `{"id":%d,"method":"%s","params":`, p.last, method)
	line = append(append(line, params...), "}\n"...)
	_, err := p.in.Write(line)
	var answer []byte
	if err == nil {
		answer, err = readLine(p.out)
	}
	if err != nil {
		return reader{}, p.die(method, err)
	}
	result, err := p.understand(method, answer)
	if err != nil {
		return reader{}, err
	}
	return reader{fields: result}, nil
}

// understand reads the answer to the last request.
func (p *process) understand(method string, line []byte) (fields, error) {
	broken := func(problem string) error {
		return p.die(method, fmt.Errorf("%s: %.200q", problem, line))
	}
	j, err := compactLine(line)
	if err != nil {
		return nil, broken("answered no JSON")
	}
	f, err := fieldsOf("an answer", j)
	if err != nil {
		return nil, broken("answered no object")
	}
	if f["id"] != pistore.JSON(fmt.Sprint(p.last)) && f.has("id") {
		return nil, broken(fmt.Sprintf("answered another request than %d", p.last))
	}
	switch {
	case f.has("error"):
		e, err := fieldsOf("error", f["error"])
		if err != nil {
			return nil, broken("answered an error that is no object")
		}
		code, _ := e["code"].Text()
		message, _ := e["message"].Text()
		return nil, errorOf(method, code, message)
	case f["result"] == "null":
		return fields{}, nil
	default:
		result, err := fieldsOf("result", f["result"])
		if err != nil {
			return nil, broken("answered neither a result nor an error")
		}
		return result, nil
	}
}

// die ends the process and says why it is of no more use.
func (p *process) die(method string, cause error) error {
	_ = p.in.Close()
	_ = p.cmd.Kill() // with whatever it has started
	_ = p.cmd.Wait()
	if errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) {
		cause = errors.New("the process ended")
	}
	words := ""
	if said := p.err.String(); said != "" {
		words = "; it said: " + said
	}
	p.dead = fmt.Errorf("pipe: %s: %w: %w (%s)%s", method, pistore.ErrFaulted, cause, p.cmd, words)
	return p.dead
}

// end lets the process end by itself, and kills one that does not.
func (p *process) end(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead != nil {
		return nil
	}
	p.dead = fmt.Errorf("pipe: %w", pistore.ErrClosed)
	_ = p.in.Close()
	ctx, cancel := context.WithTimeout(ctx, exitGrace)
	defer cancel()
	kill := context.AfterFunc(ctx, func() { _ = p.cmd.Kill() })
	defer kill()
	drained := make(chan struct{})
	go func() { // what is still said holds nobody up; Wait closes the pipe
		defer close(drained)
		_, _ = io.Copy(io.Discard, p.out)
	}()
	err := p.cmd.Wait()
	_ = p.cmd.Kill() // what it has left running
	<-drained
	if err != nil {
		return fmt.Errorf("pipe: the store ended with %w; it said: %s", err, p.err.String())
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text); n > tailBytes {
		t.text = append([]byte(nil), t.text[n-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
