package logstore

import (
	"context"
	"sync"
	"time"
)

// pace slows commits down while a compaction that was asked for does not come to
// its end. The engine does those first that its tables need, and under full load
// there is always one more of them: without this, Compact would wait forever.
type pace struct {
	mu      sync.Mutex // guards what follows
	running int
	since   time.Time
}

// A commit waits for a part of the time that a compaction has taken beyond the
// first moment, up to a bound: then tens of commits a second are let through for
// each session, which leaves an engine time to catch up.
const (
	paceFree  = time.Second
	pacePart  = 200
	paceBound = 50 * time.Millisecond
)

func (p *pace) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running++; p.running == 1 {
		p.since = time.Now()
	}
}

func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
}

func (p *pace) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		return 0
	}
	return min((time.Since(p.since)-paceFree)/pacePart, paceBound)
}

// wait lets a commit wait before it is admitted. Whoever ends the wait early is
// told by what comes next.
func (p *pace) wait(ctx context.Context, gate *opGate) {
	pause := p.pause()
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-gate.sealed:
	}
}
