package jsonrpc

import (
	"unicode/utf8"
	"unsafe"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// Unquote returns the text of a JSON string that has passed [Parse] or [Check].
// The result is a view of raw if the string has no escapes, else a copy. For
// anything but a string Unquote returns "".
func Unquote(raw []byte) string { return jsonscan.Unquote(raw) }

// AppendString appends s as a JSON string, with as few escapes as JSON allows.
// Each byte that is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	d := unsafe.Slice(unsafe.StringData(s), len(s)) // only read
	for i := 0; ; {
		if dst, i = jsonscan.AppendPlain(dst, d, i); i >= len(d) {
			return append(dst, '"')
		}
		switch c := d[i]; {
		case c >= utf8.RuneSelf:
			j := jsonscan.SkipUTF8(d, i)
			if j == i {
				dst = append(dst, "\uFFFD"...)
				j++
			} else {
				dst = append(dst, d[i:j]...)
			}
			i = j
			continue
		case c == '"', c == '\\':
			dst = append(dst, '\\', c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
	}
}
