package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// parameter is a value that clients send as text: an argument of a prompt or a variable of a
// URI template.
type parameter struct {
	name        string
	title       string
	description string
	kind        string // string, integer, number or boolean
	list        bool   // a list of values of that kind
	required    bool
	enum        []string // nil: any value
}

// parameters are the members of a Go type.
type parameters struct {
	schema *schema.Schema
	all    []parameter // in the order of the fields
	others *parameter  // kind of the members of a map; nil for a struct
}

// checkIn returns an error if In is not a type of arguments, whose inferred schema is s.
func checkIn[In any](s *schema.Schema) error {
	if s.IsObject() {
		return nil
	}
	return fmt.Errorf("the argument of the handler must be a struct or a map with string keys, not %s: for one value,"+
		" use a struct with one field",
		reflect.TypeFor[In]())
}

// parametersOf returns the parameters of In, a struct or a map of strings, numbers, booleans
// and, if lists is set, slices of these.
func parametersOf[In any](lists bool) (*parameters, error) {
	s, err := schema.For[In]()
	if err != nil {
		return nil, err
	}
	if err := checkIn[In](s); err != nil {
		return nil, err
	}
	p := &parameters{schema: s}
	var document struct {
		Required   []string        `json:"required"`
		Additional json.RawMessage `json:"additionalProperties"`
	}
	if err := jsonv2.Unmarshal(s.JSON(), &document); err != nil {
		return nil, err
	}
	properties, _ := jsonrpc.Get(s.JSON(), "properties")
	for name, definition := range jsonrpc.All(properties) {
		one, err := parameterOf(name, definition, lists)
		if err != nil {
			return nil, err
		}
		one.required = slices.Contains(document.Required, name)
		p.all = append(p.all, *one)
	}
	if additional := document.Additional; len(additional) > 0 && additional[0] == '{' {
		if p.others, err = parameterOf("", additional, lists); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// memberSchema is the part of a member's schema that a parameter can have.
type memberSchema struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Items       *memberSchema     `json:"items"`
	Ref         string            `json:"$ref"`
}

func parameterOf(name string, definition []byte, lists bool) (*parameter, error) {
	var m memberSchema
	if err := jsonv2.Unmarshal(definition, &m); err != nil {
		return nil, err
	}
	p := &parameter{name: name, title: m.Title, description: m.Description}
	if m.Type == "array" && lists {
		p.list = true
		m = *m.Items
	}
	switch p.kind = m.Type; {
	case p.kind == "boolean":
		p.enum = []string{"true", "false"}
	case p.kind == "" && m.Ref == "": // any value
		p.kind = "string"
	case p.kind != "string" && p.kind != "integer" && p.kind != "number":
		if name == "" {
			name = "every value of the map"
		}
		kinds := "a string, a number or a boolean"
		if lists {
			kinds += ", or a slice of these"
		}
		return nil, fmt.Errorf("%s must be %s, because clients send text", name, kinds)
	}
	for _, value := range m.Enum {
		if value[0] == '"' {
			p.enum = append(p.enum, jsonrpc.Unquote(value))
		} else {
			p.enum = append(p.enum, string(value))
		}
	}
	return p, nil
}

// find returns the parameter of a struct field by name, or nil.
func (p *parameters) find(name string) *parameter {
	if i := slices.IndexFunc(p.all, func(one parameter) bool { return one.name == name }); i >= 0 {
		return &p.all[i]
	}
	return nil
}

// lookup returns the parameter of a name, or nil.
func (p *parameters) lookup(name string) *parameter {
	if one := p.find(name); one != nil {
		return one
	}
	return p.others
}

// bind decodes values into into, a pointer to the type that p was made from. An error about a
// value is a *schema.ValidationError.
func (p *parameters) bind(values map[string][]string, into any) error {
	object := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(jsonrpc.AppendString(object, name), ':')
		one := p.lookup(name)
		if one == nil {
			one = &parameter{kind: "string"} // the schema rejects it
		}
		object = one.appendValue(object, values[name])
	}
	object = append(object, '}')
	return p.schema.Decode(object, into)
}

func (p *parameter) appendValue(dst []byte, texts []string) []byte {
	if !p.list {
		return p.appendScalar(dst, texts[0])
	}
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.appendScalar(dst, text)
	}
	return append(dst, ']')
}

// jsonNumber matches a JSON number (RFC 8259, section 6).
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// appendScalar appends the JSON value of a text. A text that is not of the parameter's kind
// stays a string, which the schema rejects.
func (p *parameter) appendScalar(dst []byte, text string) []byte {
	switch {
	case p.kind == "boolean" && (text == "true" || text == "false"),
		(p.kind == "integer" || p.kind == "number") && jsonNumber.MatchString(text):
		return append(dst, text...)
	}
	return jsonrpc.AppendString(dst, text)
}

// suggest returns the values of an enumeration that match the typed text.
func (p *parameter) suggest(typed string) []string { return matching(p.enum, typed) }

// matching returns the values that begin with the typed text, then those that contain it,
// in any case of letters.
func matching(values []string, typed string) []string {
	typed = strings.ToLower(typed)
	var begin, contain []string
	for _, value := range values {
		switch i := strings.Index(strings.ToLower(value), typed); {
		case i == 0:
			begin = append(begin, value)
		case i > 0:
			contain = append(contain, value)
		}
	}
	return append(begin, contain...)
}
