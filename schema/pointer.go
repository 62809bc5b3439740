package schema

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// at follows a JSON Pointer from the root.
func (d *document) at(pointer string) (uint32, bool) {
	at, ok := uint32(0), true
	if pointer == "" {
		return at, ok
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		if at, ok = d.child(at, unescapePointer(token)); !ok {
			return 0, false
		}
	}
	return at, true
}

// child follows one reference token of a JSON Pointer.
func (d *document) child(at uint32, token string) (uint32, bool) {
	t := &d.Tokens[at]
	switch t.Kind {
	case kindObject:
		return d.member(at, token)
	case kindArray:
		index, ok := arrayIndex(token)
		if !ok || index >= int(t.Count) {
			return 0, false
		}
		for at++; index > 0; index-- {
			at = d.Tokens[at].Next
		}
		return at, true
	}
	return 0, false
}

// arrayIndex returns the array index that a reference token spells.
func arrayIndex(token string) (int, bool) {
	index, err := strconv.Atoi(token)
	return index, err == nil && index >= 0
}

// unescapePointer returns the name that a reference token spells.
func unescapePointer(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// appendPointer appends one reference token to a JSON Pointer.
func appendPointer(path []byte, name string) []byte {
	path = append(path, '/')
	for i := range len(name) {
		switch name[i] {
		case '~':
			path = append(path, "~0"...)
		case '/':
			path = append(path, "~1"...)
		default:
			path = append(path, name[i])
		}
	}
	return path
}

// step leads from a value to a member, by the token of its name, or to an element, by
// its index.
type step struct {
	name  uint32
	index int
}

// pointer returns the JSON Pointer of a sequence of steps, cut at about maxPointer bytes.
func (d *document) pointer(steps []step) string {
	var path []byte
	for _, s := range steps {
		if len(path) > maxPointer {
			break
		}
		if s.name != 0 {
			path = appendPointer(path, d.excerpt(s.name, maxPointer+1))
		} else {
			path = strconv.AppendInt(append(path, '/'), int64(s.index), 10)
		}
	}
	return cutPointer(path)
}

// maxPointer bounds JSON Pointers in messages, because the sender chooses the names.
const maxPointer = 1024

// cutPointer returns path, cut at about maxPointer bytes.
func cutPointer(path []byte) string {
	if len(path) <= maxPointer {
		return string(path)
	}
	return truncate(string(path[:maxPointer]), maxPointer-utf8.UTFMax) + "…"
}

// pointerTo returns the JSON Pointer of the value or member name at a token.
func (d *document) pointerTo(at uint32) string {
	if at >= d.Tokens[0].Next {
		return "" // in a document that was loaded later
	}
	var path []step
	for here := uint32(0); here != at; {
		child, index := here+1, 0
		if d.Tokens[here].Kind == kindArray {
			for d.Tokens[child].Next <= at {
				child, index = d.Tokens[child].Next, index+1
			}
			path = append(path, step{index: index})
			here = child
			continue
		}
		for d.Tokens[child+1].Next <= at {
			child = d.Tokens[child+1].Next
		}
		path = append(path, step{name: child})
		if here = child + 1; child == at {
			break // the name itself
		}
	}
	return d.pointer(path)
}

// location names the value at a token in a message.
func (d *document) location(at uint32) string {
	if pointer := d.pointerTo(at); pointer != "" {
		return escapePath(pointer)
	}
	return "the schema"
}
