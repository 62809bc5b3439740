package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// letters are the letters of the escapes of two characters; 0 for other bytes.
var letters = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// AppendString appends s as a JSON string, with as few escapes as JSON allows. Each byte that
// is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	d := unsafe.Slice(unsafe.StringData(s), len(s)) // only read
	for i := 0; ; {
		if dst, i = appendShort(dst, d, i); i == len(d) {
			return append(dst, '"')
		}
		if c := d[i]; c < ' ' {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
			continue
		}
		end := skipUnescaped(d, i)
		dst = appendUTF8(dst, d[i:end])
		i = end
	}
}

// appendShort appends the bytes of d from i on up to the first that is not ASCII or needs
// an escape of six characters, and returns its index. It copies each eight bytes that it looks
// at, because most strings have few escapes.
func appendShort(dst, d []byte, i int) ([]byte, int) {
	for i+8 <= len(d) {
		n := len(dst)
		if n+9 > cap(dst) {
			dst = slices.Grow(dst, (len(d)-i)+(len(d)-i)/16+16) // with some escapes
		}
		w := binary.LittleEndian.Uint64(d[i:])
		binary.LittleEndian.PutUint64(dst[n:n+8], w)
		ends := special(w)
		if ends == 0 {
			dst = dst[:n+8]
			i += 8
			continue
		}
		plain := bits.TrailingZeros64(ends) / 8
		n += plain
		i += plain
		c := d[i]
		if c >= utf8.RuneSelf || letters[c] == 0 {
			return dst[:n], i
		}
		dst = append(dst[:n], '\\', letters[c])
		i++
	}
	for i < len(d) {
		end := SkipPlain(d, i)
		dst = append(dst, d[i:end]...)
		if i = end; i == len(d) || d[i] >= utf8.RuneSelf || letters[d[i]] == 0 {
			break
		}
		dst = append(dst, '\\', letters[d[i]])
		i++
	}
	return dst, i
}

// appendUTF8 appends d and replaces each byte that is not UTF-8.
func appendUTF8(dst, d []byte) []byte {
	if utf8.Valid(d) {
		return append(dst, d...)
	}
	for len(d) > 0 {
		r, n := utf8.DecodeRune(d)
		dst = utf8.AppendRune(dst, r)
		d = d[n:]
	}
	return dst
}
