package schema

import (
	"bytes"
	"math/big"
	"math/bits"
	"strconv"
)

// decimal is an exact JSON number: ±0.d₁d₂d₃… × 10^point, where the digits d are
// those of head and then tail, without leading and trailing zeros. Zero has no
// digits, no sign and point 0. A decimal is a view of its literal and costs no
// allocation, whatever the exponent: 1e1000000000 costs no more than 1.
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

// bound is a limit with which numbers are compared. Small integers, the usual
// case, are compared as integers.
type bound struct {
	exact   decimal
	integer int64
	small   bool
	text    string // as the schema spells it
}

func newBound(literal []byte) *bound {
	b := &bound{exact: parseDecimal(literal), text: string(literal)}
	b.integer, b.small = smallInteger(literal)
	return b
}

// smallInteger returns the value of a plain integer literal of at most 18 digits.
func smallInteger(literal []byte) (n int64, ok bool) {
	if len(literal) > 18 {
		return 0, false
	}
	i := 0
	if literal[0] == '-' {
		i++
	}
	for _, c := range literal[i:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if i == 1 {
		n = -n
	}
	return n, true
}

// cmp compares the number literal with the bound.
func (b *bound) cmp(literal []byte) int {
	if b.small {
		if n, ok := smallInteger(literal); ok {
			switch {
			case n < b.integer:
				return -1
			case n > b.integer:
				return 1
			}
			return 0
		}
	}
	d := parseDecimal(literal)
	return d.cmp(&b.exact)
}

// divisor is a positive number for multipleOf: unit × 10^exponent, where the unit
// is an integer that is no multiple of ten.
type divisor struct {
	unit     uint64
	large    *big.Int // the unit if it does not fit into 64 bits
	exponent int64
}

// maxDivisorDigits bounds the digits of a divisor. Larger ones would take long.
const maxDivisorDigits = 1000

// newDivisor returns the divisor d, which must be positive. It fails if d has more
// than maxDivisorDigits digits.
func newDivisor(d *decimal) (*divisor, bool) {
	n := d.len()
	if n > maxDivisorDigits {
		return nil, false
	}
	v := &divisor{exponent: d.point - int64(n)}
	for i := range n {
		high, low := bits.Mul64(v.unit, 10)
		sum, carry := bits.Add64(low, uint64(d.digit(i)-'0'), 0)
		if high != 0 || carry != 0 {
			v.large, _ = new(big.Int).SetString(string(d.head)+string(d.tail), 10)
			return v, v.large != nil
		}
		v.unit = sum
	}
	return v, true
}

// chunk is the number of decimal digits that are reduced at a time: as many as
// fit into 64 bits.
const chunk = 18

// divides reports whether d is an integral multiple of the divisor. It calls spend
// for work that depends on the length of d, and returns false if spend does.
//
// The digits of d as an integer are no multiple of ten, so that they cannot make
// up for a negative power of ten.
func (v *divisor) divides(d *decimal, spend func(units int) bool) bool {
	n := d.len()
	if n == 0 {
		return true
	}
	power := d.point - int64(n) - v.exponent
	if power < 0 {
		return false
	}
	if v.large != nil {
		return v.dividesLarge(d, power, spend)
	}
	var rest uint64
	for i := 0; i < n; {
		digits, shift := uint64(0), uint64(1)
		for end := min(i+chunk, n); i < end; i++ {
			digits = digits*10 + uint64(d.digit(i)-'0')
			shift *= 10
		}
		sum, carry := bits.Add64(v.mulMod(rest, shift), digits%v.unit, 0)
		_, rest = bits.Div64(carry, sum, v.unit)
	}
	for square := 10 % v.unit; power > 0 && rest != 0; power >>= 1 {
		if power&1 == 1 {
			rest = v.mulMod(rest, square)
		}
		square = v.mulMod(square, square)
	}
	return rest == 0
}

// mulMod returns a×b modulo the unit. One of them must be less than the unit.
func (v *divisor) mulMod(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	_, rest := bits.Div64(high, low, v.unit)
	return rest
}

// dividesLarge is divides for a unit that does not fit into 64 bits.
func (v *divisor) dividesLarge(d *decimal, power int64, spend func(units int) bool) bool {
	work := 4 + len(v.large.Bits())/2
	rest, factor, digits := new(big.Int), new(big.Int), new(big.Int)
	for i, n := 0, d.len(); i < n; {
		value, shift := uint64(0), uint64(1)
		for end := min(i+chunk, n); i < end; i++ {
			value = value*10 + uint64(d.digit(i)-'0')
			shift *= 10
		}
		rest.Mul(rest, factor.SetUint64(shift))
		rest.Add(rest, digits.SetUint64(value))
		rest.Rem(rest, v.large)
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
	factor.Exp(big.NewInt(10), big.NewInt(power), v.large)
	rest.Mul(rest, factor)
	return rest.Rem(rest, v.large).Sign() == 0
}
