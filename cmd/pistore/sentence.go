package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"pistore"
)

// maxErrorColumns bounds what an error may quote.
const maxErrorColumns = 2000

// errorText is an error on one line, with a path once and with a remedy for what
// is too large.
func errorText(err error) string {
	text := plainText(err)
	var at *fs.PathError
	if errors.As(err, &at) {
		before, behind, found := strings.Cut(text, at.Error())
		if found && strings.Contains(before, at.Path) {
			text = before + at.Err.Error() + behind
		}
	}
	var limit *pistore.LimitError
	if errors.As(err, &limit) {
		text += "; every store has this limit: shorten it or leave it out"
	}
	return strings.ReplaceAll(text, "\n", "; ") // errors that were joined
}

// library is what an error of a package begins with: its name, what it was doing,
// and the sentinel where a sentence follows it.
var library = regexp.MustCompile(`^(?:jsonl|logstore|session|backup|page|search|registers): ` +
	`(?:(?:open|load|create|list|catalog|delete|compact|repair|rewrite|convert|fork|follow|lock|read|invalid|not found|busy): )*`)

// plainText is an error without what tells programmers where it comes from.
func plainText(err error) string {
	text := err.Error()
	for _, inner := range unwrapped(err) {
		told := inner.Error()
		if before, behind, found := strings.Cut(text, told); found && told != "" {
			text = before + plainText(inner) + behind
		}
	}
	return library.ReplaceAllString(text, "")
}

func unwrapped(err error) []error {
	switch err := err.(type) {
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			return []error{inner}
		}
	}
	return nil
}

// problemOf says why something that is listed by its path could not be read.
func problemOf(path string, err error) string {
	if errors.Is(err, pistore.ErrNewerVersion) {
		return "written by a newer version; use a newer pistore"
	}
	text := strings.TrimPrefix(errorText(err), fmt.Sprintf("%q: ", path))
	return strings.TrimPrefix(strings.TrimPrefix(text, path+": "), path+", ")
}

// badID says what is wrong with the id of a session in an argument.
func badID(arg string, id pistore.SessionID, err error) error {
	if id == "" {
		return usageError(arg + " has no id of a session where one is to stand")
	}
	return usageError(fmt.Sprintf("%s: %s", arg, strings.TrimPrefix(err.Error(), pistore.ErrInvalid.Error()+": ")))
}
