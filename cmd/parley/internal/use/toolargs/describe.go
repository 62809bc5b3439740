package toolargs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// Argument describes a property of a schema: an argument of a tool, or a part of its result. The texts come from
// the server, so sanitise them before printing.
type Argument struct {
	Name        string
	Type        string // the allowed values or types, as in Summary
	Range       string // the limits of a number, such as "1 to 12" or "at least 1"; empty without any
	Required    bool
	Undefined   bool   // the schema requires it, and says nothing else
	Default     string // as JSON; empty without one
	Description string
	Values      []string // the allowed values as text of the command line; nil if they are not listed
	Repeats     bool     // each repetition adds an element
}

// Arguments returns the properties of a schema, in its order, and then the names that it requires but does not define.
func Arguments(schema json.RawMessage) []Argument { return parseSchema(schema, "argument").arguments() }

func (n node) arguments() (all []Argument) {
	names := n.required()
	required := setOf(names)
	for _, name := range distinct(slices.Concat(n.properties(), names)) {
		sub, defined, ok := n.property(name)
		if !ok {
			continue // no value is valid
		}
		a := Argument{Name: name, Type: placeholder(sub, maxDepth), Required: required[name],
			Undefined: !defined}
		a.Values, a.Repeats = sub.choices(maxDepth), slices.Contains(sub.types(), "array")
		a.Range = sub.limits()
		a.Description = cmp.Or(sub.text("description"), sub.text("title"))
		a.Default = compact(sub.keyword("default"))
		all = append(all, a)
	}
	return all
}

// limits returns the limits that the schema sets for a number.
func (n node) limits() string {
	limit := func(inclusive, words, exclusive, exclusiveWords string) (value, text string) {
		if v := n.keyword(inclusive); v != nil && isNumber(string(v)) {
			return string(v), words + string(v)
		}
		if v := n.keyword(exclusive); v != nil && isNumber(string(v)) { // a boolean in draft 4
			return "", exclusiveWords + string(v)
		}
		return "", ""
	}
	low, least := limit("minimum", "at least ", "exclusiveMinimum", "more than ")
	high, most := limit("maximum", "at most ", "exclusiveMaximum", "less than ")
	switch {
	case low != "" && high != "":
		return low + " to " + high
	case least != "" && most != "":
		return least + " and " + most
	}
	return least + most
}

// choices returns the values that are listed for an argument or the elements of an array, as text of the command line.
func (n node) choices(depth int) []string {
	values, _ := n.values()
	types := n.types()
	switch {
	case len(values) > 0:
		return values
	case slices.Contains(types, "array") && depth > 0:
		return n.element(0).choices(depth - 1)
	case slices.Contains(types, "boolean"):
		return []string{"true", "false"}
	}
	return nil
}

// wordFor returns a value as text of the command line: a string without quotation marks, and others as JSON.
func wordFor(v json.RawMessage) string {
	if text, ok := textOf(v); ok {
		return text
	}
	return compact(v)
}

// compact returns valid JSON without white space.
func compact(v json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Compact(&b, v) // nothing for nil
	return b.String()
}

// Example returns words of a command line that set the required arguments, or the first one if all are optional. The
// values are taken from defaults or examples in the schema, or else made up. Parse accepts the words; the tool may
// still reject the values.
func Example(schema json.RawMessage) []string {
	n := parseSchema(schema, "argument").first()
	names := n.required()
	if properties := n.properties(); len(names) == 0 && len(properties) > 0 {
		names = properties[:1]
	}
	var words []string
	for _, name := range names {
		if name == "" || strings.Contains(name, "=") {
			continue // cannot be written as key=value
		}
		sub, _, _ := n.property(name)
		words = append(words, wordsOf(sub, name, sub.example(maxDepth))...)
	}
	return words
}

// wordsOf returns the words that set an argument to a value. They are as short as Parse allows.
func wordsOf(n node, name string, value json.RawMessage) (texts []string) {
	elements := elementsOf(value)
	if elements == nil {
		elements = []json.RawMessage{value}
	}
	var given []word
	for _, e := range elements {
		texts = append(texts, name+"="+wordFor(e))
		given = append(given, word{name, wordFor(e), false})
	}
	if got, err := valueOf(n, given); len(given) > 0 && err == nil && string(got) == compact(value) {
		return texts
	}
	return []string{name + ":=" + compact(value)}
}

// formats contains an example of each format (JSON Schema Validation, section 7.3).
var formats = map[string]string{
	"date": "2030-01-31", "date-time": "2030-01-31T12:00:00Z", "time": "12:00:00Z", "duration": "P1D",
	"email": "user@example.com", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uri": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

// example returns a value that the schema probably allows.
func (n node) example(depth int) json.RawMessage {
	n = n.first()
	if value := n.keyword("default"); value != nil {
		return value
	}
	if examples := elementsOf(n.keyword("examples")); len(examples) > 0 {
		return examples[0]
	}
	types := n.types()
	if values, _ := n.values(); len(values) > 0 {
		if value, err := convert(types, values[0]); err == nil {
			return value
		}
	}
	first := slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" && len(types) > 1 })
	switch strings.Join(first[:min(len(first), 1)], "") {
	case "null":
		return json.RawMessage("null")
	case "boolean":
		return json.RawMessage("true")
	case "integer", "number":
		if least := n.keyword("minimum"); least != nil {
			return least
		}
		return json.RawMessage("1")
	case "array":
		if depth == 0 {
			return json.RawMessage("[]")
		}
		return fmt.Appendf(nil, "[%s]", n.element(0).example(depth-1))
	case "object":
		object := []byte{'{'}
		for i, name := range n.required() {
			if depth == 0 {
				break
			}
			if i > 0 {
				object = append(object, ',')
			}
			sub, _, _ := n.property(name)
			object = append(append(append(object, quote(name)...), ':'), sub.example(depth-1)...)
		}
		return append(object, '}')
	}
	return quote(cmp.Or(formats[n.text("format")], "text"))
}

// maxChoices is the maximum length in bytes of the values of an enum in a summary.
const maxChoices = 32

// Summary returns the arguments of a tool in the notation of the command line, with optional arguments in brackets:
// "city=string [days=integer]". The text contains names from the schema, so sanitise it before printing it.
func Summary(schema json.RawMessage) string {
	return summary(Arguments(schema))
}

// maxSummary is the length in bytes from which a summary has no further arguments.
const maxSummary = 1000

func summary(arguments []Argument) string {
	var b strings.Builder
	for i, a := range arguments {
		text := a.Name + "=" + a.Type
		if !a.Required {
			text = "[" + text + "]"
		}
		if i > 0 && b.Len()+len(text) > maxSummary {
			fmt.Fprintf(&b, " … and %d more", len(arguments)-i)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(terminal.Shorten(text, maxSummary))
	}
	return b.String()
}

// usage returns the arguments as the end of an error message.
func (n node) usage() string {
	if text := summary(n.arguments()); text != "" {
		return "the " + n.doc.noun + "s are " + text
	}
	return "there are no " + n.doc.noun + "s"
}

// placeholder returns the text after the equals sign: the allowed values or types.
func placeholder(n node, depth int) string {
	if values, only := n.values(); only && len(values) > 0 {
		if text := strings.Join(values, "|"); len(text) <= maxChoices {
			return text
		}
	}
	types := n.types()
	if i := slices.Index(types, "null"); i >= 0 && len(types) > 1 {
		types = slices.Delete(types, i, i+1)
	}
	switch {
	case len(types) == 0:
		return "any"
	case len(types) == 1 && types[0] == "array":
		if depth == 0 {
			return "array"
		}
		return placeholder(n.element(0), depth-1) + "…"
	}
	return strings.Join(types, "|")
}
