package jsonrpc

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// inlineMembers is the number of members of an object that are recorded while it
// is scanned: as many as the params of tools/call can have.
const inlineMembers = 5

// Members locates the members of a scanned object. Its values are views of the
// input. The zero Members is an object without members.
type Members struct {
	raw      []byte // the object
	n        int
	recorded int // the number of members in name and at: the first ones
	name     [inlineMembers]string
	at       [inlineMembers]span
}

// span locates a value in its object. A slice would be three times as large, and
// the garbage collector would follow it.
type span struct{ from, to uint32 }

// add records a member whose value is object[from:to].
func (m *Members) add(name string, from, to int) {
	if m.recorded == m.n && m.n < inlineMembers && to <= math.MaxUint32 {
		m.name[m.n], m.at[m.n] = name, span{uint32(from), uint32(to)}
		m.recorded++
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
	for i := range m.recorded {
		if m.name[i] == name {
			return m.value(i), true
		}
	}
	if m.n > m.recorded {
		return Get(m.raw, name)
	}
	return nil, false
}

// All returns the members in the order of the input.
func (m *Members) All() iter.Seq2[string, []byte] {
	if m.n > m.recorded {
		return All(m.raw)
	}
	return func(yield func(string, []byte) bool) {
		for i := range m.recorded {
			if !yield(m.name[i], m.value(i)) {
				return
			}
		}
	}
}

// CaseVariant returns the first member whose name differs from one of known only
// in its case, such as "Method" for "method". A lenient parser would take it for
// the known member, and a strict one would ignore it.
func (m *Members) CaseVariant(known ...string) (string, bool) {
	for i := range m.recorded {
		if isVariant(m.name[i], known) {
			return m.name[i], true
		}
	}
	if m.n > m.recorded {
		for name := range All(m.raw) {
			if isVariant(name, known) {
				return name, true
			}
		}
	}
	return "", false
}

// isVariant reports whether name equals one of known when case is ignored, but is
// none of them. It folds as encoding/json does, which takes "ſ" for an s.
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
// [Parse] or [Check]. For other bytes it does not panic, and the members that it
// yields are unspecified.
func All(obj []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for w := walk(obj); w.next(); {
			if !yield(w.name, obj[w.from:w.to:w.to]) {
				return
			}
		}
	}
}

// Get returns the raw value of one member of obj, which must be an object that
// has passed [Parse] or [Check], as for [All].
func Get(obj []byte, name string) ([]byte, bool) {
	for w := walk(obj); w.next(); {
		if w.name == name {
			return obj[w.from:w.to:w.to], true
		}
	}
	return nil, false
}

// walker steps through the members of an object that has been checked.
type walker struct {
	obj      []byte
	i        int // where the next member begins
	name     string
	from, to int // the value is obj[from:to]
}

func walk(obj []byte) walker {
	i := jsonscan.SkipSpace(obj, 0)
	if i >= len(obj) || obj[i] != '{' {
		return walker{}
	}
	return walker{obj: obj, i: jsonscan.SkipSpace(obj, i+1)}
}

func (w *walker) next() bool {
	if w.i >= len(w.obj) || w.obj[w.i] != '"' {
		return false
	}
	end := jsonscan.SkipString(w.obj, w.i)
	w.name = Unquote(w.obj[w.i:end])
	colon := jsonscan.SkipSpace(w.obj, end)
	w.from = min(jsonscan.SkipSpace(w.obj, colon+1), len(w.obj))
	w.to = jsonscan.SkipValue(w.obj, w.from)
	if w.i = jsonscan.SkipSpace(w.obj, w.to); w.i < len(w.obj) && w.obj[w.i] == ',' {
		w.i = jsonscan.SkipSpace(w.obj, w.i+1)
	} else {
		w.i = len(w.obj)
	}
	return true
}
