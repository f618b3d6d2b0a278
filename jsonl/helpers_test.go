package jsonl

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pistore"
)

func noParent(string) pistore.SessionID { return "" }

// importText reads a file from memory. It fails the test if nothing can be shown.
func importText(t testing.TB, text string) (*File, Report) {
	t.Helper()
	f, r, err := read(t.Context(), strings.NewReader(text), int64(len(text)), noParent)
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		t.Fatalf("nothing to show: %v", r.Faults)
	}
	return f, r
}

const header3 = `{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}`

// v3 makes a file of version 3. A line may leave out what does not matter to
// its case: it is written with ' for ", and @ stands for an ordinary timestamp.
func v3(lines ...string) string { return fileOf(header3, lines...) }

func fileOf(header string, lines ...string) string {
	var b strings.Builder
	b.WriteString(header + "\n")
	for _, l := range lines {
		l = strings.ReplaceAll(l, "'", `"`)
		b.WriteString(strings.ReplaceAll(l, "@", `"timestamp":"2026-01-01T00:00:01.000Z"`) + "\n")
	}
	return b.String()
}

// rows returns every row in words. Ids that the import made up are written as
// the legacy id in angle brackets.
func rows(t testing.TB, f *File) []string {
	t.Helper()
	var names []string
	for e, err := range f.ScanEntries(t.Context(), pistore.ScanQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		legacy, ok := f.LegacyID(e.ID)
		if back, found := f.EntryID(legacy); !ok || !found || back != e.ID {
			t.Fatalf("entry %s has no legacy id", e.ID)
		}
		names = append(names, string(e.ID), "<"+legacy+">")
	}
	n := 0
	for u := range f.ScanUsage(t.Context(), pistore.ScanQuery{}) {
		names = append(names, string(u.ID), fmt.Sprintf("<usage %d>", n))
		n++
	}
	named := strings.NewReplacer(names...)
	var out []string
	seq := pistore.Seq(0)
	for row, err := range f.Export(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		text, got := "", pistore.Seq(0)
		switch r := row.(type) {
		case pistore.Header:
			continue
		case pistore.Entry:
			kind := string(r.Type)
			if r.CustomType != "" {
				kind += "/" + r.CustomType
			}
			parent := string(r.ParentID)
			if parent == "" {
				parent = "root"
			}
			text, got = fmt.Sprintf("%s after %s: %s %s", r.ID, parent, kind, r.Payload), r.Seq
		case pistore.Register:
			text, got = fmt.Sprintf("%s/%s = %s", r.Namespace, r.Key, r.Value), r.Seq
		case pistore.UsageRow:
			text, got = fmt.Sprintf("usage of %s: %s %s", r.EntryID, r.Usage, r.Details), r.Seq
			if r.Adjustment {
				text = "adjusting " + text
			}
		}
		if seq++; got != seq {
			t.Errorf("seq %d instead of %d", got, seq)
		}
		out = append(out, strings.ReplaceAll(named.Replace(text), `"`, "'"))
	}
	return out
}

// faultsOf returns the faults as kind@line.
func faultsOf(r Report) []string {
	var out []string
	for _, f := range r.Faults {
		out = append(out, fmt.Sprintf("%s@%d", f.Kind, f.Line))
	}
	return out
}

func digest(t testing.TB, s pistore.Storage) string {
	t.Helper()
	d, err := pistore.Digest(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func reader(text []byte) (*bytes.Reader, int64) { return bytes.NewReader(text), int64(len(text)) }
