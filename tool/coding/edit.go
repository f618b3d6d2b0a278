package coding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"pistore/registers"
	"pistore/tool"
)

// maxEditBytes bounds the file that edit takes into memory.
const maxEditBytes = 16 << 20

// Edit returns the tool that replaces text in a file. It is never replayed: a
// second run would not find the text that the first one replaced and report a
// failure, or, where the new text contains the old one, replace it twice.
func (t *Tools) Edit() tool.Tool {
	return tool.Tool{
		Name: "edit",
		Description: "Replace text in a file. oldText must be in the file exactly as given, white space and indentation included, and exactly once: " +
			"take in enough lines around it to be unique. With replaceAll every occurrence is replaced.",
		Parameters: `{"type":"object","properties":{` +
			`"path":{"type":"string","minLength":1,"description":"The file, relative to the root folder."},` +
			`"oldText":{"type":"string","minLength":1,"description":"The text to replace."},` +
			`"newText":{"type":"string","description":"The text to put in its place; empty to delete."},` +
			`"replaceAll":{"type":"boolean","description":"Replace every occurrence instead of the only one."}},` +
			`"required":["path","oldText","newText"],"additionalProperties":false}`,
		Replay:  registers.ReplayNever,
		Execute: t.edit,
	}
}

// editDetails are the details of an edit.
type editDetails struct {
	Path        string `json:"path"`
	Occurrences int    `json:"occurrences"`
	FirstLine   int    `json:"firstLine"` // of the first change, from 1
	Diff        string `json:"diff"`
}

func (t *Tools) edit(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		Path, OldText, NewText string
		ReplaceAll             bool
	}
	if err := decode(call.Arguments, &args); err != nil {
		return tool.Result{}, err
	}
	if args.OldText == "" {
		return tool.Result{}, errors.New("oldText is empty; use write to create a file")
	}
	if args.OldText == args.NewText {
		return tool.Result{}, errors.New("oldText and newText are the same, so nothing would change")
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return tool.Result{}, fmt.Errorf("%s was not edited: %w", args.Path, err)
	}
	content, err := t.load(args.Path)
	if err != nil {
		return tool.Result{}, err
	}
	before, after := args.OldText, args.NewText
	if !strings.Contains(content, before) && strings.Contains(content, "\r\n") {
		// The model writes lines as it would in any file; this one has CRLF.
		before, after = crlf(before), crlf(after)
	}
	places := occurrences(content, before)
	switch {
	case len(places) == 0:
		return tool.Result{}, fmt.Errorf("oldText does not occur in %s; read the file and copy the text exactly, white space included", args.Path)
	case !args.ReplaceAll && moreThanOnce(content, before):
		return tool.Result{}, fmt.Errorf("oldText occurs more than once in %s; take in lines around it to make it unique, or set replaceAll", args.Path)
	}
	if err := t.replace(args.Path, []byte(strings.ReplaceAll(content, before, after))); err != nil {
		return tool.Result{}, err
	}
	diff, firstLine := unified(content, before, after, places)
	result := tool.Text(fmt.Sprintf("Replaced %d occurrences in %s.", len(places), args.Path))
	if len(places) == 1 {
		result = tool.Text(fmt.Sprintf("Replaced the text in %s, line %d.", args.Path, firstLine))
	}
	result.Details = details(editDetails{args.Path, len(places), firstLine, diff})
	return result, nil
}

// load reads a text file whole.
func (t *Tools) load(path string) (string, error) {
	f, info, err := t.openFile(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEditBytes+1))
	switch {
	case err != nil:
		return "", plain(path, err)
	case len(data) > maxEditBytes:
		return "", fmt.Errorf("%s has %d bytes, more than the %d that can be edited", path, max(info.Size(), int64(len(data))), maxEditBytes)
	}
	content := string(data)
	if strings.IndexByte(content, 0) >= 0 {
		return "", fmt.Errorf("%s is a binary file", path)
	}
	return content, nil
}

func crlf(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

// occurrences returns where text is in content, none overlapping another.
func occurrences(content, text string) []int {
	var places []int
	for at := 0; ; {
		i := strings.Index(content[at:], text)
		if i < 0 {
			return places
		}
		places = append(places, at+i)
		at += i + len(text)
	}
}

// moreThanOnce counts overlapping occurrences too: which of them is meant?
func moreThanOnce(content, text string) bool {
	return strings.Index(content, text) != strings.LastIndex(content, text)
}
