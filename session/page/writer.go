package page

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"

	"pistore"
)

//go:embed style.css
var style string

//go:embed script.js
var script string

//go:embed *.html
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"f": decimal}).ParseFS(files, "*.html"))

// beginning is how every page begins, and no other file does.
const beginning = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="pistore">
`

// policy allows the document its own style and script, by hash, and images that
// it holds; nothing else, and no network.
var policy = "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) + "; img-src data:; base-uri 'none'; form-action 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// writer writes a document.
type writer struct {
	ctx    context.Context
	doc    *document
	out    io.Writer
	images int    // bytes of images that there is room for
	model  string // of the answer before, which is not named again
}

func newWriter(ctx context.Context, d *document, out io.Writer) *writer {
	return &writer{ctx: ctx, doc: d, out: out, images: d.limits.ImagesSum}
}

func (w *writer) write() error {
	_, err := io.WriteString(w.out, beginning)
	if err == nil {
		err = w.execute("head", struct {
			overview
			Policy string
			Style  template.CSS
		}{w.doc.overview(), policy, template.CSS(style)})
	}
	for k := range w.doc.segments {
		if err != nil {
			return err
		}
		if w.doc.segments[k].kept > 0 {
			err = w.segment(k)
		}
	}
	if err != nil {
		return err
	}
	return w.execute("foot", struct {
		Script template.JS
		Made   string
	}{template.JS(script), instant(w.doc.src.MadeAt) + " UTC by " + w.doc.src.MadeBy})
}

func (w *writer) execute(name string, data any) error {
	return templates.ExecuteTemplate(w.out, name, data)
}

// segmentView is the frame of a segment.
type segmentView struct {
	N       int
	Parent  int // -1: none in the page
	Branch  bool
	From    string // the entry that a branch leaves from
	Href    string
	Text    string
	Omitted string
	Forks   []fork
	Lanes   []string
}

func (w *writer) segment(k int) error {
	d := w.doc
	g := d.segments[k]
	v := segmentView{N: k, Parent: -1, Branch: g.depth > 0, Forks: d.forks(&g), Lanes: d.laneNames(g.nodes[len(g.nodes)-1])}
	if g.parent >= 0 && d.segments[g.parent].kept > 0 {
		v.Parent = g.parent
	}
	if from := d.nodes[g.nodes[0]].parent; from >= 0 {
		v.From, v.Href = oneLine(d.title(from), 90), d.href(from)
	}
	if n := len(g.nodes) - g.kept; n > 0 {
		v.Omitted = counted(n, "older entry is not in this page", "older entries are not in this page")
	}
	w.model = ""
	if err := w.execute("segment", v); err != nil {
		return err
	}
	for batch := range w.batches(d.units(g)) {
		if err := w.units(batch); err != nil {
			return err
		}
	}
	return w.execute("segment-end", v)
}

// Content is read for some entries at a time.
const (
	batchEntries = 64
	batchBytes   = 4 << 20
)

// batches cuts units into pieces that are read together.
func (w *writer) batches(units []unit) func(func([]unit) bool) {
	return func(yield func([]unit) bool) {
		start, entries, bytes := 0, 0, int64(0)
		for i, u := range units {
			if i > start && (entries >= batchEntries || bytes >= batchBytes) {
				if !yield(units[start:i]) {
					return
				}
				start, entries, bytes = i, 0, 0
			}
			entries += 1 + len(u.results)
			bytes += w.doc.nodes[u.node].stored
			for _, r := range u.results {
				if r >= 0 {
					bytes += w.doc.nodes[r].stored
				}
			}
		}
		if start < len(units) {
			yield(units[start:])
		}
	}
}

func (w *writer) units(batch []unit) error {
	var ids []pistore.ID
	for _, u := range batch {
		ids = append(ids, w.doc.nodes[u.node].id)
		for _, r := range u.results {
			if r >= 0 {
				ids = append(ids, w.doc.nodes[r].id)
			}
		}
	}
	found, err := w.doc.src.Storage.Entries(w.ctx, ids)
	if err != nil {
		if w.ctx.Err() != nil || !errors.Is(err, pistore.ErrCorrupt) {
			return fmt.Errorf("read entries: %w", err)
		}
		return w.execute("gap", "Damage keeps "+counted(len(ids), "entry", "entries")+" from being read here.")
	}
	byID := make(map[pistore.ID]*pistore.Entry, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	for _, u := range batch {
		e := byID[w.doc.nodes[u.node].id]
		if e == nil {
			if err := w.execute("gap", "An entry is there and is not found by its id (invariant 4)."); err != nil {
				return err
			}
			continue
		}
		results := make([]*pistore.Entry, len(u.results))
		for i, r := range u.results {
			if r >= 0 {
				results[i] = byID[w.doc.nodes[r].id]
			}
		}
		if err := w.execute("entry", w.entry(u.node, *e, results, slices.Clone(u.results))); err != nil {
			return err
		}
	}
	return nil
}
