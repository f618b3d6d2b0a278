package inorder_test

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"pistore/internal/inorder"
)

type item struct {
	n      int
	square int
}

// send passes n items through a queue and returns the first error.
func send(q *inorder.Queue[item], n int) error {
	for i := range n {
		it, err := q.Next()
		if err != nil {
			return err
		}
		it.n = i
		q.Send()
	}
	return q.Drain()
}

func atOnce(t *testing.T, cores int) {
	t.Helper()
	before := runtime.GOMAXPROCS(cores)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestOrder(t *testing.T) {
	for _, cores := range []int{1, 2, 20} {
		atOnce(t, cores)
		for _, n := range []int{0, 1, 2, 3, 1000} {
			var got []int
			q := inorder.New(
				func(it *item) { it.square = it.n * it.n },
				func(it *item) error { got = append(got, it.square); return nil },
			)
			if err := send(q, n); err != nil {
				t.Fatal(err)
			}
			q.Close()
			if len(got) != n || !slices.IsSorted(got) || n > 0 && got[n-1] != (n-1)*(n-1) {
				t.Errorf("%d cores, %d items: %v", cores, n, got)
			}
		}
	}
}

// Several items are in work at once: each waits for another one.
func TestAtOnce(t *testing.T) {
	atOnce(t, 2)
	meet := make(chan struct{})
	q := inorder.New(
		func(it *item) {
			if it.n%2 == 0 {
				meet <- struct{}{}
			} else {
				<-meet
			}
		},
		func(*item) error { return nil },
	)
	defer q.Close()
	if err := send(q, 100); err != nil {
		t.Fatal(err)
	}
}

// An error of taking ends the queue behind the items before it, and Close does not
// leave a worker behind.
func TestTakeFails(t *testing.T) {
	atOnce(t, 2)
	failed := errors.New("failed")
	taken := 0
	var worked atomic.Int64
	q := inorder.New(
		func(*item) { worked.Add(1) },
		func(it *item) error {
			if it.n == 10 {
				return failed
			}
			taken++
			return nil
		},
	)
	if err := send(q, 1000); err != failed || taken != 10 {
		t.Errorf("error %v after %d", err, taken)
	}
	q.Close()
	after := worked.Load()
	runtime.Gosched()
	if worked.Load() != after {
		t.Error("a worker went on after Close")
	}
}
