package page

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pistore"
	"pistore/session"
)

// Any path from a root to a tip reads from top to bottom, whatever the tree.
func TestSegmentsKeepEveryPathInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &document{limits: Limits{Entries: rapid.IntRange(1, 60).Draw(t, "entries"), Bytes: 1 << 20}, byID: map[pistore.ID]int{}, lanesAt: map[int][]int{}}
		for i := range rapid.IntRange(1, 50).Draw(t, "nodes") {
			n := node{id: pistore.ID(rune('a' + i)), parent: rapid.IntRange(-1, i-1).Draw(t, "parent"), bytes: 1}
			if n.parent >= 0 {
				d.nodes[n.parent].children = append(d.nodes[n.parent].children, i)
			}
			d.byID[n.id] = i
			d.nodes = append(d.nodes, n)
		}
		leaf := rapid.IntRange(0, len(d.nodes)-1).Draw(t, "leaf")
		d.src.Lanes = []Lane{{Name: "main", Leaf: d.nodes[leaf].id}}
		d.lanesAt[leaf] = []int{0}
		d.keep()
		d.split()
		checkSegments(t, d, leaf)
	})
}

func checkSegments(t *rapid.T, d *document, leaf int) {
	place := map[int]int{} // in the order of the document
	kept := 0
	for _, g := range d.segments {
		for _, at := range g.nodes {
			place[at] = len(place)
		}
		kept += g.kept
	}
	if len(place) != len(d.nodes) {
		t.Fatalf("%d of %d entries are in segments", len(place), len(d.nodes))
	}
	if want := min(len(d.nodes), d.limits.Entries); kept > want || kept == 0 {
		t.Fatalf("%d entries are kept, of %d", kept, want)
	}
	for i := range d.nodes {
		p := d.nodes[i].parent
		if p < 0 {
			continue
		}
		if place[p] > place[i] {
			t.Fatalf("entry %d stands before its parent %d", i, p)
		}
		if g := d.segments[d.nodes[i].seg]; d.nodes[p].seg != d.nodes[i].seg && g.parent != d.nodes[p].seg {
			t.Fatalf("entry %d is in a segment that does not follow that of its parent", i)
		}
	}
	// The path of the lane comes first and in one piece.
	var path []int
	for at := leaf; at >= 0; at = d.nodes[at].parent {
		path = append(path, place[at])
	}
	slices.Reverse(path)
	for i, at := range path {
		if at != i {
			t.Fatalf("the path of the lane stands at %v", path)
		}
	}
	if !d.nodes[leaf].kept {
		t.Fatal("where the lane stands is not kept")
	}
}

func TestAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &document{}
		kinds := []kind{user, model, toolResult, other}
		for i := range rapid.IntRange(0, 40).Draw(t, "nodes") {
			d.nodes = append(d.nodes, node{at: pistore.UnixMS(rapid.Int64Range(0, pistore.MaxSeq).Draw(t, "at")), kind: rapid.SampledFrom(kinds).Draw(t, "kind"), parent: i - 1})
		}
		a := d.newAxis()
		if a == nil {
			return
		}
		if !slices.IsSorted(a.x) || a.x[0] != 0 || a.x[len(a.x)-1] < chartWidth-0.01 || a.x[len(a.x)-1] > chartWidth+0.01 {
			t.Fatalf("places %v", a.x)
		}
		for _, k := range kinds {
			for _, b := range d.bars(a, k) {
				if !(b.X >= 0 && b.X+b.W <= chartWidth+0.01) {
					t.Fatalf("a bar at %v, %v wide", b.X, b.W)
				}
			}
		}
		for _, tick := range a.ticks() {
			if tick.Label == "" {
				t.Fatal("a tick without a label")
			}
		}
	})
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		compact(0): "0", compact(950): "950", compact(1234): "1.2k", compact(999_600): "1M", compact(12_345): "12k", compact(-2000): "−2k",
		money(0): "$0", money(0.00001): "< $0.0001", money(0.0123): "$0.0123", money(1234.5): "$1,234.50", money(-3): "−$3.00",
		duration(999): "999 ms", duration(9_940): "9.9 s", duration(61_000): "1 min 01 s", duration(3_660_000): "1 h 01 min", duration(90_000_000): "1 d 01 h",
		grouped("-1234567.25"): "−1,234,567.25", moneyTick(niceTop(0.13)): "$0.2", compact(niceTop(41_000)): "60k",
		oneLine("\n```go\n  x\x1b\u202ey\nz", 40): `x\x1b\u202ey`, oneLine("äöü", 3): "ä…",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFences(t *testing.T) {
	got := fences("before\n```go\ncode\n```\nafter\n```\nopen")
	want := []piece{{Text: "before"}, {Code: true, Text: "code"}, {Text: "after"}, {Code: true, Text: "open"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestImageKinds(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nrest"))
	for _, c := range []struct {
		image session.Image
		shown bool
	}{
		{session.Image{Data: png, MIMEType: "image/png"}, true},
		{session.Image{Data: png, MIMEType: "image/jpeg"}, false},
		{session.Image{Data: png, MIMEType: "image/svg+xml"}, false},
		{session.Image{Data: png, MIMEType: "text/html"}, false},
		{session.Image{Data: png + `" onerror="x`, MIMEType: "image/png"}, false},
		{session.Image{Data: strings.Repeat("A", DefaultLimits.ImageBytes+4), MIMEType: "image/png"}, false},
	} {
		w := newWriter(t.Context(), &document{limits: DefaultLimits}, nil)
		if v := w.image(c.image); (v.URL != "") != c.shown || v.Words == "" {
			t.Errorf("%s: shown %v", c.image.MIMEType, v.URL != "")
		}
	}
	w := newWriter(t.Context(), &document{limits: DefaultLimits}, nil)
	w.images = len(png)
	if v := w.image(session.Image{Data: png, MIMEType: "image/png"}); v.URL == "" {
		t.Error("the last image that there is room for is not shown")
	}
	if v := w.image(session.Image{Data: png, MIMEType: "image/png"}); v.URL != "" {
		t.Error("an image is shown that there is no room for")
	}
}
