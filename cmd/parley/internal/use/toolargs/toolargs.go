// Package toolargs converts words of a command line to the arguments of a tool. The tool's
// input schema determines the types.
package toolargs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
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
	n := parseSchema(schema, noun)
	var keys, undefined []string
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
	object := []byte{'{'}
	for i, key := range keys {
		sub, defined, ok := n.property(key)
		if !ok || noun == "field" && !defined {
			return nil, n.unknown(key)
		}
		if !defined {
			undefined = append(undefined, key)
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
		if given[name] != nil {
			continue
		}
		for _, key := range undefined {
			if terminal.Nearest(key, []string{name}) != "" {
				return nil, n.unknown(key)
			}
		}
		return nil, fmt.Errorf("%s %q is missing; %s", noun, terminal.Shorten(name, maxSummary), n.usage())
	}
	return append(object, '}'), nil
}

func (n node) unknown(key string) error {
	return terminal.Unknown(n.doc.noun, key, n.properties(), n.usage())
}

// Undefined returns an error for each argument that the schema allows and does not define. It returns none if the
// schema describes the values of all further arguments, or defines no argument at all.
func Undefined(schema, arguments json.RawMessage) (errs []error) {
	n := parseSchema(schema, "argument")
	names := n.properties()
	if len(names) == 0 || !json.Valid(arguments) {
		return nil
	}
	for key := range jsonrpc.All(arguments) {
		if property, defined, ok := n.property(key); !defined && ok &&
			(property.all == nil || terminal.Nearest(key, names) != "") {
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
	if text = bytes.TrimSpace(text); !json.Valid(text) || text[0] != '{' {
		return nil, errors.New("it is not an object")
	}
	for name, value := range jsonrpc.All(text) {
		word := name + ":=" + compact(value)
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
		return nil, fmt.Errorf("given %d times, but it is not a list; give it once", len(words))
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
			all = append(all, `a list, repeated as in tags=x tags=y or written as in tags:='["x","y"]'`)
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

func quote(text string) []byte { return jsonrpc.AppendString(nil, text) }

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

// elementsOf returns the elements of an array, which is valid JSON, or nil.
func elementsOf(v json.RawMessage) (elements []json.RawMessage) {
	if len(v) > 0 && v[0] == '[' {
		_ = schema.Decode(v, &elements)
	}
	return elements
}

func textOf(v json.RawMessage) (text string, ok bool) {
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	return jsonrpc.Unquote(v), true
}
