package session

import "pistore"

// MergeSystem returns what system messages, oldest first, come to together:
// each is a patch of those before it. A content that is not empty replaces the
// one before; a section replaces the one of its name, and null removes it; tools
// are added and removed by name. It keeps nothing of the messages it is given
// but their text, and needs at least one.
func MergeSystem(messages ...*SystemMessage) *SystemMessage {
	out := &SystemMessage{}
	var sections, tools named
	for _, m := range messages {
		if JoinText(m.Content) != "" {
			out.Content = m.Content
		}
		for name, text := range m.Sections.Members() {
			sections.set(name, text, text != "null")
		}
		for tool := range m.ToolsAdded.Elements() {
			tools.set(toolName(tool), tool, true)
		}
		for tool := range m.ToolsRemoved.Elements() {
			tools.set(toolName(tool), "", false)
		}
		out.Timestamp = m.Timestamp
	}
	if len(sections) > 0 {
		out.Sections = object(func(w *writer) {
			for _, s := range sections {
				w.put(s.name, s.value)
			}
		})
	}
	if len(tools) > 0 {
		out.ToolsAdded = encoded(func(w *writer) {
			w.items(len(tools), func(i int) { w.out = append(w.out, tools[i].value...) })
		})
	}
	return out
}

// named are values by name, in the order in which they came.
type named []namedValue

type namedValue struct {
	name  string
	value pistore.JSON
}

// set replaces the value of a name in its place, adds it, or takes it out.
func (n *named) set(name string, value pistore.JSON, keep bool) {
	for i := range *n {
		if (*n)[i].name != name {
			continue
		}
		if keep {
			(*n)[i].value = value
		} else {
			*n = append((*n)[:i], (*n)[i+1:]...)
		}
		return
	}
	if keep {
		*n = append(*n, namedValue{name, value})
	}
}

// toolName is the name of a tool in a system message, which gives an object
// with a name, or the name alone.
func toolName(tool pistore.JSON) string {
	if name, ok := tool.Text(); ok {
		return name
	}
	member, _ := tool.Member("name")
	if name, ok := member.Text(); ok {
		return name
	}
	return string(tool)
}
