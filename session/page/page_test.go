package page_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"iter"
	"regexp"
	"strings"
	"testing"

	"pistore"
	"pistore/memstore"
	"pistore/session"
	"pistore/session/page"
)

// talk makes a session of n prompts with an answer each.
func talk(t *testing.T, n int) pistore.Storage {
	t.Helper()
	b := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = b.Close() })
	storage, err := b.Create(t.Context(), pistore.Info{ID: "talk"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Open(t.Context(), storage)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		say(t, s, fmt.Sprintf("prompt %d.", i))
	}
	return storage
}

func say(t *testing.T, s *session.Session, text string) {
	t.Helper()
	_, err := s.Append(t.Context(), "main",
		session.Content{ID: pistore.ID("u" + text[:min(len(text), 20)]), Type: pistore.TypeMessage, Payload: session.MessagePayload(&session.UserMessage{Content: session.TextContent(text)})},
		session.Content{ID: pistore.ID("a" + text[:min(len(text), 20)]), Type: pistore.TypeMessage, Payload: session.MessagePayload(&session.AssistantMessage{
			Content: session.TextContent("answer to " + text), Provider: "faux", Model: "faux-1", StopReason: session.StopStop,
		})})
	if err != nil {
		t.Fatal(err)
	}
}

func leafOf(t *testing.T, s pistore.Storage) pistore.ID {
	t.Helper()
	l, err := session.New(s).Lane(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return l.Leaf
}

func write(t *testing.T, src page.Source, l page.Limits) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(t.Context(), &b, src, l); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var between = func(text, open, end string) string {
	_, text, _ = strings.Cut(text, open)
	text, _, _ = strings.Cut(text, end)
	return text
}

// The policy names exactly the style and the script that stand in the page: a
// browser refuses any other.
func TestPolicy(t *testing.T) {
	text := write(t, page.Source{Storage: talk(t, 1)}, page.DefaultLimits)
	policy := html.UnescapeString(between(text, `Content-Security-Policy" content="`, `"`))
	for name, element := range map[string]string{"style-src": between(text, "<style>", "</style>"), "script-src": between(text, "<script>", "</script>")} {
		sum := sha256.Sum256([]byte(element))
		want := name + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if len(element) < 1000 || !strings.Contains(policy, want) {
			t.Errorf("policy %s does not have %s", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("policy %s", policy)
	}
	if outside := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`).FindString(text); outside != "" {
		t.Errorf("the page names %s", outside)
	}
}

// A page is told from other files by its beginning.
func TestIsPage(t *testing.T) {
	text := write(t, page.Source{Storage: talk(t, 1)}, page.DefaultLimits)
	for _, c := range []struct {
		text string
		want bool
	}{{text, true}, {text[1:], false}, {text[:50], false}, {"", false}, {`{"type":"session"}`, false}} {
		if is, err := page.IsPage(strings.NewReader(c.text)); is != c.want || err != nil {
			t.Errorf("%.40q: %v, %v", c.text, is, err)
		}
	}
}

var articles = regexp.MustCompile(`<article[^>]* id="e(\d+)"`)

// What is left out is the oldest, and is said.
func TestLimits(t *testing.T) {
	s := talk(t, 500)
	l := page.DefaultLimits
	l.Entries = 100
	text := write(t, page.Source{Storage: s, Lanes: []page.Lane{{Name: "main", Leaf: leafOf(t, s)}}}, l)
	found := articles.FindAllStringSubmatch(text, -1)
	if len(found) != 100 || found[0][1] != "900" || found[99][1] != "999" {
		t.Errorf("%d entries are shown, of 100", len(found))
	}
	for _, want := range []string{"900 of 1,000 entries are not in this page", "900 older entries are not in this page", "prompt 499."} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	l.Entries, l.Bytes = 1000, 2000
	if n := len(articles.FindAllString(write(t, page.Source{Storage: s}, l), -1)); n == 0 || n > 30 {
		t.Errorf("%d entries fit in 2000 bytes", n)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	s := talk(t, 0)
	say(t, session.New(s), "begins here "+strings.Repeat("x", 5<<20)+" and ends")
	text := write(t, page.Source{Storage: s}, page.DefaultLimits)
	if len(text) > 300<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
	for _, want := range []string{"begins here", "and ends", "5.2 MB of 5.2 MB left out here"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// damaged is a session that can be read in part.
type damaged struct {
	pistore.Storage
	rows    int // of the export; -1: all
	entries bool
}

func (d damaged) Export(ctx context.Context) iter.Seq2[pistore.Row, error] {
	return func(yield func(pistore.Row, error) bool) {
		n := 0
		for row, err := range d.Storage.Export(ctx) {
			if n == d.rows {
				yield(nil, &pistore.CorruptError{Problem: "bad checksum"})
				return
			}
			n++
			if !yield(row, err) {
				return
			}
		}
	}
}

func (d damaged) Entries(ctx context.Context, ids []pistore.ID) ([]pistore.Entry, error) {
	if d.entries {
		return nil, &pistore.CorruptError{Problem: "bad checksum"}
	}
	return d.Storage.Entries(ctx, ids)
}

func TestDamage(t *testing.T) {
	s := talk(t, 10)
	for want, d := range map[string]damaged{
		"Reading ended early, at damage": {s, 8, false},
		"from being read here":           {s, -1, true},
		"Nothing has been said":          {s, 0, false},
	} {
		if text := write(t, page.Source{Storage: d}, page.DefaultLimits); !strings.Contains(text, want) || !strings.HasSuffix(strings.TrimSpace(text), "</html>") {
			t.Errorf("the page does not say %q, or is not whole", want)
		}
	}
}

// What is known beside the rows is no more to be trusted than they are.
func TestTextBesideTheRows(t *testing.T) {
	evil := "<script>x</script>\"'><b>\u202e\x1b"
	text := write(t, page.Source{
		Storage: talk(t, 1), Lanes: []page.Lane{{Name: evil, Doing: evil, Model: evil, Result: evil, Busy: true}},
		Faults:   []page.Fault{{Name: evil, Place: evil, ID: evil, Message: evil}},
		LegacyID: func(pistore.ID) string { return evil },
	}, page.DefaultLimits)
	if strings.Contains(text, "<script>x") || strings.ContainsAny(text, "\u202e\x1b") || strings.Contains(text, "><b>") {
		t.Error("text is not escaped")
	}
	if n := strings.Count(text, "&lt;script&gt;x"); n < 9 {
		t.Errorf("text is shown %d times", n)
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := page.Write(ctx, &bytes.Buffer{}, page.Source{Storage: talk(t, 3)}, page.DefaultLimits); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := page.Write(t.Context(), full{}, page.Source{Storage: talk(t, 3)}, page.DefaultLimits); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
