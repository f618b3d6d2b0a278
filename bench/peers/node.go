package peers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// packages says which version of the reference implementation is measured, and on
// which Node.
//
//go:embed node/package.json
var packages []byte

// installed names what is in a folder, so that other versions go to another one.
const installed = "pi-agent-core-0.87.1-node-22.23.3"

// DefaultNode is the folder in which Install puts Node and the reference
// implementation: one of the user's cache.
func DefaultNode() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	return filepath.Join(cache, "pistore-peers", installed), nil
}

func nodeIn(folder string) string {
	return filepath.Join(folder, "node_modules", "node", "bin", "node")
}

// Installed is nil if a folder has what Install puts there.
func Installed(folder string) error {
	if _, err := os.Stat(nodeIn(folder)); err != nil {
		return fmt.Errorf("peers: there is no Node in %q: run `go run ./cmd/peers install` first", folder)
	}
	return nil
}

// Install fetches Node and the reference implementation from the npm registry,
// about 300 MB, unless they are there. It needs npm. Of all that is fetched only
// the package node runs a script, which brings the program for this machine. A
// folder is there as a whole or not at all.
func Install(ctx context.Context, folder string, progress io.Writer) (err error) {
	if Installed(folder) == nil {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("peers: npm is needed to fetch the reference implementation, and it is not in the PATH: install Node.js first, any version")
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	half, err := os.MkdirTemp(filepath.Dir(folder), "half-")
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(half)) }()
	if err := os.WriteFile(filepath.Join(half, "package.json"), packages, 0o644); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	fmt.Fprintln(progress, "fetching Node and the reference implementation, about 300 MB")
	if err := npm(ctx, half, "install", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--no-package-lock"); err != nil {
		return err
	}
	if err := npm(ctx, half, "rebuild", "node"); err != nil {
		return err
	}
	if err := Installed(half); err != nil {
		return fmt.Errorf("peers: the package node brought no program for this machine")
	}
	if err := os.Rename(half, folder); err != nil && Installed(folder) != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

var npmCode = regexp.MustCompile(`npm (?:error|ERR!) code ([A-Z0-9_]+)`)

// npm runs npm and says in one sentence what went wrong.
func npm(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "npm", append(args, "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code := "no code"
	if m := npmCode.FindSubmatch(said); m != nil {
		code = string(m[1])
	}
	return fmt.Errorf("peers: npm %s failed (%w, %s): it needs the npm registry, so try again where that is reached", args[0], err, code)
}
