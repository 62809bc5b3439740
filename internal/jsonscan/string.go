package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// text scans the string whose opening quote is at i and reports whether it
// contains escapes.
func (s *Scanner) text(i int) (end int, escaped bool) {
	i = SkipPlain(s.Data, i+1)
	if i < len(s.Data) && s.Data[i] == '"' {
		return i + 1, false
	}
	return s.restOfText(i)
}

// special sets the high bit of each of eight bytes that is a quote, a backslash, a
// control character or not ASCII. It may set the high bit of bytes above such a
// byte too; only the lowest bit that is set is certain.
func special(w uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	// With their second bit inverted, quotes and control characters are the bytes below '!'.
	return (w | ((w ^ ones*2) - ones*'!') | ((w ^ ones*'\\') - ones)) & high
}

// escapable is special for quotes, backslashes and control characters only.
func escapable(w uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return ((w - ones*' ') | (quote - ones) | (slash - ones)) &^ w & high
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
			if i+1 < len(d) && isShortEscape[d[i+1]] {
				i += 2
			} else if i = s.escape(i); i < 0 {
				return -1, true
			}
		case c < ' ':
			return s.Fail(i, ControlCharacter), escaped
		default:
			end := skipUnescaped(d, i)
			if !utf8.Valid(d[i:end]) {
				return s.Fail(i+validUTF8(d[i:end]), InvalidUTF8), escaped
			}
			i = end
		}
	}
}

// SkipPlain returns the index of the first byte from i on that is a quote, a
// backslash, a control character or not ASCII. It looks at 32 bytes at a time after the
// first eight, because most strings are short and most escapes are near another one.
func SkipPlain(d []byte, i int) int {
	if i+8 <= len(d) {
		if ends := special(binary.LittleEndian.Uint64(d[i:])); ends != 0 {
			return i + bits.TrailingZeros64(ends)/8
		}
		i += 8
	}
	for ; i+32 <= len(d); i += 32 {
		b := (*[32]byte)(d[i:])
		w0, w1 := special(binary.LittleEndian.Uint64(b[:])), special(binary.LittleEndian.Uint64(b[8:]))
		w2, w3 := special(binary.LittleEndian.Uint64(b[16:])), special(binary.LittleEndian.Uint64(b[24:]))
		switch {
		case w0|w1|w2|w3 == 0:
			continue
		case w0 != 0:
			return i + bits.TrailingZeros64(w0)/8
		case w1 != 0:
			return i + 8 + bits.TrailingZeros64(w1)/8
		case w2 != 0:
			return i + 16 + bits.TrailingZeros64(w2)/8
		}
		return i + 24 + bits.TrailingZeros64(w3)/8
	}
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

// skipUnescaped returns the index of the first byte from i on that is a quote, a backslash or a
// control character. It looks at eight bytes at a time.
func skipUnescaped(d []byte, i int) int {
	for ; i+8 <= len(d); i += 8 {
		if ends := escapable(binary.LittleEndian.Uint64(d[i:])); ends != 0 {
			return i + bits.TrailingZeros64(ends)/8
		}
	}
	for i < len(d) && d[i] >= ' ' && d[i] != '"' && d[i] != '\\' {
		i++
	}
	return i
}

// validUTF8 returns the number of bytes before the first that is not UTF-8.
func validUTF8(d []byte) int {
	n := 0
	for n < len(d) {
		r, size := utf8.DecodeRune(d[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// isShortEscape has the characters that follow the backslash of an escape of two characters.
var isShortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape scans the escape sequence at i, which has more than two characters, both halves of a
// surrogate pair together.
func (s *Scanner) escape(i int) int {
	d := s.Data
	if i+1 >= len(d) {
		return s.Fail(i, UnterminatedString)
	}
	if d[i+1] != 'u' {
		return s.Fail(i, MalformedEscape)
	}
	r, ok := hex4(d, i+2)
	switch {
	case !ok:
		return s.Fail(i, MalformedEscape)
	case r < 0xD800 || r > 0xDFFF:
		return i + 6
	case r > 0xDBFF:
		return s.loneSurrogate(i)
	}
	if i+7 >= len(d) || d[i+6] != '\\' || d[i+7] != 'u' {
		return s.loneSurrogate(i)
	}
	if low, ok := hex4(d, i+8); !ok || low < 0xDC00 || low > 0xDFFF {
		return s.loneSurrogate(i)
	}
	return i + 12
}

// loneSurrogate scans a lone surrogate at i.
func (s *Scanner) loneSurrogate(i int) int {
	switch s.Surrogates {
	case RejectSurrogates:
		return s.Fail(i, LoneSurrogate)
	case ReplaceSurrogates:
		if s.replaced == 0 {
			s.Data = bytes.Clone(s.Data)
		}
		copy(s.Data[i:], Replacement)
	}
	s.replaced = i + len(Replacement)
	return s.replaced
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
