package pipe

import (
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
	// The interpreter itself, since what is on the path may be a script.
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("there is no python3")
	}
	python := strings.TrimSpace(string(out))
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
