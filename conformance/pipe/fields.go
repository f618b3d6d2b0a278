package pipe

import (
	"fmt"
	"strconv"

	"pistore"
)

// fields are the members of an object by their exact names.
type fields map[string]pistore.JSON

// fieldsOf takes an object apart. A name that comes twice has no meaning here.
func fieldsOf(what string, j pistore.JSON) (fields, error) {
	if !j.IsObject() {
		return nil, fmt.Errorf("%w: %s is not an object", pistore.ErrInvalid, what)
	}
	f := fields{}
	for name, value := range j.Members() {
		if _, twice := f[name]; twice {
			return nil, fmt.Errorf("%w: %s has two members named %.64q", pistore.ErrInvalid, what, name)
		}
		f[name] = value
	}
	return f, nil
}

// has reports whether a member is there and not null.
func (f fields) has(name string) bool { return f[name] != "" && f[name] != "null" }

// text returns a string, which is empty if the member is absent or null.
func (f fields) text(name string) (string, error) {
	if !f.has(name) {
		return "", nil
	}
	return textOf(name, f[name])
}

// textOf returns what a string says. Half of a surrogate pair says nothing that
// text in UTF-8 can hold; taken for U+FFFD, it would make two names one.
func textOf(what string, j pistore.JSON) (string, error) {
	s, ok := j.Text()
	if !ok {
		return "", fmt.Errorf("%w: %s is not a string", pistore.ErrInvalid, what)
	}
	if !j.IsWellFormed() {
		return "", fmt.Errorf("%w: %s has half of a surrogate pair", pistore.ErrInvalid, what)
	}
	return s, nil
}

// number returns an integer of 0 to MaxSeq, 0 if the member is absent or null.
func (f fields) number(name string) (int64, error) {
	if !f.has(name) {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(f[name]), 10, 64)
	if err != nil || n < 0 || n > pistore.MaxSeq {
		return 0, fmt.Errorf("%w: %s is %.64q, not an integer of 0 to %d", pistore.ErrInvalid, name, string(f[name]), int64(pistore.MaxSeq))
	}
	return n, nil
}

// flag returns a boolean, false if the member is absent or null.
func (f fields) flag(name string) (bool, error) {
	switch f[name] {
	case "true":
		return true, nil
	case "false", "null", "":
		return false, nil
	default:
		return false, fmt.Errorf("%w: %s is neither true nor false", pistore.ErrInvalid, name)
	}
}

// reader reads several members and keeps the first error.
type reader struct {
	fields
	err error
}

func (r *reader) text(name string) string     { return keep(r, r.fields.text, name) }
func (r *reader) number(name string) int64    { return keep(r, r.fields.number, name) }
func (r *reader) flag(name string) bool       { return keep(r, r.fields.flag, name) }
func (r *reader) seq(name string) pistore.Seq { return pistore.Seq(r.number(name)) }

func keep[T any](r *reader, read func(string) (T, error), name string) T {
	v, err := read(name)
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

// list returns the elements of an array that read makes of them; none if the
// member is absent or null.
func list[T any](r *reader, name string, read func(pistore.JSON) (T, error)) []T {
	if !r.has(name) || r.err != nil {
		return nil
	}
	j := r.fields[name]
	if j[0] != '[' {
		r.err = fmt.Errorf("%w: %s is not a list", pistore.ErrInvalid, name)
		return nil
	}
	all := []T{}
	for e := range j.Elements() {
		v, err := read(e)
		if err != nil {
			r.err = fmt.Errorf("%s, element %d: %w", name, len(all), err)
			return nil
		}
		all = append(all, v)
	}
	return all
}

// object builds an object of members whose values are JSON.
type object []byte

func (o *object) put(name string, value pistore.JSON) {
	if len(*o) == 0 {
		*o = append(*o, '{')
	} else {
		*o = append(*o, ',')
	}
	*o = append(append(append(*o, '"'), name...), `":`...)
	*o = append(*o, value...)
}

func (o *object) text(name, s string)         { o.put(name, pistore.QuoteJSON(s)) }
func (o *object) number(name string, n int64) { o.put(name, pistore.JSON(strconv.FormatInt(n, 10))) }
func (o *object) flag(name string, b bool)    { o.put(name, pistore.JSON(strconv.FormatBool(b))) }

// textIf and numberIf leave out what is zero.
func (o *object) textIf(name, s string) {
	if s != "" {
		o.text(name, s)
	}
}

func (o *object) numberIf(name string, n int64) {
	if n != 0 {
		o.number(name, n)
	}
}

func (o *object) end() pistore.JSON {
	if len(*o) == 0 {
		return "{}"
	}
	return pistore.JSON(append(*o, '}'))
}

// array makes a list of what write makes of each element.
func array[T any](all []T, write func(T) pistore.JSON) pistore.JSON {
	out := []byte{'['}
	for i, v := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, write(v)...)
	}
	return pistore.JSON(append(out, ']'))
}
