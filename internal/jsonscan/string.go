package jsonscan

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
// control character or not ASCII. It may also set the high bit of bytes above such
// a byte; only the lowest bit that is set is reliable.
func special(w uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	// With their second bit inverted, quotes and control characters are the bytes below '!'.
	return (w | ((w ^ ones*2) - ones*'!') | ((w ^ ones*'\\') - ones)) & high
}

// escapable sets the high bit of each byte that is a quote, a backslash or a control character, with the same
// reservation as special.
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
		// The zero bytes that the shift adds count as control characters.
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

// isShortEscape marks the characters that follow the backslash in an escape of two characters.
var isShortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape scans the escape sequence at i, which is longer than two characters. It scans both
// halves of a surrogate pair.
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

// Unquote returns the text of a JSON string that has been scanned, quotes
// included. The result is a view of raw if the string contains no escapes,
// else a copy. For anything but a string, Unquote returns "".
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

// Offset returns the index in whole at which part, a slice of it, begins. It returns -1 if part is
// not a slice of whole.
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

// letters maps a byte to the letter of its two-character escape, or to 0.
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
		dst = AppendUTF8(dst, d[i:end])
		i = end
	}
}

// appendShort appends the bytes of d from i on up to the first byte that is not ASCII or needs
// an escape of six characters, and returns the index of that byte. It copies each eight bytes
// that it looks at, because most strings have few escapes.
func appendShort(dst, d []byte, i int) ([]byte, int) {
	for i+8 <= len(d) {
		n := len(dst)
		if n+9 > cap(dst) {
			dst = slices.Grow(dst, (len(d)-i)+(len(d)-i)/16+16) // with space for some escapes
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

// AppendUTF8 appends d. Each byte that is not UTF-8 becomes U+FFFD.
func AppendUTF8(dst, d []byte) []byte {
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

// Marshal returns the JSON encoding of v. The JSON library rejects text that is not UTF-8; Marshal replaces each
// such byte with U+FFFD, as AppendString does, because programs return the text of files and of other programs.
// If that makes keys of an object equal, they are numbered.
func Marshal(v any, options ...json.Options) ([]byte, error) {
	raw, err := json.Marshal(v, options...)
	if err == nil {
		return raw, nil
	}
	// Raw strings are not preserved, because the invalid UTF-8 may be in raw JSON in v.
	replacing := append(slices.Clone(options), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(false))
	if replaced, failed := json.Marshal(v, replacing...); failed == nil {
		return replaced, nil
	}
	replaced, failed := json.Marshal(v, append(replacing, jsontext.AllowDuplicateNames(true))...)
	if failed == nil && bytes.Contains(replaced, []byte("\uFFFD")) {
		replaced, failed = numberNames(replaced)
	}
	if failed != nil || json.Unmarshal(replaced, new(any)) != nil { // duplicates of other keys remain an error
		return nil, err
	}
	return replaced, nil
}

// numberNames adds a number to each key with U+FFFD that already occurred in its object.
func numberNames(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	encoder := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true))
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	var seen []map[string]bool // keys of each object around the token
	for {
		token, err := decoder.ReadToken()
		if err == io.EOF {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
		} else if err != nil {
			return nil, err
		}
		kind, read := decoder.StackIndex(decoder.StackDepth())
		switch {
		case token.Kind() == '{':
			seen = append(seen, make(map[string]bool))
		case token.Kind() == '}':
			seen = seen[:len(seen)-1]
		case kind == '{' && read%2 == 1: // a key
			name, names := token.String(), seen[len(seen)-1]
			for n := 2; names[name] && strings.Contains(name, "\uFFFD"); n++ {
				name = token.String() + " (" + strconv.Itoa(n) + ")"
			}
			names[name] = true
			token = jsontext.String(name)
		}
		if err := encoder.WriteToken(token); err != nil {
			return nil, err
		}
	}
}
