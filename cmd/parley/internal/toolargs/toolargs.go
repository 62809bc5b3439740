// Package toolargs makes the arguments of a tool from words on a command line, as
// the tool's input schema means them.
package toolargs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Parse makes a JSON object of words. "key=value" is a value of the type that the
// schema gives the key: integers are exact to the last digit, an array has an
// element for each time its key is given, an object is written as JSON. "key:=json"
// is any JSON value. Order is kept.
func Parse(schema json.RawMessage, words []string) (json.RawMessage, error) {
	s := parseShape(schema)
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
	object := []byte{'{'}
	for i, key := range keys {
		sub, ok := s.property(key)
		if !ok {
			return nil, fmt.Errorf("the tool has no argument %q: %s", key, takes(schema))
		}
		value, err := valueOf(sub, given[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if i > 0 {
			object = append(object, ',')
		}
		object = append(append(append(object, quote(key)...), ':'), value...)
	}
	for _, name := range s.required() {
		if given[name] == nil {
			return nil, fmt.Errorf("argument %q is missing: %s", name, takes(schema))
		}
	}
	return append(object, '}'), nil
}

// Check returns nil if text is a JSON object, for arguments that are given as one.
func Check(text string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	if !json.Valid([]byte(trimmed)) || !utf8.ValidString(trimmed) {
		return nil, errors.New("the arguments are not valid JSON")
	}
	if trimmed[0] != '{' {
		return nil, errors.New("the arguments must be a JSON object")
	}
	return json.RawMessage(trimmed), nil
}

// word is one word of the command line.
type word struct {
	key, text string
	json      bool
}

func parseWord(text string) (word, error) {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" || key == ":" {
		return word{}, fmt.Errorf("%q is not an argument: write key=value, or key:=json", text)
	}
	if !utf8.ValidString(text) {
		return word{}, fmt.Errorf("%q is not valid UTF-8", text)
	}
	key, isJSON := strings.CutSuffix(key, ":")
	if isJSON && !json.Valid([]byte(value)) {
		return word{}, fmt.Errorf("%s: %q is not valid JSON: write %s=… for plain text", key, value, key)
	}
	return word{key, value, isJSON}, nil
}

// valueOf makes the value of one key from all that was given for it.
func valueOf(s shape, words []word) (json.RawMessage, error) {
	kinds := s.kinds()
	isArray := slices.Contains(kinds, "array")
	if len(words) == 1 {
		w := words[0]
		switch {
		case w.json:
			return json.RawMessage(w.text), nil
		case !isArray || len(kinds) > 1 && scalar(kinds):
			return convert(kinds, w.text)
		}
	} else if !isArray {
		return nil, fmt.Errorf("given %d times, and not an array", len(words))
	}
	elementKinds := s.elements().kinds()
	array := []byte{'['}
	for i, w := range words {
		element := json.RawMessage(w.text)
		if !w.json {
			var err error
			if element, err = convert(elementKinds, w.text); err != nil {
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

// scalar reports whether a value of one word that is no array can be among kinds.
func scalar(kinds []string) bool {
	return slices.ContainsFunc(kinds, func(k string) bool { return k != "array" && k != "null" })
}

// convert makes a value of one of the kinds. Text is the last resort, so that
// a number for "string or number" is one.
func convert(kinds []string, text string) (json.RawMessage, error) {
	raw := json.RawMessage(text)
	for _, kind := range kinds {
		switch kind {
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
	if len(kinds) == 0 || slices.Contains(kinds, "string") {
		return quote(text), nil
	}
	return nil, fmt.Errorf("%q is not %s", text, describe(kinds))
}

// describe says what kinds are, in a sentence.
func describe(kinds []string) string {
	var all []string
	for _, kind := range kinds {
		switch kind {
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
			all = append(all, "an array, which := takes")
		}
	}
	if len(all) == 0 {
		return "of a known type: use :="
	}
	return strings.Join(all, " or ")
}

// isNumber reports whether text is a JSON number.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && json.Valid([]byte(text)) && text == strings.TrimSpace(text)
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
