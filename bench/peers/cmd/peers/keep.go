package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pistore/bench/peers/page"
	"pistore/bench/peers/rows"
)

// resultsFolder is where results are kept, one file for each row.
const resultsFolder = "bench/peers/results"

// fileOf is the name of the file of a result.
func fileOf(row string, form rows.Form) string {
	name := row
	if row != rows.Levels {
		name = "row-" + fmt.Sprintf("%02s", row)
	}
	if form == rows.GiB {
		name += "-gib"
	}
	return name + ".json"
}

// keep writes a result in the place of the one before.
func (q request) keep(r rows.Result) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return replace(filepath.Join(q.out, filepath.FromSlash(resultsFolder), fileOf(r.Row, r.Form)), append(text, '\n'))
}

// replace writes a file as a whole or not at all.
func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	half := path + ".half"
	if err := errors.Join(os.WriteFile(half, text, 0o644), os.Rename(half, path)); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

// kept reads the results in a folder.
func kept(out string) ([]rows.Result, error) {
	var all []rows.Result
	for _, name := range rows.Names() {
		for _, form := range []rows.Form{rows.Full, rows.GiB} {
			path := filepath.Join(out, filepath.FromSlash(resultsFolder), fileOf(name, form))
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			var r rows.Result
			if err == nil {
				err = json.Unmarshal(text, &r)
			}
			if err == nil && (r.Row != name || (r.Form == rows.GiB) != (form == rows.GiB)) {
				err = fmt.Errorf("it is of row %.20q, form %.20q", r.Row, r.Form)
			}
			if err != nil {
				return nil, fmt.Errorf("peers: %s: %w; measure the row again", path, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// rest leaves the rows that the newest run in the folder of results has not
// measured, and takes its name.
func (q request) rest() (request, error) {
	results, err := kept(q.out)
	if err != nil {
		return q, err
	}
	results = slices.DeleteFunc(results, func(r rows.Result) bool { return r.Form != q.form })
	if len(results) == 0 {
		return q, errors.New("peers: there is no run to continue; leave --continue away")
	}
	q.name = slices.MaxFunc(results, func(a, b rows.Result) int { return strings.Compare(a.Run, b.Run) }).Run
	q.rows = slices.DeleteFunc(q.rows, func(name string) bool {
		return slices.ContainsFunc(results, func(r rows.Result) bool { return r.Run == q.name && r.Row == name })
	})
	return q, nil
}

// write writes the page and its charts from the results that there are.
func (q request) write() error {
	results, err := kept(q.out)
	if err != nil {
		return err
	}
	for _, f := range page.Render(results) {
		if err := replace(filepath.Join(q.out, filepath.FromSlash(f.Path)), f.Text); err != nil {
			return err
		}
	}
	return nil
}
