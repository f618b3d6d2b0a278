package jsonl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pistore"
	"pistore/disk"
	"pistore/verify"
)

const (
	damagedPath  = storyDir + "/damaged.jsonl"
	repairedPath = storyDir + "/repaired.jsonl"
)

// damagedChain is a chain with one byte changed in the line of a transaction.
func damagedChain(t *testing.T, n, at int) (text string, digests []string) {
	t.Helper()
	text, digests = chainFile(t, n)
	lines := strings.SplitAfter(text, "\n")
	lines[at+1] = strings.Replace(lines[at+1], `"user"`, `"usex"`, 1)
	return strings.Join(lines, ""), digests
}

func TestRepair(t *testing.T) {
	text, digests := damagedChain(t, 6, 4)
	for _, keepGoing := range []bool{false, true} {
		m := newMemory(t)
		writeOn(t, m, damagedPath, text)
		o := fixedOptions(m, pistore.Process)
		o.Rand = nil // the generation is to be another
		rep, err := Repair(t.Context(), damagedPath, repairedPath, o, RepairOptions{KeepGoing: keepGoing})
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(t.Context(), repairedPath, pistore.ReadWrite, o)
		if err != nil {
			t.Fatal(err)
		}
		// Behind the damaged entry nothing fits: each is the parent of the next.
		if digest(t, f) != digests[4] || f.Info() != rep.Info || rep.Info.ID != storyID || rep.Stats.Entries != 4 {
			t.Errorf("keep going %v: %+v", keepGoing, rep)
		}
		if omitted := rep.OmittedBytes > 0; omitted == keepGoing || rep.Report.Errors != map[bool]int64{false: 1, true: 2}[keepGoing] {
			t.Errorf("keep going %v: %d bytes omitted, faults %v", keepGoing, rep.OmittedBytes, rep.Report.Faults)
		}
		old, err := OpenFile(t.Context(), damagedPath, pistore.ReadOnly, o)
		if err != nil {
			t.Fatal(err)
		}
		if readOn(t, m, damagedPath) != text || old.Info().Generation == rep.Info.Generation {
			t.Error("the original was changed, or its generation kept")
		}
		if _, err := Repair(t.Context(), damagedPath, repairedPath, o, RepairOptions{}); !errors.Is(err, pistore.ErrInvalid) {
			t.Errorf("a repair over a file: %v", err)
		}
	}
}

// TestRepairKeepsWhatFits loses a line that only sets a register.
func TestRepairKeepsWhatFits(t *testing.T) {
	m := newMemory(t)
	text, _ := chainFile(t, 1)
	var e encoder
	set := func(seq pistore.Seq, key string) {
		e.transaction(pistore.Transaction{Seqs: []pistore.Seq{seq}, Writes: []pistore.Write{pistore.SetRegister{Namespace: "x", Key: key, Value: "1"}}})
	}
	set(10, "a")
	e.buf[20] ^= 1
	set(11, "b")
	writeOn(t, m, damagedPath, text+string(e.buf))
	o := fixedOptions(m, pistore.Process)
	if _, err := Repair(t.Context(), damagedPath, repairedPath, o, RepairOptions{KeepGoing: true}); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(t.Context(), repairedPath, pistore.ReadWrite, o)
	if err != nil {
		t.Fatal(err)
	}
	found, err := f.Registers(t.Context(), []pistore.Address{{Namespace: "x", Key: "a"}, {Namespace: "x", Key: "b"}})
	if err != nil || len(found) != 1 || found[0].Key != "b" || found[0].Seq != 11 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestRepairFixtures repairs every broken fixture: what comes out can be written
// and breaks no invariant.
func TestRepairFixtures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(fixtures, "broken", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	repaired := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := newMemory(t)
		writeOn(t, m, damagedPath, string(text))
		o := fixedOptions(m, pistore.Process)
		_, err = Repair(t.Context(), damagedPath, repairedPath, o, RepairOptions{KeepGoing: true})
		if err != nil {
			if !typed(err) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		repaired++
		f, err := OpenFile(t.Context(), repairedPath, pistore.ReadWrite, o)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		report, err := verify.Check(t.Context(), f, verify.Options{Deep: true})
		if err != nil || !report.OK() {
			t.Errorf("%s: verify: %v %v", path, report.Faults, err)
		}
	}
	t.Logf("%d of %d repaired", repaired, len(files))
}

// TestBuildFaults fails every disk call of a repair and of a load in turn: the new
// session is whole or absent, and nothing else is left.
func TestBuildFaults(t *testing.T) {
	t.Parallel()
	text, digests := damagedChain(t, 4, 3)
	from := newMemory(t)
	writeOn(t, from, damagedPath, text)
	source, err := OpenFile(t.Context(), damagedPath, pistore.ReadOnly, fixedOptions(from, pistore.Process))
	if err != nil {
		t.Fatal(err)
	}
	builds := map[string]func(f disk.FS) error{
		"repair": func(f disk.FS) error {
			_, err := Repair(t.Context(), damagedPath, repairedPath, fixedOptions(f, pistore.Process), RepairOptions{})
			return err
		},
		"load": func(f disk.FS) error {
			_, err := NewFolder(storyDir+"/to", fixedOptions(f, pistore.Process)).Load(t.Context(), source.Export(t.Context()))
			return err
		},
	}
	for name, build := range builds {
		for verdictName, v := range verdicts {
			for call, hit := 0, true; hit; call++ {
				hit = false // also where a pattern leaves the test out
				t.Run(fmt.Sprintf("%s %s %d", name, verdictName, call), func(t *testing.T) {
					m := newMemory(t)
					writeOn(t, m, damagedPath, text)
					if err := mkdirAll(m, storyDir+"/to"); err != nil {
						t.Fatal(err)
					}
					f := disk.NewFailing(m)
					kind := disk.Kind("")
					f.Rule(func(c disk.Call) disk.Verdict {
						if c.N != call {
							return disk.Verdict{}
						}
						hit, kind = true, c.Kind
						return v
					})
					err := build(f)
					if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
						t.Errorf("%s: %v", kind, err)
					}
					path := repairedPath
					if name == "load" {
						path, _ = NewFolder(storyDir+"/to", fixedOptions(m, pistore.Process)).find(storyID)
					}
					st, openErr := OpenFile(t.Context(), path, pistore.ReadWrite, fixedOptions(m, pistore.Process))
					switch {
					case openErr == nil && digest(t, st) != digests[3]:
						t.Errorf("%s: a state that was never there", kind)
					case openErr == nil && err != nil && kind != disk.OpClose:
						t.Errorf("%s: it is there, and failed: %v", kind, err)
					case openErr != nil && err == nil:
						t.Errorf("%s: %v", kind, openErr)
					}
					if names := leftovers(t, m, storyDir); len(names) > 0 && kind != disk.OpRemove && kind != disk.OpCreate {
						t.Errorf("%s: left over: %v", kind, names)
					}
				})
			}
		}
	}
}
