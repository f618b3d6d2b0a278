package pistore_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers is the dependency table: a package imports only from rows above its
// own, and folders below a package belong to its row. internal stands directly
// below the root.
var layers = [][]string{
	{""},
	{"internal"},
	{"disk"},
	{"registers"},
	{"ledger"},
	{"memstore"},
	{"logstore"},
	{"jsonl"},
	{"sqlite", "postgres"},
	{"session"},
	{"search", "backup"},
	{"verify"},
	{"provider", "tool"},
	{"harness"},
	{"task", "host"},
	{"server"},
	{"conformance"},
	{"fuzz"},
	{"bench"},
	{"otel"},
	{"cmd"},
}

// outside lists what a row may import beside the module and the standard
// library. A row that is not here imports neither more nor less than nothing.
var outside = map[string][]string{
	"logstore":    {"github.com/cockroachdb/pebble/v2", "github.com/klauspost/compress", "github.com/vmihailenco/msgpack/v5", "golang.org/x/sys"},
	"backup":      {"github.com/klauspost/compress"},
	"tool":        {"github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/sys", "golang.org/x/text"},
	"search":      {"modernc.org/sqlite"},
	"conformance": {"github.com/google/go-cmp"},
	"bench":       {"github.com/cockroachdb/pebble/v2"}, // bench/stores, where the engine of one of ours is a peer of it
	"otel":        {"go.opentelemetry.io/otel"},
	"cmd":         {"golang.org/x/sys"},
}

// within narrows a row further: of the module it imports only these rows.
var within = map[string][]string{
	"":            {},
	"internal":    {""},
	"registers":   {""},
	"search":      {"", "session"},
	"otel":        {"", "harness"},
	"conformance": {"", "internal", "disk", "conformance"},
}

type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// list asks the go command about packages of the module.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,Deps"}, args...)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// row returns the index of a package's row and the row's name.
func row(importPath string) (int, string) {
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(importPath, "pistore"), "/"), "/")
	return slices.IndexFunc(layers, func(names []string) bool { return slices.Contains(names, first) }), first
}

func ours(importPath string) bool {
	return importPath == "pistore" || strings.HasPrefix(importPath, "pistore/")
}

// standard reports whether a path is of the standard library, whose first
// element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".") && !ours(importPath)
}

func TestDependencyTable(t *testing.T) {
	packages := list(t, "pistore/...")
	if len(packages) < 8 {
		t.Fatalf("go list found %d packages", len(packages))
	}
	for _, p := range packages {
		at, name := row(p.ImportPath)
		if at < 0 {
			t.Errorf("%s has no row in the dependency table", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			checkImport(t, p.ImportPath, at, name, imported)
		}
	}
}

func checkImport(t *testing.T, importer string, at int, name, imported string) {
	t.Helper()
	switch {
	case standard(imported):
	case ours(imported):
		to, toName := row(imported)
		if allowed, narrow := within[name]; narrow && !slices.Contains(allowed, toName) {
			t.Errorf("%s imports %s, and may import %q only", importer, imported, allowed)
		}
		if to >= at && toName != name {
			t.Errorf("%s imports %s, which is not above it", importer, imported)
		}
	default:
		if !slices.ContainsFunc(outside[name], func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") }) {
			t.Errorf("%s imports %s, which its row does not allow", importer, imported)
		}
	}
}

// TestLightPackages keeps engines, SQL drivers, SDKs and tracing away from those
// who import a core package, however indirectly.
func TestLightPackages(t *testing.T) {
	heavy := map[string][]string{
		"github.com/cockroachdb/pebble":   {"logstore", "fuzz", "bench", "cmd"},
		"github.com/santhosh-tekuri":      {"tool", "harness", "task", "host", "server", "fuzz", "bench", "otel", "cmd"},
		"modernc.org/sqlite":              {"sqlite", "search", "cmd"},
		"github.com/jackc/pgx":            {"postgres", "cmd"},
		"go.opentelemetry.io":             {"otel", "cmd"},
		"github.com/anthropics":           {"provider", "cmd"},
		"github.com/openai":               {"provider", "cmd"},
		"github.com/modelcontextprotocol": {"tool", "cmd"},
	}
	for _, p := range list(t, "pistore/...") {
		_, name := row(p.ImportPath)
		for prefix, allowed := range heavy {
			if slices.Contains(allowed, name) {
				continue
			}
			if i := slices.IndexFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, prefix) }); i >= 0 {
				t.Errorf("%s depends on %s", p.ImportPath, p.Deps[i])
			}
		}
	}
}
