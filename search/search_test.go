package search_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"pistore"
	"pistore/memstore"
	"pistore/search"
	"pistore/session"
)

// repo is a place with sessions in memory.
type repo struct{ backend *memstore.Backend }

func newRepo(t testing.TB) *repo {
	b := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = b.Close() })
	return &repo{b}
}

// say appends user messages to a session, which it makes if there is none. Their
// ids are made of the session and the number that they have in it.
func (r *repo) say(t testing.TB, id pistore.SessionID, texts ...string) {
	t.Helper()
	ctx := context.Background()
	storage, err := r.backend.Open(ctx, id, pistore.ReadWrite)
	if errors.Is(err, pistore.ErrNotFound) {
		storage, err = r.backend.Create(ctx, pistore.Info{ID: id})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer storage.Close()
	s, err := session.Open(ctx, storage)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := storage.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		c := session.Content{
			ID: pistore.ID(fmt.Sprintf("%s-%d", id, int(stats.Entries)+i)), Type: pistore.TypeMessage,
			Payload: session.MessagePayload(&session.UserMessage{Content: session.TextContent(text)}),
		}
		if _, err := s.Append(ctx, "main", c); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *repo) sessions(t testing.TB) []search.Session {
	t.Helper()
	var all []search.Session
	for info, err := range r.backend.List(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, search.Session{Key: string(info.ID), Info: info, Open: func(ctx context.Context) (search.Reader, error) {
			s, err := r.backend.Open(ctx, info.ID, pistore.ReadOnly)
			if err != nil {
				return search.Reader{}, err
			}
			return search.Reader{Storage: s, Close: s.Close}, nil
		}})
	}
	return all
}

func open(t testing.TB, path string) *search.Index {
	t.Helper()
	x, err := search.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func feed(t testing.TB, x *search.Index, sessions []search.Session) search.Fed {
	t.Helper()
	fed, err := x.Feed(context.Background(), sessions)
	if err != nil {
		t.Fatal(err)
	}
	return fed
}

// found returns the entries that a text finds, by id.
func found(t testing.TB, x *search.Index, text string) []string {
	t.Helper()
	terms, err := search.ParseTerms(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	hits, more, err := x.Find(context.Background(), search.Query{Terms: terms, Limit: 1000})
	if err != nil || more {
		t.Fatalf("%q: %v, more %v", text, err, more)
	}
	ids := []string{}
	for _, h := range hits {
		ids = append(ids, string(h.Entry))
	}
	slices.Sort(ids)
	return ids
}

func want(t testing.TB, x *search.Index, text string, ids ...string) {
	t.Helper()
	if got := found(t, x, text); !slices.Equal(got, append([]string{}, ids...)) {
		t.Errorf("%q finds %v, want %v", text, got, ids)
	}
}

func TestFind(t *testing.T) {
	r := newRepo(t)
	r.say(t, "s", "func parseHTTPHeader(r io.Reader) error {", "internal/money/money.go:12: the carry is lost", "検索エンジンを直す", "Größe ÄNDERN", `she said "stop" and a\b 100%`)
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	feed(t, x, r.sessions(t))
	want(t, x, "HTTPHeader", "s-0")
	want(t, x, "httphead", "s-0")
	want(t, x, "parse io.Reader", "s-0")
	want(t, x, `"the carry"`, "s-1")
	want(t, x, `"carry the"`)
	want(t, x, "money/money.go:1", "s-1")
	want(t, x, "エンジン", "s-2")
	want(t, x, "検索", "s-2")
	want(t, x, "直", "s-2")
	want(t, x, "grÖSSe")
	want(t, x, "grÖße ändern", "s-3")
	want(t, x, `\b`, "s-4")
	want(t, x, "100%", "s-4")
	want(t, x, "go", "s-1")
}

// Nothing that is sought is taken for an operator of the engine.
func TestQueriesAreText(t *testing.T) {
	r := newRepo(t)
	texts := []string{`AND`, `foo* OR bar`, `NEAR(a b, 3)`, `text:foo`, `^start`, `-minus`, `a"b`, `(`, `'; DROP TABLE texts; --`, `{x y}`, "tab\there"}
	r.say(t, "s", texts...)
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	feed(t, x, r.sessions(t))
	for i, text := range texts {
		if got := found(t, x, text); !slices.Contains(got, fmt.Sprint("s-", i)) {
			t.Errorf("%q finds %v", text, got)
		}
	}
	for _, text := range []string{"", " ", `""`, `" "`, strings.Repeat("x", search.MaxQueryBytes+1)} {
		if _, err := search.ParseTerms(text); err == nil {
			t.Errorf("%.20q is a search", text)
		}
	}
}

// What is found is what stands in the texts.
func TestFindsWhatIsThere(t *testing.T) {
	letters := []rune("abAB _.検索é\n")
	word := rapid.StringOfN(rapid.SampledFrom(letters), 1, 12, -1)
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(word, 1, 12).Draw(rt, "texts")
		query := rapid.StringOfN(rapid.SampledFrom([]rune("abA _検索é")), 1, 6, -1).Draw(rt, "query")
		terms, err := search.ParseTerms(query)
		if err != nil {
			return
		}
		r := newRepo(t)
		r.say(t, "s", texts...)
		x := open(t, filepath.Join(t.TempDir(), "x.db"))
		defer x.Close()
		feed(t, x, r.sessions(t))
		var there []string
		for i, text := range texts {
			if !slices.ContainsFunc(terms, func(term string) bool { return !strings.Contains(strings.ToLower(text), strings.ToLower(term)) }) {
				there = append(there, fmt.Sprint("s-", i))
			}
		}
		slices.Sort(there)
		if got := found(t, x, query); !slices.Equal(got, append([]string{}, there...)) {
			rt.Fatalf("%q in %q finds %v, want %v", query, texts, got, there)
		}
	})
}

func TestFeed(t *testing.T) {
	r := newRepo(t)
	r.say(t, "a", "apple one", "apple two")
	r.say(t, "b", "apple three")
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	if fed := feed(t, x, r.sessions(t)); fed.Entries != 3 || fed.Sessions != 2 {
		t.Errorf("fed %+v", fed)
	}
	// Only what is new is read again.
	r.say(t, "b", "apple four")
	if fed := feed(t, x, r.sessions(t)); fed.Entries != 1 {
		t.Errorf("fed again %+v", fed)
	}
	want(t, x, "apple", "a-0", "a-1", "b-0", "b-1")

	// What is gone is not found; nor is it in the file.
	if err := r.backend.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if fed := feed(t, x, r.sessions(t)); fed.Removed != 1 {
		t.Errorf("removed %+v", fed)
	}
	want(t, x, "apple", "b-0", "b-1")

	// A session under the same name with another generation is another one.
	if err := r.backend.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	r.say(t, "b", "pear")
	feed(t, x, r.sessions(t))
	want(t, x, "apple")
	want(t, x, "pear", "b-0")
}

func TestMarks(t *testing.T) {
	r := newRepo(t)
	r.say(t, "a", "apple")
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	opened := 0
	marked := func(mark string) []search.Session {
		s := r.sessions(t)
		s[0].Mark, s[0].Whole = mark, true
		inner := s[0].Open
		s[0].Open = func(ctx context.Context) (search.Reader, error) { opened++; return inner(ctx) }
		return s
	}
	feed(t, x, marked("1"))
	feed(t, x, marked("1"))
	if opened != 1 {
		t.Errorf("opened %d times without a change", opened)
	}
	r.say(t, "a", "apricot")
	if fed := feed(t, x, marked("2")); opened != 2 || fed.Entries != 2 {
		t.Errorf("opened %d times, fed %+v", opened, fed)
	}
	want(t, x, "ap", "a-0", "a-1")
}

func TestUnreadable(t *testing.T) {
	r := newRepo(t)
	r.say(t, "a", "apple")
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	s := r.sessions(t)
	broken := errors.New("it is damaged")
	works := s[0].Open
	s[0].Open = func(context.Context) (search.Reader, error) { return search.Reader{}, broken }
	s[0].Mark = "1"
	for range 2 { // also while it does not change
		fed := feed(t, x, s)
		if len(fed.Skipped) != 1 || fed.Skipped[0].Key != "a" || fed.Skipped[0].Err.Error() != broken.Error() {
			t.Errorf("fed %+v", fed)
		}
		want(t, x, "apple")
	}
	s[0].Open, s[0].Mark = works, "2"
	if fed := feed(t, x, s); len(fed.Skipped) != 0 {
		t.Errorf("mended, and fed %+v", fed)
	}
	want(t, x, "apple", "a-0")
}

func TestInterrupted(t *testing.T) {
	r := newRepo(t)
	for i := range 4 {
		r.say(t, pistore.SessionID(fmt.Sprint("s", i)), "apple")
	}
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	ctx, cancel := context.WithCancel(t.Context())
	s := r.sessions(t)
	inner := s[2].Open
	s[2].Open = func(ctx context.Context) (search.Reader, error) { cancel(); return inner(ctx) }
	if _, err := x.Feed(ctx, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	want(t, x, "apple", "s0-0", "s1-0")
	if fed := feed(t, x, r.sessions(t)); fed.Entries != 2 {
		t.Errorf("afterwards %+v", fed)
	}
	want(t, x, "apple", "s0-0", "s1-0", "s2-0", "s3-0")
}

// Two processes that feed one index do the work once and harm nothing.
func TestTwoAtOnce(t *testing.T) {
	r := newRepo(t)
	for i := range 6 {
		r.say(t, pistore.SessionID(fmt.Sprint("s", i)), "apple", "pear")
	}
	path := filepath.Join(t.TempDir(), "x.db")
	sessions := r.sessions(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			x, err := search.Open(context.Background(), path)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = x.Feed(context.Background(), sessions)
			if err == nil {
				_, _, err = x.Find(context.Background(), search.Query{Terms: []string{"apple"}, Limit: 10})
			}
			if err = errors.Join(err, x.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	x := open(t, path)
	if got := found(t, x, "apple"); len(got) != 6 {
		t.Errorf("found %v", got)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cache", "x.db")
	r := newRepo(t)
	r.say(t, "a", "apple", strings.Repeat("banana ", 20000))
	x := open(t, path)
	feed(t, x, r.sessions(t))
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(name); err != nil || info.Mode() != mode {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	// Damage is told, and what is begun anew works.
	for name, damaged := range map[string][]byte{
		"cut off":   text[:len(text)/2],
		"scrambled": append(slices.Clone(text[:4096]), slices.Repeat([]byte{0xa5}, len(text)-4096)...),
	} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := search.Open(t.Context(), path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if x.Rebuilt == "" {
			_, err = x.Feed(t.Context(), r.sessions(t))
			if err == nil {
				_, _, err = x.Find(t.Context(), search.Query{Terms: []string{"apple"}, Limit: 10})
			}
			if !search.IsDamage(err) {
				t.Fatalf("%s: %v", name, err)
			}
			if err := x.Rebuild(t.Context(), "it was damaged"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		feed(t, x, r.sessions(t))
		want(t, x, "apple", "a-0")
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}

	// A file of somebody else is left alone.
	for name, other := range map[string]string{"notes": "my notes, which are longer than a header of a database is: " + strings.Repeat("x", 100), "short": "x"} {
		if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := search.Open(t.Context(), path); !errors.Is(err, search.ErrNotIndex) {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != other {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := search.Open(t.Context(), dir); !errors.Is(err, search.ErrNotIndex) {
		t.Errorf("a folder: %v", err)
	}
}

func TestSnippet(t *testing.T) {
	r := newRepo(t)
	r.say(t, "s", strings.Repeat("before\n ", 50)+"The Needle here"+strings.Repeat(" behind", 50))
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	feed(t, x, r.sessions(t))
	hits, _, err := x.Find(t.Context(), search.Query{Terms: []string{"needle", "here"}, Limit: 1})
	if err != nil || len(hits) != 1 {
		t.Fatal(hits, err)
	}
	text, marks := "", []string{}
	for _, p := range hits[0].Snippet {
		text += p.Text
		if p.Match {
			marks = append(marks, p.Text)
		}
	}
	if !slices.Equal(marks, []string{"Needle", "here"}) || !strings.HasPrefix(text, "…") || !strings.HasSuffix(text, "…") ||
		!strings.Contains(text, "before before The Needle here behind") || len(text) > 300 {
		t.Errorf("%q, marked %q", text, marks)
	}
}

func TestOrderAndFilter(t *testing.T) {
	r := newRepo(t)
	r.say(t, "s", "apple pie with a lot of other things that nobody asked for", "apple apple apple")
	x := open(t, filepath.Join(t.TempDir(), "x.db"))
	feed(t, x, r.sessions(t))
	find := func(q search.Query) (ids []string, more bool) {
		t.Helper()
		q.Terms = []string{"apple"}
		hits, more, err := x.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			ids = append(ids, string(h.Entry))
		}
		return ids, more
	}
	if ids, more := find(search.Query{Limit: 1}); !slices.Equal(ids, []string{"s-1"}) || !more {
		t.Errorf("newest: %v, more %v", ids, more)
	}
	if ids, more := find(search.Query{Limit: 2, Rank: true}); !slices.Equal(ids, []string{"s-1", "s-0"}) || more {
		t.Errorf("best: %v, more %v", ids, more)
	}
	if ids, _ := find(search.Query{Limit: 2, In: []string{"assistant", "compaction"}}); len(ids) != 0 {
		t.Errorf("in answers: %v", ids)
	}
	if ids, _ := find(search.Query{Limit: 2, In: []string{"message"}}); len(ids) != 2 {
		t.Errorf("in messages: %v", ids)
	}
}
