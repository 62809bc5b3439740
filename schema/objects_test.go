package schema_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/schema"
)

func TestBooleanSubschemasBecomeObjects(t *testing.T) {
	for _, name := range []string{"items", "not", "contains", "propertyNames", "if", "then", "else", "contentSchema"} {
		must.CheckEqual(t, without(`{"%s": true }`, name), fmt.Sprintf(`{"%s": {} }`, name))
		must.CheckEqual(t, without(`{"%s":false}`, name), fmt.Sprintf(`{"%s":{"not":{}}}`, name))
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"} {
		must.CheckEqual(t, without(`{"%s":[true,{"not":false}, false,7]}`, name),
			fmt.Sprintf(`{"%s":[{},{"not":{"not":{}}}, {"not":{}},7]}`, name))
	}
	for _, name := range []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions",
		"dependencies"} {
		must.CheckEqual(t, without(`{"%s":{"not":true,"default":false,"a":["b"]}}`, name),
			fmt.Sprintf(`{"%s":{"not":{},"default":{"not":{}},"a":["b"]}}`, name))
	}
	for _, name := range []string{"additionalProperties", "additionalItems", "unevaluatedProperties",
		"unevaluatedItems"} {
		must.CheckEqual(t, without(`{"%s":false}`, name), fmt.Sprintf(`{"%s":false}`, name))
		must.CheckEqual(t, without(`{"%s":{"not":true}}`, name), fmt.Sprintf(`{"%s":{"not":{}}}`, name))
	}
	for _, same := range []string{
		`{"const":true,"enum":[true],"default":{"items":true},"examples":[{"not":true}],"x":{"items":true}}`,
		`{"uniqueItems":true,"deprecated":true,"properties":true,"allOf":true}`,
		`{"type":"object"}`, `{"items":true`, `{"items":true,"items":1}`, ``, `"true"`,
	} {
		must.CheckEqual(t, without("%s", same), same)
	}
	must.CheckEqual(t, without("true"), "{}")
	must.CheckEqual(t, without(" false "), ` {"not":{}} `)
}

func without(format string, args ...any) string {
	return string(schema.WithoutBooleans(fmt.Appendf(nil, format, args...)))
}

// A schema accepts the same values with and without boolean subschemas.
func FuzzSchemasWithoutBooleansMeanTheSame(f *testing.F) {
	f.Add(`{"properties":{"a":true,"b":false},"items":[false,{"not":true}]}`, `{"a":1}`)
	f.Add(`{"anyOf":[false,{"type":"object","additionalProperties":false}]}`, `{"b":2}`)
	f.Fuzz(func(t *testing.T, document, value string) {
		before, err := schema.Compile([]byte(document))
		if err != nil || !json.Valid([]byte(value)) {
			return
		}
		after, err := schema.Compile(schema.WithoutBooleans([]byte(document)))
		if err != nil {
			t.Fatalf("cannot compile %s: %v", schema.WithoutBooleans([]byte(document)), err)
		}
		if a, b := before.Validate([]byte(value)), after.Validate([]byte(value)); (a == nil) != (b == nil) {
			t.Errorf("%s and %s: %v, %v for %s", document, after.JSON(), a, b, value)
		}
	})
}
