// Package inorder works on several items at once and takes them one after the
// other, in the order in which they came. It imports the standard library only.
package inorder

import (
	"runtime"
	"sync"
)

// maxWorkers bounds how many items are worked on at once.
const maxWorkers = 8

// Queue passes items through two stages: work, which workers do on several items
// at once, and take, which the caller's goroutine does on one after the other in
// the order in which they were sent. An item is in one hand at a time. Items are
// used again, so that there are never more than a few, and a stage has to clear
// what should not stay.
//
// One goroutine calls the methods. Workers start with the second item: a single
// one is worked on where it is taken.
type Queue[T any] struct {
	work func(*T)
	take func(*T) error

	slots []slot[T]
	sent  int // items, of which item n is in slot n modulo their number
	taken int // of those sent
	jobs  chan *slot[T]
	ended sync.WaitGroup
}

type slot[T any] struct {
	item T
	done chan struct{} // gets a value when the item was worked on
}

// New returns a queue without items. Its caller closes it.
func New[T any](work func(*T), take func(*T) error) *Queue[T] {
	q := &Queue[T]{work: work, take: take, slots: make([]slot[T], 2*workers())}
	for i := range q.slots {
		q.slots[i].done = make(chan struct{}, 1)
	}
	return q
}

func workers() int { return min(runtime.GOMAXPROCS(0), maxWorkers) }

// Next returns the item to fill. If all are under way, it takes the oldest, whose
// error it returns.
func (q *Queue[T]) Next() (*T, error) {
	if q.sent-q.taken == len(q.slots) {
		if err := q.takeOldest(); err != nil {
			return nil, err
		}
	}
	return &q.slots[q.sent%len(q.slots)].item, nil
}

// Send passes on the item that Next returned.
func (q *Queue[T]) Send() {
	s := &q.slots[q.sent%len(q.slots)]
	q.sent++
	if q.jobs == nil {
		if q.sent == 1 {
			return // see Queue
		}
		q.start()
		for n := q.taken; n < q.sent-1; n++ {
			q.jobs <- &q.slots[n%len(q.slots)]
		}
	}
	q.jobs <- s
}

func (q *Queue[T]) start() {
	q.jobs = make(chan *slot[T], len(q.slots))
	for range workers() {
		q.ended.Go(func() {
			for s := range q.jobs {
				q.work(&s.item)
				s.done <- struct{}{}
			}
		})
	}
}

func (q *Queue[T]) takeOldest() error {
	s := &q.slots[q.taken%len(q.slots)]
	q.taken++
	if q.jobs == nil {
		q.work(&s.item)
	} else {
		<-s.done
	}
	return q.take(&s.item)
}

// Drain takes all items that were sent; an error of taking ends it.
func (q *Queue[T]) Drain() error {
	for q.taken < q.sent {
		if err := q.takeOldest(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the workers and waits for them. Items that were not taken are lost.
func (q *Queue[T]) Close() {
	if q.jobs != nil {
		close(q.jobs)
		q.ended.Wait()
	}
}
