package schema

import (
	"bytes"
	"math/big"
	"strconv"
)

// decimal is an exact JSON number: ±0.d₁d₂d₃… × 10^point, where the digits d are
// the digits of head followed by tail, without leading and trailing zeros. Zero
// has no digits, no sign and point 0. A decimal is a view of its literal and
// costs no allocation, whatever the exponent: 1e1000000000 costs no more than 1.
type decimal struct {
	head, tail []byte
	point      int64
	negative   bool
}

// parseDecimal parses the literal of a number that has been scanned.
func parseDecimal(literal []byte) decimal {
	var d decimal
	if literal[0] == '-' {
		d.negative = true
		literal = literal[1:]
	}
	if e := bytes.IndexAny(literal, "eE"); e >= 0 {
		d.point, _ = strconv.ParseInt(string(literal[e+1:]), 10, 64)
		literal = literal[:e]
	}
	d.head = literal
	if dot := bytes.IndexByte(literal, '.'); dot >= 0 {
		d.head, d.tail = literal[:dot], literal[dot+1:]
	}
	d.point += int64(len(d.head))

	for len(d.head) > 0 && d.head[0] == '0' {
		d.head = d.head[1:]
		d.point--
	}
	if len(d.head) == 0 {
		for len(d.tail) > 0 && d.tail[0] == '0' {
			d.tail = d.tail[1:]
			d.point--
		}
	}
	d.tail = bytes.TrimRight(d.tail, "0")
	if len(d.tail) == 0 {
		d.head = bytes.TrimRight(d.head, "0")
	}
	if d.len() == 0 {
		return decimal{}
	}
	return d
}

func (d *decimal) len() int { return len(d.head) + len(d.tail) }

func (d *decimal) digit(i int) byte {
	if i < len(d.head) {
		return d.head[i]
	}
	return d.tail[i-len(d.head)]
}

// isInteger reports whether d has no fraction: 1.0 and 1e2 have none.
func (d *decimal) isInteger() bool { return d.point >= int64(d.len()) }

// cmp is negative, zero or positive as d is less than, equal to or greater than e.
func (d *decimal) cmp(e *decimal) int {
	switch {
	case d.negative != e.negative:
		if d.negative {
			return -1
		}
		return 1
	case d.negative:
		return e.cmpMagnitude(d)
	default:
		return d.cmpMagnitude(e)
	}
}

func (d *decimal) cmpMagnitude(e *decimal) int {
	m, n := d.len(), e.len()
	switch {
	case m == 0 || n == 0:
		return m - n
	case d.point < e.point:
		return -1
	case d.point > e.point:
		return 1
	}
	for i := range min(m, n) {
		if a, b := d.digit(i), e.digit(i); a != b {
			return int(a) - int(b)
		}
	}
	return m - n
}

// bound is a limit with which numbers are compared.
type bound struct {
	exact decimal
	text  string // as written in the schema
}

func newBound(literal []byte) *bound { return &bound{parseDecimal(literal), string(literal)} }

// cmp compares the number literal with the bound.
func (b *bound) cmp(literal []byte) int {
	d := parseDecimal(literal)
	return d.cmp(&b.exact)
}

// divisor is a positive number for multipleOf: unit × 10^exponent, where unit is
// an integer that is not a multiple of ten.
type divisor struct {
	unit     *big.Int
	exponent int64
}

// maxDivisorDigits bounds the digits of a divisor. Larger divisors would take
// long.
const maxDivisorDigits = 1000

// newDivisor returns the divisor d, which must be positive. It fails if d has more
// than maxDivisorDigits digits.
func newDivisor(d *decimal) (*divisor, bool) {
	if d.len() > maxDivisorDigits {
		return nil, false
	}
	unit, ok := new(big.Int).SetString(string(d.head)+string(d.tail), 10)
	return &divisor{unit, d.point - int64(d.len())}, ok
}

// chunk is the number of decimal digits that are reduced at a time: as many as
// fit into 64 bits.
const chunk = 18

// divides reports whether d is an integral multiple of the divisor. It calls spend
// for its work, and returns false if spend returns false.
//
// As an integer, the digits of d are not a multiple of ten, so they cannot make up
// for a negative power of ten.
func (v *divisor) divides(d *decimal, spend func(units int) bool) bool {
	n := d.len()
	power := d.point - int64(n) - v.exponent
	if n == 0 || power < 0 {
		return n == 0
	}
	work := 4 + len(v.unit.Bits())/2
	rest, factor, digits := new(big.Int), new(big.Int), new(big.Int)
	for i := 0; i < n; {
		value, shift := uint64(0), uint64(1)
		for end := min(i+chunk, n); i < end; i++ {
			value = value*10 + uint64(d.digit(i)-'0')
			shift *= 10
		}
		rest.Mul(rest, factor.SetUint64(shift))
		rest.Add(rest, digits.SetUint64(value))
		rest.Rem(rest, v.unit)
		if !spend(work) {
			return false
		}
	}
	if rest.Sign() == 0 {
		return true
	}
	if !spend(64 * work) {
		return false
	}
	factor.Exp(big.NewInt(10), big.NewInt(power), v.unit)
	rest.Mul(rest, factor)
	return rest.Rem(rest, v.unit).Sign() == 0
}
