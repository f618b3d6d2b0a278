package verify_test

import (
	"context"
	"iter"
	"testing"

	"pistore"
	"pistore/memstore"
	"pistore/verify"
)

// panicking is a store whose history panics.
type panicking struct{ pistore.Storage }

func (panicking) History(context.Context, pistore.Seq) iter.Seq2[pistore.Transaction, error] {
	panic("no history today")
}

// What a store panics with comes to whoever asked for the check.
func TestPanicOfHistory(t *testing.T) {
	b := memstore.New(memstore.Options{})
	s, err := b.Create(t.Context(), pistore.Info{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != "no history today" {
			t.Errorf("recovered %v", got)
		}
	}()
	_, err = verify.Check(t.Context(), panicking{s}, verify.Options{})
	t.Errorf("the check ended with %v", err)
}
