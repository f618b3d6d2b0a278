package provider

import (
	"math/big"
	"strconv"
	"strings"

	"pistore"
)

// Usage counts the tokens of one request. Input, CacheRead and CacheWrite do
// not overlap: together they are what was sent.
type Usage struct {
	Input      int64 // tokens sent and neither read from nor written to a cache
	Output     int64 // tokens received
	CacheRead  int64
	CacheWrite int64
	Reasoning  int64 // those of Output that are reasoning; 0: none or unknown
}

// Price is what a token costs, each in 1e-12 US dollars: the price of a million
// tokens in millionths of a dollar. Three dollars a million is 3_000_000.
type Price struct {
	Input, Output, CacheRead, CacheWrite int64
}

// JSON returns usage and cost in the form of the ledger. The cost, in US
// dollars, is exact.
func (u Usage) JSON(p Price) pistore.JSON {
	b := make([]byte, 0, 256)
	member := func(name string, n int64) {
		b = append(append(append(b, '"'), name...), '"', ':')
		b = append(strconv.AppendInt(b, n, 10), ',')
	}
	b = append(b, '{')
	member("input", u.Input)
	member("output", u.Output)
	member("cacheRead", u.CacheRead)
	member("cacheWrite", u.CacheWrite)
	if u.Reasoning != 0 {
		member("reasoning", u.Reasoning)
	}
	member("totalTokens", u.Input+u.Output+u.CacheRead+u.CacheWrite)
	b = append(b, `"cost":{`...)
	var total big.Int
	for _, part := range [...]struct {
		name          string
		tokens, price int64
	}{
		{"input", u.Input, p.Input}, {"output", u.Output, p.Output},
		{"cacheRead", u.CacheRead, p.CacheRead}, {"cacheWrite", u.CacheWrite, p.CacheWrite},
	} {
		b = append(append(append(b, '"'), part.name...), '"', ':')
		if part.tokens == 0 || part.price == 0 {
			b = append(b, '0', ',')
			continue
		}
		cost := new(big.Int).Mul(big.NewInt(part.tokens), big.NewInt(part.price)) // in 1e-12 US dollars
		total.Add(&total, cost)
		b = append(append(b, dollars(cost)...), ',')
	}
	b = append(append(append(b, `"total":`...), dollars(&total)...), '}', '}')
	return pistore.JSON(b)
}

// dollars writes 1e-12 dollars as dollars: no exponent, no trailing zeros.
func dollars(pico *big.Int) string {
	const scale = 12
	sign, digits := "", pico.String()
	if pico.Sign() < 0 {
		sign, digits = "-", digits[1:]
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	whole, fraction := digits[:len(digits)-scale], strings.TrimRight(digits[len(digits)-scale:], "0")
	if fraction == "" {
		return sign + whole
	}
	return sign + whole + "." + fraction
}
