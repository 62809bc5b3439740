package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// str scans the string whose opening quote is at i and returns the index behind
// its closing quote, and whether it has escapes.
func (s *scanner) str(i int) (end int, escaped bool) {
	if i = plain(s.data, i+1); i < len(s.data) && s.data[i] == '"' {
		return i + 1, false
	}
	return s.restOfString(i)
}

// restOfString scans a string from the first byte that [plain] does not pass.
func (s *scanner) restOfString(i int) (end int, escaped bool) {
	d := s.data
	for ; ; i = plain(d, i) {
		if i >= len(d) {
			return s.fail(i, "unterminated string"), escaped
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
			return s.fail(i, "control character in string"), escaped
		default:
			from := i
			if i = beyondASCII(d, i); i == from {
				return s.fail(i, "invalid UTF-8"), escaped
			}
		}
	}
}

// plain returns the index of the first byte from i that is not printable ASCII
// free of quotes and backslashes. It looks at eight bytes at a time.
func plain(d []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(d); i += 8 {
		w := binary.LittleEndian.Uint64(d[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// Each term sets the high bit of the bytes that end the run. A borrow can
		// set it for others too, but only above a true one, and the lowest counts.
		if ends := (w | (w - ones*' ') | (quote - ones) | (slash - ones)) & high; ends != 0 {
			return i + bits.TrailingZeros64(ends)/8
		}
	}
	for ; i < len(d); i++ {
		if c := d[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// beyondASCII returns the index behind the valid UTF-8 beyond ASCII that starts
// at i, or i itself if there is none.
func beyondASCII(d []byte, i int) int {
	for i < len(d) && d[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRune(d[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}

// escape scans the escape sequence at i and returns the index behind it, or -1.
func (s *scanner) escape(i int) int {
	d := s.data
	if i+1 >= len(d) {
		return s.fail(i, "unterminated string")
	}
	switch d[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		r, ok := hex4(d, i+2)
		switch {
		case !ok:
			return s.fail(i, "malformed escape")
		case r < 0xD800 || r > 0xDFFF:
			return i + 6
		case r > 0xDBFF:
			return s.fail(i, "lone surrogate")
		}
		if i+7 >= len(d) || d[i+6] != '\\' || d[i+7] != 'u' {
			return s.fail(i, "lone surrogate")
		}
		if low, ok := hex4(d, i+8); !ok || low < 0xDC00 || low > 0xDFFF {
			return s.fail(i, "lone surrogate")
		}
		return i + 12
	default:
		return s.fail(i, "malformed escape")
	}
}

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
