package page

// reasons say, of each row of which something asked is not reached, why: by its
// name, a sentence or two that go on behind "Not reached:", with a full stop. A test holds that there is one for each such row of the
// committed results.
var reasons = map[string]string{}
