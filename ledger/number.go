package ledger

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"strconv"
)

// number is an exact decimal that grows by addition: an integer × 10^-scale.
// The zero value is 0. The integer is a 128-bit one where it has room, as it has
// for the sums of real ledgers at the scale of a printed float64, else a big one.
// A number may be copied: the big integer is replaced, never changed.
type number struct {
	hi    int64 // two's complement with lo; unused when big is set
	lo    uint64
	big   *big.Int
	scale int // >= 0
}

// pow10 holds the powers of ten that fit in 64 bits.
var pow10 = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// add adds l.
func (n *number) add(l literal) {
	if l.zero() {
		return // before its scale is taken over
	}
	if l.fits && n.big == nil && n.addSmall(l) {
		return
	}
	v, scale := l.big(), -l.exp
	if scale < 0 {
		v.Mul(v, bigPow10(-scale))
		scale = 0
	}
	n.addBig(v, scale)
}

// addSmall adds l in 128 bits. It reports false, with n unchanged, if anything
// on the way has no room.
func (n *number) addSmall(l literal) bool {
	sum := *n
	if sum.hi == 0 && sum.lo == 0 {
		sum.scale = 0 // what summed up to zero leaves no scale behind
	}
	shift := sum.scale + l.exp
	if shift < 0 { // l is finer than the sum
		if !sum.refine(-shift) {
			return false
		}
		shift = 0
	}
	if shift >= len(pow10) {
		return false
	}
	hi, lo := bits.Mul64(l.mant, pow10[shift])
	if hi > 1<<62 {
		return false
	}
	addend := int64(hi)
	if l.neg {
		addend, lo = negate(addend, lo)
	}
	var carry uint64
	sum.lo, carry = bits.Add64(sum.lo, lo, 0)
	before := sum.hi
	sum.hi += addend + int64(carry)
	// Signed overflow: both operands have one sign and the sum the other one.
	if (before^sum.hi)&(addend^sum.hi) < 0 {
		return false
	}
	*n = sum
	return true
}

// addNumber adds m.
func (n *number) addNumber(m number) {
	if n.big == nil && m.big == nil {
		neg, hi, lo := m.magnitude()
		if hi == 0 {
			n.add(literal{neg: neg, mant: lo, fits: true, exp: -m.scale})
			return
		}
		if n.hi == 0 && n.lo == 0 {
			*n = m
			return
		}
	}
	n.addBig(m.integer(), m.scale)
}

// refine raises the scale by k without changing the value, in 128 bits. It
// reports false if there is no room.
func (n *number) refine(k int) bool {
	if n.hi == 0 && n.lo == 0 {
		n.scale += k
		return true
	}
	if k >= len(pow10) {
		return false
	}
	neg, hi, lo := n.magnitude()
	over, top := bits.Mul64(hi, pow10[k])
	carry, low := bits.Mul64(lo, pow10[k])
	top, more := bits.Add64(top, carry, 0)
	if over != 0 || more != 0 || top > 1<<62 {
		return false
	}
	n.hi, n.lo = int64(top), low
	if neg {
		n.hi, n.lo = negate(n.hi, n.lo)
	}
	n.scale += k
	return true
}

// addBig adds v × 10^-scale by way of big integers. v is not kept.
func (n *number) addBig(v *big.Int, scale int) {
	sum := n.integer()
	if d := scale - n.scale; d > 0 {
		sum.Mul(sum, bigPow10(d))
	} else if d < 0 {
		v.Mul(v, bigPow10(-d))
	}
	*n = newNumber(sum.Add(sum, v), max(n.scale, scale))
}

// newNumber returns v × 10^-scale, in 128 bits where it has room. v is kept.
func newNumber(v *big.Int, scale int) number {
	if v.BitLen() > 126 {
		return number{big: v, scale: scale}
	}
	var b [16]byte
	v.FillBytes(b[:])
	n := number{
		hi:    int64(binary.BigEndian.Uint64(b[:8])),
		lo:    binary.BigEndian.Uint64(b[8:]),
		scale: scale,
	}
	if v.Sign() < 0 {
		n.hi, n.lo = negate(n.hi, n.lo)
	}
	return n
}

// integer returns the integer in a new big one.
func (n *number) integer() *big.Int {
	var sum big.Int
	if n.big != nil {
		return sum.Set(n.big)
	}
	neg, hi, lo := n.magnitude()
	sum.SetUint64(hi)
	sum.Lsh(&sum, 64)
	var low big.Int
	sum.Or(&sum, low.SetUint64(lo))
	if neg {
		sum.Neg(&sum)
	}
	return &sum
}

// magnitude splits the 128-bit integer into sign and size.
func (n *number) magnitude() (neg bool, hi, lo uint64) {
	if n.hi >= 0 {
		return false, uint64(n.hi), n.lo
	}
	h, l := negate(n.hi, n.lo)
	return true, uint64(h), l
}

func negate(hi int64, lo uint64) (int64, uint64) {
	low, borrow := bits.Sub64(0, lo, 0)
	return -hi - int64(borrow), low
}

func bigPow10(k int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(k)), nil)
}

// append writes the canonical decimal behind b.
func (n *number) append(b []byte) []byte {
	var room [40]byte
	digits := room[:0]
	var neg bool
	if n.big != nil {
		neg = n.big.Sign() < 0
		digits = new(big.Int).Abs(n.big).Append(digits, 10)
	} else {
		var hi, lo uint64
		neg, hi, lo = n.magnitude()
		if hi == 0 {
			digits = strconv.AppendUint(digits, lo, 10)
		} else {
			// hi stays below 2^63, and so below 10^19: the quotient fits.
			q, r := bits.Div64(hi, lo, pow10[19])
			digits = strconv.AppendUint(digits, q, 10)
			digits = appendPadded(digits, r, 19)
		}
	}
	return appendDecimal(b, neg, digits, n.scale)
}

// appendPadded writes v in decimal with leading zeros up to a width.
func appendPadded(b []byte, v uint64, width int) []byte {
	for i := width - 1; i > 0 && v < pow10[i]; i-- {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, v, 10)
}

// appendDecimal writes ± digits × 10^-scale in canonical form; digits has no
// leading zeros, except that zero is "0".
func appendDecimal(b []byte, neg bool, digits []byte, scale int) []byte {
	for scale > 0 && len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		scale--
	}
	if len(digits) == 0 || digits[0] == '0' {
		return append(b, '0')
	}
	if neg {
		b = append(b, '-')
	}
	if scale == 0 {
		return append(b, digits...)
	}
	if len(digits) > scale {
		b = append(b, digits[:len(digits)-scale]...)
		digits = digits[len(digits)-scale:]
	} else {
		b = append(b, '0')
	}
	b = append(b, '.')
	for range scale - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}
