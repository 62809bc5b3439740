package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// parameter is a value that clients write as text: an argument of a prompt, a
// variable of a URI template.
type parameter struct {
	name        string
	title       string
	description string
	kind        string // string, integer, number or boolean
	list        bool   // of such
	required    bool
	enum        []string // nil: anything
}

// parameters are those that a Go type has as its members.
type parameters struct {
	schema *schema.Schema
	all    []parameter // in the order of the fields
	others *parameter  // what members are that are not in all; nil: there are none
}

// parametersOf returns the parameters that are the members of In: a struct or a map
// of texts, numbers, booleans and, if lists says so, slices of these.
func parametersOf[In any](lists bool) (*parameters, error) {
	s, err := schema.For[In]()
	if err != nil {
		return nil, err
	}
	if !s.IsObject() {
		return nil, errors.New("the handler takes a struct or a map")
	}
	p := &parameters{schema: s}
	var document struct {
		Required   []string
		Additional json.RawMessage `json:"additionalProperties"`
	}
	if err := json.Unmarshal(s.JSON(), &document); err != nil {
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

// memberSchema is what there can be in the schema of a member, as package schema
// infers it.
type memberSchema struct {
	Type        string
	Title       string
	Description string
	Enum        []json.RawMessage
	Items       *memberSchema
	Ref         string `json:"$ref"`
}

func parameterOf(name string, definition []byte, lists bool) (*parameter, error) {
	var m memberSchema
	if err := json.Unmarshal(definition, &m); err != nil {
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
	case p.kind == "" && m.Ref == "": // anything
		p.kind = "string"
	case p.kind != "string" && p.kind != "integer" && p.kind != "number":
		return nil, fmt.Errorf("%s: clients write it as text, so it has to be a string, a number or a boolean", name)
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

// find returns the parameter of a name among those that have a field, or nil.
func (p *parameters) find(name string) *parameter {
	if i := slices.IndexFunc(p.all, func(one parameter) bool { return one.name == name }); i >= 0 {
		return &p.all[i]
	}
	return nil
}

// lookup returns what the parameter of a name is, or nil if there is none.
func (p *parameters) lookup(name string) *parameter {
	if one := p.find(name); one != nil {
		return one
	}
	return p.others
}

// bind decodes values into what into points to, which is of the type that p was made
// of. An error about a value is a *schema.ValidationError.
func (p *parameters) bind(values map[string][]string, into any) error {
	object := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(jsonrpc.AppendString(object, name), ':')
		one := p.lookup(name)
		if one == nil {
			one = &parameter{kind: "string"} // for the schema to refuse
		}
		object = one.appendValue(object, values[name])
	}
	object = append(object, '}')
	if err := p.schema.Validate(object); err != nil {
		return err
	}
	return schema.Decode(object, into)
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

// jsonNumber is a number as JSON spells it (RFC 8259, section 6).
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// appendScalar appends the JSON value that a text is meant to be. One that is none
// stays a string, which the schema refuses.
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
