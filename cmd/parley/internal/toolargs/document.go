package toolargs

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// document is a schema, in which references are resolved.
type document struct {
	root any
	// names are the subschemas that have a URI (JSON Schema Core, section 8.2): $id, and $anchor as the fragment.
	names    map[string]any
	patterns map[string]*regexp.Regexp // those of patternProperties that were used; nil if invalid
	worked   int
	noun     string // what errors call a property: argument or field
}

// object is a JSON object. Other values are those of encoding/json, with json.Number.
type object struct {
	names   []string // in the order of the document
	members map[string]any
	base    *url.URL // against which its references are resolved
}

// parseDocument parses a schema. A text that is not JSON is a schema without rules.
func parseDocument(text json.RawMessage) *document {
	d := &document{names: make(map[string]any), patterns: make(map[string]*regexp.Regexp)}
	decoder := jsontext.NewDecoder(bytes.NewReader(text),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if root, err := read(decoder); err == nil {
		d.root = root
		d.index(root, new(url.URL))
	}
	return d
}

// work counts one unit of work. It returns false if there was too much.
func (d *document) work() bool {
	d.worked++
	return d.worked <= maxWork
}

// matches reports whether a pattern of patternProperties matches a name.
func (d *document) matches(pattern, name string) bool {
	re, known := d.patterns[pattern]
	if !known {
		re, _ = regexp.Compile(pattern) // an invalid one has no effect
		d.patterns[pattern] = re
	}
	return re != nil && re.MatchString(name)
}

// read reads the next value.
func read(decoder *jsontext.Decoder) (any, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		o := &object{members: make(map[string]any)}
		for decoder.PeekKind() != '}' {
			name, err := decoder.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // before the next token
			value, err := read(decoder)
			if err != nil {
				return nil, err
			}
			if _, repeated := o.members[key]; !repeated {
				o.names = append(o.names, key)
			}
			o.members[key] = value
		}
		_, err = decoder.ReadToken()
		return o, err
	case '[':
		array := []any{}
		for decoder.PeekKind() != ']' {
			value, err := read(decoder)
			if err != nil {
				return nil, err
			}
			array = append(array, value)
		}
		_, err = decoder.ReadToken()
		return array, err
	case '"':
		return token.String(), nil
	case '0':
		return json.Number(token.String()), nil
	case 'n':
		return nil, nil
	}
	return token.Bool(), nil
}

// index finds the subschemas that have a URI, and the base URIs of all objects in v.
func (d *document) index(v any, base *url.URL) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			d.index(element, base)
		}
	case *object:
		if id, ok := v.members["$id"].(string); ok {
			if u, err := base.Parse(id); err == nil {
				base = u
				d.names[strings.TrimSuffix(u.String(), "#")] = v
			}
		}
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if anchor, ok := v.members[keyword].(string); ok {
				if u, err := base.Parse("#" + anchor); err == nil {
					d.names[u.String()] = v
				}
			}
		}
		v.base = base
		for _, member := range v.members {
			d.index(member, base)
		}
	}
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// lookup returns the target of a reference in the document, or nil.
func (d *document) lookup(base *url.URL, ref string) any {
	u, err := base.Parse(ref)
	if err != nil {
		return nil
	}
	if target, ok := d.names[u.String()]; ok {
		return target
	}
	pointer := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	target := d.root
	if resource := u.String(); resource != "" {
		target = d.names[resource]
	}
	if pointer == "" {
		return target
	}
	first, rest, _ := strings.Cut(pointer, "/")
	if first != "" {
		return nil
	}
	for name := range strings.SplitSeq(rest, "/") {
		switch v := target.(type) {
		case *object:
			target = v.members[unescape.Replace(name)]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			target = v[i]
		default:
			return nil
		}
	}
	return target
}

// member returns the member called name, or an empty object if it is not an object.
func (o *object) member(name string) *object {
	if member, ok := o.members[name].(*object); ok {
		return member
	}
	return new(object)
}

// values returns the values that an enum or a const allows, or nil if there are neither.
func (o *object) values() []any {
	if value, ok := o.members["const"]; ok {
		return []any{value}
	}
	return list(o.members["enum"])
}

// MarshalJSON implements json.Marshaler. It preserves the order of the members.
func (o *object) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, name := range o.names {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, quote(name)...), ':'), encode(o.members[name])...)
	}
	return append(text, '}'), nil
}
