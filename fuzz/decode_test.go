package fuzz

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/internal/allocs"
	"pistore/registers"
	"pistore/session"
)

// What decoding a text may allocate.
const (
	decodeFactor = 200
	decodeBase   = 1 << 20
)

// FuzzCheckRegister checks any text as the value of a register of each namespace.
func FuzzCheckRegister(f *testing.F) {
	goldens, err := filepath.Glob("../registers/testdata/*.json")
	if err != nil || len(goldens) < 30 {
		f.Fatalf("%d values: %v", len(goldens), err)
	}
	for _, name := range goldens {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("O", string(text))
	}
	f.Add("O:S:0", `{"a":`)
	f.Fuzz(func(t *testing.T, key, text string) {
		accepted := 0
		allocs.Within(t, len(text)*len(registers.Namespaces()), decodeFactor, decodeBase, func() {
			accepted = 0
			for _, n := range registers.Namespaces() {
				err := n.CheckValue(key, pistore.JSON(text))
				if err == nil {
					accepted++
				} else if !errors.Is(err, pistore.ErrInvalid) && !errors.Is(err, pistore.ErrTooLarge) {
					t.Errorf("%s: untyped error %v", n.Name, err)
				}
			}
		})
		if _, err := pistore.CompactJSON(text); err != nil && accepted > 0 {
			t.Errorf("%d namespaces take what is no JSON: %v", accepted, err)
		}
	})
}

// FuzzDecodeOpState decodes any text as an op.state. What is accepted has one
// form: it is encoded to the same bytes ever after, and means the same. What it
// needs are registers that there are.
func FuzzDecodeOpState(f *testing.F) {
	goldens, err := filepath.Glob("../registers/testdata/op.state-*.json")
	if err != nil || len(goldens) < 20 {
		f.Fatalf("%d states: %v", len(goldens), err)
	}
	for _, name := range goldens {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"kind":"run","resumes":1e3}`)
	f.Fuzz(func(t *testing.T, text string) {
		allocs.Within(t, len(text), decodeFactor, decodeBase, func() { _, _ = registers.DecodeOpState(pistore.JSON(text)) })
		s, err := registers.DecodeOpState(pistore.JSON(text))
		if err != nil {
			if !errors.Is(err, pistore.ErrInvalid) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		value := registers.EncodeOpState(s)
		back, err := registers.DecodeOpState(value)
		if err != nil {
			t.Fatalf("%v for\n%s", err, value)
		}
		if diff := cmp.Diff(s, back); diff != "" {
			t.Fatal(diff)
		}
		if again := registers.EncodeOpState(back); again != value {
			t.Fatalf("two encodings:\n%s\n%s", value, again)
		}
		for _, at := range registers.Keys("O", s) {
			n, ok := registers.Lookup(at.Namespace)
			if !ok || n.CheckKey(at.Key) != nil {
				t.Fatalf("bad key %v", at)
			}
		}
	})
}

// FuzzParseMessage parses any text as a message. What is accepted is encoded to
// the same bytes ever after.
func FuzzParseMessage(f *testing.F) {
	f.Add(`{"role":"assistant","content":[{"type":"toolCall","id":"a","name":"n","arguments":{}}],"usage":{},"timestamp":1e3}`)
	f.Add(`{"role":"user","content":[{"type":"text"},`)
	f.Add(`{"role":"toolResult","toolCallId":"a","toolName":"n","content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"isError":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		allocs.Within(t, len(text), decodeFactor, decodeBase, func() { _, _ = session.ParseMessage(pistore.JSON(text)) })
		admitted, err := pistore.CompactJSON(text)
		if err != nil {
			return // of what is no JSON nothing is promised but that it does not panic
		}
		m, err := session.ParseMessage(admitted)
		if err != nil {
			if !errors.Is(err, pistore.ErrInvalid) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		raw := session.EncodeMessage(m)
		back, err := session.ParseMessage(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if again := session.EncodeMessage(back); again != raw {
			t.Fatalf("two encodings:\n%s\n%s", raw, again)
		}
	})
}
