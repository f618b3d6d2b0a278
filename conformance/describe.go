package conformance

import (
	"fmt"
	"strings"

	"pistore"
)

// describe renders a transaction in one line, short enough to be read.
func describe(tx pistore.Tx) string {
	var parts []string
	for _, e := range tx.Expect {
		parts = append(parts, fmt.Sprintf("expect %s/%s at %d", short(e.Namespace), short(e.Key), e.Seq))
	}
	for i, w := range tx.Writes {
		if i == 8 {
			parts = append(parts, fmt.Sprintf("and %d more", len(tx.Writes)-i))
			break
		}
		parts = append(parts, describeWrite(w))
	}
	return "{" + strings.Join(parts, "; ") + "}"
}

func describeWrite(w pistore.Write) string {
	switch w := w.(type) {
	case pistore.InsertEntry:
		s := fmt.Sprintf("entry %s parent %s type %s", short(w.ID), short(w.ParentID), short(w.Type))
		if w.CustomType != "" {
			s += " custom " + short(w.CustomType)
		}
		return s + " payload " + short(w.Payload)
	case pistore.InsertUsage:
		s := fmt.Sprintf("usage %s %s", short(w.ID), short(w.Usage))
		if w.EntryID != "" {
			s += " of " + short(w.EntryID)
		}
		if w.Adjustment {
			s += " adjustment"
		}
		if w.Details != "" {
			s += " details " + short(w.Details)
		}
		return s
	case pistore.SetRegister:
		return fmt.Sprintf("set %s/%s %s", short(w.Namespace), short(w.Key), short(w.Value))
	case pistore.DeleteRegister:
		return fmt.Sprintf("delete %s/%s", short(w.Namespace), short(w.Key))
	default:
		return fmt.Sprintf("%T", w)
	}
}

// describeBranch renders what a branch query sets.
func describeBranch(q pistore.BranchQuery) string {
	parts := []string{"from " + short(q.Start)}
	add := func(on bool, format string, value any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add(q.StopAtType != "", "stop at type %s", q.StopAtType)
	add(q.StopAtID != "", "stop at %s", short(q.StopAtID))
	add(q.Type != "", "type %s", q.Type)
	add(q.CustomType != "", "customType %s", short(q.CustomType))
	add(q.Order != pistore.Natural, "order %d", q.Order)
	add(q.Cursor != 0, "cursor %d", q.Cursor)
	add(q.Limit != 0, "limit %d", q.Limit)
	add(q.StructureOnly, "structure only %t", true)
	return strings.Join(parts, ", ")
}

// short quotes a text and cuts the middle out of a long one.
func short[S ~string](s S) string {
	if len(s) > 120 {
		return fmt.Sprintf("%q…(%d bytes)…%q", string(s[:50]), len(s), string(s[len(s)-20:]))
	}
	return fmt.Sprintf("%q", string(s))
}
