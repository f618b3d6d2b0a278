// Package stall tells what goes on from what hangs. It imports the standard
// library only.
package stall

import "time"

// looks is how often within its limit a wait looks for progress.
const looks = 20

// Await waits for done as long as progress changes. It is false when progress has
// not changed for limit, a tenth of it more at most.
func Await[T any](done <-chan T, progress func() int64, limit time.Duration) (result T, ok bool) {
	tick := time.NewTicker(limit / looks)
	defer tick.Stop()
	for last, same := progress(), 0; same <= looks; {
		select {
		case result = <-done:
			return result, true
		case <-tick.C:
		}
		same++
		if now := progress(); now != last {
			last, same = now, 0
		}
	}
	return result, false
}
