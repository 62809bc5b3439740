package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// text scans the string whose opening quote is at i and reports whether it
// contains escapes.
func (s *Scanner) text(i int) (end int, escaped bool) {
	d := s.Data
	if i++; i+8 <= len(d) { // most strings are short
		ends := special(binary.LittleEndian.Uint64(d[i:]))
		i += bits.TrailingZeros64(ends) / 8
		if ends == 0 {
			i = SkipPlain(d, i)
		}
	} else {
		i = SkipPlain(d, i)
	}
	if i < len(d) && d[i] == '"' {
		return i + 1, false
	}
	return s.restOfText(i)
}

// special sets the high bit of each of eight bytes that is a quote, a backslash, a
// control character or not ASCII. It may set the high bit of bytes above such a
// byte too; only the lowest bit that is set is certain.
func special(w uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & high
}

// restOfText scans a string from the first byte that [SkipPlain] does not skip.
func (s *Scanner) restOfText(i int) (end int, escaped bool) {
	d := s.Data
	for ; ; i = SkipPlain(d, i) {
		if i >= len(d) {
			return s.Fail(i, UnterminatedString), escaped
		}
		switch c := d[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			if i = s.escape(i); i < 0 {
				return -1, true
			}
		case c < ' ':
			return s.Fail(i, ControlCharacter), escaped
		default:
			from := i
			if i = SkipUTF8(d, i); i == from {
				return s.Fail(i, InvalidUTF8), escaped
			}
		}
	}
}

// SkipPlain returns the index of the first byte from i on that is a quote, a
// backslash, a control character or not ASCII. It looks at eight bytes at a time.
func SkipPlain(d []byte, i int) int {
	for ; i+8 <= len(d); i += 8 {
		if ends := special(binary.LittleEndian.Uint64(d[i:])); ends != 0 {
			return i + bits.TrailingZeros64(ends)/8
		}
	}
	if rest := len(d) - i; rest > 0 && len(d) >= 8 {
		// The bytes of zero that the shift adds are control characters.
		w := binary.LittleEndian.Uint64(d[len(d)-8:]) >> (8 * (8 - rest))
		return i + bits.TrailingZeros64(special(w))/8
	}
	for ; i < len(d); i++ {
		if c := d[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// AppendPlain appends the bytes of d from i on that SkipPlain skips, and returns the index after
// them. It copies each eight bytes that it looks at, because most strings have few escapes.
func AppendPlain(dst, d []byte, i int) ([]byte, int) {
	for i+8 <= len(d) {
		n := len(dst)
		if n+8 > cap(dst) {
			dst = slices.Grow(dst, len(d)-i)
		}
		w := binary.LittleEndian.Uint64(d[i:])
		binary.LittleEndian.PutUint64(dst[n:n+8], w)
		if ends := special(w); ends != 0 {
			plain := bits.TrailingZeros64(ends) / 8
			return dst[:n+plain], i + plain
		}
		dst = dst[:n+8]
		i += 8
	}
	end := SkipPlain(d, i)
	return append(dst, d[i:end]...), end
}

// SkipUTF8 returns the index after the valid UTF-8 beyond ASCII that starts at i,
// or i if there is none.
func SkipUTF8(d []byte, i int) int {
	for i < len(d) && d[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(d[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}

// escape scans the escape sequence at i, both halves of a surrogate pair together.
func (s *Scanner) escape(i int) int {
	d := s.Data
	if i+1 >= len(d) {
		return s.Fail(i, UnterminatedString)
	}
	switch d[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		r, ok := hex4(d, i+2)
		switch {
		case !ok:
			return s.Fail(i, MalformedEscape)
		case r < 0xD800 || r > 0xDFFF:
			return i + 6
		case r > 0xDBFF:
			return s.Fail(i, LoneSurrogate)
		}
		if i+7 >= len(d) || d[i+6] != '\\' || d[i+7] != 'u' {
			return s.Fail(i, LoneSurrogate)
		}
		if low, ok := hex4(d, i+8); !ok || low < 0xDC00 || low > 0xDFFF {
			return s.Fail(i, LoneSurrogate)
		}
		return i + 12
	default:
		return s.Fail(i, MalformedEscape)
	}
}

// hex4 returns the value of the four hexadecimal digits at i.
func hex4(d []byte, i int) (rune, bool) {
	if i+4 > len(d) {
		return 0, false
	}
	var r rune
	for _, c := range d[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
