package sim

import (
	"fmt"
	"strings"
	"sync"

	"pistore"
)

// account gathers what a simulation tells: its findings, its counts and, if it
// is asked for, a trace. Of the findings only the first counts: what comes behind
// it may follow from it. It is safe for concurrent use.
type account struct {
	mu      sync.Mutex // guards what follows
	finding *Finding
	counts  Counts
	tracing bool
	lines   []string
}

func newAccount(tracing bool) *account { return &account{counts: Counts{}, tracing: tracing} }

func (a *account) find(check, format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.finding == nil {
		a.finding = &Finding{Check: check, Detail: short(fmt.Sprintf(format, args...))}
		if a.tracing {
			a.lines = append(a.lines, "FOUND "+a.finding.String())
		}
	}
}

// short cuts what is told in one line.
func short(text string) string {
	const most = 600
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func (a *account) found() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.finding != nil
}

func (a *account) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

func (a *account) say(format string, args ...any) {
	if !a.tracing {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

// story is the trace, with ids renamed to #1, #2, … in the order in which they
// come up.
func (a *account) story() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := map[string]string{}
	out := make([]string, len(a.lines))
	for i, line := range a.lines {
		out[i] = renamed(line, names)
	}
	return out
}

// renamed replaces each UUID by a short name.
func renamed(text string, names map[string]string) string {
	const length = 36
	var b strings.Builder
	for i := 0; i < len(text); {
		if i+length <= len(text) {
			id := text[i : i+length]
			if _, ok := pistore.ID(id).Time(); ok {
				if names[id] == "" {
					names[id] = fmt.Sprintf("#%d", len(names)+1)
				}
				b.WriteString(names[id])
				i += length
				continue
			}
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}
