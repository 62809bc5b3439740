package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

func TestEveryDefinitionAndPropertyHasAGoType(t *testing.T) {
	for _, rev := range append(mcp.Revisions(), spec.Tasks) {
		t.Run(string(rev), func(t *testing.T) {
			for _, gap := range findGaps(typesOf(rev), spec.Definitions(rev)) {
				t.Error(gap)
			}
		})
	}
}

func TestEveryVocabularyEntryIsInASchema(t *testing.T) {
	defined := map[string]bool{}
	for _, rev := range append(mcp.Revisions(), spec.Tasks) {
		for name := range spec.Definitions(rev) {
			defined[name] = true
		}
	}
	for name := range vocabulary {
		must.CheckThat(t, defined[name], "no schema defines %s", name)
	}
	for name := range without {
		must.CheckThat(t, defined[name], "no schema defines %s", name)
	}
}

// This tests the check of TestEveryDefinitionAndPropertyHasAGoType.
func TestFindGapsReportsEachKindOfGap(t *testing.T) {
	types := map[string]reflect.Type{
		"Known": reflect.TypeFor[struct {
			Name  string `json:"name"`
			Count string `json:"count"`
			Title string `json:"title"`
			Inner struct {
				A int64 `json:"a"`
			} `json:"inner"`
			Text mcp.TextContent `json:"text"`
		}](),
		"Text": reflect.TypeFor[mcp.ImageContent](),
	}
	definitions := map[string]json.RawMessage{
		"Known": json.RawMessage(`{
			"type": "object",
			"properties": {
				"name": {"type": "string"},
				"count": {"type": "integer"},
				"title": {"type": "string"},
				"missing": {"type": "string"},
				"inner": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
				"text": {"$ref": "#/definitions/Text"}
			},
			"required": ["name", "count", "inner", "text"]
		}`),
		"Text":    json.RawMessage(`{"type": "object"}`),
		"Unknown": json.RawMessage(`{"type": "object"}`),
	}
	want := []string{
		"Known.count: integer in a Go string",
		"Known.inner.b: no Go field",
		"Known.missing: no Go field",
		"Known.text: mcp.TextContent for Text, want mcp.ImageContent",
		"Known.title: optional, but always encoded",
		"Unknown: no Go type",
	}
	got := findGaps(types, definitions)
	must.CheckThat(t, slices.Equal(got, want), "got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func typesOf(rev mcp.Revision) map[string]reflect.Type {
	types := maps.Clone(vocabulary)
	if rev == spec.Tasks {
		maps.Copy(types, extensionTasks)
	} else {
		maps.Copy(types, legacyTasks)
	}
	return types
}

// findGaps returns descriptions of the definitions and properties that the Go types do not represent,
// sorted.
func findGaps(types map[string]reflect.Type, definitions map[string]json.RawMessage) []string {
	c := coverage{types: types, definitions: make(map[string]schema)}
	for name, raw := range definitions {
		var s schema
		if err := json.Unmarshal(raw, &s); err != nil {
			return []string{fmt.Sprintf("%s: %v", name, err)}
		}
		c.definitions[name] = s
	}
	for name, s := range c.definitions {
		if _, ok := without[name]; ok {
			continue
		}
		goType, ok := types[name]
		if !ok {
			c.gap(name, "no Go type")
			continue
		}
		c.definition(name, s, goType)
	}
	slices.Sort(c.gaps)
	return slices.Compact(c.gaps)
}

type coverage struct {
	types       map[string]reflect.Type
	definitions map[string]schema
	gaps        []string
}

// schema is the part of JSON Schema that describes structure in the official schemas.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Const      any               `json:"const"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	AllOf      []schema          `json:"allOf"`
	AnyOf      []schema          `json:"anyOf"`
}

// UnmarshalJSON also accepts the schemas true and false.
func (s *schema) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil
	}
	type plain schema
	return json.Unmarshal(data, (*plain)(s))
}

func (c *coverage) gap(where, format string, args ...any) {
	c.gaps = append(c.gaps, where+": "+fmt.Sprintf(format, args...))
}

// definition checks a top-level definition. If it is a message, goType represents its params or the data
// of its error.
func (c *coverage) definition(name string, s schema, goType reflect.Type) {
	for _, part := range s.AllOf {
		if part.Ref == "" {
			c.definition(name, part, goType)
		}
	}
	if s.Properties["method"].Const != nil || strings.HasSuffix(name, "Request") ||
		strings.HasSuffix(name, "Notification") {
		if goType != reflect.TypeFor[mcp.InputRequest]() {
			c.check(name+".params", s.Properties["params"], goType)
			return
		}
	}
	if e, ok := s.Properties["error"]; ok && len(e.AllOf) > 0 {
		for _, part := range e.AllOf {
			c.check(name+".error.data", part.Properties["data"], goType)
		}
		return
	}
	c.check(name, s, goType)
}

// check reports the parts of s that goType does not represent.
func (c *coverage) check(where string, s schema, goType reflect.Type) {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if strings.HasSuffix(where, ".requestedSchema") {
		goType = reflect.TypeFor[mcp.ElicitSchema]()
	}
	if opaque(goType) {
		return
	}
	if s.Ref != "" {
		c.reference(where, path.Base(s.Ref), goType)
		return
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf) {
		c.check(where, part, goType)
	}
	if problem := misfit(s.Type, goType); problem != "" {
		c.gap(where, "%s in a Go %s", problem, goType)
		return
	}
	if s.Items != nil {
		c.check(where+"[]", *s.Items, goType.Elem())
	}
	if goType.Kind() != reflect.Struct {
		return
	}
	for name, property := range s.Properties {
		if name == "type" && isContent(goType) || name == "jsonrpc" {
			continue // implied by the Go type
		}
		field, ok := fieldFor(goType, name)
		if !ok {
			c.gap(where+"."+name, "no Go field")
			continue
		}
		if !slices.Contains(s.Required, name) && !omittable(field) {
			c.gap(where+"."+name, "optional, but always encoded")
		}
		c.check(where+"."+name, property, field.Type)
	}
}

// reference checks that goType represents the definition of name: it is the type in the vocabulary, or
// has the same structure.
func (c *coverage) reference(where, name string, goType reflect.Type) {
	want, ok := c.types[name]
	switch {
	case !ok:
		c.check(where, c.definitions[name], goType)
	case want == goType, strings.HasPrefix(name, "Empty"):
	case want.Kind() == reflect.Struct && goType.Kind() == reflect.Struct && !embeds(goType, want) && !isParams(name):
		c.gap(where, "%s for %s, want %s", goType, name, want)
	default:
		c.check(where, c.definitions[name], goType)
	}
}

// isParams reports whether a definition describes params, or is a base type that the checked type
// embeds.
func isParams(definition string) bool {
	return strings.HasSuffix(definition, "Params") || definition == "Result" || definition == "RequestMetaObject"
}

func embeds(goType, embedded reflect.Type) bool {
	for _, field := range reflect.VisibleFields(goType) {
		if field.Anonymous && field.Type == embedded {
			return true
		}
	}
	return false
}

// opaque reports whether a type holds arbitrary JSON, or has its own test.
func opaque(goType reflect.Type) bool {
	switch goType {
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[mcp.Meta](), reflect.TypeFor[mcp.Content](),
		reflect.TypeFor[[]mcp.Content](), reflect.TypeFor[jsonrpc.ID](), reflect.TypeFor[mcp.InputRequest]():
		return true
	}
	return false
}

// misfit returns jsonType if goType cannot represent it, and "" otherwise.
func misfit(jsonType any, goType reflect.Type) string {
	switch jsonType {
	case "string":
		if goType.Kind() != reflect.String && goType != reflect.TypeFor[[]byte]() {
			return "string"
		}
	case "integer":
		if goType.Kind() != reflect.Int64 {
			return "integer"
		}
	case "number":
		if goType.Kind() != reflect.Float64 {
			return "number"
		}
	case "boolean":
		if goType.Kind() != reflect.Bool {
			return "boolean"
		}
	case "array":
		if goType.Kind() != reflect.Slice && goType != reflect.TypeFor[mcp.PrimitiveSchema]() {
			return "array"
		}
	case "object":
		if goType.Kind() != reflect.Struct && goType.Kind() != reflect.Map &&
			goType != reflect.TypeFor[mcp.ElicitProperties]() {
			return "object"
		}
	}
	return ""
}

func isContent(goType reflect.Type) bool {
	return reflect.PointerTo(goType).Implements(reflect.TypeFor[mcp.Content]())
}

// fieldFor returns the field of goType, or of an embedded type, with a JSON name.
func fieldFor(goType reflect.Type, name string) (reflect.StructField, bool) {
	for _, field := range reflect.VisibleFields(goType) {
		if tagged, _, _ := strings.Cut(field.Tag.Get("json"), ","); tagged == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

// omittable reports whether encoding omits an empty field.
func omittable(field reflect.StructField) bool {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	return options == "omitzero" || options == "omitempty"
}
