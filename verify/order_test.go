package verify_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pistore"
	"pistore/verify"
)

// A check tells the same in the same order, however many batches of rows are
// judged at once: the order of the rows.
func TestFindingsInOrder(t *testing.T) {
	f := whole()
	var want []string
	parent := pistore.ID("E1")
	for i := range 600 {
		id := pistore.ID(fmt.Sprintf("X%d", i))
		f.addEntry(id, parent, pistore.TypeMessage, user)
		e := f.rows[len(f.rows)-1].(pistore.Entry)
		switch at := fmt.Sprintf("seq %d", e.Seq); i % 300 {
		case 1:
			e.Payload, want = `{"message":{"role":"user","content":7}}`, append(want, "7 "+at)
		case 2:
			e.ID, want = "E1", append(want, "1 "+at)
		case 3:
			e.Seq = 1
			want = append(want, "2 seq 1")
		case 254:
			f.rows[len(f.rows)-1] = pistore.UsageRow{ID: id, Seq: e.Seq, Usage: "7"}
			want = append(want, "0 "+at)
			continue
		case 255:
			f.rows[len(f.rows)-1] = pistore.Register{Namespace: "lane.leaf", Key: string(id), Seq: e.Seq, Value: "{"}
			want = append(want, "3 register lane.leaf/"+string(id))
			continue
		default:
			parent = id
		}
		f.rows[len(f.rows)-1] = e
	}
	reportOn := func(cores int) verify.Report {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		return check(t, f, false)
	}
	one := reportOn(1)
	var got []string
	for _, fault := range one.Faults[:len(want)] {
		got = append(got, fmt.Sprintf("%d %s", fault.Invariant, fault.Place))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings of rows: -want +got\n%s", diff)
	}
	for _, cores := range []int{2, 4, 16} {
		if diff := cmp.Diff(one, reportOn(cores)); diff != "" {
			t.Errorf("%d cores tell something else than one: -one +several\n%s", cores, diff)
		}
	}
}
