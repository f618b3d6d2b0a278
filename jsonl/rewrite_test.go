package jsonl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/registers"
)

// openChain opens a new session of a chain of n transactions on the real disk.
func openChain(t *testing.T, n int, o Options) (b *Folder, st pistore.Storage, path string) {
	t.Helper()
	b = NewFolder(t.TempDir(), o)
	// A handle that nobody closes is closed by the collector some day, and what it
	// owned would stand in the way of a file that gets the same inode.
	t.Cleanup(func() { _ = b.Close() })
	st, err := b.Create(t.Context(), pistore.Info{ID: storyID})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := st.Commit(t.Context(), chainTx(i)); err != nil {
			t.Fatal(err)
		}
	}
	if path, err = b.find(storyID); err != nil {
		t.Fatal(err)
	}
	return b, st, path
}

func compact(t *testing.T, st pistore.Storage) pistore.CompactResult {
	t.Helper()
	c, _ := pistore.Find[pistore.Compacter](st)
	r, err := c.Compact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNewFiles are private, and named as a Pi installation names them.
func TestNewFiles(t *testing.T) {
	b := NewFolder(t.TempDir(), Options{})
	_, err := b.Create(t.Context(), pistore.Info{ID: "0195C8d1/é", CWD: "/home/user/my:project", CreatedAt: 1774632534800})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.dir, "--home-user-my-project--", "2026-03-27T17-28-54-800Z_0195%438d1%2f%c3%a9.jsonl")
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	long := strings.Repeat("é", 5000)
	if name := folderName(long); len(name) > 255 || name == folderName(long+"x") {
		t.Errorf("folder %q", name)
	}
	if name := escapeID(pistore.SessionID(strings.Repeat("X", 128))); len(name) > 200 {
		t.Errorf("id %q", name)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestCompaction gives space back, and the session goes on.
func TestCompaction(t *testing.T) {
	for _, onDisk := range []int64{-1, 1} {
		b, st, path := openChain(t, 40, Options{DiskPayloadBytes: onDisk})
		for i := range 300 {
			if _, err := st.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{
				pistore.SetRegister{Namespace: "n", Key: "often", Value: pistore.JSON(fmt.Sprint(i))},
			}}); err != nil {
				t.Fatal(err)
			}
		}
		want := digest(t, st)
		r := compact(t, st)
		info, err := os.Stat(path)
		if err != nil || r.BytesAfter != info.Size() || r.BytesAfter > r.BytesBefore*3/4 {
			t.Errorf("%+v, %v", r, err)
		}
		if digest(t, st) != want {
			t.Error("a compaction changed the digest")
		}
		receipt, err := st.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.DeleteRegister{Namespace: "n", Key: "often"}}})
		if err != nil {
			t.Fatal(err)
		}
		// The seq of a register that is gone is not given again.
		compact(t, st)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if st, err = b.Open(t.Context(), storyID, pistore.ReadWrite); err != nil {
			t.Fatal(err)
		}
		again, err := st.Commit(t.Context(), chainTx(40))
		if err != nil || again.FirstSeq != receipt.FirstSeq+1 || checkChain(t, st) != 41 {
			t.Errorf("seq %d after %d, %v", again.FirstSeq, receipt.FirstSeq, err)
		}
		v, _ := pistore.Find[pistore.Verifier](st)
		for fault, err := range v.VerifyStorage(t.Context(), true) {
			t.Errorf("%v, %v", fault, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCompactionOnOpen compacts what is mostly dead and large enough, when it is
// opened for writing.
func TestCompactionOnOpen(t *testing.T) {
	b, st, path := openChain(t, 3, Options{})
	value := pistore.QuoteJSON(strings.Repeat("x", 100_000))
	for range 15 {
		if _, err := st.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "n", Key: "big", Value: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	want := digest(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	f, err := OpenFile(t.Context(), path, pistore.ReadOnly, Options{})
	if err != nil || f.Report().DeadBytes < 1_400_000 || f.Report().DeadBytes > size()-100_000 {
		t.Errorf("%d of %d bytes are dead, %v", f.Report().DeadBytes, size(), err)
	}
	if st, err = b.Open(t.Context(), storyID, pistore.ReadOnly); err != nil || size() < 1_500_000 {
		t.Errorf("opened read-only it has %d bytes, %v", size(), err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = b.Open(t.Context(), storyID, pistore.ReadWrite); err != nil || size() > 200_000 || digest(t, st) != want {
		t.Errorf("opened for writing it has %d bytes, %v", size(), err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestEagerCompaction takes what a finished operation leaves off the disk.
func TestEagerCompaction(t *testing.T) {
	b, st, path := openChain(t, 3, Options{CompactEagerly: true})
	state := pistore.Address{Namespace: registers.OpStateNS, Key: "op"}
	for _, w := range []pistore.Write{
		pistore.SetRegister{Namespace: state.Namespace, Key: state.Key, Value: `"cancelled content"`}, pistore.DeleteRegister(state),
	} {
		if _, err := st.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{w}}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "cancelled content") {
		t.Errorf("%s, %v", text, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestRewriteKeeps keeps the mode of a file and the symbolic link that leads to
// it, and removes what a crash has left.
func TestRewriteKeeps(t *testing.T) {
	b, st, path := openChain(t, 3, Options{})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	write(t, tempName(path, 0), "left by a crash")
	write(t, tempName(path, 1), "and another")
	f, err := OpenFile(t.Context(), link, pistore.ReadWrite, Options{})
	if err != nil {
		t.Fatal(err)
	}
	compact(t, f)
	if _, err := f.Commit(t.Context(), chainTx(3)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	target, err := os.Lstat(path)
	if err != nil || target.Mode() != 0o640 {
		t.Errorf("%v, %v", target, err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", st, err)
	}
	for n := range 2 {
		if _, err := os.Lstat(tempName(path, n)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a temporary file is left: %v", err)
		}
	}
	if st, err = b.Open(t.Context(), storyID, pistore.ReadOnly); err != nil || checkChain(t, st) != 4 {
		t.Errorf("%v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestStaleTemps removes what crashes left of sessions that were never published,
// and nothing that somebody is writing.
func TestStaleTemps(t *testing.T) {
	b, _, path := openChain(t, 1, Options{})
	dir := filepath.Dir(path)
	stale := filepath.Join(dir, ".gone.jsonl.0"+tempSuffix)
	write(t, stale, "left by a crash")
	o := Options{}.complete()
	live, err := newTemp(o, filepath.Join(dir, "live.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context(), pistore.Info{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(live.name); err != nil {
		t.Error(err)
	}
	if err := errors.Join(live.abandon(nil), b.Close()); err != nil {
		t.Error(err)
	}
}

// TestOwners keeps a second opener out across a rewrite, and under another name
// of the file.
func TestOwners(t *testing.T) {
	b, st, path := openChain(t, 3, Options{})
	link := filepath.Join(filepath.Dir(path), "other name.txt")
	if err := os.Link(path, link); err != nil {
		t.Skip(err)
	}
	locked := func(name string, want error) {
		t.Helper()
		f, err := OpenFile(t.Context(), name, pistore.ReadWrite, Options{})
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	locked(path, pistore.ErrLocked)
	locked(link, pistore.ErrLocked)
	compact(t, st)
	locked(path, pistore.ErrLocked)
	locked(link, nil) // the old file, which is nobody's any more
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	locked(path, nil)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyChangesNothing looks at a folder before and after.
func TestReadOnlyChangesNothing(t *testing.T) {
	b, st, path := openChain(t, 3, Options{})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(`{"kind":"en`)
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	before := listing(t, filepath.Dir(path))
	if st, err = b.Open(t.Context(), storyID, pistore.ReadOnly); err != nil || checkChain(t, st) != 3 {
		t.Fatal(err)
	}
	for _, err := range b.List(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
	if name, err := ReadName(t.Context(), path); name != "" || err != nil {
		t.Errorf("name %q, %v", name, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if after := listing(t, filepath.Dir(path)); after != before {
		t.Errorf("the folder changed:\n%s\n%s", before, after)
	}
}

// TestReadName4 finds the newest name in a file of format 4.
func TestReadName4(t *testing.T) {
	b, st, path := openChain(t, 1, Options{})
	defer b.Close()
	set := func(value pistore.JSON) pistore.Write {
		return pistore.SetRegister{Namespace: registers.FactNameNS, Value: value}
	}
	for _, c := range []struct {
		write pistore.Write
		want  string
	}{
		{set(`"first"`), "first"}, {set(`"second \u00e9"`), "second é"}, {pistore.DeleteRegister{Namespace: registers.FactNameNS}, ""}, {set(`"third"`), "third"},
	} {
		_, err := st.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "x", Value: `".name\",\"key\":\"\","`}, c.write}})
		if err == nil {
			_, err = st.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "x", Value: `"fact.name"`}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if name, err := ReadName(t.Context(), path); name != c.want || err != nil {
			t.Errorf("name %q, %v; want %q", name, err, c.want)
		}
	}
	info, err := ReadInfo(t.Context(), path)
	if err != nil || info != st.Info() {
		t.Errorf("%+v, %v", info, err)
	}
}

// summed ends lines of format 4 in their sums. They are written with ' for ".
func summed(lines ...string) string {
	var e encoder
	for _, l := range lines {
		start := len(e.buf)
		e.buf = append(e.buf, strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(l, "]"), "}"), "'", `"`)...)
		e.endLine(start, l[0] == '[')
	}
	return string(e.buf)
}

// TestExtraMembers keeps what another writer put on lines of every kind, through
// compactions, repairs, and commits in between.
func TestExtraMembers(t *testing.T) {
	header := `{'v':4,'kind':'header','id':'s','storageVersion':1,'createdAt':0,'cwd':'','generation':'g','x':[1.0],'sums':'crc32c'}`
	entry := `{'kind':'entry','seq':1,'timestamp':5,'id':'e','parentId':null,'type':'custom','customType':'c','x':1e2,'op':'set'}`
	usage := `{'kind':'usage','seq':2,'id':'u','adjustment':false,'usage':{'input':1},'x':'\u0041','timestamp':7,'key':{}}`
	set := `{'kind':'register','op':'set','seq':3,'namespace':'n','key':'k','value':1,'x':-0,'details':null}`
	text := summed(header, "["+entry+","+usage+"]", set,
		`{'kind':'register','op':'set','seq':4,'namespace':'n','key':'over','value':1,'x':'gone'}`,
		`{'kind':'register','op':'set','seq':5,'namespace':'n','key':'over','value':2}`)
	path := filepath.Join(t.TempDir(), "s.jsonl")
	write(t, path, text)
	f, err := OpenFile(t.Context(), path, pistore.ReadWrite, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := digest(t, f)
	compact(t, f)
	over := `{'kind':'register','op':'set','seq':5,'namespace':'n','key':'over','value':2}`
	lines := strings.SplitAfter(summed(header, entry, usage, set, over), "\n")
	check := func(path string) {
		t.Helper()
		got := strings.SplitAfter(string(must(os.ReadFile(path))), "\n")
		if !strings.Contains(got[0], `,"x":[1.0],`) {
			t.Errorf("header %s", got[0])
		}
		if diff := cmp.Diff(lines[1:5], got[1:5]); diff != "" {
			t.Errorf("%s", diff)
		}
	}
	check(path)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	repaired := filepath.Join(t.TempDir(), "r.jsonl")
	if _, err := Repair(t.Context(), path, repaired, Options{}, RepairOptions{}); err != nil {
		t.Fatal(err)
	}
	check(repaired)
	if f, err = OpenFile(t.Context(), repaired, pistore.ReadWrite, Options{}); err != nil || digest(t, f) != want {
		t.Fatalf("repaired: %v", err)
	}
	if _, err := f.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "n", Key: "new", Value: "1"}}}); err != nil {
		t.Fatal(err)
	}
	compact(t, f)
	check(repaired)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	// A file without sums gets them with the first write, and keeps the rest.
	var plain []string
	for _, l := range []string{strings.Replace(header, ",'sums':'crc32c'", "", 1), entry, usage, set, over} {
		plain = append(plain, strings.ReplaceAll(l, "'", `"`)+"\n")
	}
	write(t, path, strings.Join(plain, ""))
	if f, err = OpenFile(t.Context(), path, pistore.ReadWrite, Options{}); err != nil {
		t.Fatal(err)
	}
	compact(t, f)
	check(path)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
