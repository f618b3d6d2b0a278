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
	var b strings.Builder
	member := func(name string, n int64) {
		b.WriteString(`"` + name + `":` + strconv.FormatInt(n, 10) + ",")
	}
	b.WriteByte('{')
	member("input", u.Input)
	member("output", u.Output)
	member("cacheRead", u.CacheRead)
	member("cacheWrite", u.CacheWrite)
	if u.Reasoning != 0 {
		member("reasoning", u.Reasoning)
	}
	member("totalTokens", u.Input+u.Output+u.CacheRead+u.CacheWrite)
	in, out := cost(u.Input, p.Input), cost(u.Output, p.Output)
	read, write := cost(u.CacheRead, p.CacheRead), cost(u.CacheWrite, p.CacheWrite)
	total := new(big.Int)
	for _, c := range []*big.Int{in, out, read, write} {
		total.Add(total, c)
	}
	b.WriteString(`"cost":{"input":` + dollars(in) + `,"output":` + dollars(out) +
		`,"cacheRead":` + dollars(read) + `,"cacheWrite":` + dollars(write) + `,"total":` + dollars(total) + `}}`)
	return pistore.JSON(b.String())
}

// cost is in 1e-12 US dollars.
func cost(tokens, price int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(tokens), big.NewInt(price))
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
