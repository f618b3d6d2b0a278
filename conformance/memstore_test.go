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

func TestMemstore(t *testing.T) { Run(t, inMemory()) }

// The model as a store: content that outlives Close, and rows that memstore skips.
func TestPlainStore(t *testing.T) {
	cfg := plain()
	cfg.Transactions = 2000
	Run(t, cfg)
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
