package logstore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactionGate schedules compactions, none before it is opened: opening a
// database would otherwise sit through the compaction that its recovery flush
// asks for. (Options.DisableAutomaticCompactions cannot do this: the engine
// copies its options, so nobody could turn it off again.) After a fault it
// grants no more, since their output would pile up in memory.
//
// It is a concurrency limit like the engine's own scheduler, without that one's
// ticker: what is waiting is granted when a compaction or a flush ends.
type compactionGate struct {
	fault *fault
	db    pebble.DBForCompaction // set once by Register

	mu       sync.Mutex // guards what follows; taken after the engine's mutexes
	open     bool
	gone     bool // unregistered
	running  int
	granting bool
	again    bool // asked to grant while granting
	idle     sync.Cond
}

func newCompactionGate(f *fault) *compactionGate {
	g := &compactionGate{fault: f}
	g.idle.L = &g.mu
	return g
}

// Register implements pebble.CompactionScheduler.
func (g *compactionGate) Register(_ int, db pebble.DBForCompaction) { g.db = db }

// Unregister implements pebble.CompactionScheduler.
func (g *compactionGate) Unregister() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = true
	for g.granting {
		g.idle.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler. The engine's mutexes are
// held.
func (g *compactionGate) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.roomLocked() {
		return false, nil
	}
	g.running++
	return true, g
}

func (g *compactionGate) roomLocked() bool {
	return g.open && !g.gone && !g.fault.dead.Load() && g.running < g.db.GetAllowedWithoutPermission()
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. The
// engine's mutex is held, and the engine schedules for itself right after it.
func (g *compactionGate) UpdateGetAllowedWithoutPermission() {}

// start opens the gate and grants what waited before it.
func (g *compactionGate) start() {
	g.mu.Lock()
	g.open = true
	g.mu.Unlock()
	g.grant()
}

// Started implements pebble.CompactionGrantHandle.
func (g *compactionGate) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (g *compactionGate) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (g *compactionGate) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle. The engine's mutexes are free.
func (g *compactionGate) Done() {
	g.mu.Lock()
	g.running--
	g.mu.Unlock()
	g.grant()
}

// grant starts waiting compactions while there is room. One goroutine grants at
// a time; it looks again if another one came by meanwhile.
func (g *compactionGate) grant() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.granting {
		g.again = true
		return
	}
	g.granting = true
	for ok := true; (ok || g.again) && g.roomLocked(); {
		g.again = false
		g.running++
		g.mu.Unlock()
		ok, _ = g.db.GetWaitingCompaction()
		ok = ok && g.db.Schedule(g)
		g.mu.Lock()
		if !ok {
			g.running--
		}
	}
	g.granting, g.again = false, false
	g.idle.Broadcast()
}
