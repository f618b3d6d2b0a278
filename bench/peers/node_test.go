package peers

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a network, and without npm, an installation fails with one sentence
// and leaves nothing.
func TestInstallFails(t *testing.T) {
	parent := t.TempDir()
	folder := filepath.Join(parent, "node")
	fails := func(want string) {
		t.Helper()
		err := Install(t.Context(), folder, io.Discard)
		if err == nil || strings.ContainsAny(err.Error(), "\n\x1b") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("it leaves %v, %v", left, err)
		}
		if Installed(folder) == nil {
			t.Error("nothing passes for an installation")
		}
	}
	if _, err := exec.LookPath("npm"); err == nil {
		t.Setenv("npm_config_registry", "http://127.0.0.1:1/")
		t.Setenv("npm_config_cache", t.TempDir()) // else it may need no registry
		fails("ECONNREFUSED")
	}
	t.Setenv("PATH", "")
	fails("PATH")
}
