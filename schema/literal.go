package schema

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxExponentDigits bounds the exponent of a number, so that exponents add up
// without overflow. The numbers that it excludes have no use.
const maxExponentDigits = 17

// string scans the string whose opening quote is at i.
func (d *document) string(i int) int {
	plain := true
	i++
	for start := i; ; {
		if i = ordinary(d.raw, i); i >= len(d.raw) {
			return d.unexpected(i)
		}
		switch c := d.raw[i]; {
		case c == '"':
			if !d.push(token{start: uint32(start), end: uint32(i), kind: kindString, plain: plain}) {
				return -1
			}
			return i + 1
		case c == '\\':
			plain = false
			n := escapeLen(d.raw[i:])
			if n == 0 {
				return d.fail(i, "valid JSON", "a malformed escape")
			}
			i += n
		case c < ' ':
			return d.fail(i, "valid JSON", "a control character in a string")
		default:
			r, n := utf8.DecodeRune(d.raw[i:])
			if r == utf8.RuneError && n == 1 {
				return d.fail(i, "valid UTF-8", "an invalid byte")
			}
			i += n
		}
	}
}

// ordinary returns the index of the first byte from i on that is a quote, a
// backslash, a control character or not ASCII, looking at eight bytes at a time.
func ordinary(raw []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for ; i+8 <= len(raw); i += 8 {
		x := binary.LittleEndian.Uint64(raw[i:])
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		// Borrows reach only bytes behind a match, so that the lowest bit is right.
		found := ((x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash | x) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(raw); i++ {
		if c := raw[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// escapeLen returns the length of the escape sequence that s starts with, both
// halves of a surrogate pair together, or 0 if it is malformed.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r, ok := hex4(s[2:])
		switch {
		case !ok:
			return 0
		case !utf16.IsSurrogate(r):
			return 6
		}
		if len(s) < 12 || s[6] != '\\' || s[7] != 'u' {
			return 0
		}
		low, ok := hex4(s[8:])
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return 0
		}
		return 12
	}
	return 0
}

func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendUnescaped appends the text of a scanned string.
func appendUnescaped(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			i++
			continue
		}
		switch c := s[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(s[i+2:])
			i += 4
			if utf16.IsSurrogate(r) {
				low, _ := hex4(s[i+4:])
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}

// number scans the number at i.
func (d *document) number(i int) int {
	raw, plain, start := d.raw, true, i
	if raw[i] == '-' {
		i++
	}
	first := i
	if i = digits(raw, i); i == first || raw[first] == '0' && i > first+1 {
		return d.fail(first, "valid JSON", "a malformed number")
	}
	if i < len(raw) && raw[i] == '.' {
		plain = false
		point := i + 1
		if i = digits(raw, point); i == point {
			return d.fail(i, "valid JSON", "a malformed number")
		}
	}
	if i < len(raw) && raw[i]|0x20 == 'e' {
		plain = false
		if i++; i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		exponent := i
		if i = digits(raw, exponent); i == exponent {
			return d.fail(i, "valid JSON", "a malformed number")
		}
		for exponent < i && raw[exponent] == '0' {
			exponent++
		}
		if i-exponent > maxExponentDigits {
			d.err = tooMany("digits of an exponent", maxExponentDigits)
			return -1
		}
	}
	if !d.push(token{start: uint32(start), end: uint32(i), kind: kindNumber, plain: plain}) {
		return -1
	}
	return i
}

func digits(raw []byte, i int) int {
	for i < len(raw) && '0' <= raw[i] && raw[i] <= '9' {
		i++
	}
	return i
}

func firstRune(s []byte) rune {
	r, _ := utf8.DecodeRune(s)
	return r
}
