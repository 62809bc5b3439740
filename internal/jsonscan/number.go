package jsonscan

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
