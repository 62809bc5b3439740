package schema

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// valueSet is the set of values that "enum" or "const" allows. Values are compared by
// their canonical forms, which have the same bytes if and only if JSON Schema
// regards the values as equal: 1 equals 1.0, and the order of members does not
// matter.
type valueSet struct {
	canonical map[string]struct{}
	shown     string // for messages
}

// newValueSet returns the set of the values at the given tokens.
func newValueSet(d *document, values []uint32) *valueSet {
	set := &valueSet{canonical: make(map[string]struct{}, len(values))}
	shown := make([]string, 0, min(len(values), maxListed+1))
	for _, at := range values {
		set.canonical[string(d.appendCanonical(nil, at, unlimited))] = struct{}{}
		if len(shown) <= maxListed {
			shown = append(shown, d.show(at))
		}
	}
	set.shown = list(shown)
	return set
}

// unlimited is the spend of work that needs no limit.
func unlimited(int) bool { return true }

// appendCanonical appends the canonical form of a value: a byte for its kind, then
// its content with a length or an end. It calls spend for work that is not in
// proportion to the length of the value. The form is unspecified if spend fails.
func (d *document) appendCanonical(dst []byte, at uint32, spend func(units int) bool) []byte {
	t := &d.Tokens[at]
	switch t.Kind {
	case kindString:
		return d.appendCanonicalText(dst, at)
	case kindNumber:
		return appendCanonicalNumber(dst, d.Raw[t.Start:t.End])
	case kindArray:
		dst = binary.AppendUvarint(append(dst, '['), uint64(t.Count))
		for i := at + 1; i < t.Next; i = d.Tokens[i].Next {
			dst = d.appendCanonical(dst, i, spend)
		}
		return dst
	case kindObject:
		type member struct {
			name string
			at   uint32
		}
		members := make([]member, 0, t.Count)
		for i := at + 1; i < t.Next; i = d.Tokens[i+1].Next {
			members = append(members, member{d.Text(i), i})
		}
		slices.SortFunc(members, func(a, b member) int {
			if !spend(1 + min(len(a.name), len(b.name))/bytesPerUnit) {
				return 0
			}
			return strings.Compare(a.name, b.name)
		})
		dst = binary.AppendUvarint(append(dst, '{'), uint64(t.Count))
		for _, m := range members {
			dst = d.appendCanonicalText(dst, m.at)
			dst = d.appendCanonical(dst, m.at+1, spend)
		}
		return dst
	default: // null, true and false differ in their first letter
		return append(dst, d.Raw[t.Start])
	}
}

// appendCanonicalText writes the length with a fixed width, because it is known only
// after unescaping.
func (d *document) appendCanonicalText(dst []byte, at uint32) []byte {
	t := &d.Tokens[at]
	dst = append(dst, '"', 0, 0, 0, 0)
	start := len(dst)
	if t.Plain {
		dst = append(dst, d.Raw[t.Start:t.End]...)
	} else {
		dst = jsonscan.AppendUnescaped(dst, d.Raw[t.Start:t.End])
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

// show describes a value for a message: a scalar by its value, a container by its size.
func (d *document) show(at uint32) string {
	t := &d.Tokens[at]
	switch t.Kind {
	case kindString:
		return quote(d.excerpt(at, maxQuoted+utf8.UTFMax))
	case kindArray:
		return "array of " + count(int(t.Count), "item")
	case kindObject:
		return "object with " + count(int(t.Count), "member")
	default:
		s := string(d.Raw[t.Start:min(t.End, t.Start+maxQuoted)])
		if t.End-t.Start > maxQuoted {
			s += "…"
		}
		return s
	}
}

// describe is show with the kind of the value unless show makes that clear.
func (d *document) describe(at uint32) string {
	switch d.Tokens[at].Kind {
	case kindString, kindNumber, kindBoolean:
		return d.Tokens[at].Kind.String() + " " + d.show(at)
	}
	return d.show(at)
}
