package peers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"pistore"
	"pistore/bench"
)

// templates are the transactions of a workload of commits as the reference
// implementation takes them. It puts ids and parents of its own in their place.
// They are as many as content has before it begins again, or a multiple.
func templates(workload string, seed uint64) ([][]json.RawMessage, error) {
	content, err := bench.NewContent(workload, seed)
	if err != nil {
		return nil, err
	}
	var all [][]json.RawMessage
	for stream := content.Stream(0); len(all) < 128; {
		var one []json.RawMessage
		for _, w := range stream.Next().Writes {
			text, err := theirWrite(w)
			if err != nil {
				return nil, err
			}
			one = append(one, text)
		}
		all = append(all, one)
	}
	return all, nil
}

func theirWrite(w pistore.Write) (json.RawMessage, error) {
	switch w := w.(type) {
	case pistore.InsertEntry:
		return fmt.Appendf(nil, `{"kind":"entry","entry":{%s}}`, theirEntry(w)), nil
	case pistore.InsertUsage:
		return fmt.Appendf(nil, `{"kind":"usage","row":{"id":"","usage":%s,"entryId":"","adjustment":%t}}`, w.Usage, w.Adjustment), nil
	case pistore.SetRegister:
		return fmt.Appendf(nil, `{"kind":"value","op":"set","namespace":%s,"key":%s,"value":%s}`, quoted(w.Namespace), quoted(w.Key), w.Value), nil
	default:
		return nil, fmt.Errorf("peers: %w: write %T", pistore.ErrUnsupported, w)
	}
}

// theirEntry is the members of an entry, those of its payload among them.
func theirEntry(e pistore.InsertEntry) []byte {
	parent := pistore.JSON("null")
	if e.ParentID != "" {
		parent = quoted(string(e.ParentID))
	}
	b := fmt.Appendf(nil, `"id":%s,"parentId":%s,"type":%s`, quoted(string(e.ID)), parent, quoted(string(e.Type)))
	if members := e.Payload[1 : len(e.Payload)-1]; len(members) > 0 {
		b = append(append(b, ','), members...)
	}
	return b
}

func quoted(s string) pistore.JSON { return pistore.QuoteJSON(s) }

// writeSession writes a session with a history as the reference implementation
// does, with a line for each row, and returns how many entries it has.
func writeSession(path string, h *bench.History) (entries int, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	for row, err := range h.Rows("history") {
		if err != nil {
			return 0, err
		}
		switch r := row.(type) {
		case pistore.Header:
			fmt.Fprintf(w, `{"v":4,"kind":"header","id":%s,"storageVersion":1,"createdAt":0,"cwd":"/"}`, quoted(string(r.Info.ID)))
		case pistore.Entry:
			entries++
			fmt.Fprintf(w, `{"kind":"entry",%s,"seq":%d,"timestamp":%d}`,
				theirEntry(pistore.InsertEntry{ID: r.ID, ParentID: r.ParentID, Type: r.Type, Payload: r.Payload}), r.Seq, r.Timestamp)
		case pistore.Register:
			fmt.Fprintf(w, `{"kind":"value","op":"set","seq":%d,"namespace":%s,"key":%s,"value":%s}`,
				r.Seq, quoted(r.Namespace), quoted(r.Key), r.Value)
		default:
			return 0, fmt.Errorf("peers: %w: row %T", pistore.ErrUnsupported, row)
		}
		if err := w.WriteByte('\n'); err != nil {
			return 0, fmt.Errorf("peers: %w", err)
		}
	}
	return entries, w.Flush()
}
