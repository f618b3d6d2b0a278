package stores

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"pistore"
	"pistore/conformance/crash"
	"pistore/jsonl"
	"pistore/logstore"
)

// measured is the crash kit over the candidates as they are measured: each row
// that kills a process, with no option set but those that a measurement sets.
// TestMain gives it its flags: -kills 200 kills more often.
var measured = crash.Config{Open: openMeasured, Kills: 3}

// backendEnv says to a process that is there to be killed which candidate it is.
const backendEnv = "PISTORE_STORES_BACKEND"

func openMeasured(at crash.Place) (pistore.Backend, error) {
	c, err := Candidate(os.Getenv(backendEnv), at.Level)
	if err != nil {
		return nil, err
	}
	return c.Open(at.Dir)
}

// TestCrashAsMeasured: no figure is bought with a promise. What a candidate has
// acknowledged at a level is there after a kill, in the very configuration that
// the figures of that level are of. Power cuts and failing calls need a machine
// of the kit's own making: those rows are in the tests of the backends, over the
// options that TestMeasuredOptions names.
func TestCrashAsMeasured(t *testing.T) {
	for _, name := range []string{JSONL, Logstore} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(backendEnv, name)
			cfg := measured
			for _, id := range crash.RowIDs() {
				// Read-only is another candidate, and no figure is of it.
				if strings.HasPrefix(id, "KIL-") && id != "KIL-05" {
					cfg.Only = append(cfg.Only, id)
				}
			}
			crash.Run(t, cfg)
		})
	}
}

// TestMeasuredOptions: what is measured is what nobody who says nothing but the
// level gets otherwise. The tests of the backends cut the power and fail the calls
// of a store with these options (TestCrash of jsonl, TestCrashWithDefaults of
// logstore). Who measures others has the kit run over those as well.
func TestMeasuredOptions(t *testing.T) {
	for _, level := range []pistore.Durability{pistore.Process, pistore.Power} {
		if got := logstoreOptions(level); !reflect.DeepEqual(got, logstore.Options{Durability: level}) {
			t.Errorf("logstore: %+v", got)
		}
		if got := jsonlOptions(level); !reflect.DeepEqual(got, jsonl.Options{Durability: level}) {
			t.Errorf("jsonl: %+v", got)
		}
	}
}
