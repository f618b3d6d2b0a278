package crash

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pistore/conformance"
)

// defect is what a broken store does wrong.
type defect string

const (
	sound            defect = ""
	bufferWrites     defect = "keeps writes in a buffer of its process"
	ackFirst         defect = "acknowledges before it writes"
	noSync           defect = "does not sync a commit at Power"
	swallowSync      defect = "swallows the error of a sync"
	retrySync        defect = "tries a failed sync again"
	noDirSync        defect = "does not sync the directory"
	renameUnsynced   defect = "renames a new file before it is synced"
	swallowNewSync   defect = "swallows the error of syncing a new file"
	removeFirst      defect = "removes the old file before the new one has its name"
	buildInPlace     defect = "builds a session under its own name, bit by bit"
	ignoreShortWrite defect = "takes a short write for a whole one"
	noPoison         defect = "goes on after a failed write"
	plainError       defect = "gives an admitted commit's failure as a plain error"
	faultUnwrapped   defect = "hides the cause of a fault"
	halfTx           defect = "applies the part of a torn transaction that it can read"
	noChecksum       defect = "compares no checksum"
	truncateSilently defect = "takes everything behind the first damage for torn"
	appendBehindTorn defect = "appends behind a torn tail"
	recoverInPlace   defect = "recovers a file in place, record by record"
	touchOnLook      defect = "leaves a file of its own when it is opened to look"
	repairOnLook     defect = "repairs when it is opened to look"
	panicOnDamage    defect = "panics on damage"
	placeless        defect = "does not say where the damage is"
	syncDoesNothing  defect = "does nothing on Sync"
	keepLock         defect = "keeps its lock when opening fails"
)

// defectEnv tells a child which defect it has.
const defectEnv = "PISTORE_CRASH_DEFECT"

// mutant is a broken store and rows that have to notice.
type mutant struct {
	defect defect
	rows   []string
}

func mutants() []mutant {
	return []mutant{
		{bufferWrites, []string{"KIL-01", "CUT-08"}},
		{ackFirst, []string{"KIL-01", "FLT-01"}},
		{noSync, []string{"CUT-01", "CUT-02", "CUT-03", "CUT-08"}},
		{swallowSync, []string{"FLT-01", "FLT-02", "FLT-08"}},
		{retrySync, []string{"FLT-01", "FLT-02", "FLT-08"}},
		{noDirSync, []string{"CUT-01", "CUT-05", "CUT-06", "FLT-05"}},
		{renameUnsynced, []string{"CUT-04", "CUT-06", "CUT-07"}},
		{swallowNewSync, []string{"FLT-05", "FLT-06", "FLT-07"}},
		{removeFirst, []string{"KIL-03", "CUT-07", "FLT-04", "FLT-07"}},
		{buildInPlace, []string{"KIL-04", "CUT-04", "CUT-06", "FLT-06", "FLT-07"}},
		{recoverInPlace, []string{"KIL-02", "CUT-03", "FLT-03"}},
		{ignoreShortWrite, []string{"FLT-01", "FLT-09"}},
		{noPoison, []string{"FLT-01", "FLT-03", "FLT-08"}},
		{plainError, []string{"FLT-01", "FLT-02", "FLT-08"}},
		{faultUnwrapped, []string{"FLT-01", "FLT-09"}},
		{halfTx, []string{"BYT-02"}},
		{noChecksum, []string{"BYT-01"}},
		{truncateSilently, []string{"BYT-01"}},
		{appendBehindTorn, []string{"CUT-03"}},
		{touchOnLook, []string{"KIL-05", "BYT-03"}},
		{repairOnLook, []string{"BYT-03"}},
		{panicOnDamage, []string{"BYT-01"}},
		{placeless, []string{"BYT-01"}},
		{syncDoesNothing, []string{"CUT-08", "FLT-08"}},
		{keepLock, []string{"FLT-03"}},
	}
}

func (m mutant) config() Config {
	return Config{
		Open: store(m.defect), OpenOn: store(m.defect),
		Child: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), defectEnv+"="+string(m.defect))
			return cmd
		},
		Only: m.rows, Seed: 1, Sessions: 2, Kills: 40, Cuts: 200, Faults: 120, Flips: 120,
	}
}

// TestMutants: each broken store fails the rows of the table, at one of the
// levels at least.
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(string(m.defect), func(t *testing.T) {
			t.Parallel()
			failed := map[string]bool{}
			report := Check(m.config())
			for _, r := range report.Results {
				failed[r.ID] = failed[r.ID] || r.Outcome == conformance.Fail
				if r.Outcome == conformance.Fail && (r.Why == "" || !strings.Contains(r.Why, "again with")) {
					t.Errorf("%s says neither why nor how to see it again: %q", r.ID, r.Why)
				}
				if strings.Contains(r.Why, "when nothing goes wrong") {
					t.Errorf("%s fails without any crash: %s", r.ID, r.Why)
				}
			}
			for _, id := range m.rows {
				if !failed[id] {
					t.Errorf("%s does not notice", id)
				}
			}
			t.Log(report)
		})
	}
}

// TestEachRowCanFail: a check that has never failed is not a check yet.
func TestEachRowCanFail(t *testing.T) {
	for _, id := range RowIDs() {
		if !slices.ContainsFunc(mutants(), func(m mutant) bool { return slices.Contains(m.rows, id) }) {
			t.Errorf("%s is failed by no mutant", id)
		}
	}
}
