package schema

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

func compile(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := Compile([]byte(schema))
	must.Do(t, err, schema)
	return s
}

func TestMessagesNamePlaceExpectationAndValue(t *testing.T) {
	for _, test := range []struct{ schema, instance, want string }{
		{`{"properties":{"age":{"type":"integer"}}}`, `{"age":"abc"}`,
			`arguments/age: expected integer, got string "abc"`},
		{`{"type":"object"}`, `[1,2]`, `arguments: expected object, got array of 2 items`},
		{`{"type":["string","null"]}`, `true`, `arguments: expected string or null, got boolean true`},
		{`{"required":["a/b"],"properties":{"a/b":{"type":"string"}}}`, `{}`,
			`arguments/a~1b: expected string, got nothing; it is required`},
		{`{"required":["a"]}`, `{}`, `arguments/a: expected a value, got nothing; it is required`},
		{`{"properties":{"text":{},"count":{}},"additionalProperties":false}`, `{"txet":1}`,
			`arguments/txet: expected one of the properties "text", "count", got unknown property "txet"`},
		{`{"additionalProperties":false}`, `{"x":1}`, `arguments/x: expected no property, got unknown property "x"`},
		{`{"properties":{"unit":{"enum":["C","F",1]}}}`, `{"unit":"K"}`,
			`arguments/unit: expected one of "C", "F", 1, got string "K"`},
		{`{"const":{"a":1}}`, `null`, `arguments: expected object with 1 property, got null`},
		{`{"minimum":1,"maximum":5}`, `9007199254740993`, `arguments: expected at most 5, got number 9007199254740993`},
		{`{"exclusiveMinimum":1.5}`, `1.5`, `arguments: expected more than 1.5, got number 1.5`},
		{`{"multipleOf":0.5}`, `0.7`, `arguments: expected multiple of 0.5, got number 0.7`},
		{`{"minLength":3}`, `"é"`, `arguments: expected at least 3 characters, got 1 in string "é"`},
		{`{"pattern":"^a"}`, `"b"`, `arguments: expected string matching "^a", got string "b"`},
		{`{"minItems":1}`, `[]`, `arguments: expected at least 1 item, got array of 0 items`},
		{`{"uniqueItems":true}`, `[1,2,1.0]`,
			`arguments: expected different items, got equal items 0 and 2 in array of 3 items`},
		{`{"maxProperties":1}`, `{"a":1,"b":2}`, `arguments: expected at most 1 property, got object with 2 properties`},
		{`{"items":{"properties":{"zip":{"type":"string"}}}}`, `[{},{"zip":0}]`,
			`arguments/1/zip: expected string, got number 0`},
		{`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `null`, `arguments: expected string or integer, got null`},
		{`{"anyOf":[{"type":"string","minLength":3},{"type":"integer"}]}`, `"a"`,
			`arguments: expected at least 3 characters, got 1 in string "a"`},
		{`{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}}},{"properties":{"kind":{"const":"b"},` +
			`"y":{"type":"string"}}}]}`,
			`{"kind":"b","y":1}`, `arguments/y: expected string, got number 1`},
		{`{"anyOf":[{"const":"a"},{"const":"b"}]}`, `"c"`, `arguments: expected "a" or "b", got string "c"`},
		{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`,
			`arguments: expected a value that matches exactly one of 2 alternatives, got number 3 that matches ` +
				`numbers 1 and 2`},
		{`{"not":{"type":"string"}}`, `"a"`, `arguments: expected a value that does not match "not", got string "a"`},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`,
			`arguments/b: expected a value, got nothing; it is required`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`,
			`arguments/b: expected a value, required by the property "a", got nothing`},
		{`{"contains":{"const":1}}`, `[2]`,
			`arguments: expected at least 1 item matching "contains", got 0 in array of 1 item`},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`,
			`arguments/ab: expected at most 1 character, got 2 in string "ab"`},
		{`false`, `1`, `arguments: expected nothing, got number 1`},
		{`true`, `{"a":1,"a":2}`, `arguments/a: expected each property once, got the property "a" twice`},
		{`true`, `{"a":[1,{"b":1,"\u0062":2}]}`,
			`arguments/a/1/b: expected each property once, got the property "b" twice`},
		{`true`, `{"a":[1,2,x]}`, `arguments/a/2: expected valid JSON, got unexpected 'x' at byte 10`},
		{`true`, `{"a":{"b":1},"c":}`, `arguments/c: expected valid JSON, got unexpected '}' at byte 17`},
		{`true`, `1 2`, `arguments: expected valid JSON, got bytes after the value at byte 2`},
		{`true`, ``, `arguments: expected valid JSON, got end of input at byte 0`},
		{`true`, "\"\xff\"", `arguments: expected valid UTF-8, got an invalid byte at byte 1`},
		{`true`, `"\ud800"`, `arguments: expected valid JSON, got lone surrogate at byte 1`},
		{`{"unevaluatedProperties":false,"properties":{"age":{"type":"integer"}},"required":["name"]}`, `{"age":"abc"}`,
			`arguments/age: expected integer, got string "abc"; arguments/name: expected a value, got nothing; it is ` +
				`required`},
		{`{"unevaluatedProperties":false}`, `{"x":[1]}`,
			`arguments/x: expected no such property, got unknown property "x"`},
		{`{"unevaluatedProperties":{"type":"string"}}`, `{"x":[1]}`,
			`arguments/x: expected string, got array of 1 item`},
		{`{"unevaluatedItems":false}`, `[1]`, `arguments/0: expected nothing, got number 1`},
		{`{"unevaluatedItems":true,"minItems":2}`, `[1]`, `arguments: expected at least 2 items, got array of 1 item`},
	} {
		err := compile(t, test.schema).Validate([]byte(test.instance))
		var invalid *ValidationError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %s: %v, want a *ValidationError", test.schema, test.instance, err)
			continue
		}
		must.CheckEqual(t, invalid.Describe("arguments"), test.want, test.schema, test.instance)
	}
}

func TestIssuesAreBoundedInNumberAndLength(t *testing.T) {
	s := compile(t, `{"items":{"type":"integer"}}`)
	err := s.Validate([]byte(`[` + strings.Repeat(`"`+strings.Repeat("é", 1000)+`",`, 100) + `0]`))
	var invalid *ValidationError
	must.That(t, errors.As(err, &invalid) && len(invalid.Issues) == 8, "got %v, want 8 issues", err)
	must.CheckEqual(t, invalid.Issues[0].Got, `string "`+strings.Repeat("é", 32)+`"…`)
}

func TestMessagesContainNoControlCharacters(t *testing.T) {
	s := compile(t, `{"additionalProperties":{"type":"integer"}}`)
	err := s.Validate([]byte(`{"\u001b[31m\u202ename\n":"\u001b]0;title\u0007\u2028"}`))
	must.That(t, err != nil, "the instance is valid")
	for _, r := range err.Error() {
		if !unicode.IsPrint(r) {
			t.Errorf("%U in %q", r, err.Error())
		}
	}
	var invalid *ValidationError
	if errors.As(err, &invalid); invalid.Issues[0].Path != "/\x1b[31m\u202ename\n" {
		t.Errorf("the path %q is not exact", invalid.Issues[0].Path)
	}
}

func TestCompiledSchemaKeepsItsBytes(t *testing.T) {
	raw := []byte(" {\n\"type\" : \"object\", \"x\": 1.0e0 }\n")
	s := compile(t, string(raw))
	must.CheckEqual(t, cmp.Diff(string(raw), string(s.JSON())), "")
	copied := append([]byte(nil), raw...)
	s = must.Get(Compile(copied))(t)
	clear(copied)
	must.CheckEqual(t, string(s.JSON()), string(raw))
}

func TestIsObjectReportsTheTypeOfTheRoot(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object"}`: true,
		`{"type":"object","unevaluatedProperties":false}`: true,
		`{"type":["object"]}`:                             false,
		`{"properties":{}}`:                               false,
		`{"type":"array"}`:                                false,
		`true`:                                            false,
		`{"allOf":[{"type":"object"}]}`:                   false,
	} {
		must.CheckEqual(t, compile(t, schema).IsObject(), want, schema)
	}
}

func TestInvalidSchemasAreRejected(t *testing.T) {
	for _, schema := range []string{
		`1`, `null`, `"x"`, `[]`, `{"type":"objekt"}`, `{"type":[]}`, `{"properties":[]}`, `{"required":"a"}`,
		`{"required":["a","a"]}`,
		`{"minLength":-1}`, `{"minLength":1.5}`, `{"anyOf":[]}`, `{"multipleOf":0}`, `{"items":[{}]}`,
		`{"title":5}`, `{"additionalProperties":1}`, `{"minimum":"1"}`, `{"$defs":{"a":{"type":"x"}}}`, `{"enum":1}`,
		`{"uniqueItems":1}`,
		`{"$ref":5}`, `{"$anchor":"1"}`, `{"$id":"#a"}`, `{"$schema":5}`,
	} {
		_, err := Compile([]byte(schema))
		var invalid *invalidSchemaError
		must.CheckThat(t, errors.As(err, &invalid), "%s: %v, want an *invalidSchemaError", schema, err)
	}
	for _, raw := range []string{``, `{`, `{"a":1,"a":2}`, "\"\xff\"", `{"type":"object"} x`} {
		_, err := Compile([]byte(raw))
		var invalid *ValidationError
		must.CheckThat(t, errors.As(err, &invalid), "%q: %v, want a *ValidationError", raw, err)
	}
}

func TestSchemasAreSafeForConcurrentUse(t *testing.T) {
	fast := compile(t, fixture2020)
	slow := compile(t,
		`{"$schema":"http://json-schema.org/draft-06/schema","properties":{"a":{"pattern":"^\\(.+\\)$"},`+
			`"b":{"pattern":"^x"}}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				must.Check(t, fast.Validate([]byte(`{"email":"x","address":{"city":"y"}}`)))
				must.CheckThat(t, fast.Validate([]byte(`{"email":1}`)) != nil &&
					slow.Validate([]byte(`{"a":"("}`)) != nil, "an invalid instance is valid")
				must.Check(t, slow.Validate([]byte(`{"a":"(a)","b":"x"}`)))
			}
		})
	}
	wg.Wait()
}

func TestValidateKeepsNothingOfTheInput(t *testing.T) {
	s := compile(t, `{"items":{"enum":["a"]}}`)
	raw := []byte(`["bcd"]`)
	err := s.Validate(raw)
	before := err.Error()
	clear(raw)
	must.CheckEqual(t, err.Error(), before)
}

func TestErrorsNameFaultAndRemedy(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{`{"$schema":"urn:x"}`,
			`schema: unknown dialect "urn:x"; use https://json-schema.org/draft/2020-12/schema or leave $schema out`},
		{`{"$ref":"other.json"}`,
			`schema: reference "other.json": leads outside of the schema document; put its target under $defs`},
		{`{"$ref":"#/a"}`, `schema: reference "#/a": leads nowhere`},
		{`{"$ref":"#"}`,
			`schema: reference "$ref": leads back to itself; let it pass through a property or an element`},
		{`{"$anchor":"a","properties":{"b":{"$ref":"#c"}}}`, `schema: reference "#c": leads nowhere`},
		{`5`, `schema: not a valid JSON Schema: the schema must be an object or a boolean, not number 5`},
		{`{"type":"objekt"}`,
			`schema: not a valid JSON Schema: /type must be one of "array", "boolean", "integer", "null", "number", ` +
				`"object", "string", not string "objekt"`},
		{`{"properties":{"a/b":{"items":[true]}}}`,
			`schema: not a valid JSON Schema: /properties/a~1b/items must be an object or a boolean, not array of 1 ` +
				`item`},
		{`{"allOf":[true,{"required":["a",5]}]}`,
			`schema: not a valid JSON Schema: /allOf/1/required/1 must be a string, not number 5`},
		{`{"$ref":"#/title","title":"t"}`, `schema: reference "#/title": leads to string "t", which is not a schema`},
		{`{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}`,
			`schema: not a valid JSON Schema: two subschemas have the identifier "parley:///x"`},
		{`{"pattern":"` + strings.Repeat("a", 5000) + `"}`,
			`schema: limit exceeded: bytes of a regular expression must be at most 4096`},
		{`{"properties":`, `value/properties: expected valid JSON, got end of input at byte 14`},
	} {
		_, err := Compile([]byte(test.schema))
		must.CheckThat(t, err != nil && err.Error() == test.want,
			"%.60s\n got %v\nwant %s", test.schema, err, test.want)
	}
	_, err := For[struct{ Amount, Odd complex128 }]()
	if want := "schema: struct { Amount complex128; Odd complex128 }.Amount: the type complex128 has no JSON form; " +
		"leave the field out with `json:\"-\"`"; err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	_, err = Headers([]byte(`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`))
	want := `schema: x-mcp-header at /properties/a: type must be "string", "integer" or "boolean"`
	must.CheckThat(t, err != nil && err.Error() == want, "\n got %v\nwant %s", err, want)
}
