package jsonrpc

import (
	"iter"
	"slices"
	"strings"
)

// inlineMembers is how many members of an object are remembered while it is
// scanned. The params of the protocol's methods have fewer.
const inlineMembers = 8

// Members is where the members of a scanned object lie. Its values are views of
// the input. The zero Members is an object without members.
type Members struct {
	raw   []byte // the object, for the members that are not remembered
	n     int
	name  [inlineMembers]string
	value [inlineMembers][]byte
}

func (m *Members) add(name string, value []byte) {
	if m.n < inlineMembers {
		m.name[m.n], m.value[m.n] = name, value
	}
	m.n++
}

// MembersOf returns the members of an object that has been checked, or that this
// program has written itself. They are views of it.
func MembersOf(object []byte) *Members {
	m := &Members{raw: object}
	for name, value := range All(object) {
		m.add(name, value)
	}
	return m
}

// Len returns the number of members.
func (m *Members) Len() int { return m.n }

// Get returns the raw value of the member called name.
func (m *Members) Get(name string) ([]byte, bool) {
	for i := range min(m.n, inlineMembers) {
		if m.name[i] == name {
			return m.value[i], true
		}
	}
	if m.n > inlineMembers {
		return Get(m.raw, name)
	}
	return nil, false
}

// All returns the members in the order in which they were written.
func (m *Members) All() iter.Seq2[string, []byte] {
	if m.n > inlineMembers {
		return All(m.raw)
	}
	return func(yield func(string, []byte) bool) {
		for i := range m.n {
			if !yield(m.name[i], m.value[i]) {
				return
			}
		}
	}
}

// CaseVariant returns the first member whose name is one of known but for its
// case ("Method" for "method"): what a lenient parser would take for the known
// member and a strict one would not see.
func (m *Members) CaseVariant(known ...string) (string, bool) {
	for i := range min(m.n, inlineMembers) {
		if isVariant(m.name[i], known) {
			return m.name[i], true
		}
	}
	if m.n > inlineMembers {
		for name := range All(m.raw) {
			if isVariant(name, known) {
				return name, true
			}
		}
	}
	return "", false
}

// isVariant reports whether name equals one of known when case is ignored, but is
// none of them. It folds as encoding/json does, for which "ſ" is an s.
func isVariant(name string, known []string) bool {
	if slices.Contains(known, name) {
		return false
	}
	for _, k := range known {
		if strings.EqualFold(name, k) {
			return true
		}
	}
	return false
}

// All returns the members of obj, which must be an object that has passed
// [Parse] or [Check]. It does not check again; what it yields for other bytes
// is unspecified, but it does not panic.
func All(obj []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		i := skipSpace(obj, 0)
		if i >= len(obj) || obj[i] != '{' {
			return
		}
		for i = skipSpace(obj, i+1); i < len(obj) && obj[i] == '"'; i = skipSpace(obj, i+1) {
			end := skipString(obj, i)
			name := Unquote(obj[i:end])
			i = skipSpace(obj, skipSpace(obj, end)+1) // behind the colon
			from := min(i, len(obj))
			i = skipValue(obj, from)
			if !yield(name, obj[from:i:i]) {
				return
			}
			if i = skipSpace(obj, i); i >= len(obj) || obj[i] != ',' {
				return
			}
		}
	}
}

// Get returns the raw value of one member of obj, under the terms of [All].
func Get(obj []byte, name string) ([]byte, bool) {
	for n, v := range All(obj) {
		if n == name {
			return v, true
		}
	}
	return nil, false
}

func skipSpace(d []byte, i int) int {
	for i < len(d) && d[i] <= ' ' && (d[i] == ' ' || d[i] == '\n' || d[i] == '\t' || d[i] == '\r') {
		i++
	}
	return i
}

func skipString(d []byte, i int) int {
	for i++; i < len(d); {
		i = plain(d, i)
		if i >= len(d) {
			break
		}
		switch d[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default:
			i++
		}
	}
	return len(d)
}

func skipValue(d []byte, i int) int {
	for depth := 0; i < len(d); {
		switch d[i] {
		case '"':
			if i = skipString(d, i); depth == 0 {
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
