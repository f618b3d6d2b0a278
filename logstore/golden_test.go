package logstore

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/ledger"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const uuid = "0190f5fe-7c00-7a00-8abc-0123456789ab"

// TestGoldenKeys pins the bytes of every kind of key.
func TestGoldenKeys(t *testing.T) {
	var out strings.Builder
	line := func(what string, key []byte) {
		fmt.Fprintf(&out, "%s\n  %x\n  %s\n", what, key, describeKey(key))
	}
	line("layout version", metaKey(metaVersion))
	line("next ordinal", metaKey(metaOrdinal))
	line("catalog of session abc", catalogKey("abc"))
	line("loading 1", loadingKey(1))
	for _, o := range []ordinal{1, 255, 256, 1 << 40, 1<<64 - 1} {
		line(fmt.Sprintf("state of session #%d", o), stateKey(o))
	}
	line("entry seq 1", seqKey(1, tableEntry, 1))
	line("entry of the largest seq", seqKey(1, tableEntry, pistore.MaxSeq))
	line("structure seq 258", seqKey(1, tableStructure, 258))
	line("usage seq 3", seqKey(1, tableUsage, 3))
	line("id that is a UUID", idKey(1, uuid))
	line("id that is a UUID in capitals", idKey(1, pistore.ID(strings.ToUpper(uuid))))
	line("id that is a text", idKey(1, "übung"))
	line("register lane.leaf/main", registerKey(1, "lane.leaf", "main"))
	line("register app/ (empty key)", registerKey(1, "app", ""))
	lower, upper := sessionRange(255)
	line("first key of session #255", lower)
	line("first key behind it", upper)
	golden(t, "testdata/keys.golden", out.String())
}

// goldenRecords are one record of each kind and form.
func goldenRecords(w *recordWriter) []struct {
	name string
	data []byte
} {
	type named = struct {
		name string
		data []byte
	}
	var all []named
	add := func(name string, data []byte) { all = append(all, named{name, []byte(string(data))}) }
	root := pistore.Entry{ID: uuid, Timestamp: 1721900000000, Type: pistore.TypeMessage, Payload: `{"message":{"role":"user","content":"hi"}}`}
	add("entry, root", w.entry(root, 0))
	custom := pistore.Entry{ID: "b", ParentID: uuid, Timestamp: 0, Type: pistore.TypeCustom, CustomType: "note", Payload: "{}"}
	add("entry, custom, id as text", w.entry(custom, 7))
	big := root
	big.Payload = pistore.JSON(`{"text":"` + strings.Repeat("abcdefgh", 1200) + `"}`)
	add("entry, compressed", w.entry(big, 0))
	for _, t := range []pistore.EntryType{pistore.TypeCompaction, pistore.TypeBranchSummary} {
		e := pistore.Entry{ID: "c", Timestamp: 1, Type: t, Payload: `{"summary":""}`}
		add("entry, "+string(t), w.entry(e, 0))
	}
	add("structure", w.structure(custom, 7))
	add("usage", w.usage(pistore.UsageRow{ID: uuid, EntryID: "b", Usage: `{"input":1}`}))
	add("usage, adjustment with details", w.usage(pistore.UsageRow{
		ID: "u", Adjustment: true, Usage: `{"input":-1}`, Details: `{"why":"refund"}`,
	}))
	add("register", w.register(70000, `null`))
	add("register, compressed", w.register(1, pistore.JSON(`"`+strings.Repeat("x", 9000)+`"`)))
	add("id of an entry", w.idRow(idRow{seq: 127}))
	add("id of a usage row", w.idRow(idRow{seq: 128, usage: true}))
	add("state of a new session", w.state(state{nextSeq: 1, stats: pistore.Stats{Usage: ledger.Zero()}}))
	var sum ledger.Sum
	sum.AddUsage(`{"input":1000,"output":20,"reasoning":7,"totalTokens":1020,"cost":{"input":0.001,"total":0.0015}}`, false)
	sum.AddUsage(`{"input":null}`, false)
	add("state", w.state(state{
		nextSeq: 1 << 33, idTimeEnd: 1721900000001,
		stats: pistore.Stats{Entries: 300, Messages: 200, Usage: sum.Totals()},
	}))
	add("catalog", w.catalog(catalogRow{ordinal: 3, info: pistore.Info{
		CreatedAt: 1721900000000, CWD: "/home/ann", ParentSessionID: uuid, LegacyParentPath: "old.jsonl",
		StorageVersion: 1, Generation: "00112233445566778899aabbccddeeff",
	}}))
	add("number", w.number(300))
	add("loading", w.loading())
	return all
}

func testCodec(t testing.TB) *payloadCodec {
	t.Helper()
	codec, err := newPayloadCodec(defaultCompressAboveBytes)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// TestGoldenRecords pins the bytes of every kind of record. How well zstd packs
// is the library's business, so of a compressed payload only the raw size is.
func TestGoldenRecords(t *testing.T) {
	codec := testCodec(t)
	var out strings.Builder
	for _, r := range goldenRecords(newRecordWriter(codec)) {
		if strings.Contains(r.name, "compressed") {
			r.data = r.data[:8]
			r.name += ", its first 8 bytes"
		}
		fmt.Fprintf(&out, "%s\n", r.name)
		for text := hex.EncodeToString(r.data); text != ""; {
			n := min(len(text), 96)
			fmt.Fprintf(&out, "  %s\n", text[:n])
			text = text[n:]
		}
	}
	golden(t, "testdata/records.golden", out.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
