package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Unquote returns the text of a JSON string that has been scanned, quotes
// included. The result is a view of raw if the string has no escapes, else a
// copy. For anything but a string Unquote returns "".
func Unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return View(raw)
	}
	return View(AppendUnescaped(make([]byte, 0, len(raw)), raw)) // no escape is shorter than its text
}

// AppendUnescaped appends the text of a JSON string that has been scanned, given
// without its quotes. The text of a malformed string is unspecified.
func AppendUnescaped(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i:]
		n := 2
		switch c := raw[1]; c {
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
			n = 6
			r, _ := hex4(raw, 2)
			if utf16.IsSurrogate(r) {
				n = 12
				low, _ := hex4(raw, 8)
				r = utf16.DecodeRune(r, low)
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
		raw = raw[min(n, len(raw)):]
	}
}

// Offset returns the index in whole at which part, a slice of it, begins. It returns -1 if part is no
// slice of whole.
func Offset(whole, part []byte) int {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	if len(part) > len(whole) || at > uintptr(len(whole)-len(part)) {
		return -1
	}
	return int(at)
}

// View returns b as a string without copying it. The caller must not change b
// while the string is in use.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
