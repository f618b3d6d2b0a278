package ledger

import "math/big"

// Bounds of a usable JSON number, as it is written: they keep a sum's size in
// proportion to what was paid for it.
const (
	maxDigits   = 64  // digits in front of and behind the point, zeros included
	maxExponent = 400 // magnitude of the written exponent
)

// literal is a JSON number: ± digits × 10^exp.
type literal struct {
	neg    bool
	mant   uint64 // the digits, if they fit in 64 bits
	fits   bool   // mant holds
	digits string // the number as written, up to its exponent
	exp    int    // written exponent less the digits behind the point
}

// parseLiteral reads a JSON number (RFC 8259, section 6) that is usable. ok is
// false for every other text.
func parseLiteral(s string) (l literal, ok bool) {
	i := 0
	if i < len(s) && s[i] == '-' {
		l.neg = true
		i++
	}
	start := i
	l.fits = true
	i = l.readDigits(s, i)
	whole := i - start
	if whole == 0 || whole > 1 && s[start] == '0' || whole > maxDigits {
		return literal{}, false
	}
	fraction := 0
	if i < len(s) && s[i] == '.' {
		point := i
		i = l.readDigits(s, i+1)
		if fraction = i - point - 1; fraction == 0 || whole+fraction > maxDigits {
			return literal{}, false
		}
	}
	l.digits = s[start:i]
	exp, ok := parseExponent(s[i:])
	l.exp = exp - fraction
	return l, ok
}

// readDigits appends the digits of s from i on to the mantissa and returns the
// place behind them.
func (l *literal) readDigits(s string, i int) int {
	for ; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		// 10*mant+9 must stay below 2^64.
		if l.mant >= (1<<64-10)/10 {
			l.fits = false
			continue
		}
		l.mant = l.mant*10 + uint64(s[i]-'0')
	}
	return i
}

// parseExponent reads what follows a number's digits: nothing, or an exponent
// of at most maxExponent with any number of leading zeros.
func parseExponent(s string) (int, bool) {
	if s == "" {
		return 0, true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	neg := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if s == "" {
		return 0, false
	}
	exp := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		exp = min(exp*10+int(s[i]-'0'), maxExponent+1)
	}
	if exp > maxExponent {
		return 0, false
	}
	if neg {
		exp = -exp
	}
	return exp, true
}

// zero reports whether the number is 0, of either sign.
func (l literal) zero() bool { return l.fits && l.mant == 0 }

// big returns the digits with their sign as an integer.
func (l literal) big() *big.Int {
	var n big.Int
	if l.fits {
		n.SetUint64(l.mant)
	} else {
		text := make([]byte, 0, maxDigits)
		for i := range len(l.digits) {
			if c := l.digits[i]; c != '.' {
				text = append(text, c)
			}
		}
		if _, ok := n.SetString(string(text), 10); !ok {
			panic("ledger: digits " + l.digits)
		}
	}
	if l.neg {
		n.Neg(&n)
	}
	return &n
}
