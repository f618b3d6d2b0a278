package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pistore/bench"
	"pistore/bench/peers/rows"
)

var update = flag.Bool("update", false, "write the goldens")

// result has for each side of a row what measure gives for a round, from 0.
func result(t *testing.T, name string, form rows.Form, rounds int, measure func(table, side, round int) map[bench.Unit]float64) rows.Result {
	t.Helper()
	row, ok := rows.Find(name)
	if !ok {
		t.Fatalf("no row %s", name)
	}
	r := rows.Result{
		Row: name, Run: "2025-01-02T03:04:05Z", Form: form, Measured: time.Date(2025, 1, 2, 3, 14, 15, 0, time.UTC), TookMS: 400_000, Revision: "0123456789",
		Machine: rows.Machine{CPU: "A <fast> CPU", Cores: 2, MemoryBytes: 24 << 30, Kernel: "linux 6.1", FileSystem: "ext4", Go: "1.26 amd64"},
	}
	for i, table := range row.In(form).Tables {
		m := rows.Measured{Name: table.Name}
		for j, s := range table.Sides {
			one := rows.Reported{Label: s.Label}
			for n := range rounds {
				one.Reports = append(one.Reports, bench.Report{Metrics: measure(i, j, n)})
			}
			m.Sides = append(m.Sides, one)
		}
		r.Tables = append(r.Tables, m)
	}
	return r
}

// commits are figures of commits: the first side is so many times the second.
func commits(factor float64) func(table, side, round int) map[bench.Unit]float64 {
	return func(table, side, round int) map[bench.Unit]float64 {
		rate := 1000 * float64(1+round) / float64(1+table)
		if side == 0 {
			rate *= factor
		}
		return map[bench.Unit]float64{
			bench.PerSecond: rate, bench.P50: 1e9 / rate, bench.P99: 3e9 / rate, bench.P999: 40e9 / rate, bench.WrittenBytes: 4100, bench.Resident: 41 << 20,
		}
	}
}

func some(t *testing.T) []rows.Result {
	failed := result(t, "6", rows.Full, 0, nil)
	failed.Tables[0].Failed = "no | Node\x1b[31m"
	return []rows.Result{
		result(t, rows.Levels, rows.Full, 3, commits(7)), result(t, "1", rows.Full, 5, commits(4)), result(t, "3", rows.Full, 5, commits(13)), failed,
		result(t, "1", rows.GiB, 1, commits(6)),
	}
}

// The page and its charts are those of the goldens, which -update writes.
func TestRender(t *testing.T) {
	before := reasons
	defer func() { reasons = before }()
	reasons = map[string]string{"1": "the machine is too small."}
	for _, f := range Render(some(t)) {
		path := filepath.Join("testdata", filepath.Base(f.Path))
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, f.Text, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(want, f.Text) {
			t.Errorf("%s differs (%v); -update writes it, and the diff is read:\n%.2000s", f.Path, err, f.Text)
		}
	}
}

// The same results give the same bytes, whatever order they are kept in.
func TestRenderIsDeterministic(t *testing.T) {
	a, b := some(t), some(t)
	b[0], b[2] = b[2], b[0]
	filesA, filesB := Render(a), Render(b)
	if len(filesA) != len(filesB) {
		t.Fatal(len(filesA), len(filesB))
	}
	for i := range filesA {
		if filesA[i].Path != filesB[i].Path || !bytes.Equal(filesA[i].Text, filesB[i].Text) {
			t.Errorf("%s", filesA[i].Path)
		}
	}
}

// A picture is well-formed, has nothing that runs or that is fetched, and shows a
// text as it is. The page shows no text that ends a cell or moves a cursor.
func TestTextIsEscaped(t *testing.T) {
	d := newDrawing(10, 20)
	hostile := `<script>alert("1")</script> & ]]> ' "`
	d.text(1, 2, "start", "t", hostile)
	picture := d.svg(hostile, hostile)
	texts := 0
	for dec := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "script" {
				t.Error("a script")
			}
		case xml.CharData:
			if string(token) == hostile {
				texts++
			}
		}
	}
	if texts != 3 {
		t.Errorf("the text is there %d times of 3", texts)
	}
	for _, f := range Render(some(t)) {
		if regexp.MustCompile(`(?i)<script|javascript:|on[a-z]+=|[\x00-\x09\x0b-\x1f]`).Match(f.Text) {
			t.Errorf("%s has what it should not", f.Path)
		}
		if strings.HasSuffix(f.Path, ".svg") && bytes.Contains(bytes.ReplaceAll(f.Text, []byte("http://www.w3.org/2000/svg"), nil), []byte("http")) {
			t.Errorf("%s names something outside", f.Path)
		}
	}
	if got := cell("a|b<c\x1b`"); got != "a\\|b&lt;c '" {
		t.Errorf("a cell is %q", got)
	}
}

func TestMeasurements(t *testing.T) {
	for got, want := range map[string]string{
		measurement(0, bench.P50): "0 ns", measurement(1500, bench.P50): "1.5 µs", measurement(23.45e6, bench.PerOp): "23.4 ms", measurement(2e9, bench.P99): "2 s",
		measurement(64<<10, bench.HeapPerSession): "65.5 kB", measurement(-5, bench.HeapPerSession): "-5 B", measurement(4.2e9, bench.DiskBytes): "4.2 GB",
		measurement(1234567.8, bench.PerSecond): "1,234,568", measurement(99.96, bench.Fsyncs): "100", measurement(-1234, bench.Fsyncs): "-1,234",
		limit(rows.Check{B: -1, Unit: bench.P99, AtMost: true}, 1e6): "≤ 1 ms", limit(rows.Check{Unit: bench.P99}, 0.6): "≥ 0.6", limit(rows.Check{}, 0): "–",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
