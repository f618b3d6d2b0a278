package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"pistore/provider"
	"pistore/provider/faux"
	"pistore/registers"
	"pistore/session"
)

// providerName is what the configurations of all lanes name.
const providerName = "sim"

// The models. The small one is outgrown by a conversation.
var models = []provider.Model{
	{ID: "large", ContextWindow: 4_000, MaxOutputTokens: 1_000, Price: faux.DefaultModel.Price},
	{ID: "small", ContextWindow: 1_500, MaxOutputTokens: 300, Price: faux.DefaultModel.Price},
}

// scripted is the provider of one life: [faux.Provider] with a script that is
// rolled when it is asked for, and an eye on each request.
type scripted struct {
	*faux.Provider
	life *life
}

func newProvider(l *life) *scripted {
	p := &scripted{life: l}
	p.Provider = faux.New(faux.Options{
		Name: providerName, Models: l.models(), Forget: true, ChunkRunes: 8,
		Script: faux.Script{{Name: "sim", Match: func(provider.Request) bool { return true }, Rest: p.answer}},
	})
	return p
}

// Stream looks at a request and answers it.
func (p *scripted) Stream(ctx context.Context, req provider.Request, deltas func(provider.Delta)) provider.Response {
	l := p.life
	if l.guard.isDead() {
		return provider.Response{Message: provider.Empty(req, "", session.StopAborted, "dead")}
	}
	lane := l.lane()
	asked := l.s.oracle.judgeRequest(lane, req.Attempt)
	if asked == nil {
		return provider.Response{Message: provider.Empty(req, "", session.StopError, "nobody asked")}
	}
	l.s.say("  %s: the provider is asked for a %s, attempt %d, %.60q", lane, asked.purpose, req.Attempt, newestText(req.Messages))
	l.judgeModel(lane, req, asked.purpose)
	if asked.purpose == forTurn {
		l.s.oracle.judgeContext(lane, rendered(req.Messages))
	}
	l.atRequest(lane)
	response := p.Provider.Stream(ctx, req, deltas)
	l.s.count("response " + string(response.Message.StopReason))
	if asked.purpose == forSummary {
		l.s.oracle.drafted(asked.usage, session.JoinText(response.Message.Content))
	}
	return response
}

// judgeModel: a request has the model and the tools that its step captured, and
// this life has them.
func (l *life) judgeModel(lane string, req provider.Request, what purpose) {
	captured := l.s.oracle.captured(lane)
	lacking, same := "", false
	if captured != nil {
		lacking = l.lacks(captured.Configuration, what == forTurn)
		same = req.Model == captured.Configuration.Model && (req.Options == captured.StreamOptions || req.Options == hookOptions)
	}
	if lacking != "" || !same {
		l.s.find("settings", "lane %s makes a request of %s with %s, and captured %+v (lacking %q)", lane, req.Model.ModelID, req.Options, captured, lacking)
	}
}

// captured returns what the open step of a lane captured.
func (o *oracle) captured(lane string) *registers.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.openLocked(lane); op != nil {
		return contextOf(op.state)
	}
	return nil
}

// Poll answers a poll as the handle says: pending some times, and then somehow.
func (p *scripted) Poll(ctx context.Context, req provider.Request, handle session.DeferredHandle) provider.Response {
	l := p.life
	m := provider.Empty(req, "faux", session.StopStop, "")
	if l.guard.isDead() {
		m.StopReason = session.StopAborted
		return provider.Response{Message: m}
	}
	lane := l.lane()
	if asked := l.s.oracle.judgeRequest(lane, req.Attempt); asked != nil && asked.purpose != forPoll {
		l.s.find("intent", "lane %s polls, and announced a %s", lane, asked.purpose)
	}
	l.s.say("  %s: the provider is polled, %d", lane, req.Attempt)
	l.atRequest(lane)
	r := dice(l.s.program.seed, "poll", handle.ID, req.Attempt)
	if chance(r, 8) {
		l.hang(ctx, lane, fmt.Sprintf("poll %s %d", handle.ID, req.Attempt))
	}
	m.Usage = `{"input":1,"output":2,"totalTokens":3,"cost":{"total":0.5}}`
	turn, _, _ := strings.Cut(handle.ID, " ")
	switch n := r.IntN(10); {
	case ctx.Err() != nil:
		m.StopReason, m.ErrorMessage = session.StopAborted, "cancelled"
	case n < 4 && req.Attempt < 4:
		m.StopReason, m.Deferred = session.StopDeferred, &handle
	case n == 4:
		other := handle
		other.ID = "another"
		m.StopReason, m.Deferred = session.StopDeferred, &other
	case n == 5:
		m.StopReason, m.ErrorMessage = session.StopError, "the batch is lost"
	case n < 8:
		call := rollCall(r)
		call.ID = "polled"
		m.StopReason, m.Content = session.StopToolUse, []session.Block{call}
	default:
		m.Content = session.TextContent("At last, answer " + handle.ID)
	}
	m.ResponseID = "faux-" + turn + "-sim" // so that the script goes on behind it
	return provider.Response{Message: m}
}

// Cancel counts that nobody waits any more.
func (p *scripted) Cancel(context.Context, session.DeferredHandle) error {
	p.life.s.count("deferred response cancelled")
	return errors.New("the vendor knows of no cancelling")
}

func rendered(messages []session.Message) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		out[i] = string(session.EncodeMessage(m))
	}
	return out
}

// newestText is the newest that a user said.
func newestText(messages []session.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if m, ok := messages[i].(*session.UserMessage); ok {
			return session.JoinText(m.Content)
		}
	}
	return ""
}

// answer is how a turn is answered: it follows from the seed, from what the user
// said last, from how many turns ago that was, and from how many attempts of the
// step were answered. So a crash changes nothing in it.
func (p *scripted) answer(req provider.Request, at faux.Position) faux.Step {
	l := p.life
	lane, text := l.lane(), newestText(req.Messages)
	r := dice(l.s.program.seed, "answer", text, at.Turn)
	if failures := max(0, r.IntN(9)-5); l.s.oracle.settledAttempts(lane) < failures {
		step := faux.Fail("overloaded", true)
		if chance(r, 3) {
			step.RetryAfterMS = r.Int64N(10_000)
		}
		if chance(r, 3) {
			step.Content, step.ErrorAfterDeltas = session.TextContent("a part of the answer"), 1
		}
		return step
	}
	weights := answerWeights(at.Turn, len(req.Tools) > 0)
	if asked := l.s.oracle.announced(lane); asked != nil && asked.purpose == forSummary {
		weights = summaryWeights()
	}
	step := answers[weighted(r, weights)].step(r, text, at.Turn)
	if chance(r, 6) {
		key := turnKey(lane, text, at.Turn)
		step.Incidents = append(step.Incidents, faux.Incident{AfterDeltas: r.IntN(3), Do: func(ctx context.Context) { l.hang(ctx, lane, key) }})
	}
	return step
}

// answerKind is a way to answer.
type answerKind struct {
	name   string
	weight int
	final  bool // it ends the run
	tools  bool // it calls tools
	step   func(r *rand.Rand, text string, turn int) faux.Step
}

var answers = []answerKind{
	{name: "text", weight: 30, final: true, step: func(r *rand.Rand, text string, turn int) faux.Step {
		return faux.Text(fmt.Sprintf("Answer %d to %s.%s", turn, text, filler(r)))
	}},
	{name: "calls", weight: 50, tools: true, step: func(r *rand.Rand, text string, turn int) faux.Step {
		step := faux.Text(fmt.Sprintf("Working %d.%s", turn, filler(r)))
		for range 1 + r.IntN(3) {
			step.Content = append(step.Content, rollCall(r))
		}
		if chance(r, 6) {
			step.StopReason = session.StopStop // some vendors say so
		}
		return step
	}},
	{name: "cut calls", weight: 3, tools: true, step: func(r *rand.Rand, _ string, _ int) faux.Step {
		return faux.Step{Content: []session.Block{rollCall(r), rollCall(r)}, StopReason: session.StopLength, Usage: fullOutput}
	}},
	{name: "length", weight: 3, final: true, step: func(*rand.Rand, string, int) faux.Step {
		return faux.Step{Content: session.TextContent("Cut"), StopReason: session.StopLength, Usage: fullOutput}
	}},
	{name: "deferred", weight: 5, final: true, step: func(_ *rand.Rand, text string, turn int) faux.Step {
		return faux.Step{Deferred: &session.DeferredHandle{ID: fmt.Sprintf("%d %.40s", turn, text)}}
	}},
	{name: "error", weight: 3, final: true, step: func(r *rand.Rand, _ string, _ int) faux.Step {
		return faux.Step{Content: session.TextContent("Some"), Error: "no such thing", ErrorAfterDeltas: r.IntN(2)}
	}},
	{name: "overflow flag", weight: 2, final: true, step: func(*rand.Rand, string, int) faux.Step {
		return faux.Step{Content: session.TextContent("Over"), Overflow: true}
	}},
	{name: "overflow text", weight: 2, final: true, step: func(*rand.Rand, string, int) faux.Step {
		return faux.Fail("prompt is too long: 5 tokens > 4 maximum", false)
	}},
	{name: "overflow short", weight: 2, final: true, step: func(*rand.Rand, string, int) faux.Step {
		return faux.Step{Content: session.TextContent("Short"), StopReason: session.StopLength}
	}},
	{name: "aborted unasked", weight: 1, final: true, step: func(*rand.Rand, string, int) faux.Step {
		return faux.Step{Content: session.TextContent("A"), StopReason: session.StopAborted}
	}},
	{name: "panic", weight: 1, final: true, step: func(*rand.Rand, string, int) faux.Step {
		return faux.Step{Incidents: []faux.Incident{{Do: func(context.Context) { panic("out of cheese") }}}}
	}},
	{name: "nothing", weight: 1, final: true, step: func(*rand.Rand, string, int) faux.Step { return faux.Step{} }},
}

// fullOutput is usage that reaches the output limit of either model.
const fullOutput = `{"input":10,"output":16384,"totalTokens":16394,"cost":{"total":0.25}}`

// answerWeights leaves tools out where there are none, and after some turns.
func answerWeights(turn int, tools bool) []int {
	weights := make([]int, len(answers))
	for i, k := range answers {
		if !k.tools || tools && turn < 5 {
			weights[i] = k.weight
		}
	}
	return weights
}

// summaryWeights has most summaries come to be.
func summaryWeights() []int {
	weights := make([]int, len(answers))
	for i, k := range answers {
		weights[i] = 1
		if k.name == "text" {
			weights[i] = 30
		}
	}
	return weights
}

// filler makes some answers long, so that the small model is outgrown.
func filler(r *rand.Rand) string {
	if !chance(r, 4) {
		return ""
	}
	return strings.Repeat(" It goes on.", r.IntN(200))
}

// hang lasts until the request or call is cancelled. In a script it is aborted
// at once, so that it means the same in every run; in the wild it hangs once, and
// somebody has to do something.
func (l *life) hang(ctx context.Context, lane, what string) {
	n := l.s.world.hung(what)
	if l.s.program.mode != Wild {
		l.abortHanging(lane)
		<-ctx.Done()
		return
	}
	if n > 1 {
		return
	}
	l.s.say("  %s: it hangs", lane)
	l.s.count("hang")
	l.setHung(lane, true)
	l.stepped()
	<-ctx.Done()
}
