package pipe

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/conformance"
)

// The stores in Python are an example for authors, and proof that the protocol
// is enough to write one.
func TestPython(t *testing.T) {
	python := interpreter(t)
	for _, test := range []struct {
		script string
		fails  []string // of someRows
	}{
		{"store.py", nil},
		{"broken.py", []string{"TX-22", "REG-14", "QRY-23"}},
	} {
		t.Run(test.script, func(t *testing.T) {
			t.Parallel()
			script, err := filepath.Abs(filepath.Join("..", "testdata", "python", test.script))
			if err != nil {
				t.Fatal(err)
			}
			cfg := conformance.Config{
				Open: func(dir string) (pistore.Backend, error) {
					return New(Options{Location: filepath.Join(dir, "store"), Command: func() *exec.Cmd {
						cmd := exec.Command(python, script)
						cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
						return cmd
					}}), nil
				},
				Dir: t.TempDir(), Transactions: 200, Only: chosenRows(),
				Lacks: append(slices.Clone(wordless), conformance.NoLarge),
			}
			report := conformance.Check(cfg)
			t.Log(report)
			failed := report.FailedIDs()
			if test.fails != nil { // of the other rows, the generated transactions find the defects too
				failed = slices.DeleteFunc(failed, func(id string) bool { return !slices.Contains(someRows, id) })
			}
			if !slices.Equal(failed, test.fails) {
				t.Errorf("rows %v failed, not %v", failed, test.fails)
			}
		})
	}
}

// interpreter is the program itself, since what is on the path may be a script.
func interpreter(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("there is no python3")
	}
	return strings.TrimSpace(string(out))
}

// TestSameCodes asks the server and the store in Python what the rows of the kit
// cannot: requests that no client of ours makes. Both answer as the page says.
func TestSameCodes(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	asked := []struct{ request, want string }{
		{`{"id":1,"method":"stats"}`, "1 closed"},
		{`{"id":2,"method":"open","params":{"location":"HERE","create":true,"session":"a","metadata":{"id":"b"}}}`, "2 invalid"},
		{`{"id":3,"method":"open","params":{"location":"HERE","create":false,"metadata":null}}`, "3 not_found"},
		{`{"id":4,"method":"open","params":{"location":"HERE","create":true,"metadata":{"id":"a"}}}`, "4"},
		{`{"id":5,"method":"open","params":{"location":"HERE","create":true}}`, "5 invalid"},
		{`{"id":6,"method":"stats","params":null}`, "6"},
		{``, "null invalid"},
		{`[]`, "null invalid"},
		{`{"id":7,"id":8,"method":"stats"}`, "null invalid"},
		{`{"id":9,"method":"stat"}`, "9 invalid"},
		{`{"id":10,"method":"register","params":{"namespace":"","key":"k"}}`, "10"},
		{`{"id":11,"method":"register","params":{"namespace":"n","key":"k","key":"l"}}`, "11 invalid"},
		{`{"id":12,"method":"register","params":{"namespace":"n","key":"\ud800"}}`, "12 invalid"},
		{`{"id":13,"method":"commit","params":{"writes":[{"kind":"usage","id":"u","usage":{},"adjustment":"yes"}]}}`, "13 invalid"},
		{`{"id":14,"method":"commit","params":{"writes":[{"kind":"entry","id":"e","parentId":"","type":"message"}]}}`, "14 invalid"},
		{`{"id":15,"method":"commit","params":{"writes":[{"kind":"entry","id":"e","type":"message","seq":1}]}}`, "15 invalid"},
		{`{"id":16,"method":"commit","params":{"writes":[{"kind":"entry","id":"e","type":"message","x":null}],"expect":null}}`, "16"},
		{`{"id":17,"method":"entries","params":{"ids":["e",null,""]}}`, "17"},
		{`{"id":18,"method":"entries","params":{"ids":[1]}}`, "18 invalid"},
		{`{"id":19,"method":"scanEntries","params":{"order":"newestFirst"}}`, "19 invalid"},
		{`{"id":20,"method":"scanEntries","params":{"limit":1e2}}`, "20 invalid"},
		{`{"id":21,"method":"branch","params":{"start":"e","order":"newestFirst","cursor":null,"limit":0}}`, "21"},
		{`{"id":22,"method":"branch","params":{"start":""}}`, "22 not_found"},
		{`{"id":23,"method":"commit","params":{"writes":[{"kind":"register","op":"set","namespace":"n","key":"k","value":` + deep + `}]}}`, "null too_large"},
		{`{"id":24,"method":"close"}`, "24"},
		{`{"id":25,"method":"close"}`, "25"},
		{`{"id":26,"method":"open","params":{"location":"HERE","create":true}}`, "26"},
		{`{"id":27,"method":"scanEntries","params":{"unknown":1}}`, "27"},
	}
	var requests []string
	for _, a := range asked {
		requests = append(requests, a.request)
	}
	in := strings.Join(requests, "\n") + "\n"
	cmd := exec.Command(interpreter(t), filepath.Join("..", "testdata", "python", "store.py"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(in, "HERE", filepath.Join(t.TempDir(), "store")))
	python, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, answers := range map[string]string{"the server": serveMemory(t, in), "store.py": string(python)} {
		got := strings.Split(strings.TrimSpace(answers), "\n")
		if len(got) != len(asked) {
			t.Fatalf("%s gives %d answers to %d requests", name, len(got), len(asked))
		}
		for i, a := range asked {
			var answer struct {
				ID    any `json:"id"`
				Error struct{ Code string }
			}
			if err := json.Unmarshal([]byte(got[i]), &answer); err != nil {
				t.Fatal(err)
			}
			id := "null"
			if answer.ID != nil {
				id = fmt.Sprint(answer.ID)
			}
			if said := strings.TrimSpace(id + " " + answer.Error.Code); said != a.want {
				t.Errorf("%s answers %.150s with %.300s, want %s", name, a.request, got[i], a.want)
			}
		}
	}
}
