package jsonrpc

import (
	"iter"
	"math"
	"slices"
	"strings"
)

// inlineMembers is how many members of an object are remembered while it is
// scanned: as many as the params of tools/call can have, and most others.
const inlineMembers = 5

// Members is where the members of a scanned object lie. Its values are views of
// the input. The zero Members is an object without members.
type Members struct {
	raw  []byte // the object
	n    int
	kept int // how many of these are remembered: the first ones
	name [inlineMembers]string
	at   [inlineMembers]span
}

// span is where a value lies in its object. A slice takes three times the room, and
// the garbage collector would look at each.
type span struct{ from, to uint32 }

// add notes a member whose value lies at object[from:to].
func (m *Members) add(name string, from, to int) {
	if m.kept == m.n && m.n < inlineMembers && to <= math.MaxUint32 {
		m.name[m.n], m.at[m.n] = name, span{uint32(from), uint32(to)}
		m.kept++
	}
	m.n++
}

func (m *Members) value(i int) []byte {
	at := m.at[i]
	return m.raw[at.from:at.to:at.to]
}

// MembersOf returns the members of an object that has been checked, or that this
// program has written itself. They are views of it.
func MembersOf(object []byte) *Members {
	m := &Members{raw: object}
	for w := walk(object); w.next(); {
		m.add(w.name, w.from, w.to)
	}
	return m
}

// Raw returns the object as it was written, or nil for the zero Members. It must not be modified.
func (m *Members) Raw() []byte { return m.raw }

// Len returns the number of members.
func (m *Members) Len() int { return m.n }

// Get returns the raw value of the member called name.
func (m *Members) Get(name string) ([]byte, bool) {
	for i := range m.kept {
		if m.name[i] == name {
			return m.value(i), true
		}
	}
	if m.n > m.kept {
		return Get(m.raw, name)
	}
	return nil, false
}

// All returns the members in the order in which they were written.
func (m *Members) All() iter.Seq2[string, []byte] {
	if m.n > m.kept {
		return All(m.raw)
	}
	return func(yield func(string, []byte) bool) {
		for i := range m.kept {
			if !yield(m.name[i], m.value(i)) {
				return
			}
		}
	}
}

// CaseVariant returns the first member whose name is one of known but for its
// case ("Method" for "method"): what a lenient parser would take for the known
// member and a strict one would not see.
func (m *Members) CaseVariant(known ...string) (string, bool) {
	for i := range m.kept {
		if isVariant(m.name[i], known) {
			return m.name[i], true
		}
	}
	if m.n > m.kept {
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
		for w := walk(obj); w.next(); {
			if !yield(w.name, obj[w.from:w.to:w.to]) {
				return
			}
		}
	}
}

// walker goes through the members of an object, under the terms of [All].
type walker struct {
	obj      []byte
	i        int // where the next member begins
	name     string
	from, to int // the value is obj[from:to]
}

func walk(obj []byte) walker {
	i := skipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return walker{}
	}
	return walker{obj: obj, i: skipSpace(obj, i+1)}
}

func (w *walker) next() bool {
	if w.i >= len(w.obj) || w.obj[w.i] != '"' {
		return false
	}
	end := skipString(w.obj, w.i)
	w.name = Unquote(w.obj[w.i:end])
	i := skipSpace(w.obj, skipSpace(w.obj, end)+1) // behind the colon
	w.from = min(i, len(w.obj))
	w.to = skipValue(w.obj, w.from)
	if w.i = skipSpace(w.obj, w.to); w.i < len(w.obj) && w.obj[w.i] == ',' {
		w.i = skipSpace(w.obj, w.i+1)
	} else {
		w.i = len(w.obj)
	}
	return true
}

// Get returns the raw value of one member of obj, under the terms of [All].
func Get(obj []byte, name string) ([]byte, bool) {
	for w := walk(obj); w.next(); {
		if w.name == name {
			return obj[w.from:w.to:w.to], true
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
