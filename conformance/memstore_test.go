package conformance

import (
	"testing"

	"pistore"
	"pistore/memstore"
)

// inMemory is the config of memstore.
func inMemory() Config {
	return Config{
		Open:     func(string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil },
		Volatile: true,
	}
}

func TestMemstore(t *testing.T) { Run(t, lighter(inMemory())) }

// lighter leaves out, under the race detector, what is long and has one goroutine.
func lighter(cfg Config) Config {
	if underRace {
		cfg.Transactions, cfg.Lacks = 1000, []Capability{NoLarge}
	}
	return cfg
}

// The model as a store: content that outlives Close, and rows that memstore skips.
func TestPlainStore(t *testing.T) {
	cfg := plain()
	cfg.Transactions = 2000
	Run(t, lighter(cfg))
}

func TestReopenedAfterEveryCommit(t *testing.T) {
	for name, cfg := range map[string]Config{"memstore": inMemory(), "plain": plain()} {
		t.Run(name, func(t *testing.T) {
			cfg.ReopenEvery = 1
			cfg.Transactions = 500
			cfg.Lacks = []Capability{NoLarge}
			Run(t, cfg)
		})
	}
}
