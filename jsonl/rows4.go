package jsonl

import (
	"strings"

	"pistore"
)

// seqOf reads the seq of a write.
func (w *write4) seqOf() (pistore.Seq, error) {
	seq, ok := wholeNumber(w.seq)
	if !ok || seq == 0 {
		return 0, misshapen("seq is %s instead of a number from 1 to 2^53-1", shownValue(w.seq))
	}
	return pistore.Seq(seq), nil
}

// entry reads an entry without its payload. If its parent is the newest entry, as
// it mostly is, it shares that one's id; empty: there is none.
func (w *write4) entry(newest pistore.ID) (e pistore.InsertEntry, at pistore.UnixMS, err error) {
	ms, ok := wholeNumber(w.timestamp)
	if !ok {
		return e, 0, misshapen("timestamp is %s instead of Unix milliseconds", shownValue(w.timestamp))
	}
	id, err := plainText("id", w.id)
	if err == nil {
		e.ID = pistore.ID(id)
		err = e.ID.Check()
	}
	switch {
	case err != nil || string(w.parentID) == "null":
	case newest != "" && len(w.parentID) == len(newest)+2 && string(w.parentID[1:len(w.parentID)-1]) == string(newest):
		e.ParentID = newest
	default:
		if id, err = plainText("parentId", w.parentID); err == nil {
			e.ParentID = pistore.ID(id)
			err = e.ParentID.Check()
		}
	}
	if err != nil {
		return e, 0, err
	}
	switch string(w.typ) {
	case `"message"`:
		e.Type = pistore.TypeMessage
	case `"compaction"`:
		e.Type = pistore.TypeCompaction
	case `"branch_summary"`:
		e.Type = pistore.TypeBranchSummary
	case `"custom"`:
		e.Type = pistore.TypeCustom
	default:
		return e, 0, misshapen("the type %s of an entry is not known", shownValue(w.typ))
	}
	if len(w.customType) > 0 {
		if e.CustomType, err = plainText("customType", w.customType); err != nil {
			return e, 0, err
		}
	}
	_, err = pistore.CheckEntry(e.Type, e.CustomType, "{}")
	return e, pistore.UnixMS(ms), err
}

// usageRow reads a row of the ledger.
func (w *write4) usageRow() (u pistore.InsertUsage, err error) {
	id, err := plainText("id", w.id)
	if err != nil {
		return u, err
	}
	u.ID = pistore.ID(id)
	if err := u.ID.Check(); err != nil {
		return u, err
	}
	if len(w.entryID) > 0 && string(w.entryID) != "null" {
		if id, err = plainText("entryId", w.entryID); err != nil {
			return u, err
		}
		u.EntryID = pistore.ID(id)
		if err := u.EntryID.Check(); err != nil {
			return u, err
		}
	}
	switch string(w.adjustment) {
	case "true":
		u.Adjustment = true
	case "", "false":
	default:
		return u, misshapen("adjustment is %s instead of true or false", shownValue(w.adjustment))
	}
	if len(w.usage) == 0 || w.usage[0] != '{' {
		return u, misshapen("usage is %s instead of an object", shownValue(w.usage))
	}
	u.Usage, u.Details = pistore.JSON(w.usage), pistore.JSON(w.details)
	return u, nil
}

// address reads where a register stands.
func (w *write4) address() (at pistore.Address, err error) {
	if at.Namespace, err = plainText("namespace", w.namespace); err != nil {
		return at, err
	}
	if at.Key, err = plainText("key", w.key); err != nil {
		return at, err
	}
	return at, pistore.CheckAddress(at.Namespace, at.Key)
}

// register reads a write of a register.
func (w *write4) register() (pistore.Write, error) {
	at, err := w.address()
	if err != nil {
		return nil, err
	}
	switch string(w.op) {
	case `"set"`:
		if len(w.value) == 0 {
			return nil, misshapen("a register is set to nothing")
		}
		return pistore.SetRegister{Namespace: at.Namespace, Key: at.Key, Value: pistore.JSON(w.value)}, nil
	case `"delete"`:
		return pistore.DeleteRegister(at), nil
	default:
		return nil, misshapen("the operation %s on a register is not known", shownValue(w.op))
	}
}

// extras returns the members of a ledger row or a register that its kind does
// not know, as they stand and with a comma in front of each; empty: there are
// none. Rows have no place for them: only the file keeps them.
func (w *write4) extras(usage bool) string {
	strange := len(w.timestamp) + len(w.parentID) + len(w.typ) + len(w.customType)
	if usage {
		strange += len(w.op) + len(w.namespace) + len(w.key) + len(w.value)
	} else {
		strange += len(w.id) + len(w.entryID) + len(w.adjustment) + len(w.usage) + len(w.details)
	}
	if w.from < 0 && strange == 0 {
		return ""
	}
	var b strings.Builder
	for m := range members(pistore.JSON(w.text[w.start : w.start+w.length])) {
		switch m.text() {
		case "kind", "seq":
			continue
		case "id", "entryId", "adjustment", "usage", "details":
			if usage {
				continue
			}
		case "op", "namespace", "key", "value":
			if !usage {
				continue
			}
		}
		b.WriteString("," + m.name + ":" + m.value)
	}
	return b.String()
}

// shownValue names a value in a message.
func shownValue(text []byte) string {
	s, isText := pistore.JSON(text).Text()
	switch {
	case len(text) == 0:
		return "absent"
	case len(text) > 20:
		return kindOf(string(text))
	case isText:
		return show(s)
	case isNumber(string(text)):
		return string(text)
	default:
		return kindOf(string(text))
	}
}
