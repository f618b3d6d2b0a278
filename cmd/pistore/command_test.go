package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Read-only commands change nothing in a store.
func TestLookingChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := makeStore(dir, []string{"a=tools"}); err != nil {
		t.Fatal(err)
	}
	before := listing(t, dir)
	out := must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "out")))
	for _, args := range [][]string{{"inspect", dir}, {"show", dir}, {"verify", "--deep", dir}} {
		if code := run(t.Context(), args, out, os.Stderr); code != exitFine {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	if after := listing(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		info := must[os.FileInfo](t)(e.Info())
		fmt.Fprintln(&b, info.Name(), info.Size(), info.ModTime())
	}
	return b.String()
}
