package schema

import (
	"strconv"
	"unsafe"
)

// kind is the kind of a JSON value, as a bit, so that a schema's "type" is a set
// of kinds.
type kind uint8

const (
	kindNull kind = 1 << iota
	kindBoolean
	kindNumber
	kindString
	kindArray
	kindObject
	// kindInteger occurs in the sets of schemas only; a token is a kindNumber.
	kindInteger
)

// Bounds of any document, schema or instance. They are those of the message
// around it, so that nothing that arrives over the wire meets them here first.
const (
	maxDepth  = 128
	maxTokens = 1_000_000
	maxBytes  = 1 << 30
)

// token is one value or one member name of a document.
type token struct {
	start, end uint32 // bytes raw[start:end]; a string's quotes are outside
	next       uint32 // index of the first token behind this value and all within
	count      uint32 // members of an object, elements of an array
	kind       kind
	plain      bool // a string without escapes; a number of digits and sign only
}

// document is strict JSON, scanned once into a flat list of tokens in document
// order: an object is followed by name, value, name, value …, an array by its
// elements. What lies below a value is skipped in one step (token.next), so that
// several subschemas can look at one value without reading its bytes again.
//
// Strict means: UTF-8, no lone surrogates, no duplicate member names, nothing
// after the value.
type document struct {
	raw    []byte
	tokens []token
	table  []uint32 // hash table for the member names of one large object
	open   []uint32 // containers around the place being scanned
	err    error    // why the scan failed
}

// scan reads raw, replacing what the document held. It keeps raw, and returns a
// [*ValidationError] or a [*LimitError].
func (d *document) scan(raw []byte) error {
	d.raw, d.tokens, d.open, d.err = raw, d.tokens[:0], d.open[:0], nil
	if len(raw) > maxBytes {
		return tooMany("bytes of JSON", maxBytes)
	}
	i := d.value(skipSpace(raw, 0))
	if i >= 0 {
		if i = skipSpace(raw, i); i < len(raw) {
			i = d.fail(i, "valid JSON", "bytes after the value")
		}
	}
	if i < 0 {
		return d.err
	}
	return nil
}

// fail records why the scan stops at offset i and returns -1.
func (d *document) fail(i int, expected, got string) int {
	d.err = invalid(d.openPath(), expected, got+" at byte "+strconv.Itoa(i))
	return -1
}

func (d *document) unexpected(i int) int {
	if i >= len(d.raw) {
		return d.fail(i, "valid JSON", "end of input")
	}
	return d.fail(i, "valid JSON", "unexpected "+strconv.QuoteRune(firstRune(d.raw[i:])))
}

// openPath is the JSON Pointer of the value that the scan has arrived at.
func (d *document) openPath() string {
	var path []byte
	for depth, at := range d.open {
		if t := &d.tokens[at]; t.kind == kindArray {
			path = strconv.AppendUint(append(path, '/'), uint64(t.count), 10)
			continue
		}
		// The last member is the one being scanned; its value is the next open
		// container, or is not complete.
		within := uint32(len(d.tokens))
		if depth+1 < len(d.open) {
			within = d.open[depth+1]
		}
		name := at + 1
		for name+1 < within && d.tokens[name+1].next < within {
			name = d.tokens[name+1].next
		}
		if name < within {
			path = appendPointer(path, truncate(d.text(name), maxPointer+1))
		}
	}
	return cutPointer(path)
}

// push appends a token without anything below it.
func (d *document) push(t token) bool {
	if len(d.tokens) >= maxTokens {
		d.err = tooMany("values in one document", maxTokens)
		return false
	}
	t.next = uint32(len(d.tokens)) + 1
	d.tokens = append(d.tokens, t)
	return true
}

// value scans the value at i and returns the index behind it, or -1.
func (d *document) value(i int) int {
	if i >= len(d.raw) {
		return d.unexpected(i)
	}
	switch c := d.raw[i]; c {
	case '"':
		return d.string(i)
	case '{':
		return d.object(i)
	case '[':
		return d.array(i)
	case 't':
		return d.literal(i, "true", kindBoolean)
	case 'f':
		return d.literal(i, "false", kindBoolean)
	case 'n':
		return d.literal(i, "null", kindNull)
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return d.number(i)
		}
		return d.unexpected(i)
	}
}

func (d *document) literal(i int, word string, k kind) int {
	end := i + len(word)
	if end > len(d.raw) || string(d.raw[i:end]) != word {
		return d.fail(i, "valid JSON", "an unknown word")
	}
	if !d.push(token{start: uint32(i), end: uint32(end), kind: k}) {
		return -1
	}
	return end
}

func (d *document) array(i int) int {
	at, ok := d.enter(kindArray, i)
	if !ok {
		return -1
	}
	if i = skipSpace(d.raw, i+1); i < len(d.raw) && d.raw[i] == ']' {
		return d.leave(at, i)
	}
	for {
		if i = d.value(i); i < 0 {
			return -1
		}
		d.tokens[at].count++
		if i = skipSpace(d.raw, i); i >= len(d.raw) {
			return d.unexpected(i)
		}
		switch d.raw[i] {
		case ',':
			i = skipSpace(d.raw, i+1)
		case ']':
			return d.leave(at, i)
		default:
			return d.unexpected(i)
		}
	}
}

func (d *document) object(i int) int {
	at, ok := d.enter(kindObject, i)
	if !ok {
		return -1
	}
	if i = skipSpace(d.raw, i+1); i < len(d.raw) && d.raw[i] == '}' {
		return d.leave(at, i)
	}
	for {
		if i >= len(d.raw) || d.raw[i] != '"' {
			return d.unexpected(i)
		}
		if i = d.string(i); i < 0 {
			return -1
		}
		if i = skipSpace(d.raw, i); i >= len(d.raw) || d.raw[i] != ':' {
			return d.unexpected(i)
		}
		if i = d.value(skipSpace(d.raw, i+1)); i < 0 {
			return -1
		}
		d.tokens[at].count++
		if i = skipSpace(d.raw, i); i >= len(d.raw) {
			return d.unexpected(i)
		}
		switch d.raw[i] {
		case ',':
			i = skipSpace(d.raw, i+1)
		case '}':
			if d.tokens[at].count > 1 && !d.distinct(at) {
				return -1
			}
			return d.leave(at, i)
		default:
			return d.unexpected(i)
		}
	}
}

func (d *document) enter(k kind, i int) (at int, ok bool) {
	if len(d.open) >= maxDepth {
		d.err = tooMany("levels of nesting", maxDepth)
		return 0, false
	}
	at = len(d.tokens)
	d.open = append(d.open, uint32(at))
	return at, d.push(token{start: uint32(i), kind: k})
}

func (d *document) leave(at, i int) int {
	d.open = d.open[:len(d.open)-1]
	t := &d.tokens[at]
	t.end, t.next = uint32(i)+1, uint32(len(d.tokens))
	return i + 1
}

// text returns the decoded text of a string token: a view of the document if the
// string is plain, else a copy.
func (d *document) text(at uint32) string {
	t := &d.tokens[at]
	s := d.raw[t.start:t.end]
	if !t.plain {
		s = appendUnescaped(nil, s)
	}
	return unsafe.String(unsafe.SliceData(s), len(s))
}

// bytes returns a value as it is spelled, the quotes of a string included. It is
// a view of the document.
func (d *document) bytes(at uint32) []byte {
	t := &d.tokens[at]
	if t.kind == kindString {
		return d.raw[t.start-1 : t.end+1]
	}
	return d.raw[t.start:t.end]
}

// member returns the value token of the member called name of the object at.
func (d *document) member(at uint32, name string) (value uint32, ok bool) {
	end := d.tokens[at].next
	for i := at + 1; i < end; i = d.tokens[i+1].next {
		if d.named(i, name) {
			return i + 1, true
		}
	}
	return 0, false
}

// named reports whether the string token spells name.
func (d *document) named(at uint32, name string) bool {
	t := &d.tokens[at]
	if t.plain {
		return string(d.raw[t.start:t.end]) == name
	}
	return d.text(at) == name
}

// isTrue tells true from false.
func (d *document) isTrue(at uint32) bool { return d.raw[d.tokens[at].start] == 't' }

func skipSpace(raw []byte, i int) int {
	for i < len(raw) {
		switch raw[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}
