package jsonl

import (
	"testing"

	"pistore"
	"pistore/conformance/crash"
)

// kit is the crash kit; TestMain gives it its flags.
var kit = crash.Config{Open: openPlace, OpenOn: openPlace}

func openPlace(at crash.Place) (pistore.Backend, error) {
	return NewFolder(at.Dir, Options{FS: at.FS, Durability: at.Level}), nil
}

func TestCrash(t *testing.T) {
	t.Parallel()
	crash.Run(t, kit)
}

// TestCrashWithPayloadsOnDisk is the same with files of which payloads are read
// when they are asked for.
func TestCrashWithPayloadsOnDisk(t *testing.T) {
	t.Parallel()
	cfg := kit
	cfg.Open = nil // to a killed process it makes no difference
	cfg.OpenOn = func(at crash.Place) (pistore.Backend, error) {
		return NewFolder(at.Dir, Options{FS: at.FS, Durability: at.Level, DiskPayloadBytes: 1}), nil
	}
	crash.Run(t, cfg)
}
