package pipe

import (
	"fmt"

	"pistore"
)

// encodeInfo makes the object of a session, in an open and in its result.
func encodeInfo(i pistore.Info) pistore.JSON {
	var o object
	o.textIf("id", string(i.ID))
	o.numberIf("createdAt", int64(i.CreatedAt))
	o.text("cwd", i.CWD)
	o.textIf("parentSessionId", string(i.ParentSessionID))
	o.textIf("legacyParentSessionPath", i.LegacyParentPath)
	o.numberIf("storageVersion", int64(i.StorageVersion))
	o.textIf("generation", i.Generation)
	return o.end()
}

func decodeInfo(j pistore.JSON) (pistore.Info, error) {
	f, err := fieldsOf("a session", j)
	if err != nil {
		return pistore.Info{}, err
	}
	r := reader{fields: f}
	return pistore.Info{
		ID: pistore.SessionID(r.text("id")), CreatedAt: pistore.UnixMS(r.number("createdAt")), CWD: r.text("cwd"),
		ParentSessionID: pistore.SessionID(r.text("parentSessionId")), LegacyParentPath: r.text("legacyParentSessionPath"),
		StorageVersion: int(r.number("storageVersion")), Generation: r.text("generation"),
	}, r.err
}

// decimals of totals by name, in one place for both directions.
func decimals(t *pistore.Totals) map[string]*pistore.Decimal {
	return map[string]*pistore.Decimal{
		"input": &t.Input, "output": &t.Output, "cacheRead": &t.CacheRead, "cacheWrite": &t.CacheWrite,
		"cacheWrite1h": &t.CacheWrite1h, "reasoning": &t.Reasoning, "totalTokens": &t.TotalTokens,
	}
}

func costs(c *pistore.CostTotals) map[string]*pistore.Decimal {
	return map[string]*pistore.Decimal{
		"input": &c.Input, "output": &c.Output, "cacheRead": &c.CacheRead, "cacheWrite": &c.CacheWrite, "total": &c.Total,
	}
}

var (
	decimalNames = []string{"input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "reasoning", "totalTokens"}
	costNames    = []string{"input", "output", "cacheRead", "cacheWrite", "total"}
)

func encodeStats(s pistore.Stats) pistore.JSON {
	var usage, o object
	usage.number("rows", s.Usage.Rows)
	usage.number("unusable", s.Usage.Unusable)
	putDecimals(&usage, decimalNames, decimals(&s.Usage))
	var cost object
	putDecimals(&cost, costNames, costs(&s.Usage.Cost))
	usage.put("cost", cost.end())
	o.number("entryCount", s.Entries)
	o.number("messageCount", s.Messages)
	o.put("usage", usage.end())
	return o.end()
}

func putDecimals(o *object, names []string, from map[string]*pistore.Decimal) {
	for _, name := range names {
		o.put(name, pistore.JSON(*from[name]))
	}
}

// decodeStats reads statistics. Sums that are absent are 0.
func decodeStats(j pistore.JSON) (pistore.Stats, error) {
	f, err := fieldsOf("stats", j)
	if err != nil {
		return pistore.Stats{}, err
	}
	r := reader{fields: f}
	s := pistore.Stats{Entries: r.number("entryCount"), Messages: r.number("messageCount")}
	usage, err := fieldsOf("usage", f["usage"])
	if err != nil {
		return s, err
	}
	u := reader{fields: usage, err: r.err}
	s.Usage.Rows, s.Usage.Unusable = u.number("rows"), u.number("unusable")
	takeDecimals(&u, decimals(&s.Usage))
	cost := fields{}
	if usage.has("cost") {
		if cost, err = fieldsOf("cost", usage["cost"]); err != nil {
			return s, err
		}
	}
	c := reader{fields: cost, err: u.err}
	takeDecimals(&c, costs(&s.Usage.Cost))
	return s, c.err
}

func takeDecimals(r *reader, to map[string]*pistore.Decimal) {
	for name, at := range to {
		*at = "0"
		if !r.has(name) {
			continue
		}
		d, ok := decimal(string(r.fields[name]))
		if !ok && r.err == nil {
			r.err = fmt.Errorf("%w: %s is %.64q, not a number of at most %d digits", pistore.ErrInvalid, name, string(r.fields[name]), maxDigits)
		}
		*at = d
	}
}
