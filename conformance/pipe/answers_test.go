package pipe

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"pistore"
	"pistore/internal/allocs"
)

// FuzzAnswers lets the fuzzer be the store: each line is an answer, in which N
// stands for the number of the request. Calls return, errors are typed, and
// after nonsense nothing more is asked.
func FuzzAnswers(f *testing.F) {
	const opened = `{"id":N,"result":{"session":{"id":"s","createdAt":1,"cwd":""},"format":"f","storageVersion":1}}` + "\n"
	f.Add(opened + `{"id":N,"result":{"firstSeq":1,"seqs":[1],"timestamp":5,"stats":{"entryCount":0,"messageCount":0,"usage":{"rows":0}}}}`)
	f.Add(opened + `{"id":N,"error":{"code":"conflict","message":"m"}}` + "\n" + `{"id":N,"result":{"entries":[{"id":"e","seq":1,"type":"message"}]}}`)
	f.Add(opened + strings.Repeat(`{"id":N,"result":{"register":{"namespace":"n","key":"k","value":1,"seq":2},"rows":[{"id":"u","usage":{}}],"entries":[]}}`+"\n", 9))
	f.Add(opened + `{"id":N}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "N") > 100 {
			return // each of them grows
		}
		allocs.Within(t, len(text), 300, 4<<20, func() { ask(t, text) })
	})
}

// ask makes every call of a session to a store that answers with the lines of a
// text.
func ask(t *testing.T, text string) {
	t.Helper()
	store := &answering{lines: strings.SplitAfter(text, "\n")}
	p := &process{cmd: store, in: store, out: bufio.NewReader(store)}
	b := New(Options{Command: command("none"), Location: "somewhere"})
	b.idle = append(b.idle, p)
	asked := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		var known bool
		for _, c := range codes {
			known = known || errors.Is(err, c.err)
		}
		if !known && !strings.Contains(err.Error(), "which the protocol does not have") {
			t.Errorf("untyped error %v", err)
		}
	}
	s, err := b.Open(context.Background(), "s", pistore.ReadWrite)
	if asked(err); err != nil {
		return
	}
	_, err = s.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "n", Value: "1"}}})
	asked(err)
	_, err = s.Entries(t.Context(), []pistore.ID{"e"})
	asked(err)
	_, err = s.Registers(t.Context(), []pistore.Address{{Namespace: "n"}})
	asked(err)
	for _, err := range s.RegistersByPrefix(t.Context(), "n", "") {
		asked(err)
	}
	for _, err := range s.Branch(t.Context(), pistore.BranchQuery{Start: "e"}) {
		asked(err)
	}
	for _, err := range s.ScanEntries(t.Context(), pistore.ScanQuery{StructureOnly: true}) {
		asked(err)
	}
	for _, err := range s.ScanUsage(t.Context(), pistore.ScanQuery{}) {
		asked(err)
	}
	_, err = s.Stats(t.Context())
	asked(err)
	asked(s.Close())
	if p.dead != nil && store.asked != p.last {
		t.Errorf("%d requests were made, the last was %d", store.asked, p.last)
	}
}

// answering is a store that takes requests and has its answers ready.
type answering struct {
	lines []string
	left  string
	asked int
}

func (a *answering) Write(p []byte) (int, error) {
	a.asked++
	return len(p), nil
}

func (a *answering) Read(p []byte) (int, error) {
	if a.left == "" {
		if len(a.lines) == 0 {
			return 0, io.EOF
		}
		a.left = strings.ReplaceAll(a.lines[0], "N", strconv.Itoa(a.asked))
		a.lines = a.lines[1:]
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

func (*answering) Close() error   { return nil }
func (*answering) Kill() error    { return nil }
func (*answering) Wait() error    { return nil }
func (*answering) String() string { return "exit status 0" }
