package jsonrpc

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Unquote returns the text of a JSON string that has passed [Parse] or [Check].
// Without escapes the result is a view of raw, otherwise a copy. For anything
// but a string it returns "".
func Unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	raw = raw[1 : len(raw)-1]
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return view(raw)
	}
	out := make([]byte, 0, len(raw)) // no escape is shorter than what it stands for
	for ; i >= 0 && i+1 < len(raw); i = bytes.IndexByte(raw, '\\') {
		out = append(out, raw[:i]...)
		raw = raw[i:]
		n := 2
		switch c := raw[1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			n = 6
			r, _ := hex4(raw, 2)
			if utf16.IsSurrogate(r) {
				n = 12
				low, _ := hex4(raw, 8)
				r = utf16.DecodeRune(r, low)
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
		raw = raw[min(n, len(raw)):]
	}
	return view(append(out, raw...))
}

// AppendString appends s as a JSON string, as short as JSON can write it. Each
// byte that is not UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	d := bytesOf(s)
	for i := 0; ; {
		j := plain(d, i)
		dst = append(dst, d[i:j]...)
		if i = j; i >= len(d) {
			return append(dst, '"')
		}
		switch c := d[i]; {
		case c >= utf8.RuneSelf:
			if j = beyondASCII(d, i); j == i {
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

// view returns b as a string without copying it. The scanner's input is never modified.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
