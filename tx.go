package pistore

import "fmt"

// Tx is a transaction: writes that become durable all together or not at all,
// on the conditions in Expect. The caller keeps ownership of the slices and may
// reuse them as soon as Commit returns.
type Tx struct {
	Writes []Write
	Expect []Precondition
}

// Write is one write of a transaction: InsertEntry, InsertUsage, SetRegister
// or DeleteRegister.
type Write interface{ isWrite() }

// InsertEntry creates an entry. Its parent is an entry that is committed or
// inserted earlier in the same transaction.
type InsertEntry struct {
	ID         ID
	ParentID   ID // empty: a root
	Type       EntryType
	CustomType string
	Payload    JSON // a JSON object; empty is {} and legal on custom entries only
}

// InsertUsage appends a row to the usage ledger.
type InsertUsage struct {
	ID         ID
	Usage      JSON // a JSON object
	EntryID    ID
	Adjustment bool
	Details    JSON // optional
}

// SetRegister sets a register, replacing what it held.
type SetRegister struct {
	Namespace, Key string
	Value          JSON
}

// DeleteRegister removes a register; deleting an absent one is legal and takes
// a seq like any write.
type DeleteRegister struct{ Namespace, Key string }

func (InsertEntry) isWrite()    {}
func (InsertUsage) isWrite()    {}
func (SetRegister) isWrite()    {}
func (DeleteRegister) isWrite() {}

// Precondition demands that a register was last set by the write with seq Seq,
// or is absent if Seq is 0. It is tested against the committed state before any
// write of its transaction.
type Precondition struct {
	Namespace, Key string
	Seq            Seq
}

// Receipt is the result of a commit.
type Receipt struct {
	FirstSeq  Seq    // 0 for a transaction without writes
	Seqs      []Seq  // of each write, in the order given; the caller's to keep
	Timestamp UnixMS // one per commit
	Stats     Stats  // after the commit
}

// structuralMembers are the names that a payload may not use at its top level,
// because formats keep an entry's structural fields beside them.
var structuralMembers = map[string]bool{
	"kind": true, "id": true, "parentId": true, "seq": true,
	"timestamp": true, "type": true, "customType": true, "sum": true,
}

// Admit returns tx as it would be stored: insignificant white space removed,
// an absent custom payload written out, everything checked that can be checked
// without looking at stored state. Every backend calls it first, so that all
// refuse the same. Errors match ErrInvalid or ErrTooLarge and name the write.
// The slices of tx are neither kept nor changed.
func (tx Tx) Admit() (Tx, error) {
	out := Tx{Writes: make([]Write, len(tx.Writes)), Expect: append([]Precondition(nil), tx.Expect...)}
	size := 0
	for i, w := range tx.Writes {
		admitted, n, err := admitWrite(w)
		if err != nil {
			return Tx{}, fmt.Errorf("write %d: %w", i, err)
		}
		if size += n; size > MaxTxBytes {
			return Tx{}, fmt.Errorf("write %d: %w", i, &LimitError{Limit: "transaction bytes", Got: int64(size), Max: MaxTxBytes})
		}
		out.Writes[i] = admitted
	}
	for i, p := range tx.Expect {
		err := CheckAddress(p.Namespace, p.Key)
		if err == nil && (p.Seq < 0 || p.Seq > MaxSeq) {
			err = fmt.Errorf("%w: seq %d", ErrInvalid, p.Seq)
		}
		if err != nil {
			return Tx{}, fmt.Errorf("precondition %d: %w", i, err)
		}
	}
	return out, nil
}

// admitWrite checks one write and returns its stored form, which is mostly what
// was given, and its size in bytes.
func admitWrite(w Write) (Write, int, error) {
	switch given := w.(type) {
	case InsertEntry:
		e, err := admitEntry(given)
		if e != given {
			w = e
		}
		return w, len(e.ID) + len(e.ParentID) + len(e.CustomType) + len(e.Payload), err
	case InsertUsage:
		u, err := admitUsage(given)
		if u != given {
			w = u
		}
		return w, len(u.ID) + len(u.EntryID) + len(u.Usage) + len(u.Details), err
	case SetRegister:
		r, err := given, CheckAddress(given.Namespace, given.Key)
		if err == nil {
			r.Value, err = admitJSON("register value", given.Value)
		}
		if r != given {
			w = r
		}
		return w, len(r.Namespace) + len(r.Key) + len(r.Value), err
	case DeleteRegister:
		return w, len(given.Namespace) + len(given.Key), CheckAddress(given.Namespace, given.Key)
	default:
		return nil, 0, fmt.Errorf("%w: unknown kind of write %T", ErrInvalid, w)
	}
}

func admitEntry(e InsertEntry) (InsertEntry, error) {
	if err := e.ID.Check(); err != nil {
		return e, err
	}
	if e.ParentID != "" {
		if err := checkID("parent id", string(e.ParentID)); err != nil {
			return e, fmt.Errorf("entry %s: %w", e.ID, err)
		}
	}
	var err error
	if e.Payload, err = CheckEntry(e.Type, e.CustomType, e.Payload); err != nil {
		return e, fmt.Errorf("entry %s: %w", e.ID, err)
	}
	return e, nil
}

// CheckEntry checks the type, customType and payload of an entry together and
// returns the payload as it is stored. Errors match ErrInvalid or ErrTooLarge.
func CheckEntry(t EntryType, customType string, payload JSON) (JSON, error) {
	switch t {
	case TypeCustom:
		if err := checkText("customType", customType, 1, MaxCustomTypeBytes, false); err != nil {
			return "", err
		}
		if payload == "" {
			payload = "{}"
		}
	case TypeMessage, TypeCompaction, TypeBranchSummary:
		if customType != "" {
			return "", fmt.Errorf("%w: customType %q on an entry of type %s", ErrInvalid, customType, t)
		}
	default:
		return "", fmt.Errorf("%w: entry type %.64q", ErrInvalid, string(t))
	}
	return admitObject("payload", payload, structuralMembers)
}

func admitUsage(u InsertUsage) (InsertUsage, error) {
	if err := u.ID.Check(); err != nil {
		return u, err
	}
	if u.EntryID != "" {
		if err := checkID("entry id", string(u.EntryID)); err != nil {
			return u, fmt.Errorf("usage row %s: %w", u.ID, err)
		}
	}
	var err error
	if u.Usage, err = admitObject("usage", u.Usage, nil); err != nil {
		return u, fmt.Errorf("usage row %s: %w", u.ID, err)
	}
	if u.Details != "" {
		if u.Details, err = admitJSON("details", u.Details); err != nil {
			return u, fmt.Errorf("usage row %s: %w", u.ID, err)
		}
	}
	return u, nil
}

// admitObject admits a JSON object without any of the refused top-level members.
func admitObject(what string, text JSON, refused map[string]bool) (JSON, error) {
	j, err := admitJSON(what, text)
	if err != nil {
		return "", err
	}
	if !j.IsObject() {
		return "", fmt.Errorf("%w: %s is not a JSON object", ErrInvalid, what)
	}
	if len(refused) == 0 {
		return j, nil
	}
	for name := range j.Members() {
		if refused[name] {
			return "", fmt.Errorf("%w: %s has a member named %q, which is structural", ErrInvalid, what, name)
		}
	}
	return j, nil
}

func admitJSON(what string, text JSON) (JSON, error) {
	if len(text) > MaxPayloadBytes {
		return "", &LimitError{Limit: what + " bytes", Got: int64(len(text)), Max: MaxPayloadBytes}
	}
	j, err := CompactJSON(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return j, nil
}

// CheckAddress returns an error matching ErrInvalid or ErrTooLarge unless a
// register may be stored there: namespace of 1 to MaxNamespaceBytes and key of
// 0 to MaxKeyBytes bytes of UTF-8 without NUL.
func CheckAddress(namespace, key string) error {
	if err := checkText("register namespace", namespace, 1, MaxNamespaceBytes, true); err != nil {
		return err
	}
	return checkText("register key", key, 0, MaxKeyBytes, true)
}
