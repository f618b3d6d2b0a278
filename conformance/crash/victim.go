package crash

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// victim is a process at work that is going to be killed.
type victim struct {
	started time.Time
	first   chan struct{} // closed at the first word
	kill    func()
	wait    func() error // until it is dead and everything it said was heard
}

// alert passes on what it hears, and tells when that begins.
type alert struct {
	listener
	once  sync.Once
	first chan struct{}
	ticks *atomic.Int64
}

func (a *alert) begun(c call) {
	a.listener.begun(c)
	a.once.Do(func() { close(a.first) })
	a.ticks.Add(1)
}

// begin starts a process that follows orders.
func (p *probe) begin(o orders, to listener) *victim {
	heard := &alert{listener: to, first: make(chan struct{}), ticks: &p.ticks}
	var v *victim
	var err error
	if p.cfg.Start != nil {
		v, err = p.serve(o, heard)
	} else {
		v, err = startChild(p.cfg, o, heard)
	}
	if err != nil {
		p.failf("starting a process: %v", err)
	}
	v.first = heard.first
	return v
}

func startChild(cfg Config, o orders, to listener) (*victim, error) {
	cmd, err := o.command(cfg)
	if err != nil {
		return nil, err
	}
	words := &last{}
	cmd.Stderr = words
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	said := make(chan error, 1)
	heard := false // until said
	go func() {
		var err error
		for scan := bufio.NewScanner(out); scan.Scan() && err == nil; {
			err = hear(scan.Text(), to)
			heard = heard || err == nil
		}
		if err != nil {
			_ = cmd.Process.Kill()
		}
		said <- err
	}()
	return &victim{
		started: time.Now(),
		kill:    func() { _ = cmd.Process.Kill() }, // it may have ended, which wait tells
		wait: func() error {
			err := <-said
			_ = cmd.Wait() // of a killed process
			if err == nil && cmd.ProcessState.Exited() {
				err = fmt.Errorf("it ended by itself (%v) and said: %s", cmd.ProcessState, words)
				if !heard {
					err = fmt.Errorf("%w\nbefore that it made no call: %s", err, callChild)
				}
			}
			return err
		},
	}, nil
}

// serve has the backend served by another process and drives it from here.
func (p *probe) serve(o orders, to listener) (*victim, error) {
	ended := p.watch.Begin("Config.Start")
	served, err := p.cfg.Start(Place{Dir: o.Dir, Level: p.level})
	ended()
	if served.Backend, err = p.watch.Backend("Config.Start", served.Backend, err); err != nil {
		return nil, err
	}
	var dead atomic.Bool
	var killed error
	worked := apart(func() error { return o.work(context.Background(), served.Backend, &p.watch, to) })
	return &victim{
		started: time.Now(),
		kill: func() {
			dead.Store(true)
			killed = served.Kill()
		},
		wait: func() error {
			err := <-worked
			if !dead.Load() {
				return fmt.Errorf("a call failed, and nobody was killed: %w", err)
			}
			_ = served.Backend.Close() // its process is gone
			return killed
		},
	}, nil
}

// killWithin is how long after its first word a process lives at most.
const killWithin = 80 * time.Millisecond

// heard waits for the first word of a process, and returns what tells of its end.
func (p *probe) heard(v *victim) (ended <-chan error) {
	defer p.watch.Begin("the opening of the store in the process that is to be killed")()
	over := make(chan error, 1)
	go func() { over <- v.wait() }()
	select {
	case <-v.first:
	case err := <-over:
		p.failf("the process that was to be killed: %v", err)
	}
	return over
}

// end kills a process.
func (p *probe) end(v *victim, ended <-chan error) {
	v.kill()
	p.ended(<-ended)
}

// ended counts a kill, of which a process died or not.
func (p *probe) ended(err error) {
	if err != nil {
		p.failf("the process that was to be killed: %v", err)
	}
	p.kills.Add(1)
}

// die kills a process some time after its first word.
func (p *probe) die(v *victim) {
	ended := p.heard(v)
	time.Sleep(time.Duration(p.rng.Int64N(int64(killWithin))))
	p.end(v, ended)
}

// dieOpening kills a process some time within the time that it took another one to
// come to its first word.
func (p *probe) dieOpening(v *victim, opening time.Duration) {
	time.Sleep(time.Duration(p.rng.Int64N(int64(opening))))
	v.kill()
	p.ended(v.wait())
}
