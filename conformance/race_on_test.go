//go:build race

package conformance

// underRace: everything takes several times as long.
const underRace = true
