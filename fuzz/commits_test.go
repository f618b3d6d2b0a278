package fuzz

import (
	"testing"

	"pistore"
	"pistore/conformance"
	"pistore/disk"
	"pistore/jsonl"
	"pistore/memstore"
)

// FuzzCommitsMemstore compares programs of commits on memstore with the model.
func FuzzCommitsMemstore(f *testing.F) {
	conformance.Fuzz(f, conformance.Config{
		Open:     func(string) (pistore.Backend, error) { return memstore.New(memstore.Options{}), nil },
		Volatile: true,
	})
}

// FuzzCommitsJSONL compares programs of commits on files with the model.
func FuzzCommitsJSONL(f *testing.F) { conformance.Fuzz(f, onMemory(jsonl.Options{})) }

// FuzzCommitsJSONLOnDisk does so with payloads that stay in the file, which is
// compacted whenever it can be.
func FuzzCommitsJSONLOnDisk(f *testing.F) {
	conformance.Fuzz(f, onMemory(jsonl.Options{DiskPayloadBytes: 1, CompactEagerly: true}))
}

// onMemory is the config of a folder in memory. Each program has a place of its
// own, which is gone when the next one comes.
func onMemory(o jsonl.Options) conformance.Config {
	place, m := "", (*disk.Memory)(nil)
	return conformance.Config{Open: func(dir string) (pistore.Backend, error) {
		if dir != place {
			place, m = dir, disk.NewMemory()
		}
		o.FS = m
		return jsonl.NewFolder("/", o), nil
	}}
}
