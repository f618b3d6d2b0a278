// Package providertest checks a provider against the contract of package
// provider: [Run] its rows on a provider whose answers are known, [Check] any
// one response. It imports provider and what provider imports.
package providertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pistore"
	"pistore/provider"
	"pistore/session"
)

// Check returns what is wrong with the response to a request, given the deltas
// that came before it; nil if nothing is.
func Check(req provider.Request, deltas []provider.Delta, response provider.Response) error {
	m := response.Message
	if m == nil {
		return errors.New("the response has no message")
	}
	return errors.Join(checkSettled(req, response), checkDeltas(deltas, m))
}

// CheckPolled returns what is wrong with the answer to a poll of a handle; nil
// if nothing is.
func CheckPolled(req provider.Request, handle session.DeferredHandle, response provider.Response) error {
	m := response.Message
	if m == nil {
		return errors.New("the answer has no message")
	}
	if m.StopReason == session.StopDeferred && (m.Deferred == nil || !provider.SameHandle(*m.Deferred, handle)) {
		return fmt.Errorf("pending under the handle %+v, polled was %+v", m.Deferred, handle)
	}
	if response.Retryable || response.RetryAfterMS != 0 {
		return errors.New("the answer to a poll asks for a retry")
	}
	return checkSettled(req, response)
}

// checkSettled checks what holds for every response, however it came.
func checkSettled(req provider.Request, response provider.Response) error {
	m := response.Message
	return errors.Join(
		checkIdentity(req, m),
		checkStop(req, m, response),
		checkUsage(m.Usage),
		checkCalls(m),
	)
}

func checkIdentity(req provider.Request, m *session.AssistantMessage) error {
	switch {
	case m.Provider != req.Model.Provider || m.Model != req.Model.ModelID:
		return fmt.Errorf("the response is of %s/%s, the request was to %s/%s", m.Provider, m.Model, req.Model.Provider, req.Model.ModelID)
	case m.API == "":
		return errors.New("the response names no API")
	case m.ThinkingLevel != req.ThinkingLevel:
		return fmt.Errorf("thinking level %q in the response, %q in the request", m.ThinkingLevel, req.ThinkingLevel)
	case m.Timestamp != 0:
		return errors.New("the response has a timestamp, which is the harness's to set")
	}
	return nil
}

func checkStop(req provider.Request, m *session.AssistantMessage, response provider.Response) error {
	calls := len(m.ToolCalls())
	switch m.StopReason {
	case session.StopStop:
		if calls > 0 {
			return errors.New("stop reason stop on a response with calls")
		}
	case session.StopToolUse:
		if calls == 0 {
			return errors.New("stop reason toolUse on a response without calls")
		}
	case session.StopLength:
	case session.StopDeferred:
		if !provider.ValidHandle(m.Deferred, req.Model) {
			return fmt.Errorf("a deferred response with the handle %+v, which nobody can poll", m.Deferred)
		}
	case session.StopError, session.StopAborted:
		if m.ErrorMessage == "" || strings.ContainsAny(m.ErrorMessage, "\r\n") {
			return fmt.Errorf("%s with the error message %q, which is not one line", m.StopReason, m.ErrorMessage)
		}
	default:
		return fmt.Errorf("stop reason %q", m.StopReason)
	}
	failed := m.StopReason == session.StopError
	if response.Retryable && !failed {
		return fmt.Errorf("retryable, but the stop reason is %s", m.StopReason)
	}
	if response.RetryAfterMS < 0 || response.RetryAfterMS > 0 && !failed {
		return fmt.Errorf("retry after %d ms with the stop reason %s", response.RetryAfterMS, m.StopReason)
	}
	return nil
}

// checkUsage wants the five counts, whole and not negative, and a cost.
func checkUsage(usage pistore.JSON) error {
	compact, err := pistore.CompactJSON(string(usage))
	if err != nil || compact != usage || !usage.IsObject() {
		return fmt.Errorf("usage %.80q is not a compact JSON object", string(usage))
	}
	count := func(name string) (int64, error) {
		value, _ := usage.Member(name)
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("usage.%s is %.40q and not a count", name, string(value))
		}
		return n, nil
	}
	sum := int64(0)
	for _, name := range []string{"input", "output", "cacheRead", "cacheWrite"} {
		n, err := count(name)
		if err != nil {
			return err
		}
		sum += n
	}
	if total, err := count("totalTokens"); err != nil {
		return err
	} else if total < sum {
		return fmt.Errorf("usage.totalTokens is %d, less than its parts, %d", total, sum)
	}
	cost, _ := usage.Member("cost")
	for _, name := range []string{"input", "output", "cacheRead", "cacheWrite", "total"} {
		value, _ := cost.Member(name)
		if n, err := strconv.ParseFloat(string(value), 64); err != nil || n < 0 {
			return fmt.Errorf("usage.cost.%s is %.40q and not an amount", name, string(value))
		}
	}
	return nil
}

func checkCalls(m *session.AssistantMessage) error {
	seen := map[string]bool{}
	for _, c := range m.ToolCalls() {
		if c.ID == "" || seen[c.ID] || c.Name == "" {
			return fmt.Errorf("call %q of %q: no id, the id of another call, or no name", c.ID, c.Name)
		}
		seen[c.ID] = true
		compact, err := pistore.CompactJSON(string(c.Arguments))
		if err != nil || compact != c.Arguments || !c.Arguments.IsObject() {
			return fmt.Errorf("call %s: arguments %.80q are not a compact JSON object", c.ID, string(c.Arguments))
		}
	}
	return nil
}

// grown is a block as its deltas tell of it.
type grown struct {
	kind      byte // 't'ext, thin'k'ing, 'c'all
	text      strings.Builder
	id, name  string
	arguments bool // any arguments delta
}

// checkDeltas puts the deltas together and compares with the content.
func checkDeltas(deltas []provider.Delta, m *session.AssistantMessage) error {
	blocks := map[int]*grown{}
	highest := -1
	for n, d := range deltas {
		index, kind, text := read(d)
		b := blocks[index]
		_, starts := d.(provider.ToolCallStart)
		switch {
		case kind == 0:
			return fmt.Errorf("delta %d has the type %T", n, d)
		case b == nil && (index < 0 || index < highest):
			return fmt.Errorf("delta %d starts block %d behind block %d", n, index, highest)
		case b == nil && kind == 'c' && !starts:
			return fmt.Errorf("delta %d has arguments of a call, block %d, that was not started", n, index)
		case b != nil && (b.kind != kind || starts):
			return fmt.Errorf("delta %d does not fit block %d", n, index)
		}
		if b == nil {
			b = &grown{kind: kind}
			blocks[index] = b
		}
		highest = max(highest, index)
		b.text.WriteString(text)
		switch d := d.(type) {
		case provider.ToolCallStart:
			b.id, b.name = d.ID, d.Name
		case provider.ToolArgumentsDelta:
			b.arguments = true
		}
	}
	return compare(blocks, m)
}

// read returns index, kind and text of a delta; kind 0 for no known delta.
func read(d provider.Delta) (index int, kind byte, text string) {
	switch d := d.(type) {
	case provider.TextDelta:
		return d.Index, 't', d.Text
	case provider.ThinkingDelta:
		return d.Index, 'k', d.Thinking
	case provider.ToolCallStart:
		return d.Index, 'c', ""
	case provider.ToolArgumentsDelta:
		return d.Index, 'c', d.Arguments
	default:
		return 0, 0, ""
	}
}

func compare(blocks map[int]*grown, m *session.AssistantMessage) error {
	partial := m.StopReason == session.StopError || m.StopReason == session.StopAborted
	for i, content := range m.Content {
		if err := compareBlock(blocks[i], content); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		delete(blocks, i)
	}
	if len(blocks) == 0 {
		return nil
	}
	first := slices.Min(keys(blocks))
	if !partial {
		return fmt.Errorf("deltas of block %d, which the message does not have", first)
	}
	b := blocks[first]
	if b.kind == 'c' {
		whole, err := pistore.CompactJSON(b.text.String())
		if err != nil || !whole.IsObject() {
			return nil // what follows a call that is not whole is left out
		}
	}
	return fmt.Errorf("block %d was received and is not in the message", first)
}

func keys(blocks map[int]*grown) []int {
	var indexes []int
	for i := range blocks {
		indexes = append(indexes, i)
	}
	return indexes
}

func compareBlock(b *grown, content session.Block) error {
	if b == nil {
		b = &grown{}
	}
	text := b.text.String()
	switch c := content.(type) {
	case session.Text:
		if b.kind != 't' && c.Text != "" || text != c.Text {
			return fmt.Errorf("text %.80q, by its deltas %.80q", c.Text, text)
		}
	case session.Thinking:
		if b.kind != 'k' && c.Thinking != "" || text != c.Thinking {
			return fmt.Errorf("thinking %.80q, by its deltas %.80q", c.Thinking, text)
		}
	case session.ToolCall:
		if !b.arguments {
			text = "{}"
		}
		arguments, err := pistore.CompactJSON(text)
		if b.kind != 'c' || err != nil || b.id != c.ID || b.name != c.Name || arguments != c.Arguments {
			return fmt.Errorf("call %s %s(%.80s), by its deltas %s %s(%.80s)", c.ID, c.Name, string(c.Arguments), b.id, b.name, text)
		}
	default:
		return fmt.Errorf("a response cannot have a block %T", content)
	}
	return nil
}
