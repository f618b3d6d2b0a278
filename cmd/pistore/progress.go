package main

import (
	"fmt"
	"sync"
	"time"
)

// progress tells on stderr, from the first second on and only on a terminal,
// that work goes on. The function that it returns ends it and must be called.
func (in *invocation) progress(what string) (stop func()) {
	return in.progressOf(func() string { return what })
}

// progressOf is progress with words that change; what is called by another
// goroutine.
func (in *invocation) progressOf(what func() string) (stop func()) {
	if in.quiet || !isTerminal(in.errors) {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		start, ticks := time.Now(), time.NewTicker(time.Second)
		defer ticks.Stop()
		shown := false
		for {
			select {
			case <-ticks.C:
				shown = true
				fmt.Fprintf(in.errors, "\r\x1b[Kpistore %s: %s, %d s ", in.command.name, what(), int(time.Since(start).Seconds()))
			case <-done:
				if shown {
					fmt.Fprint(in.errors, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-ended
	})
}
