package browsertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// pages are sessions that differ in what their page shows.
func pages(t *testing.T) map[string]string {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	header := `{"type":"session","version":3,"id":"019cbd6c-40e9-73ea-8310-0619ea89090b","timestamp":"2026-03-05T09:55:14.308Z","cwd":"/home/user/project"}` + "\n"
	if err := os.WriteFile(empty, []byte(header), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"tools":   fixture("v3/tool-calls.jsonl"),
		"tree":    fixture("v3/agent-session-tree.jsonl"),
		"unicode": fixture("v3/unicode.jsonl"),
		"images":  fixture("v3/images.jsonl"),
		"damaged": fixture("broken/missing-parent.jsonl"),
		"errors":  fixture("v3/error-stops.jsonl"),
		"lanes":   fixture("v4/run-lanes.jsonl"),
		"hostile": hostileSession(t),
		"empty":   empty,
	}
}

func TestWidths(t *testing.T) {
	for name, session := range pages(t) {
		tb := open(t, htmlOf(t, session), look{})
		ask[any](tb, unfold+`, 0`)
		for _, width := range []int64{360, 768, 1280} {
			tb.do(chromedp.EmulateViewport(width, 900))
			if wide := ask[int64](tb, `Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)`); wide > width {
				t.Errorf("%s at %d: %d wide: %s", name, width, wide, ask[string](tb, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .gist, .visually-hidden")).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join("\n")`))
			}
		}
		tb.quiet()
	}
}

// contrast lists the texts that cannot be read: those whose contrast with what is
// behind them is below 4.5 (WCAG 2.2, 1.4.3).
const contrast = `(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgba = (css) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (a, b) => { const [r, g, bl, al] = a; return [r * al + b[0] * (1 - al), g * al + b[1] * (1 - al), bl * al + b[2] * (1 - al), 1]; };
  const lum = (c) => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const layers = []; for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor)); let c = [255, 255, 255, 1]; for (const l of layers.reverse()) c = over(l, c); return c; };
  const bad = [], seen = new Set();
  let n = 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let t; t = texts.nextNode();) {
    const e = t.parentElement;
    if (!t.data.trim() || e.closest("script, style, title, [hidden], .visually-hidden") || !e.checkVisibility()) continue;
    n++;
    const s = getComputedStyle(e), bg = behind(e), fg = over(rgba(s.color), bg);
    const a = lum(fg), b = lum(bg), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5 || parseFloat(s.opacity) < 1) {
      const what = e.tagName + "." + e.className + " " + ratio.toFixed(2);
      if (!seen.has(what)) { seen.add(what); bad.push(what + ": " + t.data.trim().slice(0, 40)); }
    }
  }
  if (n < 10) bad.push("only " + n + " texts were looked at");
  return bad.join("\n");
})()`

func TestContrast(t *testing.T) {
	for name, session := range pages(t) {
		tb := open(t, htmlOf(t, session), look{width: 1280, scheme: "light"})
		ask[any](tb, unfold+`, document.querySelectorAll(".segment").forEach(s => s.hidden = false), 0`)
		if bad := ask[string](tb, contrast); bad != "" {
			t.Errorf("%s, light: %s", name, bad)
		}
		tb.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error { return setUp(ctx, look{scheme: "dark"}) }))
		if bad := ask[string](tb, contrast); bad != "" {
			t.Errorf("%s, dark: %s", name, bad)
		}
	}
}

// The toggle gives the other theme, whatever the system says.
func TestTheme(t *testing.T) {
	page := htmlOf(t, fixture("v3/tool-calls.jsonl"))
	for _, scheme := range []string{"light", "dark"} {
		tb := open(t, page, look{width: 1280, scheme: scheme})
		paper := func() string { return ask[string](tb, `getComputedStyle(document.body).backgroundColor`) }
		before := paper()
		ask[any](tb, `document.getElementById("theme").click(), 0`)
		if paper() == before {
			t.Errorf("%s: the theme did not change", scheme)
		}
		ask[any](tb, `document.getElementById("theme").click(), 0`)
		if paper() != before {
			t.Errorf("%s: the theme did not change back", scheme)
		}
	}
}

// TestContrastFails shows that the measure can fail.
func TestContrastFails(t *testing.T) {
	tb := open(t, htmlOf(t, fixture("v3/tool-calls.jsonl")), look{width: 1280, scheme: "light"})
	ask[any](tb, `document.querySelector(".muted").style.setProperty("color", "rgb(150 150 150)"), 0`)
	if bad := ask[string](tb, contrast); !strings.Contains(bad, "muted") {
		t.Errorf("grey on white passes: %q", bad)
	}
}

// focusable lists what a keyboard has to reach, in the order of the document.
const focusable = `[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
  .filter(e => e.checkVisibility({visibilityProperty: true}) && !e.disabled && !e.closest("[hidden]") && !(e.closest("details:not([open])") && e !== e.closest("details").querySelector(":scope > summary")))`

func TestKeyboardReachesEverything(t *testing.T) {
	for _, l := range []look{{width: 1280, scheme: "light"}, {width: 360, scheme: "dark"}} {
		tb := open(t, htmlOf(t, fixture("v3/agent-session-tree.jsonl")), l)
		ask[any](tb, unfold+`, window.wanted = new Set(`+focusable+`), window.count = wanted.size, document.activeElement.blur(), 0`)
		count := ask[int](tb, `count`)
		if count < 20 {
			t.Fatalf("only %d controls", count)
		}
		for range count + 8 {
			tb.do(chromedp.KeyEvent(kb.Tab))
			dim := ask[string](tb, `(() => { const e = document.activeElement; if (!e || e === document.body) return ""; wanted.delete(e);
				const s = getComputedStyle(e); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 ? "" : e.outerHTML.slice(0, 120); })()`)
			if dim != "" {
				t.Errorf("width %d: focus cannot be seen on %s", l.width, dim)
			}
		}
		if missed := ask[string](tb, `[...wanted].map(e => e.outerHTML.slice(0, 120)).join("\n")`); missed != "" {
			t.Errorf("width %d: Tab does not reach\n%s", l.width, missed)
		}
		tb.quiet()
	}
}

// focus puts the keyboard on an element, as Tab would.
func (tb *tab) focus(selector string) {
	tb.t.Helper()
	if !ask[bool](tb, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); return document.activeElement === e; })()`, selector)) {
		tb.t.Fatalf("%s takes no focus", selector)
	}
}

func TestKeyboardWorksEverything(t *testing.T) {
	tb := open(t, htmlOf(t, fixture("v3/agent-session-tree.jsonl")), look{width: 1280, scheme: "light"})
	press := func(selector, keys string) {
		t.Helper()
		tb.focus(selector)
		tb.do(chromedp.KeyEvent(keys))
	}
	press("#theme", kb.Enter)
	tb.until(`document.documentElement.dataset.theme === "dark"`)
	press("#unfold", " ")
	tb.until(`[...document.querySelectorAll("#transcript details")].every(d => d.open)`)
	press("[data-kind=other]", kb.Enter)
	tb.until(`document.querySelector(".entry.k-system").checkVisibility() === false`)
	press("[data-kind=other]", kb.Enter)

	// Charts are read with the arrow keys, and lead to what they show.
	for i := range ask[int](tb, `document.querySelectorAll(".chart").length`) {
		if !ask[bool](tb, fmt.Sprintf(`(() => { window.chart = document.querySelectorAll(".chart")[%d]; chart.focus(); return chart.querySelector(".mark") !== null; })()`, i)) {
			continue // no tool was called
		}
		tb.do(chromedp.KeyEvent(kb.ArrowRight))
		tb.until(`document.querySelector(".readout").textContent === chart.querySelector(".mark title").textContent`)
	}
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.until(`/^#e\d+$/.test(location.hash)`)

	// Finding.
	press("#find", "answer")
	tb.until(`/^\d+ found$/.test(document.getElementById("found").textContent)`)
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.until(`document.getElementById("found").textContent.startsWith("1 of ") && getSelection().toString().toLowerCase() === "answer"`)
	press("#find-back", kb.Enter)
	tb.until(`!document.getElementById("found").textContent.startsWith("1 of ")`)

	// The other path, by its list.
	before := ask[string](tb, `[...document.querySelectorAll(".segment:not([hidden])")].map(s => s.id).join()`)
	press("#way", kb.ArrowDown)
	tb.until(`[...document.querySelectorAll(".segment:not([hidden])")].map(s => s.id).join() !== "` + before + `"`)
	tb.quiet()
}

func TestPaths(t *testing.T) {
	tb := open(t, htmlOf(t, fixture("v3/branches.jsonl")), look{width: 1280})
	all := ask[int](tb, `document.querySelectorAll(".segment").length`)
	// Every link leads to something that is shown then, on a path without gaps.
	for i := range ask[int](tb, `document.querySelectorAll(".outline a, .fork a").length`) {
		ask[any](tb, fmt.Sprintf(`(window.link = document.querySelectorAll(".outline a, .fork a")[%d]).click(), 0`, i))
		tb.until(`location.hash === link.hash && document.querySelector(link.hash).checkVisibility()`)
		broken := ask[string](tb, `(() => { const shown = [...document.querySelectorAll(".segment:not([hidden])")];
			return shown.filter((s, i) => i > 0 && s.dataset.parent !== shown[i - 1].dataset.segment).map(s => s.id).join(); })()`)
		if broken != "" {
			t.Errorf("link %d: segments %s do not follow from the one before", i, broken)
		}
	}
	if shown := ask[int](tb, `document.querySelectorAll(".segment:not([hidden])").length`); shown >= all {
		t.Errorf("%d of %d segments are shown", shown, all)
	}
	tb.quiet()
}

func TestWithoutScript(t *testing.T) {
	for name, session := range pages(t) {
		tb := open(t, htmlOf(t, session), look{width: 360, noScript: true})
		// Without scripts nothing can be evaluated either, so the layout is asked.
		metrics, err := chromedp.Run(tb.ctx, chromedp.Text(chromedp.CSS("main")))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(metrics, "Transcript") || strings.Contains(metrics, "Unfold all") {
			t.Errorf("%s: main reads %.300q", name, metrics)
		}
		if name == "tree" && !strings.Contains(metrics, "Branch from") {
			t.Errorf("%s: the other branch is not there: %.300q", name, metrics)
		}
	}
}

func TestStructure(t *testing.T) {
	for name, session := range pages(t) {
		tb := open(t, htmlOf(t, session), look{width: 1280, motion: "reduce"})
		for what, good := range map[string]string{
			"language":          `document.documentElement.lang === "en"`,
			"title":             `document.title.length > 3`,
			"one heading":       `document.querySelectorAll("h1").length === 1`,
			"landmarks":         `["header.top", "main", "footer", "aside"].every(s => document.querySelectorAll(s).length === 1)`,
			"named navigation":  `[...document.querySelectorAll("nav, section, aside nav")].every(e => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby"))`,
			"named charts":      `[...document.querySelectorAll("svg[role=img]")].every(e => e.getAttribute("aria-label").length > 8)`,
			"values in charts":  `[...document.querySelectorAll(".chart .mark")].every(e => e.querySelector("title").textContent.length > 8)`,
			"table of charts":   `document.querySelector(".chart") === null || document.querySelector(".turns, .table table tbody tr") !== null || document.querySelector(".entry.k-user") === null`,
			"named controls":    `[...document.querySelectorAll("button, input, select")].every(e => (e.getAttribute("aria-label") || e.textContent.trim() || (e.labels[0] && e.labels[0].textContent.trim())) !== "")`,
			"unique ids":        `new Set([...document.querySelectorAll("[id]")].map(e => e.id)).size === document.querySelectorAll("[id]").length`,
			"links that lead":   `[...document.querySelectorAll("a[href^='#']")].every(a => document.getElementById(a.hash.slice(1)))`,
			"marks that lead":   `[...document.querySelectorAll(".mark[data-to]")].every(m => document.getElementById(m.dataset.to.slice(1)))`,
			"alternative texts": `[...document.images].every(i => i.alt.length > 3)`,
			"no motion":         `getComputedStyle(document.documentElement).scrollBehavior === "auto" && document.getAnimations().length === 0`,
		} {
			if !ask[bool](tb, good) {
				t.Errorf("%s: %s: %s", name, what, good)
			}
		}
		tb.quiet()
	}
}

func TestImages(t *testing.T) {
	tb := open(t, htmlOf(t, fixture("v3/images.jsonl")), look{width: 1280})
	ask[any](tb, unfold+`, document.querySelectorAll("img").forEach(i => i.loading = "eager"), 0`)
	if ask[int](tb, `document.images.length`) == 0 {
		t.Fatal("no image is shown")
	}
	tb.until(`[...document.images].every(i => i.complete && i.naturalWidth > 0)`)
	tb.quiet()
}

// TestLarge opens the largest page there is: 5,000 records with all of them in it.
func TestLarge(t *testing.T) {
	page := htmlOf(t, fixture("v3/large-5000.jsonl"))
	tb := open(t, page, look{width: 360})
	if n := ask[int](tb, `document.querySelectorAll("*").length`); n < 10000 || n > 150000 {
		t.Errorf("%d elements", n)
	}
	if wide := ask[int64](tb, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("%d wide", wide)
	}
	tb.focus("#find")
	tb.do(chromedp.KeyEvent("README"))
	tb.until(`/^[1-9]\d*\+? found$/.test(document.getElementById("found").textContent)`)
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.until(`getSelection().toString() === "README"`)
	tb.quiet()
}

func TestPrint(t *testing.T) {
	tb := open(t, htmlOf(t, fixture("v3/tool-calls.jsonl")), look{width: 800, scheme: "dark", media: "print"})
	ask[any](tb, `dispatchEvent(new Event("beforeprint")), 0`)
	for what, good := range map[string]string{
		"no controls":    `!document.getElementById("bar").checkVisibility() && !document.getElementById("theme").checkVisibility() && !document.querySelector("aside").checkVisibility()`,
		"white paper":    `getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)"`,
		"nothing folded": `[...document.querySelectorAll("#transcript details")].every(d => d.open)`,
	} {
		if !ask[bool](tb, good) {
			t.Errorf("%s: %s", what, good)
		}
	}
	if bad := ask[string](tb, contrast); bad != "" {
		t.Error(bad)
	}
}
