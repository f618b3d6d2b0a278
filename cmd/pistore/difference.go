package main

import (
	"fmt"

	"pistore"
)

// change is a place in a JSON value where another value differs.
type change struct {
	Path string       `json:"path"` // members behind dots, elements in brackets; empty: the whole value
	From pistore.JSON `json:"from,omitempty"`
	To   pistore.JSON `json:"to,omitempty"`
}

// changes lists where b differs from a: what is missing in one of them has no
// value there. Elements are compared by their place.
func changes(a, b pistore.JSON) []change {
	return appendChanges([]change{}, "", a, b)
}

func appendChanges(list []change, path string, a, b pistore.JSON) []change {
	switch {
	case a == b:
		return list
	case a.IsObject() && b.IsObject():
		return appendMemberChanges(list, path, a, b)
	case isArray(a) && isArray(b):
		return appendElementChanges(list, path, a, b)
	default:
		return append(list, change{path, a, b})
	}
}

func isArray(value pistore.JSON) bool { return value != "" && value[0] == '[' }

func appendMemberChanges(list []change, path string, a, b pistore.JSON) []change {
	there := map[string]pistore.JSON{}
	for name, value := range b.Members() {
		there[name] = value
	}
	dot := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	seen := map[string]bool{}
	for name, value := range a.Members() {
		if !seen[name] {
			list = appendChanges(list, dot(name), value, there[name])
		}
		seen[name] = true
	}
	for name, value := range b.Members() {
		if !seen[name] {
			list = appendChanges(list, dot(name), "", value)
		}
		seen[name] = true
	}
	return list
}

func appendElementChanges(list []change, path string, a, b pistore.JSON) []change {
	var olds, news []pistore.JSON
	for e := range a.Elements() {
		olds = append(olds, e)
	}
	for e := range b.Elements() {
		news = append(news, e)
	}
	for i := range max(len(olds), len(news)) {
		var from, to pistore.JSON
		if i < len(olds) {
			from = olds[i]
		}
		if i < len(news) {
			to = news[i]
		}
		list = appendChanges(list, fmt.Sprintf("%s[%d]", path, i), from, to)
	}
	return list
}
