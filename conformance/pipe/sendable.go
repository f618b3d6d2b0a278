package pipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"pistore"
)

// sendable returns a write as it goes over the pipe. What a line of JSON cannot
// carry is refused in the place of the store: text that is not UTF-8, and JSON
// that is none or is absent. All else is for the store to judge.
func sendable(w pistore.Write) (pistore.Write, error) {
	c := carrier{}
	switch w := w.(type) {
	case pistore.InsertEntry:
		c.text(string(w.ID), string(w.ParentID), string(w.Type), w.CustomType)
		if w.Payload == "" && w.Type == pistore.TypeCustom {
			w.Payload = "{}"
		}
		w.Payload = c.json("payload", w.Payload)
		if !w.Payload.IsObject() { // its members are to stand inline
			c.refuse("payload is not a JSON object")
		}
		return w, c.err
	case pistore.InsertUsage:
		c.text(string(w.ID), string(w.EntryID))
		w.Usage = c.json("usage", w.Usage)
		if w.Details != "" {
			w.Details = c.json("details", w.Details)
		}
		return w, c.err
	case pistore.SetRegister:
		c.text(w.Namespace, w.Key)
		w.Value = c.json("value", w.Value)
		return w, c.err
	case pistore.DeleteRegister:
		c.text(w.Namespace, w.Key)
		return w, c.err
	default:
		return nil, fmt.Errorf("%w: unknown kind of write %T", pistore.ErrInvalid, w)
	}
}

// carrier keeps the first reason why something cannot be sent.
type carrier struct{ err error }

func (c *carrier) refuse(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{pistore.ErrInvalid}, args...)...)
	}
}

func (c *carrier) text(all ...string) {
	for _, s := range all {
		if !utf8.ValidString(s) {
			c.refuse("%.64q is not UTF-8", s)
		}
	}
}

// json removes white space, and with it every end of a line. What is nested too
// deep is sent all the same.
func (c *carrier) json(what string, v pistore.JSON) pistore.JSON {
	compact, err := pistore.CompactJSON(string(v))
	switch {
	case err == nil:
		return compact
	case errors.Is(err, pistore.ErrTooLarge) && json.Valid([]byte(v)) && utf8.ValidString(string(v)):
		return pistore.JSON(strings.NewReplacer("\n", " ", "\r", " ").Replace(strings.TrimSpace(string(v))))
	default:
		c.refuse("%s: %v", what, err)
		return v
	}
}
