package jsonscan

import "strings"

// Kind is the kind of a JSON value. The kinds are bits, so that a Kind can also be
// a set of kinds.
type Kind uint8

// The kinds.
const (
	KindNull Kind = 1 << iota
	KindBoolean
	KindNumber
	KindString
	KindArray
	KindObject
	// KindInteger occurs in sets only, as a type of JSON Schema. The kind of a
	// token that is an integer is KindNumber.
	KindInteger
)

// kindNames are the names of the kinds in the order of their bits.
var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object", "integer"}

// KindNamed returns the kind that JSON Schema calls name.
func KindNamed(name string) (Kind, bool) {
	for i, known := range kindNames {
		if known == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// String returns the names of a set of kinds, such as "integer or null".
func (k Kind) String() string {
	var names []string
	for _, i := range []int{3, 2, 6, 1, 5, 4, 0} {
		if k&(1<<i) != 0 {
			names = append(names, kindNames[i])
		}
	}
	return strings.Join(names, " or ")
}

// Token is one value or one member name of a document.
type Token struct {
	// Start and End delimit the bytes of the token, without the quotes of a string.
	// End is zero while a container is being scanned.
	Start, End uint32
	// Next is the index of the first token after this value and all that it contains.
	Next uint32
	// Count is the number of members of an object or of elements of an array.
	Count uint32
	Kind  Kind
	// Plain marks a string without escapes and a number without fraction and exponent.
	Plain bool
}

// Document is a text and its tokens, in the order of the text. An object is
// followed by name, value, name, value …, an array by its elements. A program
// skips a value with all that it contains by going to Token.Next.
//
// The zero Document is ready for use. A Document can be used again, and then
// reuses its memory.
type Document struct {
	// Raw is the text. It must not change while the document is in use.
	Raw    []byte
	Tokens []Token

	names Names
}

// Scan scans the bytes of d.Raw from an offset as one value and nothing else, and
// appends its tokens. It reports whether that succeeds, else s.Err tells why. The
// bounds of s apply; Scan sets s.Data. Offsets in the document must fit into 32
// bits.
func (d *Document) Scan(s *Scanner, from int) bool {
	s.Data, s.doc = d.Raw, d
	s.MaxTokens -= len(d.Tokens)
	i := s.Value(SkipSpace(d.Raw, from), &d.names)
	d.names.Reset()
	return i >= 0 && s.Rest(i)
}

// Reset removes text and tokens but keeps the memory of the tokens.
func (d *Document) Reset() { d.Raw, d.Tokens = nil, d.Tokens[:0] }

// Size returns the number of entries for which a reset document keeps memory.
func (d *Document) Size() int { return max(cap(d.Tokens), d.names.size()) }

// Text returns the decoded text of a string token: a view of the document if the
// string has no escapes, else a copy.
func (d *Document) Text(at uint32) string {
	t := &d.Tokens[at]
	s := d.Raw[t.Start:t.End]
	if !t.Plain {
		s = AppendUnescaped(make([]byte, 0, len(s)), s)
	}
	return View(s)
}

// Bytes returns a value as it is spelled, including the quotes of a string. It is a
// view of the document.
func (d *Document) Bytes(at uint32) []byte {
	t := &d.Tokens[at]
	if t.Kind == KindString {
		return d.Raw[t.Start-1 : t.End+1]
	}
	return d.Raw[t.Start:t.End]
}

// push appends a token that contains no others yet, and returns its index. It is
// not inlined, because that would slow down scanners that record nothing.
//
//go:noinline
func (d *Document) push(t Token) uint32 {
	at := uint32(len(d.Tokens))
	t.Next = at + 1
	d.Tokens = append(d.Tokens, t)
	return at
}

// pushText appends the token of a string that was scanned from i to end, quotes
// included. It is not inlined either.
//
//go:noinline
func (d *Document) pushText(i, end int, escaped bool) {
	d.Tokens = append(d.Tokens, Token{
		Start: uint32(i) + 1, End: uint32(end) - 1, Next: uint32(len(d.Tokens)) + 1, Kind: KindString, Plain: !escaped,
	})
}
