package registers

import (
	"iter"

	"pistore"
)

// Elements yields the elements of a list in order, and nothing for any other
// value.
func Elements(list pistore.JSON) iter.Seq[pistore.JSON] {
	return func(yield func(pistore.JSON) bool) {
		if list == "" || list[0] != '[' {
			return
		}
		depth, start := 0, 1
		for i := 1; i < len(list); i++ {
			switch c := list[i]; {
			case c == '"':
				for i++; i < len(list) && list[i] != '"'; i++ {
					if list[i] == '\\' {
						i++
					}
				}
			case c == '[' || c == '{':
				depth++
			case depth > 0 && (c == ']' || c == '}'):
				depth--
			case c == ']' || c == '}':
				if i > start {
					yield(list[start:i])
				}
				return
			case c == ',' && depth == 0:
				if !yield(list[start:i]) {
					return
				}
				start = i + 1
			}
		}
	}
}
