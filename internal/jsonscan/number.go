package jsonscan

import (
	"bytes"
	"strconv"
)

// number scans the number at i. It is plain if it has neither a fraction nor an
// exponent.
func (s *Scanner) number(i int) (end int, plain bool) {
	d := s.Data
	if d[i] == '-' {
		i++
	}
	switch {
	case i < len(d) && d[i] == '0':
		i++
	case i < len(d) && '1' <= d[i] && d[i] <= '9':
		i = SkipDigits(d, i)
	default:
		return s.Fail(i, MalformedNumber), false
	}
	plain = true
	if i < len(d) && d[i] == '.' {
		plain = false
		from := i + 1
		if i = SkipDigits(d, from); i == from {
			return s.Fail(i, MalformedNumber), false
		}
	}
	if i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		return s.exponent(i + 1), false
	}
	return i, plain
}

// exponent scans an exponent from the byte after its letter.
func (s *Scanner) exponent(i int) int {
	d := s.Data
	if i < len(d) && (d[i] == '+' || d[i] == '-') {
		i++
	}
	from := i
	if i = SkipDigits(d, from); i == from {
		return s.Fail(i, MalformedNumber)
	}
	if s.MaxExponent > 0 {
		for from < i && d[from] == '0' {
			from++
		}
		if i-from > s.MaxExponent {
			return s.Fail(from, TooLargeExponent)
		}
	}
	return i
}

// SkipDigits returns the index of the first byte from i on that is not a digit.
func SkipDigits(d []byte, i int) int {
	for i < len(d) && '0' <= d[i] && d[i] <= '9' {
		i++
	}
	return i
}

const (
	maxIntegerDigits = 19      // digits of the greatest int64
	maxExponent      = 1 << 30 // greater than the number of digits in any message; sums do not overflow
)

// Integer returns the exact value of a number that has been scanned, in any of its
// spellings: 60000, 60000.0 and 6e4 are the same integer. It fails if the number has
// a fraction or does not fit into an int64. A large exponent costs no time.
func Integer(literal []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(literal), 10, 64)
	if err == nil {
		return n, true
	}
	digits, negative := bytes.CutPrefix(literal, []byte("-"))
	exponent := 0
	if e := bytes.IndexAny(digits, "eE"); e >= 0 {
		exponent, _ = strconv.Atoi(string(digits[e+1:])) // the nearest int, if out of range
		exponent = max(min(exponent, maxExponent), -maxExponent)
		digits = digits[:e]
	}
	whole, fraction, _ := bytes.Cut(digits, []byte("."))
	fraction = bytes.TrimRight(fraction, "0")
	exponent -= len(fraction)
	digits = bytes.TrimLeft(append(bytes.Clone(whole), fraction...), "0")
	significant := bytes.TrimRight(digits, "0")
	if len(significant) == 0 {
		return 0, len(whole) > 0
	}
	exponent += len(digits) - len(significant)
	if exponent < 0 || len(significant)+exponent > maxIntegerDigits {
		return 0, false
	}
	text := append(significant, bytes.Repeat([]byte("0"), exponent)...)
	if negative {
		text = append([]byte("-"), text...)
	}
	n, err = strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}
