package schema

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// valueSet is what "enum" or "const" allows. Values are compared by their
// canonical form, in which two values have the same bytes if and only if they
// are equal as JSON Schema sees it: 1 and 1.0 are, and so are objects whatever
// the order of their members.
type valueSet struct {
	canonical map[string]struct{}
	shown     string // for messages
}

// newValueSet makes a set of the given value tokens.
func newValueSet(d *document, values []uint32) *valueSet {
	set := &valueSet{canonical: make(map[string]struct{}, len(values))}
	shown := make([]string, 0, min(len(values), maxListed+1))
	for _, at := range values {
		set.canonical[string(d.appendCanonical(nil, at))] = struct{}{}
		if len(shown) <= maxListed {
			shown = append(shown, d.show(at))
		}
	}
	set.shown = list(shown)
	return set
}

// appendCanonical appends the canonical form of a value: a tag for its kind, then
// something that says where it ends.
func (d *document) appendCanonical(dst []byte, at uint32) []byte {
	t := &d.tokens[at]
	switch t.kind {
	case kindString:
		return d.appendCanonicalText(dst, at)
	case kindNumber:
		return appendCanonicalNumber(dst, d.raw[t.start:t.end])
	case kindArray:
		dst = binary.AppendUvarint(append(dst, '['), uint64(t.count))
		for i := at + 1; i < t.next; i = d.tokens[i].next {
			dst = d.appendCanonical(dst, i)
		}
		return dst
	case kindObject:
		names := make([]uint32, 0, t.count)
		for i := at + 1; i < t.next; i = d.tokens[i+1].next {
			names = append(names, i)
		}
		slices.SortFunc(names, func(a, b uint32) int { return strings.Compare(d.text(a), d.text(b)) })
		dst = binary.AppendUvarint(append(dst, '{'), uint64(t.count))
		for _, name := range names {
			dst = d.appendCanonicalText(dst, name)
			dst = d.appendCanonical(dst, name+1)
		}
		return dst
	default: // null, true, false differ in their first letter
		return append(dst, d.raw[t.start])
	}
}

// appendCanonicalText puts the length behind a fixed width, since it is known
// only after unescaping.
func (d *document) appendCanonicalText(dst []byte, at uint32) []byte {
	t := &d.tokens[at]
	dst = append(dst, '"', 0, 0, 0, 0)
	start := len(dst)
	if t.plain {
		dst = append(dst, d.raw[t.start:t.end]...)
	} else {
		dst = appendUnescaped(dst, d.raw[t.start:t.end])
	}
	binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}

func appendCanonicalNumber(dst, literal []byte) []byte {
	n := parseDecimal(literal)
	if n.negative {
		dst = append(dst, '-')
	}
	dst = append(append(append(dst, '0', '.'), n.head...), n.tail...)
	return append(strconv.AppendInt(append(dst, 'e'), n.point, 10), ';')
}

// show describes a value for a message: scalars themselves, containers by size.
func (d *document) show(at uint32) string {
	t := &d.tokens[at]
	switch t.kind {
	case kindString:
		return quote(d.text(at))
	case kindArray:
		return "array of " + count(int(t.count), "item")
	case kindObject:
		return "object with " + count(int(t.count), "member")
	default:
		s := string(d.raw[t.start:min(t.end, t.start+maxQuoted)])
		if t.end-t.start > maxQuoted {
			s += "…"
		}
		return s
	}
}

// describe is show with the kind in front where that is not plain to see.
func (d *document) describe(at uint32) string {
	switch d.tokens[at].kind {
	case kindString, kindNumber, kindBoolean:
		return d.tokens[at].kind.String() + " " + d.show(at)
	}
	return d.show(at)
}

// kindNames is in the order of the bits.
var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object", "integer"}

// String returns the names in a set of kinds: "string", "integer or null".
func (k kind) String() string {
	var names []string
	for _, i := range []int{3, 2, 6, 1, 5, 4, 0} {
		if k&(1<<i) != 0 {
			names = append(names, kindNames[i])
		}
	}
	return strings.Join(names, " or ")
}

func kindNamed(name string) (kind, bool) {
	i := slices.Index(kindNames[:], name)
	return 1 << max(i, 0), i >= 0
}
