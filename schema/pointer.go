package schema

import (
	"strconv"
	"strings"
)

// at follows a JSON Pointer from the root.
func (d *document) at(pointer string) (uint32, bool) {
	at, ok := uint32(0), true
	if pointer == "" {
		return at, ok
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if at, ok = d.child(at, token); !ok {
			return 0, false
		}
	}
	return at, true
}

// child follows one reference token of a JSON Pointer.
func (d *document) child(at uint32, token string) (uint32, bool) {
	t := &d.tokens[at]
	switch t.kind {
	case kindObject:
		return d.member(at, token)
	case kindArray:
		index, err := strconv.Atoi(token)
		if err != nil || index < 0 || index >= int(t.count) {
			return 0, false
		}
		for at++; index > 0; index-- {
			at = d.tokens[at].next
		}
		return at, true
	}
	return 0, false
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
