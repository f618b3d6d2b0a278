// Package sim tries to break the harness: from a seed it makes a program (lanes,
// what is asked of them, how the provider and the tools behave), runs it step by
// step over a store, crashes, faults and reopens in between, and checks after
// every commit and at the end what must hold whatever happened. A seed replays
// exactly: nothing sleeps, and clock, randomness and the order of effects follow
// from it. It may import everything above bench.
package sim
