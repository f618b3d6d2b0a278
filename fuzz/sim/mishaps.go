package sim

import "pistore"

// mishap is something that goes wrong, or that nobody asked for. A new one is an
// entry of mishaps.
type mishap struct {
	name   string
	weight int
	fits   func(*simulation) bool
	do     func(*simulation)
}

var mishaps = []mishap{
	{"crash", 5, always, func(s *simulation) { s.crash(false) }},
	{"power cut", 2, func(s *simulation) bool { return s.place.losesPower() }, func(s *simulation) { s.crash(true) }},
	{"close", 2, always, func(s *simulation) {
		s.life.close()
		s.reap(s.place.close)
	}},
	{"failing commit", 2, always, func(s *simulation) { s.life.guard.arm(beforeFault) }},
	{"commit in doubt", 2, always, func(s *simulation) { s.life.guard.arm(afterFault) }},
	{"failing disk", 2, func(s *simulation) bool { return s.place.fail != nil }, func(s *simulation) { s.place.fail(s.rng) }},
	{"clock jump", 1, always, func(s *simulation) { s.clock.jump(pistore.UnixMS(s.rng.Int64N(200_000) - 100_000)) }},
}

func always(*simulation) bool { return true }
