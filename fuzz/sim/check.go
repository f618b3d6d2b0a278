package sim

import (
	"fmt"
	"strings"

	"pistore"
	"pistore/session"
	"pistore/verify"
)

// look checks a store that was just opened, or is about to be closed for good:
// everything that was committed is there, and every invariant holds that a store
// can show. False: something was found.
func (s *simulation) look(storage pistore.Storage) bool {
	var rows []pistore.Row
	for row, err := range storage.Export(s.ctx) {
		if err != nil {
			s.find("open", "the store cannot be read: %v", err)
			return false
		}
		rows = append(rows, row)
	}
	s.oracle.settleDoubt(func(tx pistore.Tx) bool { return holds(rows, tx) })
	if u := s.unsure; u != nil {
		s.unsure = nil
		if s.oracle.size() > u.commits {
			s.next[u.act.lane]++
			if u.inRequest {
				s.world.doubt(u.act.lane, "what was asked for within a request was in doubt, and what would have followed is asked for elsewhere")
			}
		}
	}
	s.oracle.compare(rows)
	report, err := verify.Check(s.ctx, storage, verify.Options{})
	if err != nil {
		s.find("verify", "%v", err)
	}
	for _, f := range report.Faults {
		s.find(fmt.Sprintf("invariant %d", f.Invariant), "verify: %s: %s", f.Place, f.Message)
	}
	return !s.found()
}

// holds reports whether a store holds a transaction, by the first write of it
// that shows.
func holds(rows []pistore.Row, tx pistore.Tx) bool {
	for _, w := range tx.Writes {
		for _, row := range rows {
			switch w := w.(type) {
			case pistore.SetRegister:
				if r, ok := row.(pistore.Register); ok && r.Namespace == w.Namespace && r.Key == w.Key {
					return r.Value == w.Value
				}
			case pistore.InsertEntry:
				if e, ok := row.(pistore.Entry); ok && e.ID == w.ID {
					return true
				}
			case pistore.InsertUsage:
				if u, ok := row.(pistore.UsageRow); ok && u.ID == w.ID {
					return true
				}
			}
		}
	}
	return false
}

// end checks what a simulation came to, and lets go of everything.
func (s *simulation) end() error {
	if s.life != nil && !s.found() {
		s.endWatching()
		s.look(s.life.guard.Storage)
		s.judgeOperations()
		for _, name := range s.lanesHere() {
			if at, _ := s.life.standing(name); at != idle {
				s.find("liveness", "lane %s has nothing left to do and is not idle", name)
				break
			}
			if err := s.life.lanes[name].WaitIdle(s.ctx); err != nil {
				s.find("liveness", "lane %s is idle, and WaitIdle says %v", name, err)
			}
			s.judgeConversation(name)
		}
		digest, err := pistore.Digest(s.ctx, s.life.guard.Storage)
		if err != nil {
			s.find("open", "%v", err)
		}
		s.digest = digest
	}
	if s.life != nil {
		s.life.end()
	}
	if err := s.place.close(); err != nil && !s.found() {
		return err
	}
	return s.ctx.Err()
}

// judgeOperations: everything that was accepted has ended, and took no more
// commits than its effects need: one in front of each and one behind the last,
// and for each resume one, and one for an effect that was lost before it. One that is aborted also settles
// effects that were never made.
func (s *simulation) judgeOperations() {
	for id, op := range s.oracle.ops {
		if op.result == nil {
			s.find("liveness", "operation %s never ends", id)
		}
		if most := op.effects + 1 + 2*op.resumes; op.commits > most && !op.aborted {
			s.find("commits", "operation %s took %d commits for %d effects and %d resumes", id, op.commits, op.effects, op.resumes)
		}
	}
}

// judgeConversation checks a whole conversation: every call of a response has one
// result, and every response and result is billed as it should be.
func (s *simulation) judgeConversation(lane string) {
	leaf := s.oracle.leaf(lane)
	results := map[string]int{}
	response := pistore.ID("")
	wandered := s.world.wandered[lane]
	for _, n := range s.oracle.path(leaf) {
		if n.lane != lane {
			continue // a lane may begin in the middle of another one's turn
		}
		switch m := n.message.(type) {
		case *session.AssistantMessage:
			response = n.ID
			for _, call := range m.ToolCalls() {
				if m.StopReason != session.StopError && m.StopReason != session.StopAborted {
					results[string(n.ID)+" "+call.ID] = 0
				}
			}
		case *session.ToolResultMessage:
			key := string(response) + " " + m.ToolCallID
			if _, ok := results[key]; !ok && !wandered {
				s.find("results", "lane %s: result %s answers no call of %s", lane, n.ID, response)
			}
			results[key]++
		}
	}
	for key, n := range results {
		if n > 1 || n == 0 && !wandered {
			s.find("results", "lane %s: the call %s has %d results", lane, key, n)
		}
	}
	s.transcript(lane, leaf)
}

// transcript is what a model would see next.
func (s *simulation) transcript(lane string, leaf pistore.ID) {
	if leaf == "" {
		return
	}
	projected, err := session.ProjectBranch(s.ctx, s.life.guard.Storage, leaf, nil)
	if err != nil {
		s.find("transcript", "lane %s: %v", lane, err)
		return
	}
	for _, p := range projected {
		s.transcripts[lane] = append(s.transcripts[lane], plain(p.Message))
	}
}

// plain is a message without its instants and ids.
func plain(m session.Message) string {
	switch m := m.(type) {
	case *session.AssistantMessage:
		var b strings.Builder
		fmt.Fprintf(&b, "assistant: %s", session.JoinText(m.Content))
		for _, c := range m.ToolCalls() {
			fmt.Fprintf(&b, " [%s %s]", c.Name, c.Arguments)
		}
		return b.String()
	case *session.ToolResultMessage:
		return fmt.Sprintf("%s: %s", m.ToolName, session.JoinText(m.Content))
	case *session.UserMessage:
		return "user: " + session.JoinText(m.Content)
	default:
		return fmt.Sprintf("%T", m)
	}
}
