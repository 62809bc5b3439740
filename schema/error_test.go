package schema

import (
	"strings"
	"testing"
)

func TestErrorsNameFaultAndRemedy(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{`{"$schema":"urn:x"}`, `schema: unknown dialect "urn:x"; use https://json-schema.org/draft/2020-12/schema or leave $schema out`},
		{`{"$ref":"other.json"}`, `schema: reference "other.json": leads outside of the schema document; put its target under $defs`},
		{`{"$ref":"#/a"}`, `schema: reference "#/a": leads nowhere`},
		{`{"$ref":"#"}`, `schema: reference "$ref": leads back to itself; let it pass through a property or an element`},
		{`{"$anchor":"a","properties":{"b":{"$ref":"#c"}}}`, `schema: reference "#c": leads nowhere`},
		{`5`, `schema: not a valid JSON Schema: the schema must be an object or a boolean, not number 5`},
		{`{"type":"objekt"}`, `schema: not a valid JSON Schema: /type must be one of "array", "boolean", "integer", "null", "number", "object", "string", not string "objekt"`},
		{`{"properties":{"a/b":{"items":[true]}}}`, `schema: not a valid JSON Schema: /properties/a~1b/items must be an object or a boolean, not array of 1 item`},
		{`{"allOf":[true,{"required":["a",5]}]}`, `schema: not a valid JSON Schema: /allOf/1/required/1 must be a string, not number 5`},
		{`{"$ref":"#/title","title":"t"}`, `schema: reference "#/title": leads to string "t", which is not a schema`},
		{`{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}`, `schema: not a valid JSON Schema: two subschemas have the identifier "parley:///x"`},
		{`{"pattern":"` + strings.Repeat("a", 5000) + `"}`, `schema: limit exceeded: bytes of a regular expression must be at most 4096`},
		{`{"properties":`, `value/properties: expected valid JSON, got end of input at byte 14`},
	} {
		_, err := Compile([]byte(test.schema))
		if err == nil || err.Error() != test.want {
			t.Errorf("%.60s\n got %v\nwant %s", test.schema, err, test.want)
		}
	}
	_, err := For[struct{ Amount, Odd complex128 }]()
	if want := "schema: struct { Amount complex128; Odd complex128 }.Amount: the type complex128 has no JSON form; leave the field out with `json:\"-\"`"; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	_, err = Headers([]byte(`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`))
	if want := `schema: x-mcp-header at /properties/a: type must be "string", "integer" or "boolean"`; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}
