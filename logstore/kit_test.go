package logstore

import (
	"slices"
	"strings"
	"testing"

	"pistore"
	"pistore/conformance/crash"
)

// kit is the crash kit; TestMain gives it its flags.
var kit = crash.Config{Open: openPlace, OpenOn: openPlace}

func openPlace(at crash.Place) (pistore.Backend, error) {
	o := Options{
		Durability: at.Level, ReadOnly: at.Mode == pistore.ReadOnly, boot: at.Boot,
		MemtableBytes: minMemtableBytes, CacheBytes: 1 << 20, CompressAboveBytes: -1,
	}
	if at.FS != nil {
		o.fs = diskFS{at.FS}
	}
	return opened(at.Dir, o)
}

// opened is Open, with no backend beside an error.
func opened(dir string, o Options) (pistore.Backend, error) {
	s, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// config is the kit at its depth. Under the race detector a third of that has to
// do where no flag asks for more.
func config() crash.Config {
	cfg := kit
	for _, n := range []*int{&cfg.Cuts, &cfg.Faults, &cfg.Flips} {
		if raced && *n == 0 {
			*n = 20
		}
	}
	return cfg
}

// TestCrash has payloads so large that a dozen commits are enough for a flush.
func TestCrash(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.PayloadBytes = 64 << 10
	cfg.Only = rowsBut("KIL-", "BYT-", "CUT-02", "FLT-02")
	crash.Run(t, cfg)
}

// TestCrashManySessions has more sessions than usual, which share the log.
func TestCrashManySessions(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Sessions = 8
	for _, id := range crash.RowIDs() {
		if !slices.Contains(rowsBut("KIL-", "BYT-", "CUT-02", "FLT-02"), id) {
			cfg.Only = append(cfg.Only, id)
		}
	}
	crash.Run(t, cfg)
}

// TestCrashWithDefaults has every option but the level at what it is if nobody says
// anything, which is what package bench/stores measures. Nothing is flushed then
// within a story: it is the log that is cut and that fails.
func TestCrashWithDefaults(t *testing.T) {
	t.Parallel()
	cfg := kit
	for _, n := range []*int{&cfg.Cuts, &cfg.Faults} {
		if *n == 0 {
			*n = 10
		}
	}
	cfg.Open = nil // TestCrashAsMeasured in bench/stores kills it
	cfg.OpenOn = func(at crash.Place) (pistore.Backend, error) {
		return opened(at.Dir, Options{Durability: at.Level, ReadOnly: at.Mode == pistore.ReadOnly, boot: at.Boot, fs: diskFS{at.FS}})
	}
	cfg.Only = rowsBut("KIL-", "BYT-")
	crash.Run(t, cfg)
}

// rowsBut are the rows of the kit whose ids begin otherwise.
func rowsBut(prefixes ...string) []string {
	return slices.DeleteFunc(crash.RowIDs(), func(id string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(id, p) })
	})
}
