package registers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"pistore"
)

// fields is one JSON object on its way in or out. A shape is described once, by
// a function that visits its members in the order in which they are written;
// the same function reads and writes, so that the two cannot drift apart, and
// each rule holds in both directions.
type fields struct {
	path *step
	// out is what members are appended to; nil when reading.
	out *[]byte
	// steps has room for those of a value that is written; nil when reading.
	steps *[]step
	any   bool // a member was written

	in      []member // what is left to read
	lenient bool     // members that no visit asked for are ignored

	// fault is the first fault of the whole value. Visits go on after it, with
	// zero values, and what they find then no longer counts.
	fault *error
}

type member struct {
	name  string
	value pistore.JSON
}

// step is one step of the path to a value.
type step struct {
	up    *step
	name  string // empty: an element of a list
	index int
}

func (s *step) String() string {
	switch {
	case s.name == "":
		return fmt.Sprintf("%s[%d]", s.up, s.index)
	case s.up == nil:
		return s.name + ":"
	case s.up.up == nil:
		return s.up.String() + " " + s.name
	default:
		return s.up.String() + "." + s.name
	}
}

// faultError is a fault in a register's value. It matches ErrInvalid.
type faultError struct{ text string }

func (e *faultError) Error() string        { return e.text }
func (e *faultError) Is(target error) bool { return target == pistore.ErrInvalid }

// encode writes the object that visit describes. It panics where decode would
// refuse: what cannot be read back is not written.
func encode(namespace string, visit func(*fields)) pistore.JSON {
	e := encodings.Get().(*encoding)
	e.out, e.steps, e.fault = append(e.out[:0], '{'), e.steps[:0], nil
	e.fields = fields{out: &e.out, steps: &e.steps, fault: &e.fault}
	e.fields.path = e.fields.at(namespace)
	visit(&e.fields)
	if e.fault != nil {
		panic("registers: " + e.fault.Error())
	}
	text := pistore.JSON(append(e.out, '}'))
	if cap(e.out) <= maxKeptBytes {
		encodings.Put(e)
	}
	return text
}

// encoding is what it takes to write a value. It is kept for the next one: only
// the text leaves it.
type encoding struct {
	fields fields
	out    []byte
	steps  []step
	fault  error
}

const (
	maxKeptBytes = 16 << 10 // only a preparation is larger
	maxKeptSteps = 64
)

var encodings = sync.Pool{New: func() any { return &encoding{steps: make([]step, 0, maxKeptSteps)} }}

// decode reads the object that visit describes.
func decode(namespace string, value pistore.JSON, lenient bool, visit func(*fields)) error {
	var fault error
	root := &step{name: namespace}
	value, err := pistore.CompactJSON(string(value))
	if err != nil {
		return faultAt(root, err.Error())
	}
	f := &fields{path: root, lenient: lenient, fault: &fault}
	f.enter(value, visit)
	return fault
}

func faultAt(at *step, problem string) error {
	text := at.String()
	if at.up != nil {
		text += ":"
	}
	return &faultError{text + " " + problem}
}

// fail records a fault of the value at a step.
func (f *fields) fail(at *step, format string, args ...any) {
	if *f.fault == nil {
		*f.fault = faultAt(at, fmt.Sprintf(format, args...))
	}
}

func (f *fields) at(name string) *step { return f.step(step{up: f.path, name: name}) }

func (f *fields) step(s step) *step {
	if f.steps == nil || len(*f.steps) == cap(*f.steps) {
		alone := s // so that only this one is made on the heap
		return &alone
	}
	*f.steps = append(*f.steps, s)
	return &(*f.steps)[len(*f.steps)-1]
}

// enter reads value as an object, whose members visit takes one by one.
func (f *fields) enter(value pistore.JSON, visit func(*fields)) {
	if !value.IsObject() {
		f.fail(f.path, "is %s instead of an object", kindOf(value))
		return
	}
	for name, v := range value.Members() {
		old := slices.IndexFunc(f.in, func(m member) bool { return m.name == name })
		switch {
		case old < 0:
			f.in = append(f.in, member{name, v})
		case f.lenient:
			f.in[old].value = v
		default:
			f.fail(f.path, "has the member %.64q twice", name)
		}
	}
	visit(f)
	if len(f.in) > 0 && !f.lenient {
		f.fail(f.path, "has an unknown member %.64q", f.in[0].name)
	}
}

// child returns the fields of an object further down.
func (f *fields) child(path *step) *fields {
	return &fields{path: path, out: f.out, lenient: f.lenient, fault: f.fault}
}

// put writes a member: its name and its value, or the start of it.
func (f *fields) put(name string, value pistore.JSON) {
	f.name(name)
	f.write(string(value))
}

// putText is put for a string.
func (f *fields) putText(name, s string) {
	f.name(name)
	*f.out = pistore.AppendQuoteJSON(*f.out, s)
}

func (f *fields) name(name string) {
	if f.any {
		f.write(",")
	}
	f.any = true
	f.write(`"`)
	f.write(name)
	f.write(`":`)
}

func (f *fields) write(text string) { *f.out = append(*f.out, text...) }

// take removes a member from what is left to read.
func (f *fields) take(name string) (pistore.JSON, bool) {
	for i, m := range f.in {
		if m.name == name {
			f.in = slices.Delete(f.in, i, i+1)
			return m.value, true
		}
	}
	return "", false
}

// has reports whether an optional member is to be visited: one that is there to
// read, or one that has something to write.
func (f *fields) has(name string, write bool) bool {
	if f.out != nil {
		return write
	}
	return slices.ContainsFunc(f.in, func(m member) bool { return m.name == name })
}

// need takes a member that must be there.
func (f *fields) need(name string) (pistore.JSON, bool) {
	v, ok := f.take(name)
	if !ok {
		f.fail(f.at(name), "is missing")
	}
	return v, ok
}

// text visits a required string.
func (f *fields) text(name string, p *string) {
	if f.out != nil {
		f.putText(name, *p)
		return
	}
	if v, ok := f.need(name); ok {
		*p = f.readText(f.at(name), v)
	}
}

// optText visits a string that is left out when it is empty.
func (f *fields) optText(name string, p *string) {
	if f.has(name, *p != "") {
		f.text(name, p)
	}
}

func (f *fields) readText(at *step, v pistore.JSON) string {
	s, ok := v.Text()
	if !ok {
		f.fail(at, "is %s instead of a string", kindOf(v))
	}
	return s
}

// texts visits a required list of strings.
func (f *fields) texts(name string, p *[]string) {
	each(f, name, p, func(at *step, v pistore.JSON, s *string) { *s = f.readText(at, v) },
		func(_ *step, s *string) pistore.JSON { return pistore.QuoteJSON(*s) })
}

// id visits a required id.
func (f *fields) id(name string, p *pistore.ID) {
	if f.out != nil {
		if err := p.Check(); err != nil {
			f.fail(f.at(name), "%v", err)
		}
		f.putText(name, string(*p))
		return
	}
	if v, ok := f.need(name); ok {
		*p = f.readID(f.at(name), v)
	}
}

// keyID visits a required id that is also a part of register keys, hence
// without a colon.
func (f *fields) keyID(name string, p *pistore.ID) {
	f.id(name, p)
	if strings.Contains(string(*p), ":") {
		f.fail(f.at(name), "has a colon")
	}
}

// optID visits an id that is left out when it is empty.
func (f *fields) optID(name string, p *pistore.ID) {
	if f.has(name, *p != "") {
		f.id(name, p)
	}
}

// nullID visits a required id that is null when it is empty.
func (f *fields) nullID(name string, p *pistore.ID) {
	if f.out != nil && *p == "" {
		f.put(name, "null")
		return
	}
	if f.out == nil {
		if i := slices.Index(f.in, member{name, "null"}); i >= 0 {
			f.in = slices.Delete(f.in, i, i+1)
			return
		}
	}
	f.id(name, p)
}

// ids visits a required list of ids, each of them once.
func (f *fields) ids(name string, p *[]pistore.ID) {
	each(f, name, p, func(at *step, v pistore.JSON, id *pistore.ID) { *id = f.readID(at, v) },
		func(at *step, id *pistore.ID) pistore.JSON { return f.writeID(at, *id) })
	if len(*p) < 2 {
		return
	}
	seen := make(map[pistore.ID]bool, len(*p))
	for i, id := range *p {
		if seen[id] {
			f.fail(&step{up: f.at(name), index: i}, "is there twice")
		}
		seen[id] = true
	}
}

func (f *fields) readID(at *step, v pistore.JSON) pistore.ID {
	id := pistore.ID(f.readText(at, v))
	f.checkID(at, id)
	return id
}

func (f *fields) writeID(at *step, id pistore.ID) pistore.JSON {
	f.checkID(at, id)
	return pistore.QuoteJSON(string(id))
}

func (f *fields) checkID(at *step, id pistore.ID) {
	if err := id.Check(); err != nil {
		f.fail(at, "%v", err)
	}
}

// flag visits a required boolean.
func (f *fields) flag(name string, p *bool) {
	if f.out != nil {
		f.put(name, pistore.JSON(strconv.FormatBool(*p)))
		return
	}
	v, ok := f.need(name)
	if ok && v != "true" && v != "false" {
		f.fail(f.at(name), "is %s instead of true or false", kindOf(v))
	}
	*p = v == "true"
}

// optFlag visits a boolean that is left out when it is false.
func (f *fields) optFlag(name string, p *bool) {
	if f.has(name, *p) {
		f.flag(name, p)
	}
}

// object visits a required object that is kept as it is.
func (f *fields) object(name string, p *pistore.JSON) {
	if f.out == nil {
		*p, _ = f.need(name)
	} else {
		f.put(name, *p)
	}
	f.checkObject(f.at(name), *p)
}

// optRaw visits a value that is kept as it is, and left out when absent.
func (f *fields) optRaw(name string, p *pistore.JSON) {
	switch {
	case f.out == nil:
		*p, _ = f.take(name)
	case *p != "":
		f.put(name, *p)
	}
}

// objects visits a required list of objects that are kept as they are.
func (f *fields) objects(name string, p *[]pistore.JSON) {
	each(f, name, p,
		func(at *step, v pistore.JSON, j *pistore.JSON) { *j = f.checkObject(at, v) },
		func(at *step, j *pistore.JSON) pistore.JSON { return f.checkObject(at, *j) })
}

func (f *fields) checkObject(at *step, v pistore.JSON) pistore.JSON {
	if !v.IsObject() {
		f.fail(at, "is %s instead of an object", kindOf(v))
	}
	return v
}

// inner visits a required object of a shape of its own.
func (f *fields) inner(name string, visit func(*fields)) {
	if f.out == nil {
		if v, ok := f.need(name); ok {
			f.child(f.at(name)).enter(v, visit)
		}
		return
	}
	f.name(name)
	f.braces(f.at(name), visit)
}

// braces writes an object of its own.
func (f *fields) braces(at *step, visit func(*fields)) {
	path, any := f.path, f.any
	f.path, f.any = at, false
	f.write("{")
	visit(f)
	f.write("}")
	f.path, f.any = path, any
}

// optional visits an object that is left out when *p is nil.
func optional[T any](f *fields, name string, p **T, visit func(*fields, *T)) {
	if !f.has(name, *p != nil) {
		return
	}
	if f.out == nil {
		*p = new(T)
	}
	f.inner(name, func(f *fields) { visit(f, *p) })
}

// list visits a required list of objects of one shape.
func list[T any](f *fields, name string, p *[]T, visit func(*fields, *T)) {
	each(f, name, p,
		func(at *step, v pistore.JSON, t *T) { f.child(at).enter(v, func(f *fields) { visit(f, t) }) },
		func(at *step, t *T) pistore.JSON {
			f.braces(at, func(f *fields) { visit(f, t) })
			return ""
		})
}

// each visits a required list. An empty one is read as nil.
func each[T any](f *fields, name string, p *[]T, read func(*step, pistore.JSON, *T), write func(*step, *T) pistore.JSON) {
	at := f.at(name)
	if f.out != nil {
		f.put(name, "[")
		for i := range *p {
			if i > 0 {
				f.write(",")
			}
			f.write(string(write(f.step(step{up: at, index: i}), &(*p)[i])))
		}
		f.write("]")
		return
	}
	v, ok := f.need(name)
	if !ok {
		return
	}
	if kindOf(v) != "a list" {
		f.fail(at, "is %s instead of a list", kindOf(v))
		return
	}
	for e := range v.Elements() {
		var t T
		read(&step{up: at, index: len(*p)}, e, &t)
		*p = append(*p, t)
	}
}

// integer visits a required whole number from least to pistore.MaxSeq, written
// without point and exponent.
func integer[T ~int64](f *fields, name string, p *T, least T) {
	if f.out == nil {
		v, ok := f.need(name)
		if !ok {
			return
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			f.fail(f.at(name), "is %s instead of a whole number in range", kindOf(v))
			return
		}
		*p = T(n)
	}
	if *p < least || *p > pistore.MaxSeq {
		f.fail(f.at(name), "is %d, out of range", *p)
	}
	if f.out != nil {
		f.name(name)
		*f.out = strconv.AppendInt(*f.out, int64(*p), 10)
	}
}

// word visits a required string that is one of a few.
func word[T ~string](f *fields, name string, p *T, words ...T) {
	before, text := *f.fault, string(*p)
	f.text(name, &text)
	if f.out == nil {
		*p = T(text)
	}
	if *f.fault == before && !slices.Contains(words, T(text)) {
		f.fail(f.at(name), "%.64q is none of %s", text, joined(words))
	}
}

func joined[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// variant returns the value behind a sum type: the one that is written, or a
// new one that is read into.
func variant[T, Sum any](f *fields, sum *Sum) *T {
	if f.out != nil {
		return any(*sum).(*T)
	}
	p := new(T)
	*sum = any(p).(Sum)
	return p
}

// kindOf names the kind of a JSON value for an error.
func kindOf(v pistore.JSON) string {
	if v == "" {
		return "absent"
	}
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f', 'n':
		return string(v)
	default:
		return fmt.Sprintf("the number %.32s", string(v))
	}
}
