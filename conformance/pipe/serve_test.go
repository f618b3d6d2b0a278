package pipe

import (
	"bytes"
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pistore"
	"pistore/internal/allocs"
	"pistore/memstore"
)

var update = flag.Bool("update", false, "write the answers of conversations anew")

// serveMemory answers lines from a memory store whose clock and ids repeat.
func serveMemory(t testing.TB, in string) string {
	t.Helper()
	b := memstore.New(memstore.Options{
		Clock: func() pistore.UnixMS { return 1_700_000_000_000 },
		Rand:  rand.NewChaCha8([32]byte{}),
	})
	var out bytes.Buffer
	err := Serve(context.Background(), strings.NewReader(in), &out, func(ctx context.Context, p OpenParams) (pistore.Storage, io.Closer, error) {
		s, err := OpenIn(ctx, b, p)
		return s, nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestConversation holds every method, and what is answered to what is wrong,
// byte for byte. In the file each answer stands below its request.
func TestConversation(t *testing.T) {
	const name = "testdata/conversation.txt"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var requests []string
	for line := range strings.Lines(string(text)) {
		if request, ok := strings.CutPrefix(line, "> "); ok {
			requests = append(requests, request)
		}
	}
	answers := strings.SplitAfter(serveMemory(t, strings.Join(requests, "")), "\n")
	var got strings.Builder
	for i, request := range requests {
		got.WriteString("> " + request + answers[i] + "\n")
	}
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if got.String() != string(text) {
		t.Errorf("the conversation went\n%s", got.String())
	}
}

// FuzzServe holds that every line has one answer, which is one line of JSON with
// a result or an error, and that nothing panics.
func FuzzServe(f *testing.F) {
	text, err := os.ReadFile("testdata/conversation.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if request, ok := strings.CutPrefix(line, "> "); ok {
			f.Add(request)
		}
	}
	open := `{"id":1,"method":"open","params":{"location":"memory:","create":true}}` + "\n"
	f.Fuzz(func(t *testing.T, request string) {
		in := open + strings.ReplaceAll(request, "\n", " ") + "\n" + `{"id":3,"method":"stats"}` + "\n"
		allocs.Within(t, len(in), 100, 4<<20, func() { serveMemory(t, in) })
		answers := strings.Split(strings.TrimSuffix(serveMemory(t, in), "\n"), "\n")
		if len(answers) != 3 {
			t.Fatalf("%d answers to 3 requests: %q", len(answers), answers)
		}
		for _, a := range answers {
			j, err := compactLine([]byte(a))
			if err != nil {
				t.Fatalf("%q: %v", a, err)
			}
			_, result := j.Member("result")
			_, failed := j.Member("error")
			if result == failed {
				t.Fatalf("%q has a result and an error, or neither", a)
			}
		}
	})
}
