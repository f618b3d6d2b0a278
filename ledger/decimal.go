package ledger

import (
	"fmt"
	"math/big"
	"strings"

	"pistore"
)

// maxDecimalBytes bounds a stored sum. Those of 2^53 rows of usable numbers stay
// below: 464 digits of one row and 16 of their count in front of the point, 463
// behind it.
const maxDecimalBytes = 1024

// parseDecimal reads a canonical decimal. Any other text is ErrInvalid.
func parseDecimal(d pistore.Decimal) (number, error) {
	if n, ok := readDecimal(string(d)); ok {
		return n, nil
	}
	return number{}, fmt.Errorf("%w: %.80q is not a canonical decimal", pistore.ErrInvalid, string(d))
}

func readDecimal(s string) (number, bool) {
	if s == "0" {
		return number{}, true
	}
	if len(s) > maxDecimalBytes {
		return number{}, false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && c != '.' && (c != '-' || i > 0) {
			return number{}, false
		}
	}
	whole, fraction, _ := strings.Cut(s, ".")
	v, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return number{}, false
	}
	n := newNumber(v, len(fraction))
	// Writing it again tells every form that is not canonical.
	return n, string(n.append(make([]byte, 0, len(s)))) == s
}
