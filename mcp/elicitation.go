package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// ElicitParams are the parameters of elicitation/create, with which a server asks the user to fill in a form or, since
// 2025-11-25, to open a URL. A form must not ask for secrets; use a URL for them. Since 2025-06-18.
type ElicitParams struct {
	ParamsBase

	// Mode is [ElicitModeForm] or [ElicitModeURL]. Empty means form, as in 2025-06-18.
	Mode ElicitMode `json:"mode,omitempty"`
	// Message tells the user what the server needs and why.
	Message string `json:"message"`
	// RequestedSchema is the JSON Schema of the form; see [ParseElicitSchema]. Forms only.
	RequestedSchema json.RawMessage `json:"requestedSchema,omitzero"`
	// URL is the URL to open; see [ParseElicitURL]. URLs only.
	URL string `json:"url,omitempty"`
	// ElicitationID identifies the elicitation in notifications/elicitation/complete. URLs only.
	// 2025-11-25 only.
	ElicitationID string `json:"elicitationId,omitempty"`
	// Task requests that the client run the request as a task. 2025-11-25 only.
	Task *TaskMetadata `json:"task,omitzero"`
}

// ElicitMode is how an elicitation asks the user.
type ElicitMode string

// Values of [ElicitParams.Mode].
const (
	ElicitModeForm ElicitMode = "form"
	ElicitModeURL  ElicitMode = "url"
)

// ElicitResult is the result of elicitation/create.
type ElicitResult struct {
	ResultBase

	// Action is the decision of the user.
	Action ElicitAction `json:"action"`
	// Content is the submitted form, a JSON object that matches the requested schema. It is present only if the user
	// submitted a form.
	Content json.RawMessage `json:"content,omitzero"`
}

// ElicitAction is the decision of the user about an elicitation.
type ElicitAction string

// The actions.
const (
	ElicitAccept  ElicitAction = "accept"  // submitted the form, or agreed to open the URL
	ElicitDecline ElicitAction = "decline" // declined explicitly (server.ErrDeclined)
	ElicitCancel  ElicitAction = "cancel"  // dismissed without a choice (server.ErrDismissed)
)

// AcceptElicit returns the result for a form that the user has submitted. content contains the answers and must encode
// to a JSON object.
func AcceptElicit(content any) (*ElicitResult, error) {
	raw, err := encode(content)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the content of the form: %w", err)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("the content of the form must be a JSON object, got %.20s", raw)
	}
	return &ElicitResult{Action: ElicitAccept, Content: raw}, nil
}

// ElicitationCompleteParams are the parameters of notifications/elicitation/complete, which a server
// sends when the user has finished at a URL. 2025-11-25 only.
type ElicitationCompleteParams struct {
	ParamsBase

	// ElicitationID is the [ElicitParams.ElicitationID] of the request.
	ElicitationID string `json:"elicitationId"`
}

// ElicitSchema is the JSON Schema of a form: an object whose properties are primitive values, in the
// order of display. [ElicitParams.RequestedSchema] contains its JSON.
type ElicitSchema struct {
	// Schema is the dialect, $schema. Since 2025-11-25.
	Schema string `json:"$schema,omitempty"`
	// Type is "object". The empty string is encoded as "object".
	Type string `json:"type"`
	// Properties are the fields of the form.
	Properties ElicitProperties `json:"properties"`
	// Required are the names of the required properties.
	Required []string `json:"required,omitzero"`
}

// ParseElicitSchema decodes the schema of a form. It returns an error unless raw is an object schema
// whose properties all fit [PrimitiveSchema]. It does not validate content. Minimum and Maximum lose
// precision beyond 2^53, so validate content against raw.
func ParseElicitSchema(raw json.RawMessage) (*ElicitSchema, error) {
	var s ElicitSchema
	if err := decode(raw, &s); err != nil {
		return nil, fmt.Errorf("requested schema: %w", err)
	}
	if s.Type != "object" {
		return nil, fmt.Errorf("requested schema: type must be \"object\", got %q", s.Type)
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

// ElicitProperties are the fields of a form in the order of display. They are an object in JSON, so
// their names must be unique.
type ElicitProperties []ElicitProperty

// ElicitProperty is a field of a form.
type ElicitProperty struct {
	// Name is the name of the property.
	Name string
	// Schema describes the value.
	Schema PrimitiveSchema
}

// MarshalJSON implements json.Marshaler. It preserves the order.
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

// UnmarshalJSON implements json.Unmarshaler. It preserves the order.
func (p *ElicitProperties) UnmarshalJSON(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if start, err := dec.ReadToken(); err != nil {
		return err
	} else if start.Kind() != '{' {
		return errors.New("the properties of a form must be a JSON object")
	}
	properties := ElicitProperties{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		property := ElicitProperty{Name: name.String()}
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := withoutContent.decode(raw, &property.Schema); err != nil {
			return fmt.Errorf("property %q: %w", property.Name, err)
		}
		properties = append(properties, property)
	}
	*p = properties
	return nil
}

// PrimitiveSchema describes a field of a form: a string, a number, a boolean, a single choice or a
// multiple choice. A single choice has Enum or OneOf. A multiple choice has Items, and its type is
// [TypeArray]. [PrimitiveSchema.Options] returns the options of a choice.
type PrimitiveSchema struct {
	// Type is one of the Type constants.
	Type PrimitiveType `json:"type"`
	// Title is the label of the field.
	Title string `json:"title,omitempty"`
	// Description explains the field.
	Description string `json:"description,omitempty"`
	// Default is the default value, JSON of the type. Nil means none. Since 2025-11-25; for booleans
	// since 2025-06-18.
	Default json.RawMessage `json:"default,omitzero"`

	// MinLength is the minimum length in characters. Strings only.
	MinLength *int64 `json:"minLength,omitzero"`
	// MaxLength is the maximum length in characters. Strings only.
	MaxLength *int64 `json:"maxLength,omitzero"`
	// Format is one of the Format constants. Strings only.
	Format StringFormat `json:"format,omitempty"`

	// Minimum is the smallest allowed value. Numbers and integers only.
	Minimum *float64 `json:"minimum,omitzero"`
	// Maximum is the largest allowed value. Numbers and integers only.
	Maximum *float64 `json:"maximum,omitzero"`

	// Enum are the values of a single choice.
	Enum []string `json:"enum,omitzero"`
	// EnumNames are the labels of Enum, in the same order. They are not JSON Schema. They are the only
	// labels in 2025-06-18; later revisions have OneOf.
	EnumNames []string `json:"enumNames,omitzero"`
	// OneOf are the options of a single choice, with labels. Since 2025-11-25.
	OneOf []EnumOption `json:"oneOf,omitzero"`

	// Items are the options of a multiple choice. Since 2025-11-25.
	Items *EnumItems `json:"items,omitzero"`
	// MinItems is the minimum number of selected options. Multiple choice only. Since 2025-11-25.
	MinItems *int64 `json:"minItems,omitzero"`
	// MaxItems is the maximum number of selected options. Multiple choice only. Since 2025-11-25.
	MaxItems *int64 `json:"maxItems,omitzero"`
}

// PrimitiveType is the type of a field of a form.
type PrimitiveType string

// Values of [PrimitiveSchema.Type].
const (
	TypeString  PrimitiveType = "string"
	TypeNumber  PrimitiveType = "number"
	TypeInteger PrimitiveType = "integer"
	TypeBoolean PrimitiveType = "boolean"
	TypeArray   PrimitiveType = "array" // a multiple choice
)

// StringFormat is the format of a text in a form.
type StringFormat string

// Values of [PrimitiveSchema.Format].
const (
	FormatEmail    StringFormat = "email"
	FormatURI      StringFormat = "uri"
	FormatDate     StringFormat = "date"
	FormatDateTime StringFormat = "date-time"
)

// EnumItems are the options of a multiple choice: either Enum, or AnyOf with labels. Since 2025-11-25.
type EnumItems struct {
	// Type is "string". With Enum only.
	Type string `json:"type,omitempty"`
	// Enum are the values.
	Enum []string `json:"enum,omitzero"`
	// AnyOf are the options.
	AnyOf []EnumOption `json:"anyOf,omitzero"`
}

// EnumOption is an option of a choice.
type EnumOption struct {
	// Const is the value.
	Const string `json:"const"`
	// Title is the label.
	Title string `json:"title"`
}

// Options returns the options of a single or multiple choice, or nil if s is not a choice. The title of
// an option without a label is its value.
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

// check returns an error if s cannot be a field of a form.
func (s *PrimitiveSchema) check() error {
	switch s.Type {
	case TypeString, TypeNumber, TypeInteger, TypeBoolean:
		return nil
	case TypeArray:
		if len(s.Options()) == 0 {
			return errors.New("an array must have items with enum or anyOf")
		}
		return nil
	default:
		return fmt.Errorf("type must be string, number, integer, boolean or array, got %q", s.Type)
	}
}

// MaxElicitURL is the maximum length of an [ElicitParams.URL], in bytes.
const MaxElicitURL = 8 << 10

// ParseElicitURL parses an [ElicitParams.URL] and checks that a client can show it to its user. The
// URL must use https, or http to the loopback interface. It must have a host, must not contain
// credentials or invisible characters, and must not exceed [MaxElicitURL]. The function does not
// detect other deceptive URLs, such as hosts in Punycode. (2025-11-25 and 2026-07-28,
// client/elicitation, Safe URL Handling.)
func ParseElicitURL(address string) (*url.URL, error) {
	if len(address) > MaxElicitURL {
		return nil, fmt.Errorf("URL is too long: %d bytes, the limit is %d", len(address), MaxElicitURL)
	}
	if strings.ContainsFunc(address, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsGraphic(r) || r == unicode.ReplacementChar
	}) {
		return nil, errors.New("URL must not contain spaces or invisible characters")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot parse URL: %w", errors.Unwrap(err)) // the outer error repeats the URL
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("URL scheme must be https, got %.16q", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("URL must have a host")
	case u.User != nil:
		return nil, errors.New("URL must not contain credentials")
	case !httpurl.IsSecure(u):
		return nil, errors.New("URL must use https: http is allowed only to the loopback interface")
	}
	return u, nil
}

// InputRequiredResult is a result of tools/call, prompts/get and resources/read that asks the client
// for input. The client obtains the input and sends the request again with [InputParams]. At least
// one of the fields is present. Since 2026-07-28 (basic/patterns/mrtr).
type InputRequiredResult struct {
	ResultBase // ResultType is [ResultTypeInputRequired]

	// InputRequests are the inputs that the server needs.
	InputRequests InputRequests `json:"inputRequests,omitzero"`
	// RequestState is state that the client returns unchanged. If it is nil, the client omits it.
	RequestState *string `json:"requestState,omitzero"`
}

// InputRequests are requests for input. The server chooses the keys.
type InputRequests map[string]InputRequest

// InputRequest is a request for input. In earlier revisions the server sends the same method and
// parameters to the client in a request.
type InputRequest struct {
	// Method is [MethodElicit], [MethodCreateMessage] or [MethodListRoots].
	Method string `json:"method"`
	// Params are the parameters of the method, as JSON: [ElicitParams], [CreateMessageParams] or
	// [EmptyParams].
	Params json.RawMessage `json:"params,omitzero"`
}

// InputResponses are the results of [InputRequests], with the same keys. A value is the JSON of an
// [ElicitResult], a [CreateMessageResult] or a [ListRootsResult].
type InputResponses map[string]json.RawMessage

// InputParams are the additional parameters of a request that is sent again with input. Since
// 2026-07-28.
type InputParams struct {
	// InputResponses are the results of the input requests.
	InputResponses InputResponses `json:"inputResponses,omitzero"`
	// RequestState is [InputRequiredResult.RequestState], unchanged.
	RequestState *string `json:"requestState,omitzero"`
}
