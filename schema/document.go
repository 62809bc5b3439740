package schema

import (
	"strconv"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// kind is the kind of a JSON value, or a set of kinds such as a schema's "type".
type kind = jsonscan.Kind

const (
	kindNull    = jsonscan.KindNull
	kindBoolean = jsonscan.KindBoolean
	kindNumber  = jsonscan.KindNumber
	kindString  = jsonscan.KindString
	kindArray   = jsonscan.KindArray
	kindObject  = jsonscan.KindObject
	kindInteger = jsonscan.KindInteger
)

type token = jsonscan.Token

// Bounds of any document, schema or instance. Depth and values have the same
// bounds as the messages that contain them.
const (
	maxDepth  = 128
	maxTokens = 1_000_000
	maxBytes  = 1 << 30
	// maxExponentDigits keeps sums of exponents from overflowing.
	maxExponentDigits = 17
)

// document is strict JSON, scanned once into tokens, so that several subschemas
// can examine one value without reading its bytes again.
type document struct{ jsonscan.Document }

// scan reads raw, replacing what the document held. It keeps raw. The error is a
// [*ValidationError] or a [*LimitError].
func (d *document) scan(raw []byte) error {
	d.Reset()
	d.Raw = raw
	return d.scanFrom(0)
}

// scanFrom scans the bytes from an offset as one more value.
func (d *document) scanFrom(offset int) error {
	if len(d.Raw) > maxBytes {
		return tooMany("bytes of JSON", maxBytes)
	}
	s := jsonscan.Scanner{
		MaxDepth: maxDepth, MaxMembers: maxTokens, MaxTokens: maxTokens, MaxExponent: maxExponentDigits,
	}
	if !d.Scan(&s, offset) {
		return d.scanError(s.Err())
	}
	return nil
}

// scanError turns an error of the scanner into a [*ValidationError] or a [*LimitError].
func (d *document) scanError(err *jsonscan.Error) error {
	expected, got := "valid JSON", err.Fault.String()
	switch err.Fault {
	case jsonscan.TooDeep:
		return tooMany("levels of nesting", maxDepth)
	case jsonscan.TooManyTokens, jsonscan.TooManyMembers:
		return tooMany("values in one document", maxTokens)
	case jsonscan.TooLargeExponent:
		return tooMany("digits of an exponent", maxExponentDigits)
	case jsonscan.DuplicateName:
		name := uint32(len(d.Tokens)) - 1
		return invalid(d.openPath(), "each member once", "the member "+quote(d.Text(name))+" twice")
	case jsonscan.UnexpectedEnd, jsonscan.UnterminatedString:
		got = "end of input"
	case jsonscan.TrailingData:
		got = "bytes after the value"
	case jsonscan.InvalidUTF8:
		expected, got = "valid UTF-8", "an invalid byte"
	case jsonscan.UnexpectedCharacter, jsonscan.ExpectedName, jsonscan.ExpectedColon, jsonscan.ExpectedMemberEnd, jsonscan.ExpectedElementEnd:
		if err.Offset < len(d.Raw) {
			r, _ := utf8.DecodeRune(d.Raw[err.Offset:])
			got = "unexpected " + strconv.QuoteRune(r)
		}
	}
	return invalid(d.openPath(), expected, got+" at byte "+strconv.Itoa(err.Offset))
}

// openPath returns the JSON Pointer of the value at which a scan has failed.
func (d *document) openPath() string {
	var open []uint32 // the containers that have not ended
	for at := range d.Tokens {
		if t := &d.Tokens[at]; t.End == 0 && t.Kind&(kindArray|kindObject) != 0 {
			open = append(open, uint32(at))
		}
	}
	var path []byte
	for depth, at := range open {
		if t := &d.Tokens[at]; t.Kind == kindArray {
			path = strconv.AppendUint(append(path, '/'), uint64(t.Count), 10)
			continue
		}
		// The last member is the one being scanned. Its value is the next open
		// container, or is incomplete.
		within := uint32(len(d.Tokens))
		if depth+1 < len(open) {
			within = open[depth+1]
		}
		name := at + 1
		for name+1 < within && d.Tokens[name+1].Next < within {
			name = d.Tokens[name+1].Next
		}
		if name < within {
			path = appendPointer(path, d.excerpt(name, maxPointer+1))
		}
	}
	return cutPointer(path)
}

// excerpt returns the beginning of the text of a string token: at most n bytes of
// whole characters.
func (d *document) excerpt(at uint32, n int) string {
	t := &d.Tokens[at]
	s := d.Raw[t.Start:t.End]
	if t.Plain {
		return truncate(jsonscan.View(s), n)
	}
	// An escape takes at most six bytes for each byte of its text. The text of an
	// escape that is cut comes after the first n bytes.
	const longest = len(`\ud83d\ude00`)
	s = s[:min(len(s), 6*n+longest)]
	return truncate(jsonscan.View(jsonscan.AppendUnescaped(nil, s)), n)
}

// member returns the value token of the member called name of the object at.
func (d *document) member(at uint32, name string) (value uint32, ok bool) {
	end := d.Tokens[at].Next
	for i := at + 1; i < end; i = d.Tokens[i+1].Next {
		if d.named(i, name) {
			return i + 1, true
		}
	}
	return 0, false
}

// named reports whether the string token spells name.
func (d *document) named(at uint32, name string) bool {
	t := &d.Tokens[at]
	if t.Plain {
		return string(d.Raw[t.Start:t.End]) == name
	}
	return d.Text(at) == name
}

// isTrue reports whether a boolean token is true.
func (d *document) isTrue(at uint32) bool { return d.Raw[d.Tokens[at].Start] == 't' }
