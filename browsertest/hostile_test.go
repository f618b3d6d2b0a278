package browsertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// evil is text that would do something if it came into a page as it is.
const evil = `<script>pwned=1</script></script></style></title></textarea>-->"'><img src=x onerror=pwned=1><svg onload=pwned=1>` +
	`<a href="javascript:pwned=1">x</a>{{.}}&lt;b&gt;` + "\u202eright\u2066to left\u200f \x1b[31m\x07\x00\x85\u2028 end"

// hostileSession is a session file with hostile text wherever a file can have
// text.
func hostileSession(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	line := func(v map[string]any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	at := func(n int) string { return fmt.Sprintf("2026-03-05T09:%02d:14.308Z", n) }
	message := func(n int, m map[string]any) {
		v := map[string]any{"type": "message", "id": fmt.Sprint("m", n), "timestamp": at(n), "message": m}
		if n > 1 {
			v["parentId"] = fmt.Sprint("m", n-1)
		} else {
			v["parentId"] = nil
		}
		line(v)
	}
	line(map[string]any{"type": "session", "version": 3, "id": "019cbd6c-40e9-73ea-8310-0619ea89090b", "timestamp": at(0), "cwd": "/home/" + strings.ReplaceAll(evil, "\x00", "")})
	message(1, map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "text", "text": evil + "\n```\n" + evil + "\n```\n" + strings.Repeat("a very_long_word", 400)},
		map[string]any{"type": "image", "mimeType": "image/svg+xml", "data": "PHN2ZyBvbmxvYWQ9cHduZWQ9MT4="},
		map[string]any{"type": "image", "mimeType": `image/png" onerror="pwned=1`, "data": `x" onerror="pwned=1`},
		map[string]any{"type": "image", "mimeType": "image/png", "data": `x" onerror="pwned=1`},
	}})
	message(2, map[string]any{
		"role": "assistant", "api": evil, "provider": evil, "model": evil, "stopReason": "error", "errorMessage": evil,
		"usage": map[string]any{"input": 10, "output": 5, "cacheRead": 1, "cacheWrite": 0, "totalTokens": 16, "cost": map[string]any{"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "total": 2}},
		"content": []any{
			map[string]any{"type": "thinking", "thinking": evil},
			map[string]any{"type": "toolCall", "id": evil, "name": evil, "arguments": map[string]any{evil: evil, "deep": []any{map[string]any{evil: evil}}, "html": "javascript:pwned=1"}},
			map[string]any{"type": evil, "evil": evil},
		},
	})
	message(3, map[string]any{"role": "toolResult", "toolCallId": evil, "toolName": evil, "isError": true, "content": []any{map[string]any{"type": "text", "text": evil}}})
	message(4, map[string]any{"role": "bashExecution", "command": evil, "output": evil, "exitCode": 1})
	message(5, map[string]any{"role": evil, "content": evil})
	message(6, map[string]any{"role": "custom", "customType": evil, "content": evil, "display": true, "details": map[string]any{evil: evil}})
	message(7, map[string]any{"role": "system", "content": evil, "sections": map[string]any{evil: evil}})
	line(map[string]any{"type": "label", "id": "l1", "parentId": "m7", "timestamp": at(8), "targetId": "m1", "label": evil})
	line(map[string]any{"type": "session_info", "id": "n1", "parentId": "l1", "timestamp": at(8), "name": evil})
	line(map[string]any{"type": "custom", "id": "c1", "parentId": "n1", "timestamp": at(9), "customType": evil, "data": map[string]any{evil: evil}})
	line(map[string]any{"type": "branch_summary", "id": "b1", "parentId": "m1", "timestamp": at(10), "fromId": "c1", "summary": evil})
	line(map[string]any{"type": "compaction", "id": "k1", "parentId": "b1", "timestamp": at(11), "summary": evil, "firstKeptEntryId": "m1", "tokensBefore": 100})
	b.WriteString("{" + strings.ReplaceAll(evil, "\x00", "") + "\n")
	name := filepath.Join(t.TempDir(), "hostile.jsonl")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestHostileText(t *testing.T) {
	tb := open(t, htmlOf(t, hostileSession(t)), look{width: 1280})
	ask[any](tb, unfold+`, 0`)
	for what, bad := range map[string]string{
		"script ran":                     `typeof pwned !== "undefined"`,
		"scripts":                        `document.scripts.length !== 1`,
		"style sheets":                   `document.styleSheets.length !== 1`,
		"handlers in attributes":         `[...document.querySelectorAll("*")].some(e => [...e.attributes].some(a => a.name.startsWith("on")))`,
		"links that leave the page":      `[...document.querySelectorAll("[href], [src], [action], [data-to]")].some(e => !/^(#[es]\d+|#transcript|\d+|data:image\/(png|jpeg|gif|webp);base64,.*)$/.test(e.getAttribute("href") ?? e.getAttribute("src") ?? e.getAttribute("action") ?? e.dataset.to))`,
		"elements that no template has":  `document.querySelector("iframe, object, embed, form, base, link, img, textarea, [style]") !== null`,
		"characters that act":            `/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/.test(document.documentElement.textContent)`,
		"characters that act, in titles": `[...document.querySelectorAll("*")].some(e => [...e.attributes].some(a => /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/.test(a.value)))`,
	} {
		if ask[bool](tb, bad) {
			t.Errorf("%s: %s", what, bad)
		}
	}
	// It is there to be read all the same, in every kind of place.
	for _, where := range []string{"title", "h1", ".facts", ".prose", ".code", ".call .name", ".args dt", ".result", ".problem", ".beside", ".chip.label", ".models", ".outline"} {
		if !ask[bool](tb, fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.textContent.includes("<script>pwned=1</script>"))`, where)) {
			t.Errorf("the text is missing in %s", where)
		}
	}
	if !ask[bool](tb, `document.querySelector(".prose").textContent.includes("\\u202eright") && document.querySelector(".prose").textContent.includes("\\x1b[31m")`) {
		t.Error("characters that act are not shown as escapes")
	}
	tb.quiet()
}
