package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The generators draw from few names and values, so that schemas and instances
// meet often.

var typeNames = []string{"null", "boolean", "number", "string", "array", "object", "integer"}

func drawScalar(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, false, "", "a", "ab", "é", "b\n", json.Number("0"), json.Number("1"), json.Number("1.0"), json.Number("-1"),
		json.Number("2"), json.Number("1.5"), json.Number("1e1"), json.Number("0.01"), json.Number("9007199254740993"),
		json.Number("9007199254740992"), json.Number("-0.0"),
	}).Draw(t, "scalar")
}

func drawInstance(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 2).Draw(t, "leaf") == 0 {
		return drawScalar(t)
	}
	n := rapid.IntRange(0, 4).Draw(t, "size")
	if rapid.Bool().Draw(t, "array") {
		list := make([]any, n)
		for i := range list {
			list[i] = drawInstance(t, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for range n {
		object[drawName(t)] = drawInstance(t, depth-1)
	}
	return object
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "aa", "é", `q"`}).Draw(t, "name")
}

func drawNames(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2, rapid.ID).Draw(t, "names")
}

// drawSchema draws a schema of the given draft; unusual ones have keywords that
// only the library knows.
func drawSchema(t *rapid.T, d dialect, depth int, unusual bool) any {
	if depth == 0 {
		return rapid.SampledFrom([]any{true, false, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "integer"},
			map[string]any{"const": "a"}}).Draw(t, "leaf schema")
	}
	sub := func() any { return drawSchema(t, d, depth-1, unusual) }
	subs := func() []any {
		list := make([]any, rapid.IntRange(1, 3).Draw(t, "subs"))
		for i := range list {
			list[i] = sub()
		}
		return list
	}
	named := func(name func(*rapid.T) string) map[string]any {
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			object[name(t)] = sub()
		}
		return object
	}
	small := func() int { return rapid.IntRange(0, 3).Draw(t, "small") }
	number := func() json.Number {
		return json.Number(rapid.SampledFrom([]string{"0", "1", "-1", "1.5", "2e0", "0.1", "9007199254740993"}).Draw(t, "number"))
	}
	regex := func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"a", "^a", "b$", "^.$", "é"}).Draw(t, "regex")
	}

	s := map[string]any{}
	keywords := []string{"type", "types", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern", "format", "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
		"minProperties", "maxProperties", "items", "minItems", "maxItems", "uniqueItems", "contains", "allOf", "anyOf", "oneOf", "not", "if", "ref"}
	if d >= draft2019 {
		keywords = append(keywords, "minContains", "maxContains", "dependentRequired", "dependentSchemas")
	}
	if d == draft2020 {
		keywords = append(keywords, "prefixItems")
	} else {
		keywords = append(keywords, "itemsList")
	}
	if unusual && d >= draft2019 {
		keywords = append(keywords, "unevaluatedProperties", "unevaluatedItems")
	}
	for range rapid.IntRange(1, 4).Draw(t, "keywords") {
		switch keyword := rapid.SampledFrom(keywords).Draw(t, "keyword"); keyword {
		case "type":
			s["type"] = rapid.SampledFrom(typeNames).Draw(t, "type")
		case "types":
			s["type"] = rapid.SliceOfNDistinct(rapid.SampledFrom(typeNames), 1, 3, rapid.ID).Draw(t, "types")
		case "enum":
			s["enum"] = []any{drawInstance(t, 2), drawScalar(t), drawScalar(t)}
		case "const":
			s["const"] = drawInstance(t, 2)
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			s[keyword] = number()
		case "multipleOf":
			s[keyword] = json.Number(rapid.SampledFrom([]string{"1", "2", "0.1", "0.03", "3"}).Draw(t, "multiple"))
		case "minLength", "maxLength", "minProperties", "maxProperties", "minItems", "maxItems", "minContains", "maxContains":
			s[keyword] = small()
		case "pattern":
			s[keyword] = regex(t)
		case "format":
			s[keyword] = rapid.SampledFrom([]string{"date", "email", "odd", "regex"}).Draw(t, "format")
		case "properties", "dependentSchemas":
			s[keyword] = named(drawName)
		case "patternProperties":
			s[keyword] = named(regex)
		case "required":
			s[keyword] = drawNames(t)
		case "dependentRequired":
			s[keyword] = map[string]any{drawName(t): drawNames(t)}
		case "uniqueItems":
			s[keyword] = rapid.Bool().Draw(t, "unique")
		case "allOf", "anyOf", "oneOf", "prefixItems":
			s[keyword] = subs()
		case "itemsList":
			s["items"], s["additionalItems"] = subs(), sub()
		case "if":
			s["if"], s["then"], s["else"] = sub(), sub(), sub()
		case "ref":
			if d >= draft2019 || len(s) == 0 {
				s["$ref"] = rapid.SampledFrom([]string{"#/definitions/x", "#/definitions/y"}).Draw(t, "ref")
				if d < draft2019 {
					return s
				}
			}
		default:
			s[keyword] = sub()
		}
	}
	return s
}

func TestRandomSchemasAgreeWithTheLibrary(t *testing.T) {
	fast := 0
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]dialect{draft7, draft2019, draft2020}).Draw(t, "draft")
		schema, ok := drawSchema(t, d, 3, rapid.IntRange(0, 3).Draw(t, "unusual") == 0).(map[string]any)
		if !ok {
			return
		}
		schema["definitions"] = map[string]any{"x": drawSchema(t, d, 1, false), "y": drawSchema(t, d, 1, false)}
		schema["$schema"] = map[dialect]string{draft7: "http://json-schema.org/draft-07/schema#",
			draft2019: "https://json-schema.org/draft/2019-09/schema", draft2020: "https://json-schema.org/draft/2020-12/schema"}[d]
		raw, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compile(raw)
		want, oracleErr := oracle(raw)
		if loop := (*RefError)(nil); errors.As(err, &loop) {
			return // a loop, which the library reports while validating
		}
		if (err == nil) != (oracleErr == nil) {
			t.Fatalf("%s\ncompile: %v\nlibrary: %v", raw, err, oracleErr)
		}
		if err != nil {
			return
		}
		if s.program != nil {
			fast++
		}
		for range 5 {
			value := drawInstance(t, 3)
			instance, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got, valid := s.Validate(instance), want.Validate(value)
			if (got == nil) != (valid == nil) {
				t.Fatalf("schema %s\ninstance %s\nfast %v\ngot %v\nlibrary %v", raw, instance, s.program != nil, got, valid)
			}
			if got != nil && fmt.Sprint(got) == "" {
				t.Fatalf("an empty message")
			}
		}
	})
	t.Logf("%d on the fast path", fast)
}
