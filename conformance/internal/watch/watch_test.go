package watch

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What keeps a kit waiting is named, and nothing beside it.
func TestStuck(t *testing.T) {
	slow := func(yield func(int, error) bool) {
		time.Sleep(time.Second / 2) // so that no row comes at the instant of a look
		for range 100 {             // longer than anybody waits
			yield(0, nil)
			time.Sleep(time.Second)
		}
	}
	waits := func(yield func(int, error) bool) {
		yield(0, nil)
		time.Sleep(2 * Patience)
	}
	each := func(w *Watch, seq func(func(int, error) bool), with func()) {
		for range Rows(w, "Scan", seq) {
			with()
		}
	}
	for name, tt := range map[string]struct {
		row  func(w *Watch)
		want string
	}{
		"a call": {func(w *Watch) {
			defer w.Begin("Stats")()
			time.Sleep(2 * Patience)
		}, "Stats has not returned for 1m"},
		"several calls": {func(w *Watch) {
			defer w.Begin("Commit")()
			defer w.Begin("Commit")()
			time.Sleep(2 * Patience)
		}, "Commit has not returned for 1m3s (2 calls)"},
		"an iterator that waits":   {func(w *Watch) { each(w, waits, func() {}) }, "the iterator of Scan has not come on for 1m3s, behind 1 rows"},
		"an iterator that is slow": {func(w *Watch) { each(w, slow, func() {}) }, "the iterator of Scan has not ended for 1m3s, behind 63 rows"},
		"a call within an iterator": {func(w *Watch) {
			each(w, waits, func() {
				defer w.Begin("Commit")()
				time.Sleep(2 * Patience)
			})
		}, "no progress for 1m0s: Commit has not returned for 1m3s"},
		"nothing": {func(w *Watch) { time.Sleep(2 * Patience) }, "each call returns"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w Watch
				done, ended := make(chan int), make(chan struct{})
				go func() {
					defer close(ended)
					w.Begin("List")() // has returned
					tt.row(&w)
				}()
				_, hangs := Await(&w, done, func() int64 { return 0 })
				<-ended
				if !strings.Contains(hangs, tt.want) || strings.Contains(hangs, "List") {
					t.Errorf("%q, want %q", hangs, tt.want)
				}
			})
		})
	}
}
