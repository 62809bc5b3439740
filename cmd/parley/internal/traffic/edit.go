package traffic

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit replaces strings and numbers in JSON text, and keeps all other bytes. It calls edit for each with its place
// and its value: a string without quotation marks and escapes, or a number as it is spelled. The replacement is
// JSON. Edit returns text itself if nothing is replaced. In text that is not JSON, it replaces nothing after the
// first error.
func Edit(text []byte, edit func(place jsontext.Pointer, value string) (replacement []byte, ok bool)) []byte {
	d := jsontext.NewDecoder(strings.NewReader(string(text)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var out []byte
	copied := 0
	for {
		kind, length := d.StackIndex(d.StackDepth())
		isName := kind == '{' && length%2 == 0
		token, err := d.ReadToken()
		if err != nil {
			break // the end
		}
		if isName || token.Kind() != '"' && token.Kind() != '0' {
			continue
		}
		end := int(d.InputOffset())
		start := startOf(text, end, token.Kind() == '"')
		if replacement, ok := edit(d.StackPointer(), token.String()); ok {
			out = append(append(out, text[copied:start]...), replacement...)
			copied = end
		}
	}
	if copied == 0 {
		return text
	}
	return append(out, text[copied:]...)
}

// startOf returns where the string or number before end starts.
func startOf(text []byte, end int, isString bool) int {
	start := end - 1
	if isString {
		for start--; text[start] != '"' || escaped(text[:start]); start-- {
		}
		return start
	}
	for start > 0 && !strings.ContainsRune("[:, \t\r\n", rune(text[start-1])) {
		start--
	}
	return start
}

// escaped reports whether the character after text is escaped in a JSON string.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
