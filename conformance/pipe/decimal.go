package pipe

import (
	"strconv"
	"strings"

	"pistore"
)

// maxDigits bounds a sum: 64 digits at an exponent of up to 400, and more than
// enough for how many are added up.
const maxDigits = 1000

// decimal brings a JSON number into the canonical form of a sum: stores may
// write 1.50, 15e-1 or -0.
func decimal(literal string) (pistore.Decimal, bool) {
	mantissa, exponent := literal, 0
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		n, err := strconv.Atoi(strings.TrimPrefix(literal[i+1:], "+"))
		if err != nil || n < -maxDigits || n > maxDigits {
			return "", false
		}
		mantissa, exponent = literal[:i], n
	}
	digits, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = whole + fraction
	if len(digits) == 0 || len(digits) > maxDigits || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	point := len(whole) + exponent
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	whole = strings.TrimLeft(digits[:point], "0")
	fraction = strings.TrimRight(digits[point:], "0")
	switch {
	case whole == "" && fraction == "":
		return "0", true
	case whole == "":
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative {
		whole = "-" + whole
	}
	return pistore.Decimal(whole), true
}
