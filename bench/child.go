package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pistore"
)

// orders say what another process does with a store.
type orders struct {
	Do    string `json:"do"` // fill, write or open
	Dir   string `json:"dir"`
	Turns int    `json:"turns"`
	Seed  uint64 `json:"seed"`
	Bytes int64  `json:"bytes"` // of write: how much
	Round int    `json:"round"` // of write: which, from 1
	Want  int64  `json:"want"`  // of open: how many entries there are
}

// answer is what it says of it, in one line.
type answer struct {
	Error         string `json:"error,omitempty"`
	Commits       int64  `json:"commits,omitempty"`
	StoreNS       int64  `json:"storeNS,omitempty"`
	SessionNS     int64  `json:"sessionNS,omitempty"`
	ResidentBytes int64  `json:"residentBytes,omitempty"`
	PeakBytes     int64  `json:"peakBytes,omitempty"`
}

// Obey does what a run in another process has ordered, over the same store. The
// program that Config.Child starts calls it with its orders and with its stdout,
// to which nothing else is written, and ends when it returns.
func Obey(ctx context.Context, text string, open func(dir string) (pistore.Backend, error), out io.Writer) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("bench: %w: orders %.100q: %v", pistore.ErrInvalid, text, err)
	}
	say := func(a answer) error {
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		_, err = out.Write(append(line, '\n'))
		return err
	}
	var err error
	switch o.Do {
	case "fill":
		err = o.fill(ctx, open, say)
	case "write":
		err = o.write(ctx, open, say)
	case "open":
		err = o.open(ctx, open, say)
	default:
		err = fmt.Errorf("bench: %w: order %.100q", pistore.ErrInvalid, o.Do)
	}
	if err != nil {
		return errors.Join(err, say(answer{Error: err.Error()}))
	}
	return nil
}

func (o orders) fill(ctx context.Context, open func(string) (pistore.Backend, error), say func(answer) error) error {
	store, err := open(o.Dir)
	if err != nil {
		return err
	}
	s, err := makeSession(ctx, store, &History{Turns: o.Turns, Lanes: 1, Seed: o.Seed}, sessionID(0))
	if err == nil {
		err = s.Close()
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	return say(answer{})
}

// write commits turns, says so, and waits to be killed.
func (o orders) write(ctx context.Context, open func(string) (pistore.Backend, error), say func(answer) error) error {
	content, err := NewContent(Turn, o.Seed)
	if err != nil {
		return err
	}
	store, err := open(o.Dir)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, sessionID(0), pistore.ReadWrite)
	if err != nil {
		return err
	}
	var a answer
	stream := content.Stream(o.Round)
	for bytes := int64(0); bytes < o.Bytes; a.Commits++ {
		tx := stream.Next()
		if _, err := s.Commit(ctx, tx); err != nil {
			return err
		}
		bytes += logicalBytes(tx)
	}
	if err := say(a); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (o orders) open(ctx context.Context, open func(string) (pistore.Backend, error), say func(answer) error) (err error) {
	begin := time.Now()
	store, err := open(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	opened := time.Now()
	s, err := store.Open(ctx, sessionID(0), pistore.ReadWrite)
	if err != nil {
		return err
	}
	a := answer{StoreNS: int64(opened.Sub(begin)), SessionNS: int64(time.Since(opened))}
	kb, _ := procNumber("/proc/self/status", "VmRSS")
	peak, _ := procNumber("/proc/self/status", "VmHWM")
	a.ResidentBytes, a.PeakBytes = kb<<10, peak<<10
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if stats.Entries != o.Want {
		return fmt.Errorf("bench: the store has %d entries after the kill, %d were acknowledged", stats.Entries, o.Want)
	}
	return say(a)
}

// order starts a process that obeys, and returns its answer. A writer is killed
// when it has answered; others end by themselves.
func (r *run) order(ctx context.Context, o orders) (a answer, err error) {
	if r.Child == nil {
		return a, fmt.Errorf("%w: Config.Child is not set, and this workload needs a fresh process", pistore.ErrInvalid)
	}
	o.Dir, o.Turns, o.Seed = r.Dir, r.Turns, r.Seed
	text, err := json.Marshal(o)
	if err != nil {
		return a, err
	}
	cmd := r.Child(string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return a, err
	}
	if err := cmd.Start(); err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	line, readErr := bufio.NewReader(out).ReadBytes('\n')
	strange := json.Unmarshal(line, &a)
	if o.Do == "write" || strange != nil {
		_ = cmd.Process.Kill()
	}
	waitErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case readErr != nil:
		return a, fmt.Errorf("the process that was to %s ended without an answer: %w", o.Do, errors.Join(readErr, waitErr))
	case strange != nil:
		return a, fmt.Errorf("the process that was to %s answered %.200q: is it one that calls bench.Obey? %w", o.Do, line, strange)
	case a.Error != "":
		return a, errors.New(a.Error)
	case o.Do == "write":
		return a, nil // it was killed
	default:
		return a, waitErr
	}
}
