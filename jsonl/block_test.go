package jsonl

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pistore"
)

// longFile is a file of several blocks, with a line in it that fits in none.
func longFile(random *rand.Rand) [][]byte {
	e := encoder{}
	e.header(pistore.Info{ID: "session", StorageVersion: 1, Generation: "g"}, 0, 0, nil)
	parent := pistore.ID("")
	for i := range 3000 {
		id := pistore.ID(fmt.Sprintf("entry-%d", i))
		size := random.IntN(600)
		if i == 1500 {
			size = 3 * readChunk
		}
		t := pistore.Transaction{FirstSeq: pistore.Seq(2*i + 1), Seqs: []pistore.Seq{pistore.Seq(2*i + 1), pistore.Seq(2*i + 2)}, Timestamp: 7}
		t.Writes = []pistore.Write{
			pistore.InsertEntry{ID: id, ParentID: parent, Type: pistore.TypeMessage, Payload: pistore.JSON(`{"message":"` + string(bytes.Repeat([]byte("x"), size)) + `"}`)},
			pistore.SetRegister{Namespace: "lane.leaf", Key: "main", Value: pistore.QuoteJSON(string(id))},
		}
		e.transaction(t)
		if parent = id; random.IntN(20) == 0 {
			parent = pistore.ID(fmt.Sprintf("entry-%d", random.IntN(i+1)))
		}
	}
	return slices.Collect(bytes.Lines(e.buf))
}

// damage spoils a line of a file in one of the ways that are told apart.
func damage(random *rand.Rand, lines [][]byte) [][]byte {
	i := 1 + random.IntN(len(lines)-1)
	l := lines[i]
	spoil := func(text []byte) { lines[i] = text }
	switch random.IntN(10) {
	case 0:
		flipped := bytes.Clone(l)
		flipped[random.IntN(len(l))] ^= 1 << random.IntN(8)
		spoil(flipped)
	case 1:
		return slices.Delete(lines, i, i+1)
	case 2:
		return slices.Insert(lines, i, l)
	case 3:
		return slices.Insert(lines, i, []byte("\n"), []byte(" \t\r\n"))
	case 4:
		spoil(append(bytes.TrimSuffix(bytes.Clone(l), []byte("\n")), "\r\n"...))
	case 5:
		spoil(append(make([]byte, len(l)-1), '\n'))
	case 6:
		j := 1 + random.IntN(len(lines)-1)
		lines[i], lines[j] = lines[j], l
	case 7:
		spoil(bytes.TrimSuffix(l, []byte("\n")))
	case 8: // another program's white space, under a sum that holds
		e := encoder{buf: bytes.Replace(l[:bytes.LastIndexByte(l, ',')], []byte(`"seq":`), []byte(`"seq": `), 1)}
		e.endLine(0, true)
		spoil(e.buf)
	case 9: // a sum that holds over what is no transaction
		e := encoder{buf: []byte(`[{"kind":"entry","seq":"7"`)}
		e.endLine(0, true)
		spoil(e.buf)
	}
	return lines
}

// A file that is read in blocks, on any number of cores, gives what it gives line
// by line: the same rows, and the same findings in the same order.
func TestBlocksAsLines(t *testing.T) {
	seed := rand.Uint64()
	rounds := 40
	if raced {
		rounds = 4
	}
	whole := longFile(rand.New(rand.NewPCG(seed, 0)))
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		lines := slices.Clone(whole)
		for range random.IntN(6) {
			lines = damage(random, lines)
		}
		text := slices.Concat(lines...)
		if random.IntN(3) == 0 {
			text = text[:len(text)-random.IntN(2000)]
		}
		for _, keepGoing := range []bool{false, true} {
			fresh := func() *replay {
				src, size := reader(text)
				return &replay{ctx: t.Context(), src: src, size: size, keepGoing: keepGoing, places: new([]place)}
			}
			one := fresh()
			if err := lineByLine(one); err != nil {
				t.Fatal(err)
			}
			for _, cores := range []int{1, 4} {
				several := fresh()
				before := runtime.GOMAXPROCS(cores)
				err := several.run()
				runtime.GOMAXPROCS(before)
				if err != nil {
					t.Fatal(err)
				}
				same(t, one, several)
			}
			if t.Failed() {
				t.Fatalf("seed %d, round %d, keep going %v, on blocks", seed, round, keepGoing)
			}
		}
	}
}

// lineByLine is run without blocks.
func lineByLine(r *replay) error {
	lines := newLineReader(r.src, r.size)
	lines.limit = maxLine4Bytes
	for !r.stopped {
		l, ok, err := lines.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := r.line(l); err != nil {
			return err
		}
	}
	r.finish()
	return nil
}

// same compares what two replays of a file found.
func same(t *testing.T, one, several *replay) {
	t.Helper()
	describe := func(r *replay) string {
		f, report := r.file()
		if f == nil {
			return fmt.Sprintf("%+v", report)
		}
		digest, err := pistore.DigestRows(f.state.Export(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v\nrows %s, next %d, omitted %d\npayloads %v", report, digest, f.state.NextSeq(), r.omitted, *r.places)
	}
	if want, got := describe(one), describe(several); want != got {
		t.Errorf("lines give\n%.2000s\nblocks give\n%.2000s", want, got)
	}
}
