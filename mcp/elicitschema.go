package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ElicitSchema is a typed view of the JSON Schema of a form: an object of primitive properties, in the
// order in which to ask for them. [ElicitParams.RequestedSchema] has its JSON form.
type ElicitSchema struct {
	// Schema is the dialect, $schema. Since 2025-11-25.
	Schema string `json:"$schema,omitempty"`
	// Type is "object", as which also the empty string is encoded.
	Type       string           `json:"type"`
	Properties ElicitProperties `json:"properties"`
	// Required names the properties that must be answered.
	Required []string `json:"required,omitzero"`
}

// ParseElicitSchema decodes the schema of a form. It returns an error if raw is anything but a flat
// object of properties that [PrimitiveSchema] can describe. It does not hold content against the
// schema; numbers beyond 2^53 are to be compared by a validator that reads raw itself.
func ParseElicitSchema(raw json.RawMessage) (*ElicitSchema, error) {
	var s ElicitSchema
	if err := decode(raw, &s); err != nil {
		return nil, fmt.Errorf("requested schema: %w", err)
	}
	if s.Type != "object" {
		return nil, fmt.Errorf("requested schema: its type is %q, not object", s.Type)
	}
	for _, p := range s.Properties {
		if err := p.Schema.check(); err != nil {
			return nil, fmt.Errorf("requested schema: property %q: %w", p.Name, err)
		}
	}
	return &s, nil
}

// MarshalJSON implements json.Marshaler.
func (s ElicitSchema) MarshalJSON() ([]byte, error) {
	type plain ElicitSchema
	if s.Type == "" {
		s.Type = "object"
	}
	return encode((*plain)(&s))
}

// ElicitProperties are the properties of a form, an object in JSON. Names are unique.
type ElicitProperties []ElicitProperty

// ElicitProperty is a question of a form.
type ElicitProperty struct {
	Name   string
	Schema PrimitiveSchema
}

// MarshalJSON implements json.Marshaler. It keeps the order.
func (p ElicitProperties) MarshalJSON() ([]byte, error) {
	dst := []byte{'{'}
	for i := range p {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = jsontext.AppendQuote(dst, p[i].Name); err != nil {
			return nil, err
		}
		schema, err := encode(&p[i].Schema)
		if err != nil {
			return nil, err
		}
		dst = append(append(dst, ':'), schema...)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler. It keeps the order.
func (p *ElicitProperties) UnmarshalJSON(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if start, err := dec.ReadToken(); err != nil {
		return err
	} else if start.Kind() != '{' {
		return errors.New("the properties of a form are an object")
	}
	properties := ElicitProperties{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		property := ElicitProperty{Name: name.String()}
		if err := jsonv2.UnmarshalDecode(dec, &property.Schema); err != nil {
			return fmt.Errorf("property %q: %w", property.Name, err)
		}
		properties = append(properties, property)
	}
	*p = properties
	return nil
}

// PrimitiveSchema describes a question of a form: a text, a number, a yes or no, or a choice of one or
// several options. Type tells which, and Options whether it is a choice.
type PrimitiveSchema struct {
	// Type is one of the Type constants.
	Type        string `json:"type"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Default is a value of the type; nil for none. Since 2025-11-25, and for booleans since 2025-06-18.
	Default json.RawMessage `json:"default,omitzero"`

	// MinLength, MaxLength and Format are of strings. Lengths are in characters; Format is one of
	// the Format constants.
	MinLength *int64 `json:"minLength,omitzero"`
	MaxLength *int64 `json:"maxLength,omitzero"`
	Format    string `json:"format,omitempty"`

	// Minimum and Maximum are of numbers and integers, both inclusive.
	Minimum *float64 `json:"minimum,omitzero"`
	Maximum *float64 `json:"maximum,omitzero"`

	// Enum are the values of a choice of one, and EnumNames what they are called. EnumNames is older
	// than OneOf and not JSON Schema; 2025-06-18 knows nothing else.
	Enum      []string `json:"enum,omitzero"`
	EnumNames []string `json:"enumNames,omitzero"`
	// OneOf are the options of a choice of one. Since 2025-11-25.
	OneOf []EnumOption `json:"oneOf,omitzero"`

	// Items, MinItems and MaxItems are of choices of several. Since 2025-11-25.
	Items    *EnumItems `json:"items,omitzero"`
	MinItems *int64     `json:"minItems,omitzero"`
	MaxItems *int64     `json:"maxItems,omitzero"`
}

// Values of [PrimitiveSchema.Type].
const (
	TypeString  = "string"
	TypeNumber  = "number"
	TypeInteger = "integer"
	TypeBoolean = "boolean"
	TypeArray   = "array" // a choice of several
)

// Values of [PrimitiveSchema.Format].
const (
	FormatEmail    = "email"
	FormatURI      = "uri"
	FormatDate     = "date"
	FormatDateTime = "date-time"
)

// EnumItems are the options of a choice of several: Enum, or AnyOf to give them titles.
type EnumItems struct {
	Type  string       `json:"type,omitempty"` // "string" with Enum
	Enum  []string     `json:"enum,omitzero"`
	AnyOf []EnumOption `json:"anyOf,omitzero"`
}

// EnumOption is a value to choose and what it is called.
type EnumOption struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// Options returns what there is to choose from, in all the ways in which a schema can say it, and nil
// if s is not a choice. An option without a title of its own is called what it is.
func (s *PrimitiveSchema) Options() []EnumOption {
	switch {
	case s.Items != nil && s.Items.AnyOf != nil:
		return s.Items.AnyOf
	case s.Items != nil:
		return untitled(s.Items.Enum, nil)
	case s.OneOf != nil:
		return s.OneOf
	default:
		return untitled(s.Enum, s.EnumNames)
	}
}

func untitled(values, names []string) []EnumOption {
	var options []EnumOption
	for i, v := range values {
		option := EnumOption{Const: v, Title: v}
		if i < len(names) {
			option.Title = names[i]
		}
		options = append(options, option)
	}
	return options
}

// check returns an error if s describes something that a form cannot ask.
func (s *PrimitiveSchema) check() error {
	switch s.Type {
	case TypeString, TypeNumber, TypeInteger, TypeBoolean:
		return nil
	case TypeArray:
		if len(s.Options()) == 0 {
			return errors.New("an array must be a choice of enum values")
		}
		return nil
	default:
		return fmt.Errorf("its type is %q, but a form asks for strings, numbers, booleans and choices only", s.Type)
	}
}
