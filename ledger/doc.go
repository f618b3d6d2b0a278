// Package ledger sums usage rows: exactly, in whatever order they come, with
// totals by model, tool, lane, purpose and day. It imports the root only.
//
// A known field is a JSON number; null, any other type, a negative number
// outside an adjustment, a literal of more than 64 digits and an exponent
// beyond ±400 (both as written) make it unusable: it adds nothing, and its row
// counts once in Totals.Unusable. A field that is absent adds nothing and is
// not unusable; members that are not known are not looked at. Of a member that
// is given twice the last one counts, as readers of JSON commonly have it.
package ledger
