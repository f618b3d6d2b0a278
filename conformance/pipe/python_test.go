package pipe

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/conformance"
)

var pythonAll = flag.Bool("python-all", false, "every row for the stores in Python")

// pythonRows are those of the default run: all that the broken store fails, and
// one or two of each group, since every row starts several processes.
var pythonRows = []string{
	"TX-01", "TX-10", "TX-20", "TX-21", "TX-22", "TX-23", "TX-24", "TX-25", "REG-03", "REG-08", "REG-09", "REG-11", "REG-13", "REG-14",
	"REG-16", "LED-01", "QRY-04", "QRY-10", "QRY-20", "QRY-23", "JSN-01", "JSN-10", "LIM-01", "CLO-02", "RO-01", "RO-04", "OWN-01", "REO-03",
}

// The stores in Python are an example for authors, and proof that the protocol
// is enough to write one.
func TestPython(t *testing.T) {
	// The interpreter itself, since what is on the path may be a script.
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("there is no python3")
	}
	python := strings.TrimSpace(string(out))
	for _, test := range []struct {
		script string
		fails  []string // of pythonRows
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
				Dir: t.TempDir(), Transactions: 200, Only: pythonRows,
				Lacks: append(slices.Clone(wordless), conformance.NoLarge),
			}
			if *pythonAll {
				cfg.Only = nil
			}
			report := conformance.Check(cfg)
			t.Log(report)
			failed := report.FailedIDs()
			if *pythonAll { // the rest of what it fails is no example
				failed = slices.DeleteFunc(failed, func(id string) bool { return test.fails != nil && !slices.Contains(pythonRows, id) })
			}
			if !slices.Equal(failed, test.fails) {
				t.Errorf("rows %v failed, not %v", failed, test.fails)
			}
		})
	}
}
