// Package toolargs converts words of a command line to the arguments of a tool. The tool's
// input schema determines the types.
package toolargs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
)

// Parse converts words to a JSON object.
//
// "key=value" has the type that the schema gives the key: integers keep all their digits,
// each repetition of an array's key adds an element, and objects are written as JSON.
// "key:=json" is any JSON value. The members of the object are in the order of the words.
func Parse(schema json.RawMessage, words []string) (json.RawMessage, error) {
	return parse(schema, words, "argument")
}

// ParseFields is Parse for the fields of a form. A form allows no other fields.
func ParseFields(form json.RawMessage, words []string) (json.RawMessage, error) {
	return parse(form, words, "field")
}

func parse(schema json.RawMessage, words []string, noun string) (json.RawMessage, error) {
	n := parseSchema(schema)
	n.doc.noun = noun
	var keys []string
	given := make(map[string][]word)
	for _, text := range words {
		w, err := parseWord(text)
		if err != nil {
			return nil, err
		}
		if given[w.key] == nil {
			keys = append(keys, w.key)
		}
		given[w.key] = append(given[w.key], w)
	}
	whole, n := n, n.fitting(given)
	object := []byte{'{'}
	for i, key := range keys {
		sub, defined := n.propertyOf(key)
		if sub.never || noun == "field" && !defined {
			return nil, whole.unknown(key)
		}
		value, err := valueOf(sub, given[key])
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", noun, key, err)
		}
		if i > 0 {
			object = append(object, ',')
		}
		object = append(append(append(object, quote(key)...), ':'), value...)
	}
	for _, name := range n.required() {
		if given[name] == nil {
			for _, key := range keys {
				if _, defined := n.propertyOf(key); !defined && nearest.Name(key, []string{name}) != "" {
					return nil, whole.unknown(key)
				}
			}
			return nil, fmt.Errorf("%s %q is missing; %s", noun, name, whole.usage())
		}
	}
	return append(object, '}'), nil
}

func (n node) unknown(key string) error {
	return nearest.Unknown(n.doc.noun, key, n.properties(), n.usage())
}

// Undefined returns an error for each argument that the schema allows and does not define. It returns none if the
// schema describes the values of all further arguments, or defines no argument at all.
func Undefined(schema, arguments json.RawMessage) (errs []error) {
	n := parseSchema(schema)
	n.doc.noun = "argument"
	if len(n.properties()) == 0 {
		return nil
	}
	given, _ := parseDocument(arguments).root.(*object)
	if given == nil {
		return nil
	}
	for _, key := range given.names {
		if property, defined := n.propertyOf(key); !defined && !property.never &&
			(property.all == nil || nearest.Name(key, n.properties()) != "") {
			errs = append(errs, n.unknown(key))
		}
	}
	return errs
}

// ParseObject returns text, which must be a JSON object, without surrounding white space.
func ParseObject(text string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	if !json.Valid([]byte(trimmed)) || !utf8.ValidString(trimmed) {
		return nil, errors.New("the arguments must be valid JSON")
	}
	if trimmed[0] != '{' {
		return nil, errors.New("the arguments must be a JSON object")
	}
	return json.RawMessage(trimmed), nil
}

// Key returns the key of a word, or an error if Parse would not accept it.
func Key(text string) (string, error) {
	w, err := parseWord(text)
	return w.key, err
}

// Words returns words that set each member of a JSON object.
func Words(text json.RawMessage) (words []string, err error) {
	value, ok := parseDocument(text).root.(*object)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	for _, name := range value.names {
		word := name + ":=" + encode(value.members[name])
		if key, err := Key(word); err != nil || key != name {
			return nil, fmt.Errorf("the name %q must not be empty or contain =", name)
		}
		words = append(words, word)
	}
	return words, nil
}

// word is one word of the command line.
type word struct {
	key, text string
	json      bool // written with :=
}

func parseWord(text string) (word, error) {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" || key == ":" {
		return word{}, fmt.Errorf("invalid argument %q; write key=value or key:=json", text)
	}
	if !utf8.ValidString(text) {
		return word{}, fmt.Errorf("argument %q must be valid UTF-8", text)
	}
	key, isJSON := strings.CutSuffix(key, ":")
	if isJSON && !json.Valid([]byte(value)) {
		return word{}, fmt.Errorf("argument %q: %q must be valid JSON; write %s=… for plain text", key, value, key)
	}
	return word{key, value, isJSON}, nil
}

// valueOf returns the value of one key from all its words.
func valueOf(n node, words []word) (json.RawMessage, error) {
	types := n.types()
	isArray := slices.Contains(types, "array")
	if len(words) == 1 {
		w := words[0]
		switch {
		case w.json:
			return json.RawMessage(w.text), nil
		case !isArray || len(types) > 1 && hasScalar(types):
			return convert(types, w.text)
		}
	} else if !isArray {
		return nil, fmt.Errorf("given %d times, but only arrays can be repeated", len(words))
	}
	array := []byte{'['}
	for i, w := range words {
		element := json.RawMessage(w.text)
		if !w.json {
			var err error
			if element, err = convert(n.element(i).types(), w.text); err != nil {
				return nil, fmt.Errorf("element %d: %w", i+1, err)
			}
		}
		if i > 0 {
			array = append(array, ',')
		}
		array = append(array, element...)
	}
	return append(array, ']'), nil
}

// hasScalar reports whether types has a type other than array and null.
func hasScalar(types []string) bool {
	return slices.ContainsFunc(types, func(t string) bool { return t != "array" && t != "null" })
}

// convert converts text to the first of the types that fits. A string is tried last, so
// that 4 is a number where both are allowed.
func convert(types []string, text string) (json.RawMessage, error) {
	raw := json.RawMessage(text)
	for _, t := range types {
		switch t {
		case "integer":
			if isInteger(text) {
				return raw, nil
			}
		case "number":
			if isNumber(text) {
				return raw, nil
			}
		case "boolean":
			if text == "true" || text == "false" {
				return raw, nil
			}
		case "null":
			if text == "null" {
				return raw, nil
			}
		case "object":
			if strings.HasPrefix(text, "{") && json.Valid(raw) {
				return raw, nil
			}
		}
	}
	if len(types) == 0 || slices.Contains(types, "string") {
		return quote(text), nil
	}
	return nil, fmt.Errorf("%q must be %s", text, describe(types))
}

// describe returns types as the end of an error message.
func describe(types []string) string {
	var all []string
	for _, t := range types {
		switch t {
		case "integer":
			all = append(all, "an integer")
		case "number":
			all = append(all, "a number")
		case "boolean":
			all = append(all, "true or false")
		case "null":
			all = append(all, "null")
		case "object":
			all = append(all, "a JSON object")
		case "array":
			all = append(all, "an array, written with :=")
		}
	}
	if len(all) == 0 {
		return "of a known type; write it with :="
	}
	return strings.Join(all, " or ")
}

// isNumber reports whether text is a JSON number.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && json.Valid([]byte(text)) &&
		text == strings.TrimSpace(text)
}

func isInteger(text string) bool {
	return isNumber(text) && !strings.ContainsAny(text, ".eE")
}

func quote(text string) []byte {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always encodes
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// ParseStrings parses words of the form key=value.
func ParseStrings(words []string) (map[string]string, error) {
	values := make(map[string]string, len(words))
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("invalid argument %q; write key=value", word)
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("duplicate argument %q", key)
		}
		values[key] = value
	}
	return values, nil
}

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
