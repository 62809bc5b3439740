package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeadersAreInDocumentOrder(t *testing.T) {
	got, err := Headers([]byte(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"query":{"type":"string"},
		"options":{"type":"object","properties":{
			"dry/run":{"x-mcp-header":"Dry-Run","type":"boolean"},
			"limit":{"type":"integer","x-mcp-header":"!#$%&'*+-.^_` + "`" + `|~9"}}},
		"x-mcp-header":{"type":"string","default":{"x-mcp-header":"data"},"enum":[{"x-mcp-header":""}],"examples":[{"x-mcp-header":1}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []HeaderParam{
		{Name: "Region", Path: []string{"region"}, Type: "string"},
		{Name: "Dry-Run", Path: []string{"options", "dry/run"}, Type: "boolean"},
		{Name: "!#$%&'*+-.^_`|~9", Path: []string{"options", "limit"}, Type: "integer"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, none := range []string{`{}`, `true`, `{"properties":{"a":{"type":"string"}}}`} {
		if got, err := Headers([]byte(none)); err != nil || got != nil {
			t.Errorf("%s: %v, %v", none, got, err)
		}
	}
}

func TestHeaderConstraintsAreEnforced(t *testing.T) {
	property := func(schema string) string { return `{"properties":{"p":` + schema + `}}` }
	for _, test := range []struct{ schema, pointer, reason string }{
		{property(`{"type":"string","x-mcp-header":""}`), "/properties/p", "empty"},
		{property(`{"type":"string","x-mcp-header":5}`), "/properties/p", "must be a string"},
		{property(`{"type":"string","x-mcp-header":"a b"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"a:"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"é"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"a\r\nb"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"string","x-mcp-header":"a\u0000"}`), "/properties/p", "must be a header name"},
		{property(`{"type":"number","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":"object","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":"array","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":"null","x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"type":["string","integer"],"x-mcp-header":"A"}`), "/properties/p", "type"},
		{property(`{"x-mcp-header":"A"}`), "/properties/p", "type"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"A"}}}`, "/properties/b", "must be unique"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"AB"},"b":{"type":"string","x-mcp-header":"aB"}}}`, "/properties/b", "must be unique"},
		{`{"type":"string","x-mcp-header":"A"}`, "", "root"},
		{property(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`), "/properties/p/items", "must be reachable"},
		{property(`{"prefixItems":[true,{"type":"string","x-mcp-header":"A"}]}`), "/properties/p/prefixItems/1", "must be reachable"},
		{property(`{"oneOf":[{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}]}`), "/properties/p/oneOf/0/properties/q", "must be reachable"},
		{`{"allOf":[{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}]}`, "/allOf/0/properties/q", "must be reachable"},
		{`{"not":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/not/properties/q", "must be reachable"},
		{`{"if":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/if/properties/q", "must be reachable"},
		{`{"then":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/then/properties/q", "must be reachable"},
		{`{"additionalProperties":{"type":"string","x-mcp-header":"A"}}`, "/additionalProperties", "must be reachable"},
		{`{"patternProperties":{"^a":{"type":"string","x-mcp-header":"A"}}}`, "/patternProperties/^a", "must be reachable"},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}}`, "/$defs/a/properties/q", "must be reachable"},
		{`{"x-custom":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`, "/x-custom/properties/q", "must be reachable"},
	} {
		got, err := Headers([]byte(test.schema))
		var bad *HeaderError
		if !errors.As(err, &bad) || bad.Pointer != test.pointer || !strings.Contains(bad.Reason, test.reason) {
			t.Errorf("%s: %v, %v, want %q at %q", test.schema, got, err, test.reason, test.pointer)
		}
	}
	for _, schema := range []string{
		`{"properties":{` + repeated(101, `"a%d":{"type":"string","x-mcp-header":"A%[1]d"}`) + `}}`,
		property(`{"properties":{"` + strings.Repeat("x", 9<<10) + `":{"type":"string","x-mcp-header":"A"}}}`),
	} {
		var bad *HeaderError
		if _, err := Headers([]byte(schema)); !errors.As(err, &bad) || len(err.Error()) > 2048 {
			t.Errorf("%v, want a short *HeaderError", err)
		}
	}
	var invalid *ValidationError
	if _, err := Headers([]byte(`{"properties":{},"properties":{}}`)); !errors.As(err, &invalid) {
		t.Errorf("%v, want a *ValidationError", err)
	}
}

// FuzzXMCPHeaderSchema checks that each annotation of an accepted schema is the one that the document has at its path, and
// holds the constraints: a token that is unique without regard to case, on a string, an integer or a boolean.
func FuzzXMCPHeaderSchema(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"B"}}}}}`))
	f.Add([]byte(`{"items":{"type":"string","x-mcp-header":"A"}}`))
	f.Add([]byte(`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`))
	f.Add([]byte(`{"properties":{"a":{"type":"boolean","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`))
	f.Add([]byte(`{"properties":{"a":{"type":"boolean","x-mcp-header":"a"},"b":{"type":"string","x-mcp-header":"A"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		params, err := Headers(raw)
		if err != nil {
			return
		}
		d := &document{}
		if err := d.scan(raw); err != nil {
			t.Fatal(err)
		}
		if len(params) > maxHeaders {
			t.Fatalf("%d annotations are accepted", len(params))
		}
		taken := map[string]bool{}
		for _, p := range params {
			if p.Type != "string" && p.Type != "integer" && p.Type != "boolean" {
				t.Fatalf("%s: %+v", raw, p)
			}
			pointer := []byte{}
			for _, name := range p.Path {
				pointer = appendPointer(append(pointer, "/properties"...), name)
			}
			at, ok := d.at(string(pointer))
			if !ok {
				t.Fatalf("%s: nothing at %s", raw, pointer)
			}
			name, _ := d.member(at, "x-mcp-header")
			typ, _ := d.member(at, "type")
			if d.Text(name) != p.Name || d.Text(typ) != p.Type || !isToken(p.Name) || taken[strings.ToLower(p.Name)] {
				t.Fatalf("%s: %+v", raw, p)
			}
			taken[strings.ToLower(p.Name)] = true
		}
	})
}

func ExampleHeaders() {
	params, err := Headers([]byte(`{"type": "object", "properties": {
		"region": {"type": "string", "x-mcp-header": "Region"},
		"query": {"type": "string"}}}`))
	for _, p := range params {
		fmt.Println(p.Name, p.Path, p.Type)
	}
	fmt.Println(err)
	// Output:
	// Region [region] string
	// <nil>
}
