package ledger

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"pistore"
)

var numberForm = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// modelLiteral is the rule of the package comment in its plainest form.
func modelLiteral(s string) (*big.Rat, bool) {
	m := numberForm.FindStringSubmatch(s)
	if m == nil || len(m[2])+max(len(m[3])-1, 0) > 64 {
		return nil, false
	}
	exp := "0"
	if m[4] != "" {
		sign := strings.TrimRight(m[4][1:], "0123456789")
		exp = sign + strings.TrimLeft(m[4][1+len(sign):], "0") + "0" // times ten
	}
	if e, err := strconv.Atoi(exp); err != nil || e < -4000 || e > 4000 {
		return nil, false
	}
	v, ok := new(big.Rat).SetString(s)
	if !ok {
		panic(s)
	}
	return v, true
}

// modelSum adds up with big.Rat and encoding/json.
type modelSum struct {
	rows, unusable int64
	sums           map[string]*big.Rat
}

func (m *modelSum) add(usage string, adjustment bool) {
	m.rows++
	bad := false
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(usage), &members) != nil {
		panic(usage)
	}
	note := func(field string, value json.RawMessage) {
		v, ok := modelLiteral(string(value))
		if !ok || v.Sign() < 0 && !adjustment {
			bad = true
			return
		}
		if m.sums == nil {
			m.sums = map[string]*big.Rat{}
		}
		if m.sums[field] == nil {
			m.sums[field] = new(big.Rat)
		}
		m.sums[field].Add(m.sums[field], v)
	}
	for _, name := range []string{"input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "reasoning", "totalTokens"} {
		if v, ok := members[name]; ok {
			note(name, v)
		}
	}
	if text, ok := members["cost"]; ok {
		var cost map[string]json.RawMessage
		if json.Unmarshal(text, &cost) != nil || cost == nil {
			bad = true
		}
		for _, name := range []string{"input", "output", "cacheRead", "cacheWrite", "total"} {
			if v, ok := cost[name]; ok {
				note("cost."+name, v)
			}
		}
	}
	if bad {
		m.unusable++
	}
}

// canonical writes a decimal the slow way.
func canonical(v *big.Rat) pistore.Decimal {
	if v == nil || v.Sign() == 0 {
		return "0"
	}
	s := v.FloatString(maxDecimalBytes)
	return pistore.Decimal(strings.TrimSuffix(strings.TrimRight(s, "0"), "."))
}

func (m *modelSum) totals() pistore.Totals {
	return pistore.Totals{
		Rows: m.rows, Unusable: m.unusable,
		Input: canonical(m.sums["input"]), Output: canonical(m.sums["output"]),
		CacheRead: canonical(m.sums["cacheRead"]), CacheWrite: canonical(m.sums["cacheWrite"]),
		CacheWrite1h: canonical(m.sums["cacheWrite1h"]), Reasoning: canonical(m.sums["reasoning"]),
		TotalTokens: canonical(m.sums["totalTokens"]),
		Cost: pistore.CostTotals{
			Input: canonical(m.sums["cost.input"]), Output: canonical(m.sums["cost.output"]),
			CacheRead: canonical(m.sums["cost.cacheRead"]), CacheWrite: canonical(m.sums["cost.cacheWrite"]),
			Total: canonical(m.sums["cost.total"]),
		},
	}
}

// literals draws number literals around every border of the arithmetic: plain
// counts, printed floats, 64 and 128 bits, and what is not usable.
func literals() *rapid.Generator[string] {
	digits := rapid.StringMatching
	return rapid.OneOf(
		rapid.Map(rapid.Uint32(), func(v uint32) string { return strconv.Itoa(int(v)) }),
		rapid.Map(rapid.Float64Range(0, 50), func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }),
		rapid.Map(rapid.Uint64(), func(v uint64) string { return strconv.FormatUint(v, 10) }),
		digits(`0\.0{0,20}[0-9]{1,20}`),
		digits(`[1-9][0-9]{15,40}(\.[0-9]{1,10})?`),
		digits(`[1-9](\.[0-9]{1,5})?[eE][+-]?[0-9]{1,3}`),
		digits(`[1-9][0-9]{60,66}`),
		digits(`[0-9](\.0{60,66})`),
		rapid.SampledFrom([]string{"0", "-0", "0e400", "-0.0E-5", "1e400", "1e-400", "1e401", "1e-401", "1e0000000400", "18446744073709551615", "18446744073709551616"}),
	)
}

// usages draws usage objects with known, extra and unusable members.
func usages() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		value := rapid.OneOf(literals(), literals(), literals(),
			rapid.Map(literals(), func(s string) string { return "-" + strings.TrimPrefix(s, "-") }),
			rapid.SampledFrom([]string{"null", `"12"`, "true", "{}", "[1]"}))
		object := func(names []string) string {
			var parts []string
			for _, name := range names {
				if rapid.Bool().Draw(t, "with "+name) {
					parts = append(parts, strconv.Quote(name)+":"+value.Draw(t, name))
				}
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		usage := object([]string{"input", "output", "cacheRead", "cacheWrite", "Input", "extra", "cacheWrite1h", "reasoning", "totalTokens", "input"})
		cost := rapid.OneOf(rapid.Just(""), rapid.Just(""), rapid.Just(`"cost":null`), rapid.Just(`"cost":[]`), rapid.Just(`"cost":3`)).Draw(t, "cost")
		if cost == "" {
			cost = `"cost":` + object([]string{"input", "output", "cacheRead", "cacheWrite", "total", "currency"})
		}
		if usage == "{}" {
			return "{" + cost + "}"
		}
		return usage[:len(usage)-1] + "," + cost + "}"
	})
}
