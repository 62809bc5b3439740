package mcp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

const form = `{"type":"object","properties":{` +
	`"zip":{"type":"string","title":"ZIP code","minLength":5,"maxLength":5},` +
	`"age":{"type":"integer","default":7,"minimum":0,"maximum":150},` +
	`"member":{"type":"boolean","default":true},` +
	`"color":{"type":"string","enum":["r","g"]},` +
	`"named":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},` +
	`"titled":{"type":"string","oneOf":[{"const":"r","title":"Red"}]},` +
	`"several":{"type":"array","items":{"type":"string","enum":["r","g"]},"minItems":1},` +
	`"severalTitled":{"type":"array","default":["r"],"items":{"anyOf":[{"const":"r","title":"Red"}]}}},` +
	`"required":["zip"]}`

func TestFormPreservesOrderOfProperties(t *testing.T) {
	if err := spec.Validate(mcp.Latest, "ElicitRequestFormParams", []byte(`{"message":"a","requestedSchema":`+form+`}`)); err != nil {
		t.Fatal(err)
	}
	schema, err := mcp.ParseElicitSchema([]byte(form))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range schema.Properties {
		names = append(names, p.Name)
	}
	if got, want := strings.Join(names, " "), "zip age member color named titled several severalTitled"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, codec := range codecs {
		raw, err := codec.marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		if string(raw) != form {
			t.Errorf("%s: got\n%s\nwant\n%s", codec.name, raw, form)
		}
	}
}

func TestOptionsSupportsAllFormsOfChoices(t *testing.T) {
	schema, err := mcp.ParseElicitSchema([]byte(form))
	if err != nil {
		t.Fatal(err)
	}
	red, green := mcp.EnumOption{Const: "r", Title: "Red"}, mcp.EnumOption{Const: "g", Title: "Green"}
	r, g := mcp.EnumOption{Const: "r", Title: "r"}, mcp.EnumOption{Const: "g", Title: "g"}
	want := map[string][]mcp.EnumOption{
		"color":         {r, g},
		"named":         {red, green},
		"titled":        {red},
		"several":       {r, g},
		"severalTitled": {red},
	}
	for _, p := range schema.Properties {
		if diff := cmp.Diff(want[p.Name], p.Schema.Options()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.Name, diff)
		}
	}
}

func TestFormMustBeFlat(t *testing.T) {
	for _, raw := range []string{
		`{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}`,
		`{"type":"object","properties":{"a":{"type":"array"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"type":"object","properties":{"a":{}}}`,
		`{"type":"object","properties":{"a":true}}`,
		`{"type":"object","properties":{"a":{"type":["string","null"]}}}`,
		`{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"string"}}}`,
		`{"type":"object","properties":[]}`,
		`{"type":"array","properties":{}}`,
		`{"properties":{}}`,
		`true`,
		`null`,
		``,
	} {
		if schema, err := mcp.ParseElicitSchema([]byte(raw)); err == nil {
			t.Errorf("accepted %s as %+v", raw, schema)
		}
	}
}

func TestAcceptElicitRequiresObject(t *testing.T) {
	result, err := mcp.AcceptElicit(map[string]any{"age": int64(9007199254740993)})
	if err != nil {
		t.Fatal(err)
	}
	for _, codec := range codecs {
		raw, err := codec.marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"action":"accept","content":{"age":9007199254740993}}`; string(raw) != want {
			t.Errorf("%s: got %s, want %s", codec.name, raw, want)
		}
	}
	for _, content := range []any{nil, 1, "a", []string{"a"}, make(chan int)} {
		if _, err := mcp.AcceptElicit(content); err == nil {
			t.Errorf("accepted %v", content)
		}
	}
}
