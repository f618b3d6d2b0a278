package provider_test

import (
	"context"
	"testing"
	"time"

	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
)

func TestUsageJSON(t *testing.T) {
	price := provider.Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000}
	for _, c := range []struct {
		usage provider.Usage
		want  string
	}{
		{provider.Usage{}, `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`},
		{provider.Usage{Input: 1, Output: 2, CacheRead: 1, CacheWrite: 1, Reasoning: 1},
			`{"input":1,"output":2,"cacheRead":1,"cacheWrite":1,"reasoning":1,"totalTokens":5,"cost":{"input":0.000003,"output":0.00003,"cacheRead":0.0000003,"cacheWrite":0.00000375,"total":0.00003705}}`},
		{provider.Usage{Input: 1 << 50}, `{"input":1125899906842624,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":1125899906842624,"cost":{"input":3377699720.527872,"output":0,"cacheRead":0,"cacheWrite":0,"total":3377699720.527872}}`},
		{provider.Usage{Input: 1_000_000}, `{"input":1000000,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":1000000,"cost":{"input":3,"output":0,"cacheRead":0,"cacheWrite":0,"total":3}}`},
	} {
		if got := string(c.usage.JSON(price)); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.usage, got, c.want)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if provider.Cancelled(ctx) {
		t.Error("not cancelled")
	}
	cancel()
	if !provider.Cancelled(ctx) {
		t.Error("cancelled")
	}
	late, stop := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer stop()
	if provider.Cancelled(late) {
		t.Error("a deadline is no cancellation")
	}
}

func TestSet(t *testing.T) {
	s := provider.NewSet(faux.New(faux.Options{}), faux.New(faux.Options{Name: "other"}))
	p, m, known := s.Model(registers.ModelRef{Provider: "other", ModelID: "faux-1"})
	if p == nil || p.Name() != "other" || m.ContextWindow == 0 || !known {
		t.Errorf("got %v, %+v, %t", p, m, known)
	}
	if p, _, known := s.Model(registers.ModelRef{Provider: "other", ModelID: "x"}); p == nil || known {
		t.Error("an unknown model of a known provider")
	}
	if p, _, known := s.Model(registers.ModelRef{Provider: "x", ModelID: "faux-1"}); p != nil || known {
		t.Error("an unknown provider")
	}
	defer func() {
		if recover() == nil {
			t.Error("two of a name: no panic")
		}
	}()
	provider.NewSet(faux.New(faux.Options{}), faux.New(faux.Options{}))
}
