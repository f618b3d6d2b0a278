package harness_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pistore"
	"pistore/registers"
)

// notation renders transactions as the design writes them:
//
//	1  TX[ entry E1 user "go", leaf=E1, op.meta O1(…), S(checkpoint need_assistant …), L(O1) ]
//
// S is op.state and L is lane.state. Ids have names in the order in which they
// appear, by what they are for: entry, usage row, operation, step, summary. An
// op.state shows its phase, and beside it the members that differ from the
// state before, in the first one from the usual start. What a step captured is
// shown once, and of that what is not as it was shown last, or as it is by
// default. So what two states differ in is always seen. Behind a transaction
// stands what it is conditional on.
type notation struct {
	names  map[pistore.ID]string
	counts map[string]int
	states map[string]map[string]string // by operation: its members
	steps  map[string]string            // what each step captured
	last   map[string]string            // what was captured last, by member
	leaves map[string]pistore.ID
	count  int
}

func newNotation() *notation {
	return &notation{
		names: map[pistore.ID]string{}, counts: map[string]int{}, states: map[string]map[string]string{},
		steps: map[string]string{}, leaves: map[string]pistore.ID{},
		last: map[string]string{
			"retryPolicy": `{"maxAttempts":4,"baseDelayMs":2000}`, "streamOptions": "{}",
			"intendedOutputLimit": "16384", "contextWindow": "200000",
		},
	}
}

// usualStart are the members of an operation that nobody has touched.
func usualStart() map[string]string {
	return map[string]string{
		"resumes": "0", "control": `{"status":"running"}`, "latestAssistantEntryId": "null",
		"inbox": `{"steer":[],"followUp":[],"writes":[]}`,
		"settings": `{"compaction":{"enabled":true,"reserveTokens":16384,"keepRecentTokens":20000},` +
			`"steeringMode":"one_at_a_time","followUpMode":"one_at_a_time","toolExecution":"parallel"}`,
	}
}

// name names an id; kind is the letter that a new one gets.
func (n *notation) name(kind string, id pistore.ID) string {
	if _, ok := id.Time(); !ok {
		return string(id)
	}
	if n.names[id] == "" {
		n.counts[kind]++
		n.names[id] = kind + strconv.Itoa(n.counts[kind])
	}
	return n.names[id]
}

// id is the id of a name, for scripts that speak of one.
func (n *notation) id(name string) pistore.ID {
	for id, known := range n.names {
		if known == name {
			return id
		}
	}
	return pistore.ID(name)
}

// tx renders a transaction: on a line if that is short, else a write a line.
func (n *notation) tx(tx pistore.Tx) string {
	n.count++
	var writes, conditions []string
	for _, w := range tx.Writes {
		writes = append(writes, n.write(w))
	}
	for _, e := range tx.Expect {
		switch e.Namespace {
		case registers.OpStateNS:
			conditions = append(conditions, "S")
		case registers.LaneStateNS:
			conditions = append(conditions, "L")
		default:
			conditions = append(conditions, strings.TrimPrefix(e.Namespace, "lane."))
		}
	}
	head, tail := fmt.Sprintf("%-3dTX[ ", n.count), " ]"
	if len(conditions) > 0 {
		tail += " if " + strings.Join(conditions, ", ")
	}
	if line := head + strings.Join(writes, ", ") + tail; len([]rune(line)) <= 110 {
		return line
	}
	return head + strings.Join(writes, ",\n"+strings.Repeat(" ", 7)) + tail
}

func (n *notation) write(w pistore.Write) string {
	switch w := w.(type) {
	case pistore.InsertEntry:
		return n.entry(w)
	case pistore.InsertUsage:
		return n.usage(w)
	case pistore.SetRegister:
		return n.set(w)
	case pistore.DeleteRegister:
		return "delete " + w.Namespace + " " + n.key(w.Namespace, w.Key)
	default:
		panic(fmt.Sprintf("write %T", w))
	}
}

func (n *notation) entry(w pistore.InsertEntry) string {
	text := "entry " + n.name("E", w.ID)
	if !n.follows(w.ParentID) {
		text += " under " + n.name("E", w.ParentID)
	}
	n.leaves["written"] = w.ID
	return text + " " + n.content(w.Type, w.CustomType, w.Payload)
}

// follows reports whether a parent is where one expects it: the entry that was
// written last, or a leaf.
func (n *notation) follows(parent pistore.ID) bool {
	for _, leaf := range n.leaves {
		if leaf == parent {
			return true
		}
	}
	return parent == ""
}

// content renders what an entry holds or will hold.
func (n *notation) content(kind pistore.EntryType, custom string, payload pistore.JSON) string {
	if kind != pistore.TypeMessage {
		text := string(kind)
		if custom != "" {
			text += "(" + custom + ")"
		}
		if data := parseValue(payload).member("data"); kind == pistore.TypeCustom {
			return text + " " + data.compact()
		}
		return text + n.value("", parseValue(payload))
	}
	p := parseValue(payload)
	return message(p.member("message"), p.member("terminate").raw == "true")
}

// message renders a message: who speaks, and the beginning of each block.
func message(m *value, terminate bool) string {
	role := m.member("role").text()
	switch role {
	case "assistant":
		role += "(" + m.member("stopReason").text() + ")"
	case "toolResult":
		role += "(" + m.member("toolName").text()
		if m.member("isError").raw == "true" {
			role += " error"
		}
		if terminate {
			role += " terminate"
		}
		role += ")"
	case "custom":
		role += "(" + m.member("customType").text() + ")"
	}
	parts := []string{role}
	for _, block := range m.member("content").items {
		switch block.member("type").text() {
		case "toolCall":
			parts = append(parts, "call "+block.member("name").text()+" "+block.member("arguments").compact())
		case "text":
			parts = append(parts, quoted(block.member("text").text()))
		default:
			parts = append(parts, block.member("type").text())
		}
	}
	if text := m.member("content").text(); text != "" {
		parts = append(parts, quoted(text))
	}
	if text := m.member("errorMessage").text(); text != "" {
		parts = append(parts, "because "+quoted(text))
	}
	return strings.Join(parts, " ")
}

// quoted shows the beginning of a text.
func quoted(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strconv.Quote(text)
}

func (n *notation) usage(w pistore.InsertUsage) string {
	text := "usage " + n.name("U", w.ID)
	if w.EntryID != "" {
		text += " of " + n.name("E", w.EntryID)
	}
	if w.Adjustment {
		text += " adjustment"
	}
	details, usage := parseValue(w.Details), parseValue(w.Usage)
	text += " (" + details.member("purpose").text()
	for _, name := range []string{"input", "output"} {
		if v := usage.member(name).raw; v != "" && v != "0" {
			text += " " + name + "=" + v
		}
	}
	return text + ")"
}

// key renders the key of a register.
func (n *notation) key(namespace, key string) string {
	kinds := map[string][]string{
		registers.OpMetaNS: {"O"}, registers.OpStateNS: {"O"}, registers.OpToolArgsNS: {"O", "S", ""},
		registers.OpToolOutputNS: {"O", "S", ""}, registers.OpPreparationNS: {"O", "T"},
		registers.PendingEntryNS: {"E"}, registers.FactLabelNS: {"E"},
	}[namespace]
	parts := strings.Split(key, ":")
	if len(parts) != len(kinds) {
		return key
	}
	for i, kind := range kinds {
		parts[i] = n.name(kind, pistore.ID(parts[i]))
	}
	return strings.Join(parts, ":")
}

func (n *notation) set(w pistore.SetRegister) string {
	v := parseValue(w.Value)
	lane := "" // named unless it is main
	if w.Key != registers.MainLane {
		lane = w.Key + ": "
	}
	switch w.Namespace {
	case registers.LaneLeafNS:
		n.leaves[w.Key] = pistore.ID(v.text())
		if lane != "" {
			return "leaf(" + lane + n.value("", v) + ")"
		}
		return "leaf=" + n.value("", v)
	case registers.LaneStateNS:
		text := lane + n.value("currentOperationId", v.member("currentOperationId"))
		if next := v.member("pendingNextRun"); len(next.items) > 0 {
			text += ", nextRun=" + n.value("pendingNextRun", next)
		}
		return "L(" + text + ")"
	case registers.LaneConfigNS:
		n.last["configuration"] = v.compact()
		return "lane.config(" + lane + configuration(v) + ")"
	case registers.OpStateNS:
		return n.state(w.Key, v)
	case registers.PendingEntryNS:
		content, err := registers.DecodePendingEntry(w.Value)
		if err != nil {
			panic(err)
		}
		return "pending.entry " + n.name("E", pistore.ID(w.Key)) + " " + n.content(content.Type, content.CustomType, content.Payload)
	case registers.LaneLastResultNS:
		return "lane.lastResult(" + lane + n.members(v, nil) + ")"
	case registers.OpToolArgsNS:
		return w.Namespace + " " + n.key(w.Namespace, w.Key) + " " + v.compact()
	default:
		return w.Namespace + " " + n.key(w.Namespace, w.Key) + " " + n.value("", v)
	}
}

// state renders an op.state.
func (n *notation) state(op string, v *value) string {
	last, seen := n.states[op]
	if !seen {
		last = usualStart()
	}
	now := map[string]string{}
	var parts []string
	if v.member("kind").text() != "run" {
		parts = append(parts, v.member("kind").text())
	}
	phase := ""
	for _, m := range v.members {
		if m.name == "kind" {
			continue
		}
		now[m.name] = m.value.compact()
		changed := last[m.name] != now[m.name]
		switch {
		case m.name == "phase" && changed:
			phase = n.members(m.value, n.capture)
		case m.name == "phase":
			phase = strings.TrimSpace(m.value.member("kind").text()+" "+m.value.member("status").text()) + " as before"
		case changed:
			parts = append(parts, label(m.name, m.value)+n.valueWith(m.name, m.value, n.capture))
		}
	}
	for name := range last {
		if _, still := now[name]; !still && seen {
			parts = append(parts, "no "+name)
		}
	}
	n.states[op] = now
	if phase != "" {
		parts = slices.Insert(parts, 0, phase)
	}
	of := "S"
	if name := n.name("O", pistore.ID(op)); name != "O1" {
		of += " " + name
	}
	return of + "(" + strings.Join(parts, ", ") + ")"
}

// capture shortens what a phase repeats of what a step captured.
func (n *notation) capture(name string, v *value) (string, bool) {
	text := v.compact()
	switch name {
	case "context":
		step := n.name("S", pistore.ID(v.member("stepId").text()))
		if n.steps[step] == text {
			return "CTX " + step, true
		}
		n.steps[step] = text
		return "CTX(" + n.members(v, n.capture) + ")", true
	case "configuration", "retryPolicy", "streamOptions", "intendedOutputLimit", "contextWindow":
		if n.last[name] == text {
			return "", true
		}
		n.last[name] = text
		if name == "configuration" {
			return configuration(v), true
		}
		return label(name, v) + n.value(name, v), true
	default:
		return "", false
	}
}

// configuration renders a lane configuration.
func configuration(v *value) string {
	var tools []string
	for _, t := range v.member("activeToolNames").items {
		tools = append(tools, t.text())
	}
	m := v.member("model")
	return fmt.Sprintf("%s/%s %s [%s]", m.member("provider").text(), m.member("modelId").text(), v.member("thinkingLevel").text(), strings.Join(tools, " "))
}

// members renders the members of an object. What kind it is and where it stands
// are words; of the others those that are false, null or empty are left out.
// special, if not nil, may take a member.
func (n *notation) members(v *value, special func(name string, v *value) (string, bool)) string {
	var words, parts []string
	for _, m := range v.members {
		if special != nil {
			if text, taken := special(m.name, m.value); taken {
				if text != "" {
					parts = append(parts, text)
				}
				continue
			}
		}
		switch {
		case m.name == "kind" || m.name == "status" || m.name == "outcome":
			words = append(words, m.value.text())
		case m.name == "sourceIndex":
			words = append(words, m.value.raw)
		case m.name == "continuation":
			words = append(words, n.members(m.value, special))
		case m.value.raw == "true":
			parts = append(parts, m.name)
		case m.value.empty():
		default:
			parts = append(parts, label(m.name, m.value)+n.valueWith(m.name, m.value, special))
		}
	}
	if len(words) > 0 {
		parts = slices.Insert(parts, 0, strings.Join(words, " "))
	}
	return strings.Join(parts, ", ")
}

// label is what stands before the value of a member.
func label(name string, v *value) string {
	short := map[string]string{
		"responseEntryId": "R=", "usageId": "U=", "triggerEntryId": "trigger=", "resultEntryId": "result=",
		"assistantEntryId": "response=", "latestAssistantEntryId": "latest=", "stepId": "step=", "summaryId": "",
		"operationId": "", "replay": "replay=",
	}
	if text, ok := short[name]; ok {
		return text
	}
	if v.shape == '{' || name == "calls" {
		return name
	}
	return name + "="
}

func (n *notation) value(name string, v *value) string { return n.valueWith(name, v, nil) }

func (n *notation) valueWith(name string, v *value, special func(string, *value) (string, bool)) string {
	switch v.shape {
	case '{':
		if v.member("role").text() != "" {
			return "(" + message(v, false) + ")"
		}
		return "(" + n.members(v, special) + ")"
	case '[':
		var items []string
		for _, item := range v.items {
			if name == "calls" {
				items = append(items, n.members(item, special))
				continue
			}
			items = append(items, n.valueWith(name, item, special))
		}
		separator := " "
		if name == "calls" {
			separator = "; "
		}
		return "[" + strings.Join(items, separator) + "]"
	case '"':
		if _, ok := pistore.ID(v.raw).Time(); ok {
			return n.name(idKind(name), pistore.ID(v.raw))
		}
		if strings.ContainsAny(v.raw, " ,()[]\n") {
			return quoted(v.raw)
		}
		return v.raw
	default:
		return instant(v.raw)
	}
}

// instant shows what is a time on the clock of the tests from its start.
func instant(number string) string {
	start := int64(newClock().now)
	if ms, err := strconv.ParseInt(number, 10, 64); err == nil && ms >= start && ms < start+1e9 {
		return fmt.Sprintf("t+%d", ms-start)
	}
	return number
}

// idKind is the letter for the ids of a member.
func idKind(member string) string {
	switch member {
	case "stepId":
		return "S"
	case "operationId", "currentOperationId":
		return "O"
	case "usageId", "usageIds":
		return "U"
	case "summaryId":
		return "T"
	default:
		return "E"
	}
}
