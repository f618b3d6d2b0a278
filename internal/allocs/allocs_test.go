package allocs

import (
	"fmt"
	"testing"
)

var kept []byte // what is allocated escapes

// recorder takes note of failures instead of failing.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestWithin(t *testing.T) {
	calls := 0
	for _, test := range []struct {
		name     string
		allocate func() int
		fails    bool
		calls    int
	}{
		{"in proportion", func() int { return 10 << 20 }, false, 1},
		{"out of proportion", func() int { return 30 << 20 }, true, tries},
		{"made once and kept", func() int { return []int{30 << 20, 0}[calls] }, false, 2},
	} {
		calls = 0
		r := &recorder{TB: t}
		Within(r, 1<<20, 15, 1<<20, func() {
			size := test.allocate()
			calls++
			for range size / 4096 {
				kept = make([]byte, 4096)
			}
		})
		if (len(r.failures) > 0) != test.fails || calls != test.calls {
			t.Errorf("%s: %d calls, failures %q", test.name, calls, r.failures)
		}
	}
}
