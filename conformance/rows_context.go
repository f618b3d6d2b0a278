package conformance

import (
	"context"
	"errors"
	"fmt"

	"pistore"
)

func contextRows() []row {
	return []row{
		{id: "CTX-01", title: "a context that ended before the commit writes nothing",
			advice: "look at the context before admission, return its error, and stay usable", check: cancelledCommit},
		{id: "CTX-02", title: "a context that ended before a read ends the read with its error",
			advice: "look at the context when a read starts; an iterator yields the error as its last pair", check: cancelledReads},
		{id: "CTX-03", title: "a context that ends during a commit: the call reports what really happened",
			advice: "after admission ignore the context: success means written, the context's error means not", check: cancelDuringCommit},
	}
}

func cancelledCommit(p *probe) {
	s := p.session()
	s.commit(message("e", ""), set("k", `1`))
	before := s.state("ns")
	cancelled, cancel := context.WithCancel(p.ctx)
	cancel()
	expired, cancel := context.WithTimeout(p.ctx, 0)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {expired, context.DeadlineExceeded}} {
		_, err := s.st.Commit(c.ctx, txOf(message("f", "e"), usage("u", `{"input":1}`), set("k", `2`), set("l", `1`)))
		p.commits.Add(1)
		p.wantError("commit with an ended context", err, c.want)
		equal(p, "state behind it", s.state("ns"), before)
	}
	_, err := s.try(txOf(message("f", "e"), usage("u", `{}`)))
	p.noError("the next commit", err)
}

func cancelledReads(p *probe) {
	s := p.session()
	s.walk()
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	for _, q := range s.sequences(ctx) {
		_, err := drain(q.seq)
		p.wantError(q.name+" with an ended context", err, context.Canceled)
	}
	_, err := s.st.Entries(ctx, []pistore.ID{"e0"})
	p.wantError("Entries with an ended context", err, context.Canceled)
	_, err = s.st.Registers(ctx, []pistore.Address{{Namespace: "ns", Key: "k0"}})
	p.wantError("Registers with an ended context", err, context.Canceled)
	_, err = s.st.Stats(ctx)
	p.wantError("Stats with an ended context", err, context.Canceled)
}

func cancelDuringCommit(p *probe) {
	s := p.session()
	written := map[pistore.ID]bool{}
	for i := range 200 {
		ctx, cancel := context.WithCancel(p.ctx)
		done := make(chan struct{})
		go func() {
			cancel()
			close(done)
		}()
		id := pistore.ID(fmt.Sprint(i))
		_, err := s.st.Commit(ctx, txOf(message(id, ""), set("k", pistore.QuoteJSON(string(id)))))
		<-done
		p.commits.Add(1)
		p.check(err == nil || errors.Is(err, context.Canceled), "commit while its context ends: %v, want success or the context's error", err)
		written[id] = err == nil
	}
	p.noError("the next commit", func() error { _, err := s.try(txOf(set("k", `1`))); return err }())
	if p.cfg.reopens() {
		s.reopen()
	}
	for id, want := range written {
		p.check((len(s.entries(id)) == 1) == want, "entry %s: there is %t, acknowledged is %t", id, !want, want)
	}
}
