package stall

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAwait(t *testing.T) {
	for name, tt := range map[string]struct {
		works time.Duration // how long progress is made, one step a second
		ends  time.Duration // when the result comes; 0: never
		want  time.Duration // when the wait is over, or a look before
	}{
		"done at once":         {0, time.Second, time.Second},
		"hangs from the start": {0, 0, 63 * time.Second},
		"works for long":       {time.Hour, time.Hour + time.Second, time.Hour + time.Second},
		"works and hangs":      {10 * time.Minute, 0, 11*time.Minute + 6*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var steps atomic.Int64
				done, began := make(chan string, 1), time.Now()
				go func() {
					for time.Since(began) < tt.works {
						time.Sleep(time.Second)
						steps.Add(1)
					}
				}()
				if tt.ends > 0 {
					time.AfterFunc(tt.ends, func() { done <- "result" })
				}
				result, ok := Await(done, steps.Load, time.Minute)
				if took := time.Since(began); ok != (tt.ends > 0) || ok != (result == "result") || took > tt.want || took < tt.want-3*time.Second {
					t.Errorf("%q, %t after %v, want %t after %v", result, ok, took, tt.ends > 0, tt.want)
				}
			})
		})
	}
}
