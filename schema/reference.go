package schema

import (
	"bytes"
	"net/url"
	"strings"
)

// resolve finds the subschema to which a reference leads, and indexes it if no
// keyword makes that place a subschema.
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
// the dynamic scope, and whether it does so at all: only if the place to which it
// leads has a dynamic anchor of that name itself.
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
	uri := canonicalURI(resolveURL(base, target).String())
	if r := x.resources[uri]; r != nil && (target.IsAbs() || base.Opaque == "") {
		return r, fragment, nil
	}
	ok, err := x.loadDocument(uri, ref.from.dialect)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		return nil, "", &RefError{Ref: text, Reason: "leads outside of the schema document; put its target under $defs"}
	}
	return x.resources[uri], fragment, nil
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

// step follows one part of a JSON Pointer. It makes tables of large objects and
// arrays, because many references lead through the same few, $defs above all.
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

// loadDocument appends a document that is not part of the schema, and indexes it.
// It reports whether there is such a document.
func (x *index) loadDocument(uri string, inherited dialect) (ok bool, err error) {
	raw, official := []byte(nil), false
	if name, ok := metaschemaName(uri); ok {
		raw = []byte(metaschema(name))
		official = len(raw) > 0
	}
	if !official && x.load != nil {
		raw = x.load(uri)
	}
	if len(raw) == 0 {
		return false, nil
	}
	from := len(x.Raw)
	x.Raw = bytes.Join([][]byte{x.Raw, raw}, []byte("\n"))
	at := uint32(len(x.Tokens))
	if err := x.scanFrom(from); err != nil {
		return false, err
	}
	x.entries = append(x.entries, make([]entry, len(x.Tokens)-len(x.entries))...)
	pending, count := x.refs, x.count
	x.refs = nil
	if err := x.root(at, uri, inherited); err != nil {
		return false, err
	}
	x.refs = pending
	if official {
		x.count = count // the bounds are those of the schema's author
	}
	return true, nil
}

// loadDialect returns the dialect that a meta-schema describes which is not
// official.
func (x *index) loadDialect(uri string) (dialect, error) {
	raw := x.load(strings.TrimSuffix(uri, "#"))
	d := &document{}
	if raw == nil || d.scan(raw) != nil || d.Tokens[0].Kind != kindObject {
		return dialect{}, &DialectError{Dialect: uri}
	}
	value, ok := d.member(0, "$schema")
	if !ok || d.Tokens[value].Kind != kindString {
		return dialect{}, &DialectError{Dialect: uri}
	}
	own, err := dialectOf(d.Text(value))
	if err != nil {
		return dialect{}, err
	}
	list, ok := d.member(0, "$vocabulary")
	if !ok || d.Tokens[list].Kind != kindObject || own.draft < draft2019 {
		return own, nil
	}
	own.disabled = applicators | unevaluated | validation
	prefix := own.draft.vocabularyURI()
	for i := list + 1; i < d.Tokens[list].Next; i = d.Tokens[i+1].Next {
		name, known := strings.CutPrefix(d.Text(i), prefix)
		if !known && d.Tokens[i+1].Kind == kindBoolean && d.isTrue(i+1) {
			return dialect{}, &DialectError{Dialect: uri}
		}
		own.disabled &^= own.draft.vocabularyNamed(name)
		if name == "format-assertion" || name == "format" && own.draft == draft2019 {
			own.assertFormat = true
		}
	}
	return own, nil
}
