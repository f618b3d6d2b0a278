package harness

import "sync"

// How events get to the listener and to whoever watches.

// post queues an event behind those before it: for the listener, to whom
// deliver hands it on, and for whoever watches.
func (l *Lane) post(ev Event) { l.events.add(ev, l.h.onEvent != nil) }

// emit posts and delivers an event of somebody who does not hold the line.
func (l *Lane) emit(ev Event) {
	l.post(ev)
	l.deliver()
}

// hand gives an event to the listener, whose failure ends with it.
func (l *Lane) hand(ev Event) {
	defer l.h.handler("listener")()
	err := apart(func() { l.h.onEvent(ev) })
	if err == nil {
		return
	}
	if _, failing := ev.(HandlerError); !failing {
		failed := HandlerError{About{Lane: l.name}, "listener", err}
		l.events.add(failed, false)
		l.hand(failed)
	}
}

// eventQueue keeps events in order. Those for the listener are handed on one at
// a time; each watcher takes its own.
type eventQueue struct {
	mu       sync.Mutex // guards what follows, and what the watchers hold
	waiting  []Event
	busy     bool // somebody delivers
	watchers map[*watcher]bool
}

func (q *eventQueue) add(ev Event, heard bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if heard {
		q.waiting = append(q.waiting, ev)
	}
	for w := range q.watchers {
		w.push(ev)
	}
}

// watch lets a watcher begin with the next event, and returns how many it missed
// before.
func (q *eventQueue) watch(w *watcher) (missed int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	missed = w.missed
	w.waiting, w.missed = nil, 0
	if q.watchers == nil {
		q.watchers = map[*watcher]bool{}
	}
	q.watchers[w] = true
	return missed
}

func (q *eventQueue) forget(w *watcher) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.watchers, w)
}

// pop takes what waits for a watcher: its oldest event, or how many it missed;
// nil and 0: nothing.
func (q *eventQueue) pop(w *watcher) (ev Event, missed int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(w.waiting) == 0 {
		return nil, w.missed
	}
	ev = w.waiting[0]
	w.waiting = w.waiting[1:]
	return ev, 0
}

// claim makes the caller the one who delivers, and says how many events wait;
// 0: there are none, or somebody delivers already and goes on with them.
func (q *eventQueue) claim() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy {
		return 0
	}
	q.busy = len(q.waiting) > 0
	return len(q.waiting)
}

// next returns the event to hand on, and false, which ends the claim, when
// there is none.
func (q *eventQueue) next() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.busy = false
		return nil, false
	}
	ev := q.waiting[0]
	q.waiting = q.waiting[1:]
	return ev, true
}

// rest reports whether events wait; if not, the claim ends.
func (q *eventQueue) rest() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = len(q.waiting) > 0
	return q.busy
}
