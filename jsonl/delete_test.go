package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pistore"
)

// TestDeleteUpgraded leaves nothing of a session that was upgraded, and what is
// not of it alone.
func TestDeleteUpgraded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "old.jsonl")
	write(t, path, v3(`{'type':'message','id':'a','parentId':null,@,'message':{'role':'user','content':'secret'}}`))
	b := NewFolder(dir, Options{})
	st, err := b.Open(t.Context(), "s", pistore.ReadWrite)
	if err == nil {
		_, err = st.Commit(t.Context(), pistore.Tx{Writes: []pistore.Write{pistore.SetRegister{Namespace: "x", Value: "1"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "s"); !errors.Is(err, pistore.ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path+".v4", "notes of somebody")
	if err := b.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "old.jsonl.v4" {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
