package pipe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pistore"
	"pistore/conformance"
	"pistore/jsonl"
)

const childEnv = "PISTORE_PIPE_CHILD"

// TestMain turns the test binary into the store on the other side.
func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what))
	}
	os.Exit(m.Run())
}

// child is a store that is in order, or misbehaves in one way.
func child(what string) int {
	if answer, ok := strings.CutPrefix(what, "answer "); ok {
		line := make([]byte, 1)
		for n := 1; ; n++ {
			for line[0] = 0; line[0] != '\n'; {
				if _, err := os.Stdin.Read(line); err != nil {
					return 0
				}
			}
			fmt.Println(strings.ReplaceAll(answer, "N", fmt.Sprint(n)))
		}
	}
	if sleeper, ok := strings.CutPrefix(what, "leaves "); ok {
		// What it starts keeps its output open, and outlives it if it is let.
		cmd := exec.Command("sleep", "600")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return 1
		}
		if err := os.WriteFile(sleeper, fmt.Append(nil, cmd.Process.Pid), 0o600); err != nil {
			return 1
		}
		what = "serves"
	}
	switch what {
	case "dies":
		fmt.Fprintln(os.Stderr, "out of cheese")
		return 3
	case "serves":
		err := Serve(context.Background(), os.Stdin, os.Stdout, func(ctx context.Context, p OpenParams) (pistore.Storage, io.Closer, error) {
			b := jsonl.NewSingle(p.Location, jsonl.Options{Durability: p.Durability})
			s, err := OpenIn(ctx, b, p)
			return s, b, err
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func command(what string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+what)
		return cmd
	}
}

var allRows = flag.Bool("all-rows", false, "every row over the pipe")

// someRows are those of the default run, since every row starts several
// processes: one or more of each group, and all that the broken store fails.
var someRows = []string{
	"TX-01", "TX-10", "TX-20", "TX-21", "TX-22", "TX-23", "TX-24", "TX-25", "REG-03", "REG-08", "REG-09", "REG-11", "REG-13", "REG-14",
	"REG-16", "LED-01", "QRY-04", "QRY-10", "QRY-20", "QRY-23", "JSN-01", "JSN-10", "LIM-01", "CLO-02", "RO-01", "RO-04", "OWN-01", "REO-03",
}

func chosenRows() []string {
	if *allRows {
		return nil
	}
	return someRows
}

// wordless is what the protocol has no words for.
var wordless = []conformance.Capability{
	conformance.NoLoad, conformance.NoRewrite, conformance.NoDelete, conformance.NoList, conformance.NoExport,
	conformance.NoSessions, conformance.NoGeneration, conformance.NoErrorDetails,
}

// The kit finds nothing wrong with a store that is in order, so that the two
// ends of the pipe lose nothing.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Config{
		Open: func(dir string) (pistore.Backend, error) {
			return New(Options{Command: command("serves"), Location: filepath.Join(dir, "s.jsonl")}), nil
		},
		Transactions: 300, Only: chosenRows(), Lacks: append(slices.Clone(wordless), conformance.NoLarge),
	})
}

// A store that dies or answers nonsense faults the session, says what it said
// last, and holds up nobody.
func TestBadStores(t *testing.T) {
	opened := `{"id":N,"result":{"session":{"id":"s","createdAt":1,"cwd":""},"format":"f","storageVersion":1}}`
	for _, test := range []struct {
		what string
		want error  // of Open
		says string // a part of it
	}{
		{"dies", pistore.ErrFaulted, "out of cheese"},
		{"answer {", pistore.ErrFaulted, "no JSON"},
		{"answer []", pistore.ErrFaulted, "no object"},
		{`answer {"id":7,"result":{}}`, pistore.ErrFaulted, "another request"},
		{`answer {"id":N}`, pistore.ErrFaulted, "neither"},
		{`answer {"id":N,"error":"no"}`, pistore.ErrFaulted, "no object"},
		{`answer {"id":N,"error":{"code":"locked","message":"mine"}}`, pistore.ErrLocked, "mine"},
		{`answer {"id":N,"error":{"code":"odd"}}`, nil, "odd"},
		{"answer " + opened, nil, ""},
	} {
		b := New(Options{Command: command(test.what), Location: "somewhere"})
		s, err := b.Open(t.Context(), "s", pistore.ReadWrite)
		switch {
		case test.says == "":
			if err != nil {
				t.Errorf("%s: %v", test.what, err)
				break
			}
			// What follows is answered with a session, which is no receipt.
			if _, err := s.Commit(t.Context(), pistore.Tx{}); err == nil {
				t.Errorf("%s: a commit without a receipt succeeded", test.what)
			}
		case err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says):
			t.Errorf("%s: %v", test.what, err)
		}
		_ = b.Close() // a child that died ended with an error
	}
}

// What cannot stand in a line is refused before it is sent; all else is the
// store's to judge.
func TestSendable(t *testing.T) {
	for _, test := range []struct {
		write pistore.Write
		want  error
	}{
		{pistore.SetRegister{Namespace: "n", Key: "\xff", Value: "1"}, pistore.ErrInvalid},
		{pistore.SetRegister{Namespace: "n", Value: "\"\xff\""}, pistore.ErrInvalid},
		{pistore.SetRegister{Namespace: "n", Value: "{"}, pistore.ErrInvalid},
		{pistore.SetRegister{Namespace: "n"}, pistore.ErrInvalid},
		{pistore.InsertEntry{ID: "e", Type: pistore.TypeMessage}, pistore.ErrInvalid},
		{pistore.InsertEntry{ID: "e", Type: pistore.TypeMessage, Payload: "[]"}, pistore.ErrInvalid},
		{pistore.InsertEntry{ID: "e", Type: pistore.TypeCustom, CustomType: "c"}, nil},
		{pistore.InsertUsage{ID: "u", Usage: "{} {}"}, pistore.ErrInvalid},
		{pistore.SetRegister{Namespace: "", Key: "", Value: " [ 1 ,\n2 ]"}, nil},
		{pistore.SetRegister{Namespace: "n", Value: pistore.JSON(strings.Repeat("[", 1001) + "\n" + strings.Repeat("]", 1001))}, nil},
	} {
		got, err := sendable(test.write)
		if !errors.Is(err, test.want) || err == nil && strings.ContainsAny(string(encodeWrite(got)), "\r\n") {
			t.Errorf("%+v: %v, %v", test.write, got, err)
		}
	}
}

func TestDecimal(t *testing.T) {
	for literal, want := range map[string]pistore.Decimal{
		"0": "0", "-0": "0", "0.00": "0", "0e9": "0", "1": "1", "-1.50": "-1.5", "15e-1": "1.5", "1.5E+3": "1500",
		"0.001": "0.001", "1e-3": "0.001", "-12.34e1": "-123.4", "100": "100", "0123": "123",
	} {
		if got, ok := decimal(literal); !ok || got != want {
			t.Errorf("%s: %s, %v; want %s", literal, got, ok, want)
		}
	}
	for _, literal := range []string{"", "null", `"1"`, "1e", "1e99999", "1e-1001", "--1", "1.2.3", "NaN"} {
		if got, ok := decimal(literal); ok {
			t.Errorf("%s: %s", literal, got)
		}
	}
}

// What a store starts ends with it, and nobody waits for it.
func TestNothingIsLeftRunning(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no groups of processes")
	}
	for _, closing := range []bool{false, true} {
		dir := t.TempDir()
		b := New(Options{Command: command("leaves " + filepath.Join(dir, "pid")), Location: filepath.Join(dir, "s.jsonl")})
		s, err := b.Create(t.Context(), pistore.Info{})
		if err != nil {
			t.Fatal(err)
		}
		if closing {
			err = s.Close()
		}
		_ = b.Close() // which may tell of what was left
		if err != nil {
			t.Errorf("close: %v", err)
		}
		pid, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		// A process that has ended and is nobody's child may take a moment to go.
		gone := func() bool {
			stat, err := os.ReadFile("/proc/" + string(pid) + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ")
		}
		if _, err := os.Stat("/proc/self"); err == nil {
			for n := 0; !gone(); n++ {
				if n > 1000 {
					t.Fatalf("closing %v: process %s goes on", closing, pid)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
}
