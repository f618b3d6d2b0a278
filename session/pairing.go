package session

import "slices"

// missingResult is what a model is told where a call has no result.
const missingResult = "No result was recorded for this call. It may or may not have run. Check before you repeat it."

// Pair lets each call be followed at once by its one result, in call order,
// wherever the results stood. A result belongs to the nearest response before
// it that makes a call of its id, or, if there is none, to the first after it;
// the first result of a call counts, so that a later one changes nothing that
// was sent before. A call without a result gets a synthetic error result; a
// result without a call is dropped.
func Pair(messages []ProjectedMessage) []ProjectedMessage {
	results := assign(messages)
	out := make([]ProjectedMessage, 0, len(messages))
	for i, m := range messages {
		switch msg := m.Message.(type) {
		case *ToolResultMessage:
		case *AssistantMessage:
			out = append(out, m)
			for k, call := range msg.ToolCalls() {
				if at, ok := results[callAt{i, k}]; ok {
					out = append(out, messages[at])
				} else {
					out = append(out, synthetic(m, msg, call))
				}
			}
		default:
			out = append(out, m)
		}
	}
	return out
}

// callAt is a call by the index of its message and its own.
type callAt struct{ message, call int }

// assign returns the index of the result of each call that has one.
func assign(messages []ProjectedMessage) map[callAt]int {
	callers := map[string][]int{} // by call id: the messages that make such calls
	calls := map[int][]ToolCall{} // by message
	for i, m := range messages {
		msg, ok := m.Message.(*AssistantMessage)
		if !ok {
			continue
		}
		calls[i] = msg.ToolCalls()
		for _, c := range calls[i] {
			if at := callers[c.ID]; len(at) == 0 || at[len(at)-1] != i {
				callers[c.ID] = append(at, i)
			}
		}
	}
	results := map[callAt]int{}
	for r, m := range messages {
		msg, ok := m.Message.(*ToolResultMessage)
		if !ok {
			continue
		}
		caller := callerOf(callers[msg.ToolCallID], r)
		for k, c := range calls[caller] { // two calls of one response may share an id
			at := callAt{caller, k}
			if _, taken := results[at]; c.ID == msg.ToolCallID && !taken {
				results[at] = r
				break
			}
		}
	}
	return results
}

// callerOf picks the last of the callers, which rise, before a result, else the
// first, and -1 if there is none.
func callerOf(callers []int, result int) int {
	if len(callers) == 0 {
		return -1
	}
	n, _ := slices.BinarySearch(callers, result)
	return callers[max(n-1, 0)]
}

func synthetic(response ProjectedMessage, msg *AssistantMessage, call ToolCall) ProjectedMessage {
	m := &ToolResultMessage{
		ToolCallID: call.ID, ToolName: call.Name, Content: TextContent(missingResult), IsError: true, Timestamp: msg.Timestamp,
	}
	return ProjectedMessage{
		Role: m.Role(), Source: response.Source, LegacySource: response.LegacySource, Raw: EncodeMessage(m), Message: m, Synthetic: true,
	}
}
