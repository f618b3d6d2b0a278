package faux

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"pistore"
	"pistore/provider"
	"pistore/session"
)

// Script is what the provider answers. Which step answers a request follows
// from the request alone, so that a process that was killed and started again
// with the same script goes on where it was, and lanes do not disturb each
// other:
//
//  1. The scene is the first whose Match accepts the request. Its turn is the
//     first one, or the one behind the newest response of that scene that
//     stands after the newest user message.
//  2. If none accepts, and the newest response in the context stands after the
//     newest user message, its scene goes on with the next turn. So a scene
//     outlives a compaction that took the message which it matched.
//  3. Else it is the scene without Match. Its turn is the first one, or the one
//     behind the newest response of that scene in the context.
//  4. Within the turn, [provider.Request.Attempt] picks the step; the last step
//     answers all later attempts.
//
// The script knows its responses by their ResponseID. Responses of another
// provider, imported ones for instance, do not count. A turn that failed for
// good is in no context (projection leaves it out), so in a scene without Match
// the next prompt gets the same turn again; give each prompt a scene where that
// matters. Going back by navigation goes back in the script. A request that no
// scene takes, or that is beyond the end of its scene, is answered with an error
// that says so.
type Script []Scene

// Scene is a sequence of turns.
type Scene struct {
	// Name is unique in the script: 1 to 64 letters, digits, underscores and
	// hyphens. Empty: by its place, "s0", "s1", ….
	Name string
	// Match says which requests the scene is for, from the request alone. nil:
	// those that no other scene takes; one scene at most may have none.
	Match func(provider.Request) bool
	Turns []Turn
	// Rest answers the turns behind Turns. It is a pure function of what it
	// gets, and called from any goroutine. nil: the scene ends.
	Rest func(provider.Request, Position) Step
}

// Turn is one response and its retries: the first step answers the first
// attempt, the second the second.
type Turn []Step

// Position is a place in a script.
type Position struct {
	Scene   string
	Turn    int   // from 0
	Attempt int64 // from 1
}

// Step is how one request is answered. The zero value is an empty response.
type Step struct {
	// Content is Text, Thinking and ToolCall blocks. A call without an id gets
	// one that follows from the position.
	Content []session.Block
	// StopReason overrides what follows from the rest of the step: error with
	// Error, deferred with Deferred, toolUse with a call, else stop. Aborted is
	// for providers that misbehave.
	StopReason session.StopReason
	// Error settles the response as an error with this text; of Content only
	// the first ErrorAfterDeltas deltas were received.
	Error            string
	ErrorAfterDeltas int
	Retryable        bool
	RetryAfterMS     int64 // milliseconds
	// Overflow marks the response. An overflow that compaction cures is better
	// had from a model with a small window: after the compaction the same turn
	// is asked for again, at attempt 1.
	Overflow bool
	// Deferred makes the response deferred; members that are empty are filled
	// in. Its Data tells the provider the place in the script, and is to be left
	// to it where polls are to be answered.
	Deferred *session.DeferredHandle
	// Polls answer the polls of a deferred response. Their deltas are streamed to
	// nobody. One with another handle, in Deferred, is a pending answer that
	// names another response.
	Polls []Step
	// OnCancel runs when the deferred response is cancelled. nil: it succeeds.
	OnCancel   func(ctx context.Context) error
	Usage      pistore.JSON // empty: computed from the lengths of the texts
	ChunkRunes int          // most characters in one delta; 0: that of the provider
	DelayMS    int64        // before each delta
	Incidents  []Incident
}

// Incident is something that happens while a response streams.
type Incident struct {
	// AfterDeltas is how many deltas come before it; with more than there are it
	// happens behind the last.
	AfterDeltas int
	// Do runs in the stream. ctx is that of the request.
	Do func(ctx context.Context)
}

// Kill is an incident that kills the process with SIGKILL, as a crash would.
func Kill(context.Context) {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic("faux: kill this process: " + err.Error())
	}
	select {} // until the signal arrives
}

// Hang is an incident that lasts until the request is cancelled.
func Hang(ctx context.Context) { <-ctx.Done() }

// Text is a step that answers with text.
func Text(text string) Step { return Step{Content: session.TextContent(text)} }

// Call is a step that calls one tool.
func Call(name string, arguments pistore.JSON) Step {
	return Step{Content: []session.Block{session.ToolCall{Name: name, Arguments: arguments}}}
}

// Fail is a step that fails.
func Fail(text string, retryable bool) Step { return Step{Error: text, Retryable: retryable} }

// Turns makes a turn of each step, for scripts whose attempts do not differ.
func Turns(steps ...Step) []Turn {
	turns := make([]Turn, len(steps))
	for i, s := range steps {
		turns[i] = Turn{s}
	}
	return turns
}

// Prompt matches requests whose newest user message has this text.
func Prompt(text string) func(provider.Request) bool {
	return func(req provider.Request) bool {
		i := newestUser(req.Messages)
		return i >= 0 && session.JoinText(req.Messages[i].(*session.UserMessage).Content) == text
	}
}

// Contains matches requests whose newest user message contains text.
func Contains(text string) func(provider.Request) bool {
	return func(req provider.Request) bool {
		i := newestUser(req.Messages)
		return i >= 0 && strings.Contains(session.JoinText(req.Messages[i].(*session.UserMessage).Content), text)
	}
}

// newestUser returns the index of the newest user message, or -1.
func newestUser(messages []session.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role() == session.RoleUser {
			if _, ok := messages[i].(*session.UserMessage); ok {
				return i
			}
		}
	}
	return -1
}

var sceneName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// named returns the script with every scene named. It panics if the script is
// ambiguous or empty turns leave nothing to answer with.
func (s Script) named() Script {
	named := append(Script(nil), s...)
	taken := map[string]bool{}
	main := false
	for i := range named {
		scene := &named[i]
		if scene.Name == "" {
			scene.Name = "s" + strconv.Itoa(i)
		}
		if !sceneName.MatchString(scene.Name) || taken[scene.Name] {
			panic(fmt.Sprintf("faux: scene name %q is malformed or taken", scene.Name))
		}
		taken[scene.Name] = true
		if scene.Match == nil {
			if main {
				panic("faux: two scenes without Match")
			}
			main = true
		}
		for t, turn := range scene.Turns {
			if len(turn) == 0 {
				panic(fmt.Sprintf("faux: scene %s: turn %d has no step", scene.Name, t))
			}
		}
	}
	return named
}

// find returns the step that answers req and its position. The error is in
// words for the response.
func (s Script) find(providerName string, req provider.Request) (Step, Position, error) {
	user := newestUser(req.Messages)
	attempt := max(req.Attempt, 1)
	for _, scene := range s {
		if scene.Match != nil && scene.Match(req) {
			turn := nextTurn(providerName, scene.Name, req.Messages[user+1:])
			return scene.step(req, Position{scene.Name, turn, attempt})
		}
	}
	if name, turn, ok := newestResponse(providerName, req.Messages[user+1:]); ok {
		for _, scene := range s {
			if scene.Name == name {
				return scene.step(req, Position{name, turn + 1, attempt})
			}
		}
	}
	for _, scene := range s {
		if scene.Match == nil {
			turn := nextTurn(providerName, scene.Name, req.Messages)
			return scene.step(req, Position{scene.Name, turn, attempt})
		}
	}
	return Step{}, Position{}, fmt.Errorf("the script has no scene for this request")
}

func (s Scene) step(req provider.Request, at Position) (Step, Position, error) {
	if at.Turn < len(s.Turns) {
		turn := s.Turns[at.Turn]
		return turn[min(at.Attempt, int64(len(turn)))-1], at, nil
	}
	if s.Rest != nil {
		return s.Rest(req, at), at, nil
	}
	return Step{}, at, fmt.Errorf("scene %s ends before turn %d", s.Name, at.Turn)
}

// responseID marks a response with its position.
func (p Position) responseID() string {
	return "faux-" + strconv.Itoa(p.Turn) + "-" + p.Scene
}

// parseResponseID is the inverse of responseID.
func parseResponseID(id string) (scene string, turn int, ok bool) {
	rest, ok := strings.CutPrefix(id, "faux-")
	if !ok {
		return "", 0, false
	}
	number, scene, ok := strings.Cut(rest, "-")
	if !ok {
		return "", 0, false
	}
	turn, err := strconv.Atoi(number)
	return scene, turn, err == nil && turn >= 0
}

// newestResponse returns the position of the newest response that a provider of
// this name gave.
func newestResponse(providerName string, messages []session.Message) (scene string, turn int, ok bool) {
	for i := len(messages) - 1; i >= 0; i-- {
		m, isResponse := messages[i].(*session.AssistantMessage)
		if !isResponse || m.Provider != providerName {
			continue
		}
		if scene, turn, ok = parseResponseID(m.ResponseID); ok {
			return scene, turn, true
		}
	}
	return "", 0, false
}

// nextTurn returns the turn behind the newest response of a scene, 0 if there
// is none.
func nextTurn(providerName, scene string, messages []session.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		m, isResponse := messages[i].(*session.AssistantMessage)
		if !isResponse || m.Provider != providerName {
			continue
		}
		if name, turn, ok := parseResponseID(m.ResponseID); ok && name == scene {
			return turn + 1
		}
	}
	return 0
}
