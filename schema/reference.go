package schema

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// resolve finds the subschema that a reference leads to, and indexes it if it
// is not yet known as a subschema.
func (x *index) resolve(ref reference) error {
	text := x.Text(ref.at)
	r, fragment, err := x.resolveResource(ref, text)
	if err != nil {
		return err
	}
	at, ok := r.root, true
	switch {
	case fragment == "":
	case fragment[0] == '/':
		var within *resource
		if at, within, ok = x.follow(r, fragment); !ok {
			break
		}
		if x.Tokens[at].Kind&(kindObject|kindBoolean) == 0 {
			return &RefError{Ref: text, Reason: "leads to " + x.describe(at) + ", which is not a schema"}
		}
		if err := x.walk(at, 1, within); err != nil {
			return err
		}
	default:
		at, ok = r.anchors[fragment]
	}
	if !ok {
		return &RefError{Ref: text, Reason: "leads nowhere"}
	}
	if x.targets == nil {
		x.targets = map[uint32]uint32{}
	}
	x.targets[ref.at] = at
	if _, ok := x.dynamicName(ref.keyword, ref.at); ok {
		x.dynamic = true
	}
	return nil
}

// dynamicName returns the name of the anchor that a resolved reference looks up in
// the dynamic scope, and whether it does so: only if its target itself has a
// dynamic anchor of that name.
func (x *index) dynamicName(keyword string, ref uint32) (name string, ok bool) {
	target := x.targets[ref]
	r := x.entries[target].resource
	switch keyword {
	case "$recursiveRef":
		at, ok := r.dynamic[""]
		return "", ok && at == target
	case "$dynamicRef":
		_, fragment, _ := strings.Cut(x.Text(ref), "#")
		name, err := unescapeFragment(fragment)
		if err != nil || name == "" {
			return "", false
		}
		at, ok := r.dynamic[name]
		return name, ok && at == target
	}
	return "", false
}

// resolveResource returns the resource and the fragment of a reference.
func (x *index) resolveResource(ref reference, text string) (*resource, string, error) {
	if fragment, ok := strings.CutPrefix(text, "#"); ok || text == "" {
		fragment, err := unescapeFragment(fragment)
		if err != nil {
			return nil, "", &RefError{Ref: text, Reason: "is not a URI reference"}
		}
		return ref.from, fragment, nil
	}
	target, err := url.Parse(text)
	if err != nil {
		return nil, "", &RefError{Ref: text, Reason: "is not a URI reference"}
	}
	fragment := target.Fragment
	target.Fragment, target.RawFragment = "", ""
	base, err := ref.from.baseURL()
	if err != nil {
		return nil, "", &RefError{Ref: text, Reason: "has a base that is not a URI"}
	}
	if r := x.resources[resolveURL(base, target).String()]; r != nil && (target.IsAbs() || base.Opaque == "") {
		return r, fragment, nil
	}
	return nil, "", &RefError{Ref: text, Reason: "leads outside of the schema document; put its target under $defs"}
}

// follow follows a JSON Pointer from the root of a resource. It returns the token
// and the resource that contains it.
func (x *index) follow(r *resource, pointer string) (at uint32, within *resource, ok bool) {
	at, within = r.root, r
	for name := range strings.SplitSeq(pointer[1:], "/") {
		if at, ok = x.step(at, unescapePointer(name)); !ok {
			return 0, nil, false
		}
		if own := x.entries[at].resource; own != nil {
			within = own
		}
	}
	return at, within, true
}

// step follows one part of a JSON Pointer. It builds tables of large objects
// and arrays, because many references lead through the same few, above all
// $defs.
func (x *index) step(at uint32, name string) (uint32, bool) {
	t := &x.Tokens[at]
	if t.Count <= fewMembers {
		return x.child(at, name)
	}
	if t.Kind == kindObject {
		members := x.members[at]
		if members == nil {
			members = make(map[string]uint32, t.Count)
			for i := at + 1; i < t.Next; i = x.Tokens[i+1].Next {
				members[x.Text(i)] = i + 1
			}
			if x.members == nil {
				x.members = map[uint32]map[string]uint32{}
			}
			x.members[at] = members
		}
		value, ok := members[name]
		return value, ok
	}
	index, ok := arrayIndex(name)
	if !ok || index >= int(t.Count) {
		return 0, false
	}
	elements := x.elements[at]
	if elements == nil {
		elements = make([]uint32, 0, t.Count)
		for i := at + 1; i < t.Next; i = x.Tokens[i].Next {
			elements = append(elements, i)
		}
		if x.elements == nil {
			x.elements = map[uint32][]uint32{}
		}
		x.elements[at] = elements
	}
	return elements[index], true
}

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

// step leads from a value to a property, by the token of its name, or to an element,
// by its index.
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

// pointerTo returns the JSON Pointer of the value or key at a token.
func (d *document) pointerTo(at uint32) string {
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
			break // the key itself
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
