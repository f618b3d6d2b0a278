package harness_test

import (
	"strings"

	"pistore"
	"pistore/provider/faux"
	"pistore/session"
)

// turn parses a turn: its attempts with | between them, each of them
//
//	[stop=REASON] [overflow] text WORDS
//	[stop=REASON] [overflow] call NAME ARGUMENTS [+ call NAME ARGUMENTS]…
//	[retryable] [overflow] fail WORDS
//	pending
//	defer ANSWER [; ANSWER]…, the answers to its polls
func (s *scripted) turn(line string) faux.Turn {
	var turn faux.Turn
	for attempt := range strings.SplitSeq(line, " | ") {
		turn = append(turn, s.answer(attempt))
	}
	return turn
}

func (s *scripted) answer(text string) (step faux.Step) {
	for {
		word, rest, _ := strings.Cut(text, " ")
		switch {
		case strings.HasPrefix(word, "stop="):
			step.StopReason = session.StopReason(strings.TrimPrefix(word, "stop="))
		case word == "overflow":
			step.Overflow = true
		case word == "retryable":
			step.Retryable = true
		case word == "fail":
			step.Error = rest
			return step
		case word == "text":
			step.Content = append(step.Content, session.Text{Text: expanded(rest)})
			return step
		case word == "pending":
			return faux.Pending()
		case word == "defer":
			var polls []faux.Step
			for poll := range strings.SplitSeq(rest, " ; ") {
				polls = append(polls, s.answer(poll))
			}
			return faux.Defer(polls...)
		case word == "call":
			for call := range strings.SplitSeq(text, " + ") {
				name, arguments, _ := strings.Cut(strings.TrimPrefix(call, "call "), " ")
				step.Content = append(step.Content, session.ToolCall{Name: name, Arguments: pistore.JSON(arguments)})
			}
			return step
		default:
			s.d.Fatalf(s.t, "what is %q?", text)
		}
		text = rest
	}
}
