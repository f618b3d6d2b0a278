package registers

import "testing"

func TestWords(t *testing.T) {
	generating := func(g Generation) Summary { return Summary{Generating: &Generating{Generation: g}} }
	pending := generating(&GenerationPending{})
	for want, s := range map[string]OpState{
		"checkpoint":                           &RunState{Phase: &Checkpoint{}},
		"assistant effect_pending":             &RunState{Phase: &AssistantPending{}},
		"tools":                                &RunState{Phase: &Tools{}},
		"deferred suspended":                   &RunState{Phase: &DeferredSuspended{}},
		"compaction deciding":                  &RunState{Phase: &RunCompaction{}},
		"compaction generating ready":          &CompactionState{Summary: generating(&GenerationReady{})},
		"compaction generating retry_wait":     &CompactionState{Summary: generating(&GenerationRetryWait{})},
		"navigation":                           &NavigationState{},
		"navigation generating effect_pending": &NavigationState{Summary: &pending},
	} {
		if got := Words(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
