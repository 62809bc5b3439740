package jsonscan

import (
	"bytes"
	"hash/maphash"
	"iter"
	"strings"
)

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
	// KindInteger occurs only in sets, as a type of JSON Schema. A token that
	// is an integer has KindNumber.
	KindInteger
)

// kindNames contains the names of the kinds in the order of their bits.
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

// Token is one value or one key of a document.
type Token struct {
	// Start and End delimit the bytes of the token, without the quotes of a string.
	// End is zero while a container is being scanned.
	Start, End uint32
	// Next is the index of the first token after this value and all that it contains.
	Next uint32
	// Count is the number of keys of an object or of elements of an array.
	Count uint32
	Kind  Kind
	// Plain marks a string without escapes, or a number without fraction and exponent.
	Plain bool
}

// Document is a text and its tokens, in the order of the text. An object is
// followed by key, value, key, value …, an array by its elements. A program
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
// appends its tokens. It reports whether that succeeds; otherwise, s.Err says
// why. The bounds of s apply; Scan sets s.Data. Offsets in the document must fit
// into 32 bits.
func (d *Document) Scan(s *Scanner, from int) bool {
	s.Data, s.doc = d.Raw, d
	s.MaxTokens -= len(d.Tokens)
	i := s.Value(SkipSpace(d.Raw, from), &d.names)
	d.names.Reset()
	return i >= 0 && s.Rest(i)
}

// Reset removes text and tokens but keeps the memory of the tokens.
func (d *Document) Reset() { d.Raw, d.Tokens = nil, d.Tokens[:0] }

// Size returns for how many entries a reset document keeps memory.
func (d *Document) Size() int { return max(cap(d.Tokens), d.names.size()) }

// Text returns the decoded text of a string token: a view of the document if the
// string contains no escapes, else a copy.
func (d *Document) Text(at uint32) string {
	t := &d.Tokens[at]
	s := d.Raw[t.Start:t.End]
	if !t.Plain {
		s = AppendUnescaped(make([]byte, 0, len(s)), s)
	}
	return View(s)
}

// Bytes returns a value as it is written, including the quotes of a string. It is a
// view of the document.
func (d *Document) Bytes(at uint32) []byte {
	t := &d.Tokens[at]
	if t.Kind == KindString {
		return d.Raw[t.Start-1 : t.End+1]
	}
	return d.Raw[t.Start:t.End]
}

// push appends a token that does not contain others yet, and returns its index.
// It is not inlined, because that would slow down scanners that record nothing.
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

// InlineNames is the number of names that a caller's own array should hold, so
// that scanning ordinary text allocates nothing.
const InlineNames = 32

// linearNames is the largest number of keys of an object for which each key is
// compared with every other. Above it, a hash table takes over, because
// comparing would take quadratic time.
const linearNames = 24

// firstSlots is the size of an object's first hash table.
const firstSlots = 128

// Names holds the keys of the objects that are being scanned, the keys of the
// innermost object last. It finds duplicate keys.
//
// All objects of one scan share one Names, so it grows only once. With a list
// for each object, each of many small objects would allocate.
type Names struct {
	list  []string
	table []uint32 // the hash tables of large objects, one after the other
	seed  maphash.Seed
	most  int // the greatest length of list when an object was closed
}

// NamesIn returns an empty Names that stores its first names in inline.
func NamesIn(inline []string) Names { return Names{list: inline[:0]} }

// Reset removes all names but keeps the memory that holds them. It overwrites the
// names, so that the memory no longer refers to the text.
func (n *Names) Reset() {
	if most := max(n.most, len(n.list)); most > 0 {
		clear(n.list[:most])
	}
	n.list, n.table, n.most = n.list[:0], n.table[:0], 0
}

// size returns the capacity that Reset keeps.
func (n *Names) size() int { return max(cap(n.list), cap(n.table)) }

// openObject is the part of Names that belongs to one object.
type openObject struct {
	first int // index of the object's first name in the list
	count int
	only  string // the name of an object with only one
	table int    // index of the object's hash table
	slots int    // size of the hash table, a power of two; 0 without one
}

// close removes the names of the innermost object.
func (n *Names) close(o *openObject) {
	n.most = max(n.most, len(n.list))
	n.list = n.list[:o.first]
	if o.slots > 0 {
		n.table = n.table[:o.table]
	}
}

// claim adds a name to the innermost object and reports whether it is new there.
func (n *Names) claim(o *openObject, name string) bool {
	o.count++
	switch {
	case o.count == 1:
		o.only = name
		return true
	case o.count == 2:
		n.push(o.only)
	case o.count > linearNames:
		return n.claimSlot(o, name)
	}
	for _, other := range n.list[o.first:] {
		if other == name {
			return false
		}
	}
	n.push(name)
	return true
}

// claimSlot does what claim does, for a large object. The table uses open
// addressing and is at most half full. A slot holds the index of a name in the
// object plus one.
func (n *Names) claimSlot(o *openObject, name string) bool {
	if 2*o.count > o.slots {
		n.rehash(o)
	}
	slot := n.slot(o, name)
	if n.table[slot] != 0 {
		return false
	}
	n.table[slot] = uint32(o.count)
	n.push(name)
	return true
}

// slot returns the index of the slot that holds a name, or should hold it.
func (n *Names) slot(o *openObject, name string) int {
	mask := o.slots - 1
	i := int(maphash.String(n.seed, name)) & mask
	for {
		index := n.table[o.table+i]
		if index == 0 || n.list[o.first+int(index)-1] == name {
			return o.table + i
		}
		i = (i + 1) & mask
	}
}

// rehash gives the innermost object, whose table is the last one, a larger table.
func (n *Names) rehash(o *openObject) {
	if n.seed == (maphash.Seed{}) {
		n.seed = maphash.MakeSeed() // the sender of the text cannot choose names that collide
	}
	if o.slots == 0 {
		o.slots, o.table = firstSlots, len(n.table)
	} else {
		o.slots *= 2
	}
	if need := o.table + o.slots; need > cap(n.table) {
		wider := make([]uint32, o.table, max(need, 2*cap(n.table)))
		copy(wider, n.table)
		n.table = wider
	}
	n.table = n.table[:o.table+o.slots]
	clear(n.table[o.table:])
	for i, name := range n.list[o.first:] {
		n.table[n.slot(o, name)] = uint32(i) + 1
	}
}

// push appends a name. Unlike append, it is written so that escape analysis
// keeps the first list on the stack of the scan's caller.
func (n *Names) push(name string) {
	l := len(n.list)
	if l == cap(n.list) {
		wider := make([]string, l, max(2*l, InlineNames))
		copy(wider, n.list)
		n.list = wider
	}
	n.list = n.list[:l+1]
	n.list[l] = name
}

// SkipString returns the index after the string whose opening quote is at i. The string must have
// been scanned. For other bytes the result is unspecified, but at most len(d).
func SkipString(d []byte, i int) int {
	for first := i + 1; ; {
		n := bytes.IndexByte(d[min(i+1, len(d)):], '"')
		if n < 0 {
			return len(d)
		}
		i += 1 + n
		slashes := i
		for slashes > first && d[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			return i + 1
		}
	}
}

// SkipValue returns the index after the value that starts at i, which must have been scanned. For
// other bytes the result is unspecified, but at most len(d).
func SkipValue(d []byte, i int) int {
	for depth := 0; i < len(d); {
		switch d[i] {
		case '"':
			if i = SkipString(d, i); depth == 0 {
				return i
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			if i++; depth == 0 {
				return i
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
		default:
			i++
		}
	}
	return i
}

// Elements yields the elements of an array that has been scanned.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := SkipSpace(array, 1); i < len(array) && array[i] != ']'; i = SkipSpace(array, i) {
			if array[i] == ',' {
				i++
				continue
			}
			end := SkipValue(array, i)
			if end == i || !yield(array[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// ReplaceLineBreaks replaces the line breaks of a scanned text with spaces. They occur only
// between tokens, because strings escape them.
func ReplaceLineBreaks(d []byte) {
	for _, lineBreak := range [...]byte{'\n', '\r'} {
		for rest := d; ; {
			i := bytes.IndexByte(rest, lineBreak)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}
