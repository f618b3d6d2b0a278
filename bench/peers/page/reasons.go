package page

// reasons say, of each row of which something asked is not reached, why: by its
// name, a sentence or two that go on behind "Not reached:", with a full stop. A
// test holds that there is one for each such row of the committed results.
var reasons = map[string]string{
	"7":  "a larger database has tables with two levels of index, so a point read looks up more blocks; calls and rows are equal.",
	"12": "half of the time is memory that a run allocates, and no single place has more than a tenth of it.",
	"15": "a session file is gone through three times, and its rows go into maps of ids one after the other.",
}
