package sim

import "pistore"

// mishap is something that goes wrong, or that nobody asked for. A new one is an
// entry of mishaps.
type mishap struct {
	name   string
	weight int
	disk   bool // only over a backend with one
	power  bool // only where the store outlives it
	do     func(*simulation)
}

var mishaps = []mishap{
	{"crash", 5, false, false, func(s *simulation) { s.crash(false) }},
	{"power cut", 2, true, true, func(s *simulation) { s.crash(true) }},
	{"close", 2, false, false, func(s *simulation) {
		s.life.close()
		s.reap(s.place.close)
	}},
	{"failing commit", 2, false, false, func(s *simulation) { s.life.guard.arm(beforeFault) }},
	{"commit in doubt", 2, false, false, func(s *simulation) { s.life.guard.arm(afterFault) }},
	{"failing disk", 2, true, false, func(s *simulation) { s.place.fail(s.rng) }},
	{"clock jump", 1, false, false, func(s *simulation) { s.clock.jump(pistore.UnixMS(s.rng.Int64N(200_000) - 100_000)) }},
}

// Happenings names what [Counts] must hold after enough seeds, over a backend
// without a disk.
func Happenings() []string {
	names := []string{
		"hang", "resume", "sleep", "transcript compared", "drives compared", "context extended", "compaction threshold", "compaction overflow",
		"request for a turn", "request for a poll", "request for a summary", "operation run", "operation compaction", "operation navigation",
		"outcome completed", "outcome failed", "outcome declined", "cancelled", "doubt, durable", "doubt, gone",
		"life that lacks something", "suspended for what is missing", "parked in a crash loop", "watch", "watcher fell behind", "row behind a cursor",
	}
	for _, k := range actKinds {
		names = append(names, "act "+k.name)
	}
	for _, k := range toolKinds {
		names = append(names, "call "+k.name)
	}
	for _, m := range mishaps {
		if !m.disk {
			names = append(names, "mishap "+m.name)
		}
	}
	return names
}
