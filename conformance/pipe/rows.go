package pipe

import (
	"fmt"

	"pistore"
)

// Rows and writes have the fields of a line of format 4: those of an entry's
// payload stand inline behind the structural ones.

// structural are the members of an entry that are not part of its payload.
var structural = map[string]bool{
	"kind": true, "id": true, "parentId": true, "seq": true, "timestamp": true, "type": true, "customType": true,
}

// given are those of them that the store adds, and that no write has.
var given = []string{"seq", "timestamp"}

// inline appends the members of a payload as they stand.
func (o *object) inline(payload pistore.JSON) {
	if len(payload) > len("{}") {
		*o = append(append(*o, ','), payload[1:len(payload)-1]...)
	}
}

func putEntry(o *object, id, parent pistore.ID, t pistore.EntryType, customType string) {
	o.text("id", string(id))
	if parent == "" {
		o.put("parentId", "null")
	} else {
		o.text("parentId", string(parent))
	}
	o.text("type", string(t))
	o.textIf("customType", customType)
}

// split takes the object of an entry apart into structural members and payload.
// Without members of its own, the payload is an empty object.
func split(what string, j pistore.JSON) (reader, pistore.JSON, error) {
	if !j.IsObject() {
		return reader{}, "", fmt.Errorf("%w: %s is not an object", pistore.ErrInvalid, what)
	}
	f, payload := fields{}, []byte{'{'}
	for raw, value := range j.RawMembers() {
		name, _ := raw.Text()
		if !structural[name] {
			if len(payload) > 1 {
				payload = append(payload, ',')
			}
			payload = append(append(append(payload, raw...), ':'), value...)
			continue
		}
		if _, twice := f[name]; twice {
			return reader{}, "", fmt.Errorf("%w: %s has two members named %s", pistore.ErrInvalid, what, name)
		}
		f[name] = value
	}
	return reader{fields: f}, pistore.JSON(append(payload, '}')), nil
}

func encodeWrite(w pistore.Write) pistore.JSON {
	var o object
	switch w := w.(type) {
	case pistore.InsertEntry:
		o.text("kind", "entry")
		putEntry(&o, w.ID, w.ParentID, w.Type, w.CustomType)
		o.inline(w.Payload)
	case pistore.InsertUsage:
		o.text("kind", "usage")
		putUsage(&o, w.ID, w.EntryID, w.Adjustment, w.Usage, w.Details)
	case pistore.SetRegister:
		o.text("kind", "register")
		o.text("op", "set")
		o.text("namespace", w.Namespace)
		o.text("key", w.Key)
		o.put("value", w.Value)
	case pistore.DeleteRegister:
		o.text("kind", "register")
		o.text("op", "delete")
		o.text("namespace", w.Namespace)
		o.text("key", w.Key)
	default:
		panic(fmt.Sprintf("pipe: write %T", w))
	}
	return o.end()
}

func decodeWrite(j pistore.JSON) (pistore.Write, error) {
	r, payload, err := split("a write", j)
	if err != nil {
		return nil, err
	}
	kind := r.text("kind")
	for _, name := range given {
		if _, ok := r.fields[name]; ok && kind == "entry" {
			return nil, fmt.Errorf("%w: an entry to be written has a member named %s", pistore.ErrInvalid, name)
		}
	}
	if r.has("parentId") && r.fields["parentId"] == `""` {
		return nil, fmt.Errorf("%w: parentId is empty; a root has null", pistore.ErrInvalid)
	}
	switch kind {
	case "entry":
		w := pistore.InsertEntry{
			ID: pistore.ID(r.text("id")), ParentID: pistore.ID(r.text("parentId")),
			Type: pistore.EntryType(r.text("type")), CustomType: r.text("customType"), Payload: payload,
		}
		return w, r.err
	case "usage":
		u, err := decodeUsage(j)
		return pistore.InsertUsage{ID: u.ID, EntryID: u.EntryID, Usage: u.Usage, Adjustment: u.Adjustment, Details: u.Details}, err
	case "register":
		return decodeRegisterWrite(j)
	default:
		return nil, fmt.Errorf("%w: a write of kind %.40q", pistore.ErrInvalid, kind)
	}
}

func decodeRegisterWrite(j pistore.JSON) (pistore.Write, error) {
	f, err := fieldsOf("a write", j)
	if err != nil {
		return nil, err
	}
	r := reader{fields: f}
	ns, key := r.text("namespace"), r.text("key")
	switch op := r.text("op"); op {
	case "set":
		if f["value"] == "" && r.err == nil {
			r.err = fmt.Errorf("%w: a register without a value", pistore.ErrInvalid)
		}
		return pistore.SetRegister{Namespace: ns, Key: key, Value: f["value"]}, r.err
	case "delete":
		return pistore.DeleteRegister{Namespace: ns, Key: key}, r.err
	default:
		return nil, fmt.Errorf("%w: a register with the op %.40q", pistore.ErrInvalid, op)
	}
}

// encodeEntry makes an entry of a result. One without payload was asked for its
// structure only.
func encodeEntry(e pistore.Entry) pistore.JSON {
	var o object
	putEntry(&o, e.ID, e.ParentID, e.Type, e.CustomType)
	o.number("seq", int64(e.Seq))
	o.number("timestamp", int64(e.Timestamp))
	o.inline(e.Payload)
	return o.end()
}

func decodeEntry(j pistore.JSON) (pistore.Entry, error) {
	r, payload, err := split("an entry", j)
	if err != nil {
		return pistore.Entry{}, err
	}
	e := pistore.Entry{
		ID: pistore.ID(r.text("id")), ParentID: pistore.ID(r.text("parentId")),
		Seq: r.seq("seq"), Timestamp: pistore.UnixMS(r.number("timestamp")),
		Type: pistore.EntryType(r.text("type")), CustomType: r.text("customType"), Payload: payload,
	}
	return e, r.err
}

func putUsage(o *object, id, entry pistore.ID, adjustment bool, usage, details pistore.JSON) {
	o.text("id", string(id))
	o.textIf("entryId", string(entry))
	o.flag("adjustment", adjustment)
	o.put("usage", usage)
	if details != "" {
		o.put("details", details)
	}
}

func encodeUsage(u pistore.UsageRow) pistore.JSON {
	var o object
	o.number("seq", int64(u.Seq))
	putUsage(&o, u.ID, u.EntryID, u.Adjustment, u.Usage, u.Details)
	return o.end()
}

// decodeUsage reads a row, or a write, which has no seq. Details of null are a
// value; absent ones are none.
func decodeUsage(j pistore.JSON) (pistore.UsageRow, error) {
	f, err := fieldsOf("a usage row", j)
	if err != nil {
		return pistore.UsageRow{}, err
	}
	r := reader{fields: f}
	u := pistore.UsageRow{
		ID: pistore.ID(r.text("id")), Seq: r.seq("seq"), Usage: f["usage"],
		EntryID: pistore.ID(r.text("entryId")), Adjustment: r.flag("adjustment"), Details: f["details"],
	}
	return u, r.err
}

func encodeRegister(g pistore.Register) pistore.JSON {
	var o object
	o.text("namespace", g.Namespace)
	o.text("key", g.Key)
	o.put("value", g.Value)
	o.number("seq", int64(g.Seq))
	return o.end()
}

func decodeRegister(j pistore.JSON) (pistore.Register, error) {
	f, err := fieldsOf("a register", j)
	if err != nil {
		return pistore.Register{}, err
	}
	r := reader{fields: f}
	return pistore.Register{Namespace: r.text("namespace"), Key: r.text("key"), Value: f["value"], Seq: r.seq("seq")}, r.err
}

func encodePrecondition(p pistore.Precondition) pistore.JSON {
	var o object
	o.text("namespace", p.Namespace)
	o.text("key", p.Key)
	o.number("seq", int64(p.Seq))
	return o.end()
}

func decodePrecondition(j pistore.JSON) (pistore.Precondition, error) {
	f, err := fieldsOf("a precondition", j)
	if err != nil {
		return pistore.Precondition{}, err
	}
	r := reader{fields: f}
	return pistore.Precondition{Namespace: r.text("namespace"), Key: r.text("key"), Seq: r.seq("seq")}, r.err
}
