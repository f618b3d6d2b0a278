package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// program is the command under test, browser what all tests open their tabs in.
var (
	program string
	browser context.Context
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "pistore")
	build := exec.Command("go", "build", "-o", program, "./cmd/pistore")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build: %w\n%s", err, out)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stop()
	ctx, stop := chromedp.NewContext(allocated)
	defer stop()
	if err := chromedp.Do(ctx); err != nil { // starts it
		return 1, fmt.Errorf("start Chromium: %w", err)
	}
	browser = ctx
	return m.Run(), nil
}

// fixture is the name of one of the session files that jsonl is tested with.
func fixture(name string) string { return filepath.Join("..", "jsonl", "testdata", "sessions", name) }

// htmlOf makes the page of a session file.
func htmlOf(t *testing.T, session string) string {
	t.Helper()
	page := filepath.Join(t.TempDir(), "page.html")
	if out, err := exec.Command(program, "inspect", session, "--html", page).CombinedOutput(); err != nil {
		t.Fatalf("inspect --html: %v\n%s", err, out)
	}
	return page
}

// look says under which conditions a page is opened.
type look struct {
	width    int64
	scheme   string // of colours
	motion   string // prefers-reduced-motion
	media    string // empty: screen
	noScript bool
}

// tab is an open page.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // guarded by mu: errors of scripts and of the console, dialogs
}

// open opens a page in a tab of its own.
func open(t *testing.T, page string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute) // a hang ends with a name
	t.Cleanup(stop)
	tb := &tab{t: t, ctx: ctx}
	tb.do(chromedp.EmulateViewport(max(l.width, 320), 900), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		return setUp(ctx, l)
	}))
	if err := chromedp.Listen(ctx, tb.hear); err != nil {
		t.Fatal(err)
	}
	tb.do(chromedp.Navigate("file://" + page))
	return tb
}

func setUp(ctx context.Context, l look) error {
	media := emulation.SetEmulatedMediaParams{Media: l.media}
	if l.scheme != "" {
		media.Features = append(media.Features, &emulation.MediaFeature{Name: "prefers-color-scheme", Value: l.scheme})
	}
	if l.motion != "" {
		media.Features = append(media.Features, &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: l.motion})
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.noScript})
	return err
}

// hear collects what a page should not say. A breach of its policy is an entry of
// the log.
func (tb *tab) hear(ev any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		tb.problems = append(tb.problems, "exception: "+ev.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		tb.problems = append(tb.problems, fmt.Sprintf("console: %s", ev.Type))
	case *log.EventEntryAdded:
		tb.problems = append(tb.problems, "log: "+ev.Entry.Text)
	case *cdppage.EventJavascriptDialogOpening:
		tb.problems = append(tb.problems, "dialog: "+ev.Message)
	}
}

// quiet fails if the page said something.
func (tb *tab) quiet() {
	tb.t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, p := range tb.problems {
		tb.t.Error(p)
	}
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	if err := chromedp.Do(tb.ctx, steps...); err != nil {
		tb.t.Fatal(err)
	}
}

// ask evaluates an expression in the page.
func ask[T any](tb *tab, expression string) T {
	tb.t.Helper()
	v, err := chromedp.Run(tb.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tb.t.Fatalf("%v\nin %s", err, expression)
	}
	return v
}

// until waits for an expression to become true: for the page, never for a time.
func (tb *tab) until(expression string) {
	tb.t.Helper()
	if _, err := chromedp.Run(tb.ctx, chromedp.Poll[bool](expression)); err != nil {
		tb.t.Fatalf("%v\nwaiting for %s", err, expression)
	}
}

// unfold opens everything that is folded, so that a test sees it.
const unfold = `document.querySelectorAll("details").forEach(d => d.open = true)`
