package coding

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pistore/session"
)

func TestRead(t *testing.T) {
	b := newBench(t)
	var numbered strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&numbered, "%d\n", i+1)
	}
	b.put("numbers", numbered.String())
	b.put("empty", "")
	b.put("no newline", "a\nb")
	b.put("crlf", "a\r\nb\r\n")
	b.put("binary", "MZ\x00\x01")
	b.put("late", strings.Repeat("x\n", 20000)+"\x00\n")
	b.put("latin1", "caf\xe9\n")
	b.put("wide", strings.Repeat("世", 30000)+"\nsecond\n")
	b.put("heavy", strings.Repeat(strings.Repeat("x", 1023)+"\n", 100))
	b.put("dir/x", "")
	lines := func(from, to int) string {
		var s strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&s, "%d\n", i)
		}
		return s.String()
	}
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"path": "no newline"}, "a\nb"},
		{m{"path": "crlf"}, "a\r\nb\r\n"},
		{m{"path": "empty"}, "[The file is empty.]\n"},
		{m{"path": "empty", "offset": 2}, "error: empty has 0 lines only, so there is no line 2"},
		{m{"path": "numbers"}, lines(1, 2000) + "[Lines 1 to 2000; the file goes on. Continue with offset 2001.]\n"},
		{m{"path": "numbers", "offset": 4001}, lines(4001, 5000)},
		{m{"path": "numbers", "offset": 10, "limit": 2}, "10\n11\n[Lines 10 to 11; the file goes on. Continue with offset 12.]\n"},
		{m{"path": "numbers", "offset": 5000}, "5000\n"},
		{m{"path": "numbers", "offset": 5001}, "error: numbers has 5000 lines only, so there is no line 5001"},
		{m{"path": "numbers", "offset": 9999}, "error: numbers has 5000 lines only, so there is no line 9999"},
		{m{"path": "no newline", "offset": 2}, "b"},
		{m{"path": "no newline", "offset": 3}, "error: no newline has 2 lines only, so there is no line 3"},
		{m{"path": "binary"}, "error: binary is a binary file"},
		{m{"path": "late", "offset": 20001}, "error: late is a binary file"},
		{m{"path": "latin1"}, "caf\uFFFD\n[Some bytes are not UTF-8 and are shown as \uFFFD; edit cannot match them.]\n"},
		{m{"path": "wide"}, strings.Repeat("世", maxReadBytes/3) + "\n[Line 1 is longer than 51200 bytes; only its beginning is shown. Use bash to see more of it.]\n"},
		{m{"path": "wide", "offset": 2}, "second\n"},
		{m{"path": "heavy"}, strings.Repeat(strings.Repeat("x", 1023)+"\n", 50) + "[Lines 1 to 50; the file goes on. Continue with offset 51.]\n"},
		{m{"path": "dir"}, "error: dir is a directory"},
		{m{"path": "."}, "error: . is a directory"},
		{m{"path": "none"}, "error: none does not exist"},
		{m{"path": "dir/none/x"}, "error: dir/none/x does not exist"},
		{m{"path": "empty/x"}, "error: empty/x: not a directory"},
		{m{"path": "a\x00b"}, `error: the path "a\x00b" has a NUL character`},
		{m{"path": ""}, `error: the arguments of read do not fit its schema: "path": minLength: got 0, want 1`},
		{m{"path": "x", "offset": 0}, `error: the arguments of read do not fit its schema: "offset": minimum: got 0, want 1`},
	} {
		if diff := cmp.Diff(c.want, b.text("read", c.args)); diff != "" {
			t.Errorf("%v: %s", c.args, diff)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.call(ctx, "read", m{"path": "numbers", "offset": 3}, nil); err == nil {
		t.Error("a cancelled read went on")
	}
}

func TestReadImage(t *testing.T) {
	b := newBench(t)
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01", 100)
	b.put("p.png", png)
	b.put("big.png", png+strings.Repeat("x", maxImageBytes))
	r, err := b.call(t.Context(), "read", m{"path": "p.png"}, nil)
	want := []session.Block{session.Text{Text: "p.png (image/png)"}, session.Image{Data: base64.StdEncoding.EncodeToString([]byte(png)), MIMEType: "image/png"}}
	if diff := cmp.Diff(want, r.Content); err != nil || diff != "" {
		t.Error(err, diff)
	}
	b.want(b.text("read", m{"path": "big.png"}), "error: big.png is an image of more than 3145728 bytes, which is too large to show")
}

func TestWrite(t *testing.T) {
	b := newBench(t)
	b.want(b.text("write", m{"path": "a/b/c.txt", "content": "grüß\n"}), "Wrote 7 bytes to a/b/c.txt.")
	b.want(b.content("a/b/c.txt"), "grüß\n")
	b.want(b.text("write", m{"path": "a/b/c.txt", "content": ""}), "Wrote 0 bytes to a/b/c.txt.")
	b.want(b.content("a/b/c.txt"), "")
	script := filepath.Join(b.root, "run.sh")
	b.put("run.sh", "old")
	if err := os.Chmod(script, 0o751); err != nil {
		t.Fatal(err)
	}
	b.text("write", m{"path": "run.sh", "content": "new"})
	if info, err := os.Stat(script); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b.link("b/new", "a/dangling")
	b.text("write", m{"path": "a/dangling", "content": "made"})
	b.want(b.content("a/b/new"), "made")
	b.link("loop", "loop")
	long := strings.Repeat("n", 255)
	b.text("write", m{"path": long, "content": "long"})
	b.want(b.content(long), "long")
	for _, c := range []struct{ path, want string }{
		{"a/b", "error: a/b is a directory"},
		{"run.sh/x", "error: run.sh/x: not a directory"},
		{"new/", "error: new/ is not the name of a file"},
		{"loop", "error: loop is a link that leads to itself"},
		{"x" + long, "error: x" + long + ": file name too long"},
	} {
		b.want(b.text("write", m{"path": c.path, "content": "x"}), c.want)
	}
	b.clean()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.call(ctx, "write", m{"path": "run.sh", "content": "cancelled"}, nil); err == nil || b.content("run.sh") != "new" {
		t.Error("a cancelled write went on")
	}
}

// TestWriteIsAtomic reads while the file is replaced: never a mixture.
func TestWriteIsAtomic(t *testing.T) {
	b := newBench(t)
	contents := [2]string{strings.Repeat("a", 40000), strings.Repeat("b", 30000)}
	b.put("f", contents[0])
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 60 {
			b.text("write", m{"path": "f", "content": contents[i%2]})
		}
	})
	for range 200 {
		if got := b.content("f"); got != contents[0] && got != contents[1] {
			t.Fatalf("a mixture of %d bytes", len(got))
		}
	}
	writer.Wait()
	b.clean()
}

func TestEdit(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		before   string
		args     m
		after    string
		want     string
		wantDiff string
	}{
		{"one\ntwo\nthree\n", m{"oldText": "two", "newText": "2"}, "one\n2\nthree\n", "Replaced the text in f, line 2.",
			"@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"},
		{"a\nb\na\n", m{"oldText": "a", "newText": "x", "replaceAll": true}, "x\nb\nx\n", "Replaced 2 occurrences in f.",
			"@@ -1,3 +1,3 @@\n-a\n+x\n b\n-a\n+x\n"},
		{"a\nb\na\n", m{"oldText": "a", "newText": "x"}, "a\nb\na\n",
			"error: oldText occurs more than once in f; take in lines around it to make it unique, or set replaceAll", ""},
		{"aaa", m{"oldText": "aa", "newText": "x"}, "aaa",
			"error: oldText occurs more than once in f; take in lines around it to make it unique, or set replaceAll", ""},
		{"a b\n", m{"oldText": "a  b", "newText": "x"}, "a b\n",
			"error: oldText does not occur in f; read the file and copy the text exactly, white space included", ""},
		{"a", m{"oldText": "a", "newText": "a"}, "a", "error: oldText and newText are the same, so nothing would change", ""},
		{"one\r\ntwo\r\nthree\r\n", m{"oldText": "one\ntwo\n", "newText": "1\n2\n2b\n"}, "1\r\n2\r\n2b\r\nthree\r\n", "Replaced the text in f, line 1.",
			"@@ -1,3 +1,4 @@\n-one\r\n-two\r\n+1\r\n+2\r\n+2b\r\n three\r\n"},
		{"a\nb", m{"oldText": "b", "newText": ""}, "a\n", "Replaced the text in f, line 2.",
			"@@ -1,2 +1,1 @@\n a\n-b\n\\ No newline at end of file\n"},
		{"only", m{"oldText": "only", "newText": ""}, "", "Replaced the text in f, line 1.",
			"@@ -1,1 +0,0 @@\n-only\n\\ No newline at end of file\n"},
		{"a\nb\nc\n", m{"oldText": "\nb", "newText": ""}, "a\nc\n", "Replaced the text in f, line 2.",
			"@@ -1,3 +1,2 @@\n a\n-b\n c\n"},
		{"a\nb\nc\n", m{"oldText": "a\n", "newText": "A "}, "A b\nc\n", "Replaced the text in f, line 1.",
			"@@ -1,3 +1,2 @@\n-a\n-b\n+A b\n c\n"},
		{"x\x00y", m{"oldText": "x", "newText": "z"}, "x\x00y", "error: f is a binary file", ""},
		{"caf\xe9 x\n", m{"oldText": "x", "newText": "y"}, "caf\xe9 y\n", "Replaced the text in f, line 1.",
			"@@ -1,1 +1,1 @@\n-caf\uFFFD x\n+caf\uFFFD y\n"},
	} {
		b.put("f", c.before)
		c.args["path"] = "f"
		b.want(b.text("edit", c.args), c.want)
		b.want(b.content("f"), c.after)
		if c.wantDiff == "" {
			continue
		}
		b.put("f", c.before)
		r, err := b.call(t.Context(), "edit", c.args, nil)
		diffMember, _ := r.Details.Member("diff")
		if diff, _ := diffMember.Text(); err != nil || diff != c.wantDiff {
			t.Errorf("%v: diff %q\nwant %q, %v", c.args, diff, c.wantDiff, err)
		}
	}
	b.put("big", strings.Repeat("x", maxEditBytes+1))
	b.want(b.text("edit", m{"path": "big", "oldText": "y", "newText": "z"}), fmt.Sprintf("error: big has %d bytes, more than the %d that can be edited", maxEditBytes+1, maxEditBytes))
	b.want(b.text("edit", m{"path": "none", "oldText": "y", "newText": "z"}), "error: none does not exist")
	b.clean()
}

func TestEditsDoNotLoseEachOther(t *testing.T) {
	b := newBench(t)
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "old%02d\n", i)
	}
	b.put("f", text.String())
	var edits sync.WaitGroup
	for i := range 20 {
		edits.Go(func() {
			b.text("edit", m{"path": "f", "oldText": fmt.Sprintf("old%02d", i), "newText": fmt.Sprintf("new%02d", i)})
		})
	}
	edits.Wait()
	b.want(b.content("f"), strings.ReplaceAll(text.String(), "old", "new"))
}

func TestDiffIsBounded(t *testing.T) {
	content := strings.Repeat("x "+strings.Repeat("y", 100)+"\n", 5000)
	diff, first := unified(content, "x", "z", occurrences(content, "x"))
	if len(diff) > maxDiffBytes+100 || first != 1 || !strings.HasSuffix(diff, "\n[the diff goes on]\n") {
		t.Errorf("%d bytes, first line %d", len(diff), first)
	}
}

// TestDiffProperty applies the diff of any replacement to the old text.
func TestDiffProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 1, 60, -1).Draw(t, "content")
		before := rapid.StringOfN(rapid.SampledFrom([]rune("ab\n")), 1, 3, -1).Draw(t, "before")
		after := rapid.StringOfN(rapid.SampledFrom([]rune("abc\n")), 0, 4, -1).Draw(t, "after")
		places := occurrences(content, before)
		if len(places) == 0 {
			return
		}
		diff, _ := unified(content, before, after, places)
		want := strings.ReplaceAll(content, before, after)
		if got, err := apply(content, diff); err != nil || got != want {
			t.Fatalf("%v\ndiff:\n%s\ngot  %q\nwant %q", err, diff, got, want)
		}
	})
}

// apply is a patch that trusts nothing but positions and lines.
func apply(content, diff string) (string, error) {
	old := strings.SplitAfter(content, "\n")
	diff = strings.ReplaceAll(diff, "\n\\ No newline at end of file\n", "\x00")
	var out strings.Builder
	at, written := 0, 0
	lines := strings.FieldsFunc(strings.ReplaceAll(diff, "\x00", "\x00\n"), func(r rune) bool { return r == '\n' })
	for _, line := range lines {
		if strings.HasPrefix(line, "@@") {
			var from, n, to, k int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d +%d,%d @@", &from, &n, &to, &k); err != nil {
				return "", err
			}
			if n > 0 {
				from--
			}
			if k > 0 {
				to--
			}
			for ; at < from; at, written = at+1, written+1 {
				out.WriteString(old[at])
			}
			if written != to {
				return "", fmt.Errorf("%s: %d lines were written before", line, written)
			}
			continue
		}
		text := line[1:] + "\n"
		if strings.HasSuffix(line, "\x00") {
			text = strings.TrimSuffix(line[1:], "\x00")
		}
		if line[0] != '+' {
			if at >= len(old) || old[at] != text {
				return "", fmt.Errorf("%q at line %d", line, at)
			}
			at++
		}
		if line[0] != '-' {
			out.WriteString(text)
			written++
		}
	}
	for ; at < len(old); at++ {
		out.WriteString(old[at])
	}
	return out.String(), nil
}
