package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pistore/provider"
	"pistore/session"
)

// Kit is a provider together with requests that bring it into each situation. A
// real adapter runs against a server of the test that knows them. A request
// without a model skips the rows that need it.
type Kit struct {
	Provider provider.Provider
	Text     provider.Request // answered with text, in three deltas at least
	Thinking provider.Request // answered with thinking and text
	Tools    provider.Request // answered with two calls at least
	Length   provider.Request // ends at the output limit
	Refused  provider.Request // fails, and no retry helps
	Busy     provider.Request // fails, retryable, with a time to wait
	Broken   provider.Request // streams some deltas and fails
	Overflow provider.Request // larger than the window
	Stuck    provider.Request // streams one delta at least, and then nothing more
	// Deferred is answered with a handle, whose first poll comes too early and
	// whose later polls, a hundred at most, bring the response. Only for a
	// provider that is a Deferrer.
	Deferred provider.Request
}

// row is one check of the kit.
type row struct {
	id, title string
	why       string // printed when it fails
	need      func(Kit) provider.Request
	run       func(Kit, provider.Request) error
}

// Run runs every row as a subtest.
func Run(t *testing.T, kit Kit) {
	for _, r := range rows {
		t.Run(r.id, func(t *testing.T) {
			req := r.need(kit)
			if req.Model.ModelID == "" {
				t.Skipf("%s: the kit has no request for it", r.title)
			}
			if err := guarded(func() error { return r.run(kit, req) }); err != nil {
				t.Errorf("%s\n%v\nwhy: %s", r.title, err, r.why)
			}
		})
	}
}

// guard is how long a row may take before it counts as hanging.
const guard = time.Minute

func guarded(run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-time.After(guard):
		return errors.New("the provider did not return")
	}
}

// observe streams one response, calling each with every delta, and checks what
// holds for every response.
func observe(ctx context.Context, p provider.Provider, req provider.Request, each func(provider.Delta)) (provider.Response, []provider.Delta, error) {
	before, err := json.Marshal(req)
	if err != nil {
		return provider.Response{}, nil, err
	}
	var (
		mu       sync.Mutex // guards what follows
		deltas   []provider.Delta
		inside   bool
		returned bool
		misuse   error
	)
	response := p.Stream(ctx, req, func(d provider.Delta) {
		mu.Lock()
		if inside {
			misuse = errors.New("two deltas at once")
		}
		if returned {
			panic("providertest: the provider gave a delta after it had returned") // no row waits for it any more
		}
		inside = true
		deltas = append(deltas, d)
		mu.Unlock()
		if each != nil {
			each(d)
		}
		mu.Lock()
		inside = false
		mu.Unlock()
	})
	mu.Lock()
	defer mu.Unlock()
	returned = true
	after, err := json.Marshal(req)
	if err == nil && string(before) != string(after) {
		err = errors.New("the provider changed the request")
	}
	return response, deltas, errors.Join(err, misuse, Check(req, deltas, response))
}

func needText(k Kit) provider.Request { return k.Text }

var rows = []row{
	{"P01", "a text is answered with stop", "the transcript is what the deltas promised", needText, expect(func(r provider.Response, deltas int) error {
		if r.Message.StopReason != session.StopStop || session.JoinText(r.Message.Content) == "" || deltas < 3 {
			return fmt.Errorf("stop reason %s, %d deltas", r.Message.StopReason, deltas)
		}
		return nil
	})},
	{"P02", "thinking comes as its own block", "it goes back to the vendor as it came", func(k Kit) provider.Request { return k.Thinking }, expect(func(r provider.Response, _ int) error {
		for _, b := range r.Message.Content {
			if _, ok := b.(session.Thinking); ok {
				return nil
			}
		}
		return errors.New("no thinking block")
	})},
	{"P03", "calls come with toolUse", "the harness starts tools by it", func(k Kit) provider.Request { return k.Tools }, expect(func(r provider.Response, _ int) error {
		if n := len(r.Message.ToolCalls()); r.Message.StopReason != session.StopToolUse || n < 2 {
			return fmt.Errorf("stop reason %s, %d calls", r.Message.StopReason, n)
		}
		return nil
	})},
	{"P04", "the output limit gives length", "a cut answer is not a finished one", func(k Kit) provider.Request { return k.Length }, expectStop(session.StopLength)},
	{"P05", "a refusal is an error without retry", "retrying it only costs", func(k Kit) provider.Request { return k.Refused }, expect(func(r provider.Response, _ int) error {
		if r.Message.StopReason != session.StopError || r.Retryable {
			return fmt.Errorf("stop reason %s, retryable %t", r.Message.StopReason, r.Retryable)
		}
		return nil
	})},
	{"P06", "a busy vendor is a retryable error with its time to wait", "retries follow the vendor's wish", func(k Kit) provider.Request { return k.Busy }, expect(func(r provider.Response, _ int) error {
		if r.Message.StopReason != session.StopError || !r.Retryable || r.RetryAfterMS <= 0 {
			return fmt.Errorf("stop reason %s, retryable %t, after %d ms", r.Message.StopReason, r.Retryable, r.RetryAfterMS)
		}
		return nil
	})},
	{"P07", "a stream that breaks is an error that keeps what came", "people saw it", func(k Kit) provider.Request { return k.Broken }, expect(func(r provider.Response, deltas int) error {
		if r.Message.StopReason != session.StopError || deltas == 0 {
			return fmt.Errorf("stop reason %s, %d deltas", r.Message.StopReason, deltas)
		}
		return nil
	})},
	{"P08", "an overflow is marked", "the harness compacts by it", func(k Kit) provider.Request { return k.Overflow }, expect(func(r provider.Response, _ int) error {
		if !r.Overflow {
			return fmt.Errorf("not marked, stop reason %s", r.Message.StopReason)
		}
		return nil
	})},
	{"P09", "cancelled before the start is aborted", "aborted if and only if cancelled", needText, func(k Kit, req provider.Request) error {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return aborted(ctx, k, req, nil)
	}},
	{"P10", "cancelled at a delta is aborted", "aborted if and only if cancelled", needText, func(k Kit, req provider.Request) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return aborted(ctx, k, req, func(provider.Delta) { cancel() })
	}},
	{"P11", "cancelled while the vendor is silent is aborted", "an abort must not wait for a vendor", func(k Kit) provider.Request { return k.Stuck }, func(k Kit, req provider.Request) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return aborted(ctx, k, req, func(provider.Delta) { cancel() })
	}},
	{"P12", "a deadline is an error and not aborted", "only an abort that was asked for is one", func(k Kit) provider.Request { return k.Stuck }, func(k Kit, req provider.Request) error {
		ctx := &deadline{Context: context.Background(), done: make(chan struct{})}
		r, _, err := observe(ctx, k.Provider, req, func(provider.Delta) { ctx.pass() })
		if err == nil && r.Message.StopReason != session.StopError {
			err = fmt.Errorf("stop reason %s", r.Message.StopReason)
		}
		return err
	}},
	{"P13", "nobody needs to listen", "summaries are not streamed", needText, func(k Kit, req provider.Request) error {
		r := k.Provider.Stream(context.Background(), req, nil)
		if r.Message == nil || r.Message.StopReason != session.StopStop {
			return fmt.Errorf("response %+v", r.Message)
		}
		return nil
	}},
	{"P14", "streams do not disturb each other", "every lane streams at once", needText, concurrent},
	{"P15", "a message that no request may have is an error", "silently left out, it would be missed by nobody", needText, func(k Kit, req provider.Request) error {
		req.Messages = append([]session.Message{&session.SummaryMessage{Kind: session.RoleBranchSummary, Summary: "s"}}, req.Messages...)
		r, _, err := observe(context.Background(), k.Provider, req, nil)
		if err == nil && (r.Message.StopReason != session.StopError || r.Retryable) {
			err = fmt.Errorf("stop reason %s, retryable %t", r.Message.StopReason, r.Retryable)
		}
		return err
	}},
	{"P16", "the provider knows its name and the model", "limits and prices are looked up before a request", needText, func(k Kit, req provider.Request) error {
		if k.Provider.Name() != req.Model.Provider {
			return fmt.Errorf("name %q, in the request %q", k.Provider.Name(), req.Model.Provider)
		}
		if m, ok := k.Provider.Model(req.Model.ModelID); !ok || m.ID != req.Model.ModelID || m.API == "" {
			return fmt.Errorf("model %+v, known %t", m, ok)
		}
		return nil
	}},
	{"P17", "a deferral comes with a handle to poll", "nothing else is left of it after a crash", needDeferred, func(k Kit, req provider.Request) error {
		_, _, err := deferred(k, req)
		return err
	}},
	{"P18", "a poll that comes too early repeats the handle", "another handle would be another response", needDeferred, func(k Kit, req provider.Request) error {
		r, err := poll(context.Background(), k, req, 1)
		if err == nil && r.Message.StopReason != session.StopDeferred {
			err = fmt.Errorf("stop reason %s", r.Message.StopReason)
		}
		return err
	}},
	{"P19", "a later poll brings the response", "a run waits for it", needDeferred, func(k Kit, req provider.Request) error {
		for n := int64(2); ; n++ {
			r, err := poll(context.Background(), k, req, n)
			switch {
			case err != nil:
				return err
			case r.Message.StopReason == session.StopStop || r.Message.StopReason == session.StopToolUse:
				return nil
			case r.Message.StopReason != session.StopDeferred || n == 100:
				return fmt.Errorf("poll %d: stop reason %s", n, r.Message.StopReason)
			}
		}
	}},
	{"P20", "a cancelled poll is aborted", "aborted if and only if cancelled", needDeferred, func(k Kit, req provider.Request) error {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r, err := poll(ctx, k, req, 2)
		if err == nil && r.Message.StopReason != session.StopAborted {
			err = fmt.Errorf("stop reason %s", r.Message.StopReason)
		}
		return err
	}},
	{"P21", "a deferral can be cancelled, and cancelled again", "a crash repeats it", needDeferred, func(k Kit, req provider.Request) error {
		d, handle, err := deferred(k, req)
		if err != nil {
			return err
		}
		return errors.Join(d.Cancel(context.Background(), handle), d.Cancel(context.Background(), handle))
	}},
}

func needDeferred(k Kit) provider.Request { return k.Deferred }

// deferred makes the request and returns the handle of its response.
func deferred(k Kit, req provider.Request) (provider.Deferrer, session.DeferredHandle, error) {
	d, ok := k.Provider.(provider.Deferrer)
	if !ok {
		return nil, session.DeferredHandle{}, errors.New("the provider is no Deferrer")
	}
	r, _, err := observe(context.Background(), d, req, nil)
	if err == nil && r.Message.StopReason != session.StopDeferred {
		err = fmt.Errorf("stop reason %s", r.Message.StopReason)
	}
	if err != nil {
		return nil, session.DeferredHandle{}, err
	}
	return d, *r.Message.Deferred, nil
}

// poll defers a response and polls it.
func poll(ctx context.Context, k Kit, req provider.Request, number int64) (provider.Response, error) {
	d, handle, err := deferred(k, req)
	if err != nil {
		return provider.Response{}, err
	}
	about := provider.Request{Model: req.Model, ThinkingLevel: req.ThinkingLevel, Options: req.Options, Attempt: number}
	r := d.Poll(ctx, about, handle)
	return r, CheckPolled(about, handle, r)
}

// expect makes a row of a look at an undisturbed response and the number of its
// deltas. None may be aborted.
func expect(look func(provider.Response, int) error) func(Kit, provider.Request) error {
	return func(k Kit, req provider.Request) error {
		r, deltas, err := observe(context.Background(), k.Provider, req, nil)
		if err != nil {
			return err
		}
		if r.Message.StopReason == session.StopAborted {
			return errors.New("aborted, though nobody cancelled")
		}
		return look(r, len(deltas))
	}
}

func expectStop(want session.StopReason) func(Kit, provider.Request) error {
	return expect(func(r provider.Response, _ int) error {
		if r.Message.StopReason != want {
			return fmt.Errorf("stop reason %s, want %s", r.Message.StopReason, want)
		}
		return nil
	})
}

func aborted(ctx context.Context, k Kit, req provider.Request, each func(provider.Delta)) error {
	r, _, err := observe(ctx, k.Provider, req, each)
	if err == nil && r.Message.StopReason != session.StopAborted {
		err = fmt.Errorf("stop reason %s", r.Message.StopReason)
	}
	return err
}

func concurrent(k Kit, req provider.Request) error {
	const streams = 8
	texts, faults := make([]string, streams), make([]error, streams)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			r, _, err := observe(context.Background(), k.Provider, req, nil)
			if faults[i] = err; err == nil {
				texts[i] = session.JoinText(r.Message.Content)
			}
		})
	}
	wg.Wait()
	for i := range texts {
		if faults[i] == nil && texts[i] != texts[0] {
			faults[i] = fmt.Errorf("stream %d: %.80q, stream 0: %.80q", i, texts[i], texts[0])
		}
	}
	return errors.Join(faults...)
}

// deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	once sync.Once
	done chan struct{}
}

func (d *deadline) pass() { d.once.Do(func() { close(d.done) }) }

// Done is closed when the deadline has passed.
func (d *deadline) Done() <-chan struct{} { return d.done }

// Err is DeadlineExceeded when the deadline has passed.
func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
