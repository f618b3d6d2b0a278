package jsonl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
)

var update = flag.Bool("update", false, "write the goldens anew")

// TestDigests holds what each fixture becomes, ids and all, from one version of
// the program to the next: a session that was looked at and is converted later
// must be the same one.
func TestDigests(t *testing.T) {
	var got strings.Builder
	for _, dir := range []string{"v1", "v2", "v3", "v4", "broken"} {
		files, err := filepath.Glob(filepath.Join(fixtures, dir, "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
			if err != nil {
				continue // verdicts are checked elsewhere
			}
			fmt.Fprintf(&got, "%s/%s %s\n", dir, filepath.Base(path), digest(t, f))
		}
	}
	const golden = "testdata/digests.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}
