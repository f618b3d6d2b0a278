package conformance

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"pistore"
)

// The arithmetic of the ledger in its plainest form: every number is an integer
// count of 10^-fixedPoint, and numbers that are usable are never finer.
const fixedPoint = 500

// Bounds of a usable number as it is written.
const (
	usableDigits   = 64
	usableExponent = 400
)

// knownFields are the fields of a usage object in the order of pistore.Totals,
// those of its cost behind a dot.
var knownFields = []string{
	"input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "reasoning", "totalTokens",
	"cost.input", "cost.output", "cost.cacheRead", "cost.cacheWrite", "cost.total",
}

// amounts is what a usage row adds, by field; nil adds nothing.
type amounts struct {
	values   [12]*big.Int
	unusable bool
}

// amountsOf reads a usage object. Names match in exact case, and of duplicate
// members the last one counts, as a map of encoding/json has it.
func amountsOf(usage pistore.JSON, adjustment bool) amounts {
	var a amounts
	var members, cost map[string]json.RawMessage
	if json.Unmarshal([]byte(usage), &members) != nil {
		return amounts{unusable: true}
	}
	if raw, ok := members["cost"]; ok {
		if raw[0] != '{' || json.Unmarshal(raw, &cost) != nil {
			a.unusable = true
			cost = nil
		}
	}
	for i, name := range knownFields {
		from := members
		if part, ok := strings.CutPrefix(name, "cost."); ok {
			from, name = cost, part
		}
		raw, ok := from[name]
		if !ok {
			continue
		}
		n, ok := fixed(string(raw))
		if !ok || n.Sign() < 0 && !adjustment {
			a.unusable = true
			continue
		}
		a.values[i] = n
	}
	return a
}

// fixed reads a JSON number within the bounds.
func fixed(literal string) (*big.Int, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(literal), "e")
	e := 0
	if exponent != "" {
		var err error
		if e, err = strconv.Atoi(exponent); err != nil || e < -usableExponent || e > usableExponent {
			return nil, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if len(strings.TrimPrefix(whole, "-"))+len(fraction) > usableDigits {
		return nil, false
	}
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return nil, false
	}
	shift := big.NewInt(int64(fixedPoint + e - len(fraction)))
	return n.Mul(n, shift.Exp(big.NewInt(10), shift, nil)), true
}

// totals adds up every row.
func totals(rows []amounts) pistore.Totals {
	var sums [12]big.Int
	t := pistore.Totals{Rows: int64(len(rows))}
	for _, row := range rows {
		if row.unusable {
			t.Unusable++
		}
		for i, n := range row.values {
			if n != nil {
				sums[i].Add(&sums[i], n)
			}
		}
	}
	for i, to := range []*pistore.Decimal{
		&t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.CacheWrite1h, &t.Reasoning, &t.TotalTokens,
		&t.Cost.Input, &t.Cost.Output, &t.Cost.CacheRead, &t.Cost.CacheWrite, &t.Cost.Total,
	} {
		*to = canonical(&sums[i])
	}
	return t
}

// canonical writes a count of 10^-fixedPoint as the contract wants decimals:
// no exponent, no zeros that could be left out, no -0.
func canonical(n *big.Int) pistore.Decimal {
	sign := ""
	switch n.Sign() {
	case 0:
		return "0"
	case -1:
		sign = "-"
	}
	digits := new(big.Int).Abs(n).String()
	if missing := fixedPoint + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - fixedPoint
	fraction := strings.TrimRight(digits[point:], "0")
	if fraction != "" {
		fraction = "." + fraction
	}
	return pistore.Decimal(sign + digits[:point] + fraction)
}
