package conformance

import "fmt"

func modelRows() []row {
	return []row{
		{id: "MOD-01", title: "generated transactions do what the model does", inv: []int{1, 2, 3, 4, 10}, generated: true,
			advice: "run the program above by hand against the store: as a rule every step of it is needed", check: modelRun},
		{id: "MOD-02", title: "generated transactions do what the model does when the store is reopened after each", inv: []int{1, 2, 3, 4, 10}, generated: true,
			needs:  []Capability{NoReopen},
			advice: "run the program above by hand: something of it is lost or comes back when the store is reopened", check: modelRunReopened},
	}
}

// Lengths of generated programs, in commits. Most are short, since shrinking and
// comparing are cheap then; some are long, so that a store has something to merge.
const (
	shortProgram = 60
	longProgram  = 600
	longEvery    = 40 // one program in so many is long
)

func modelRun(p *probe) { p.runPrograms(p.cfg.Transactions) }

// modelRunReopened spends a fiftieth of the transactions, each with a reopening.
func modelRunReopened(p *probe) {
	p.cfg.ReopenEvery = 1
	p.runPrograms(max(p.cfg.Transactions/50, min(p.cfg.Transactions, 100)))
}

// runPrograms replays programs until so many commits were made, and ends the row
// with the first failing one, made small. The i-th program of a run is the
// first one of a run whose seed is higher by i.
func (p *probe) runPrograms(transactions int) {
	for seed := p.cfg.Seed; transactions > 0; seed++ {
		n := shortProgram
		if seed%longEvery == 0 {
			n = longProgram
		}
		n = min(n, transactions)
		transactions -= n
		prog := generate(seed, n)
		found := p.replay(prog)
		if found == nil {
			continue
		}
		prog, found = p.shrink(prog, found)
		panic(verdict{
			outcome: Fail,
			why:     fmt.Sprintf("program:\n%sstep %d: %s: %s", prog, found.step+1, found.what, found.why),
			replay:  &Replay{Row: "MOD-01", Seed: seed, Transactions: n, ReopenEvery: p.cfg.ReopenEvery},
		})
	}
}
