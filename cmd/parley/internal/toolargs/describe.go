package toolargs

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Argument describes a property of a schema: an argument of a tool, or a part of its result. The texts come from
// the server, so sanitise them before printing.
type Argument struct {
	Name        string
	Type        string // the allowed values or types, as in Summary
	Required    bool
	Default     string // as JSON; empty without one
	Description string
	Values      []string // the allowed values as text of the command line; nil if they are not listed
	Repeats     bool     // each repetition adds an element
}

// Arguments returns the properties of a schema, in its order.
func Arguments(schema json.RawMessage) []Argument {
	n := parseSchema(schema)
	required := n.required()
	var all []Argument
	for _, name := range n.properties() {
		sub, _ := n.property(name)
		a := Argument{Name: name, Type: placeholder(sub, maxDepth), Required: slices.Contains(required, name)}
		a.Values, a.Repeats = sub.values(maxDepth), slices.Contains(sub.types(), "array")
		a.Description, _ = sub.keywords["description"].(string)
		if a.Description == "" {
			a.Description, _ = sub.keywords["title"].(string)
		}
		if value, ok := sub.keywords["default"]; ok {
			a.Default = encode(value)
		}
		all = append(all, a)
	}
	return all
}

// values returns the values of an enum or a boolean, or those of the elements of an array.
func (n node) values(depth int) (words []string) {
	allowed := list(n.keywords["enum"])
	if value, ok := n.keywords["const"]; ok {
		allowed = []any{value}
	}
	for _, v := range allowed {
		text, isText := v.(string)
		if !isText {
			text = encode(v)
		}
		words = append(words, text)
	}
	types := n.types()
	switch {
	case words != nil:
	case slices.Contains(types, "array") && depth > 0:
		return n.elements().values(depth - 1)
	case slices.Contains(types, "boolean"):
		return []string{"true", "false"}
	}
	return words
}

// Example returns words of a command line that set the required arguments, or the first one if all are optional. The
// values are those that the schema gives as default or example, or else made up. Parse accepts the words; the tool may
// still reject the values.
func Example(schema json.RawMessage) []string {
	n := parseSchema(schema)
	names := n.required()
	if properties := n.properties(); len(names) == 0 && len(properties) > 0 {
		names = properties[:1]
	}
	var words []string
	for _, name := range names {
		if name == "" || strings.Contains(name, "=") {
			continue // cannot be written as key=value
		}
		sub, _ := n.property(name)
		words = append(words, wordsOf(sub, name, sub.example(maxDepth))...)
	}
	return words
}

// wordsOf returns the words that set an argument to a value. They are as short as Parse allows.
func wordsOf(n node, name string, value any) []string {
	if array, ok := value.([]any); ok && len(array) > 0 {
		var words []string
		for _, v := range array {
			text, plain := v.(string)
			if !plain {
				text = encode(v)
			}
			words = append(words, name+"="+text)
		}
		if parsesAs(n, words, value) {
			return words
		}
	} else if text, ok := value.(string); ok {
		if words := []string{name + "=" + text}; parsesAs(n, words, value) {
			return words
		}
	} else if words := []string{name + "=" + encode(value)}; parsesAs(n, words, value) {
		return words
	}
	return []string{name + ":=" + encode(value)}
}

// parsesAs reports whether the words of one argument have a value.
func parsesAs(n node, texts []string, value any) bool {
	var words []word
	for _, text := range texts {
		w, err := parseWord(text)
		if err != nil || w.json {
			return false
		}
		words = append(words, w)
	}
	got, err := valueOf(n, words)
	if err != nil {
		return false
	}
	return string(got) == encode(value)
}

// formats has an example of each format (JSON Schema Validation, section 7.3).
var formats = map[string]string{
	"date": "2030-01-31", "date-time": "2030-01-31T12:00:00Z", "time": "12:00:00Z", "duration": "P1D",
	"email": "user@example.com", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uri": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

// example returns a value that the schema probably allows.
func (n node) example(depth int) any {
	for _, keyword := range []string{"default", "const"} {
		if value, ok := n.keywords[keyword]; ok {
			return value
		}
	}
	for _, keyword := range []string{"examples", "enum"} {
		if values := list(n.keywords[keyword]); len(values) > 0 {
			return values[0]
		}
	}
	types := n.types()
	first := ""
	if len(types) > 0 {
		first = types[0]
	}
	switch first {
	case "null":
		return nil
	case "boolean":
		return true
	case "integer", "number":
		if minimum, ok := n.keywords["minimum"].(float64); ok {
			return minimum
		}
		return float64(1)
	case "array":
		if depth == 0 {
			return []any{}
		}
		return []any{n.elements().example(depth - 1)}
	case "object":
		object := make(map[string]any)
		if depth > 0 {
			for _, name := range n.required() {
				sub, _ := n.property(name)
				object[name] = sub.example(depth - 1)
			}
		}
		return object
	}
	format, _ := n.keywords["format"].(string)
	return cmp.Or(formats[format], "text")
}

// encode returns a value as JSON.
func encode(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
