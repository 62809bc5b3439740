package schema

import (
	"math/big"
	"math/bits"
)

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
