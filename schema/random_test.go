package schema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/must"
)

// The generators draw from few names and values, so that instances often match schemas.

var typeNames = []string{"null", "boolean", "number", "string", "array", "object", "integer"}

func drawScalar(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, false, "", "a", "ab", "é", "b\n", json.Number("0"), json.Number("1"), json.Number("1.0"),
		json.Number("-1"),
		json.Number("2"), json.Number("1.5"), json.Number("1e1"), json.Number("0.01"), json.Number("9007199254740993"),
		json.Number("9007199254740992"), json.Number("-0.0"), json.Number("36893488147419103232"),
	}).Draw(t, "scalar")
}

func drawInstance(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
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

func drawRegexp(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "^a", "b$", "^.$", "é"}).Draw(t, "regexp")
}

// schemaGenerator draws schemas of one draft.
type schemaGenerator struct {
	*rapid.T
	draft draft
	only  []string // keywords to draw from; nil: all
}

var scalarKeywords = []string{"type", "types", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf",
	"minLength", "maxLength", "pattern", "format", "required", "minProperties", "maxProperties", "minItems", "maxItems",
	"uniqueItems"}

// keywords returns the keywords from which schema draws. Some names stand for a
// form of a keyword.
func (g *schemaGenerator) keywords(inPlace bool) []string {
	if g.only != nil {
		return g.only
	}
	list := append([]string{"properties", "additionalProperties", "patternProperties", "items", "allOf", "anyOf",
		"oneOf", "not", "dependencies", "ref"}, scalarKeywords...)
	if g.draft >= draft6 {
		list = append(list, "const", "contains", "propertyNames")
	}
	if g.draft >= draft7 {
		list = append(list, "if", "if then", "if else", "if alone")
	}
	if g.draft >= draft2019 {
		list = append(list, "minContains", "maxContains", "dependentRequired", "dependentSchemas",
			"unevaluatedProperties", "unevaluatedProperties", "unevaluatedItems", "unevaluatedItems")
		if !inPlace {
			list = append(list, "dynamic reference", "dynamic reference", "dynamic reference")
		}
	}
	if g.draft == draft2020 {
		return append(list, "prefixItems")
	}
	return append(list, "items list", "additionalItems")
}

// schema draws a schema. If inPlace is set, it contains no dynamic reference,
// because most cycles would be rejected.
func (g *schemaGenerator) schema(depth int, inPlace bool) any {
	if depth == 0 {
		leaves := []any{map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "integer"},
			map[string]any{"enum": []any{"a"}}}
		if g.draft >= draft6 {
			leaves = append(leaves, true, false)
		}
		return rapid.SampledFrom(leaves).Draw(g.T, "leaf schema")
	}
	s := map[string]any{}
	for range rapid.IntRange(1, 4).Draw(g.T, "keywords") {
		keyword := rapid.SampledFrom(g.keywords(inPlace)).Draw(g.T, "keyword")
		if keyword == "ref" && g.draft <= draft7 && len(s) > 0 {
			continue // it would make its siblings meaningless
		}
		g.keyword(s, keyword, depth, inPlace)
		if keyword == "ref" && g.draft <= draft7 {
			break
		}
	}
	return s
}

func (g *schemaGenerator) schemas(depth int, inPlace bool) []any {
	list := make([]any, rapid.IntRange(1, 3).Draw(g.T, "subschemas"))
	for i := range list {
		list[i] = g.schema(depth-1, inPlace)
	}
	return list
}

func (g *schemaGenerator) named(depth int, inPlace bool, name func(*rapid.T) string) map[string]any {
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(g.T, "members") {
		object[name(g.T)] = g.schema(depth-1, inPlace)
	}
	return object
}

func (g *schemaGenerator) names() []string {
	least := 0
	if g.draft == draft4 {
		least = 1
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), least, 2, rapid.ID).Draw(g.T, "names")
}

func (g *schemaGenerator) keyword(s map[string]any, keyword string, depth int, inPlace bool) {
	t := g.T
	switch keyword {
	case "type":
		s["type"] = rapid.SampledFrom(typeNames).Draw(t, "type")
	case "types":
		s["type"] = rapid.SliceOfNDistinct(rapid.SampledFrom(typeNames), 1, 3, rapid.ID).Draw(t, "types")
	case "enum":
		s["enum"] = []any{drawInstance(t, 2), "only here"}
	case "const":
		s["const"] = drawInstance(t, 2)
	case "minimum", "maximum":
		s[keyword] = json.Number(rapid.SampledFrom([]string{"0", "1", "-1", "1.5", "2e0", "0.1",
			"9007199254740993"}).Draw(t, "number"))
	case "exclusiveMinimum", "exclusiveMaximum":
		s[keyword] = json.Number(rapid.SampledFrom([]string{"0", "1", "-1", "1.5"}).Draw(t, "number"))
		if g.draft == draft4 {
			inclusive := map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[keyword]
			s[inclusive], s[keyword] = s[keyword], rapid.Bool().Draw(t, "exclusive")
		}
	case "multipleOf":
		s[keyword] = json.Number(rapid.SampledFrom([]string{"1", "2", "0.1", "0.03", "3",
			"36893488147419103232"}).Draw(t, "multiple"))
	case "minLength", "maxLength", "minProperties", "maxProperties", "minItems", "maxItems", "minContains",
		"maxContains":
		s[keyword] = rapid.IntRange(0, 3).Draw(t, "small")
	case "pattern":
		s[keyword] = drawRegexp(t)
	case "format":
		s[keyword] = rapid.SampledFrom([]string{"date", "email", "odd", "uri"}).Draw(t, "format")
	case "properties":
		s[keyword] = g.named(depth, false, drawName)
	case "patternProperties":
		s[keyword] = g.named(depth, false, drawRegexp)
	case "dependentSchemas":
		s[keyword] = g.named(depth, true, drawName)
	case "dependencies":
		s[keyword] = map[string]any{"a": g.names(), "b": g.schema(depth-1, true)}
	case "required":
		s[keyword] = g.names()
	case "dependentRequired":
		s[keyword] = map[string]any{drawName(t): g.names()}
	case "uniqueItems":
		s[keyword] = rapid.Bool().Draw(t, "unique")
	case "allOf", "anyOf", "oneOf":
		s[keyword] = g.schemas(depth, true)
	case "not":
		s[keyword] = g.schema(depth-1, true)
	case "prefixItems":
		s[keyword] = g.schemas(depth, false)
	case "items list":
		s["items"], s["additionalItems"] = g.schemas(depth, false), g.schema(depth-1, false)
	case "if":
		s["if"], s["then"], s["else"] = g.schema(depth-1, true), g.schema(depth-1, true), g.schema(depth-1, true)
	case "if then":
		s["if"], s["then"] = g.schema(depth-1, true), g.schema(depth-1, true)
	case "if else":
		s["if"], s["else"] = g.schema(depth-1, true), g.schema(depth-1, true)
	case "if alone":
		s["if"] = g.schema(depth-1, true)
	case "ref":
		s["$ref"] = rapid.SampledFrom([]string{"#/definitions/x", "#/definitions/y", "one#/definitions/x",
			"two"}).Draw(t, "ref")
		if inPlace {
			s["$ref"] = "#/definitions/x"
		}
	case "dynamic reference":
		if g.draft == draft2019 {
			s["$recursiveRef"] = "#"
		} else {
			s["$dynamicRef"] = rapid.SampledFrom([]string{"#node", "one#node", "two#node"}).Draw(t, "dynamic reference")
		}
	case "propertyNames":
		s[keyword] = g.schema(depth-1, true)
	default:
		s[keyword] = g.schema(depth-1, false)
	}
}

// document draws a schema with two resources inside, which it refers to. In drafts
// that have them, the resources have dynamic anchors.
func (g *schemaGenerator) document() map[string]any {

	id := "$id"
	if g.draft == draft4 {
		id = "id"
	}
	resource := func(depth int) map[string]any {
		s, ok := g.schema(depth, false).(map[string]any)
		if !ok || s["$ref"] != nil && g.draft <= draft7 {
			s = map[string]any{"type": "object"}
		}
		s["definitions"] = map[string]any{"x": g.schema(0, true), "y": g.schema(1, true)}
		switch {
		case g.draft == draft2019:
			s["$recursiveAnchor"] = rapid.Bool().Draw(g.T, "recursive")
		case g.draft == draft2020 && rapid.IntRange(0, 3).Draw(g.T, "static") > 0:
			s["$dynamicAnchor"] = "node"
		case g.draft == draft2020:
			s["$anchor"] = "node"
		}
		return s
	}
	root := resource(3)
	one, two := resource(2), resource(2)
	root[id], one[id], two[id] = "http://example.com/root", "one", "two"
	definitions := root["definitions"].(map[string]any)
	definitions["one"], definitions["two"] = one, two
	root["$schema"] = draftURIs[g.draft]
	return root
}

var draftURIs = map[draft]string{
	draft4: "http://json-schema.org/draft-04/schema#", draft6: "http://json-schema.org/draft-06/schema#",
	draft7:    "http://json-schema.org/draft-07/schema#",
	draft2019: "https://json-schema.org/draft/2019-09/schema",
	draft2020: "https://json-schema.org/draft/2020-12/schema",
}

// agreeOnRandomSchema compares our verdicts on a random schema with the oracle's.
//
// The two differ on purpose where the generator does not go:
//   - a pattern that Go does not support makes the oracle reject the schema;
//   - the oracle rejects an empty enum and an enum with equal values in drafts 6 and 7, whose
//     specifications only advise against them;
//   - the oracle follows $recursiveRef in draft 2020-12, which does not have it;
//   - up to draft 7, the oracle checks the formats that the function oracle does not replace;
//   - the oracle ignores references in the siblings of a $ref up to draft 7, which must lead
//     somewhere here;
//   - the oracle rejects a dynamic reference in propertyNames as a cycle;
//   - numbers have bounds in the oracle.
//
// Both reject cycles that do not go down into the instance, but the oracle only when it
// encounters them.
func agreeOnRandomSchema(t *rapid.T) {
	g := schemaGenerator{T: t, draft: rapid.SampledFrom([]draft{draft4, draft6, draft7, draft2019, draft2020}).Draw(t,
		"draft")}
	raw := must.Get(json.Marshal(g.document()))(t)
	s, err := Compile(raw)
	want, oracleErr := oracle(raw)
	if cycle := (*RefError)(nil); errors.As(err, &cycle) && oracleErr == nil && cycle.Ref == "$ref" {
		return
	}
	must.Equal(t, err == nil, (oracleErr == nil), raw, err, oracleErr)
	if err != nil {
		return
	}
	for range 5 {
		value := drawInstance(t, 3)
		instance := must.Get(json.Marshal(value))(t)
		got, valid := s.Validate(instance), want.Validate(value)
		must.That(t, (got == nil) == (valid == nil),
			"schema %s\ninstance %s\ngot %v\noracle %v", raw, instance, got, valid)
		must.That(t, got == nil || got.Error() != "", "schema %s\ninstance %s: the error has no text", raw, instance)
	}
}

func TestRandomSchemasAgreeWithTheOracle(t *testing.T) { rapid.Check(t, agreeOnRandomSchema) }

// TestAnUncheckedPatternRejectsNothingThatACheckedOneAccepts replaces patterns of
// random schemas with a pattern that cannot be checked and may therefore mean the
// same.
func TestAnUncheckedPatternRejectsNothingThatACheckedOneAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := schemaGenerator{T: t, draft: draft2020, only: []string{"pattern", "properties", "propertyNames",
			"patternProperties", "items", "contains",
			"allOf", "anyOf", "oneOf", "not", "if", "if then", "if else", "unevaluatedProperties", "unevaluatedItems"}}
		raw := must.Get(json.Marshal(g.schema(4, false)))(t)
		known, err := Compile(raw)
		if err != nil {
			return
		}
		pattern := drawRegexp(t)
		var replacements []string
		for _, keyword := range []string{`"pattern":"`, `"patternProperties":{"`} {
			replacements = append(replacements, keyword+pattern+`"`, keyword+`(?=a)"`)
		}
		loose := []byte(strings.NewReplacer(replacements...).Replace(string(raw)))
		unknown := must.Get(Compile(loose))(t)
		for range 5 {
			instance := must.Get(json.Marshal(drawInstance(t, 3)))(t)
			if known.Validate(instance) != nil {
				continue
			}
			err := unknown.Validate(instance)
			must.That(t, err == nil, "schema %s\ninstance %s: %v", loose, instance, err)
		}
	})
}

func FuzzValidateAgainstOracle(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agreeOnRandomSchema)) }

// fixture2020 is the schema of the conformance suite's json_schema_2020_12_tool.
const fixture2020 = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "$defs": {"address": {"$anchor": "addressDef", "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
  "properties": {
    "name": {"type": "string"},
    "address": {"$ref": "#/$defs/address"},
    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
    "phone": {"type": "string"},
    "email": {"type": "string"}},
  "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
  "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
  "then": {"required": ["phone"]},
  "else": {"required": ["email"]},
  "additionalProperties": false
}`

// probes lists schemas with the instances that probe them. The oracle gives the
// verdicts.
var probes = []struct {
	schema    string
	instances []string
}{
	{schema: `true`, instances: []string{`1`, `{}`}},
	{schema: `false`, instances: []string{`1`, `{}`}},
	{schema: `{}`, instances: []string{`1`, `null`}},
	{schema: `{"x-vendor":{"$ref":3},"$comment":"c","title":"t","description":"d","default":5,"examples":[1],` +
		`"deprecated":true,"readOnly":true,"writeOnly":false}`,
		instances: []string{`1`}},
	{schema: `{"type":"integer"}`, instances: []string{`1`, `1.0`, `1.5`, `1e2`, `1e-2`, `100e-2`, `-0.0`, `"1"`,
		`null`, `true`, `0.1e1`, `123456789012345678901234567890`, `1e400`}},
	{schema: `{"type":"number"}`, instances: []string{`1`, `1.5`, `1e400`, `"1"`}},
	{schema: `{"type":["string","null"]}`, instances: []string{`"a"`, `null`, `1`, `[]`, `{}`, `false`}},
	{schema: `{"type":["integer","number"]}`, instances: []string{`1.5`, `1`}},
	{schema: `{"minimum":9007199254740993}`, instances: []string{`9007199254740992`, `9007199254740993`,
		`9007199254740993.0`, `9007199254740992.9999`, `9.007199254740993e15`, `"x"`, `-9007199254740994`}},
	{schema: `{"maximum":-9223372036854775808}`, instances: []string{`-9223372036854775808`, `-9223372036854775809`,
		`-9223372036854775807`, `0`}},
	{schema: `{"exclusiveMinimum":0.1,"exclusiveMaximum":1e2}`,
		instances: []string{`0.1`, `0.10`, `0.10001`, `99.999`, `100`, `1e-1`, `-5`, `0`}},
	{schema: `{"minimum":-1.5,"maximum":1.5}`, instances: []string{`-1.5`, `-1.6`, `1.51`, `0`, `-0`, `1.5e0`,
		`150e-2`}},
	{schema: `{"multipleOf":3}`, instances: []string{`9`, `10`, `-9`, `0`, `9.0`, `9.1`, `3e20`, `1e20`, `0.3e1`}},
	{schema: `{"multipleOf":0.01}`, instances: []string{`1`, `0.05`, `0.055`, `4.35`, `1e-2`, `1e-3`, `0`}},
	{schema: `{"multipleOf":1e2}`, instances: []string{`100`, `150`, `1e3`, `1.5e3`, `1e1`}},
	{schema: `{"multipleOf":18446744073709551615}`, instances: []string{`18446744073709551615`, `36893488147419103230`,
		`5`, `0`}},
	{schema: `{"multipleOf":184467440737095516157}`, instances: []string{`184467440737095516157`, `5`}},
	{schema: `{"minLength":2,"maxLength":3}`, instances: []string{`""`, `"a"`, `"ab"`, `"abcd"`, `"äö"`, `"💩"`, `"💩💩"`,
		`"\ud83d\udca9\n"`, `"\u0061\u0062\u0063\u0064"`, `1`}},
	{schema: `{"minLength":2.0,"maxLength":3e0}`, instances: []string{`"a"`, `"abcd"`, `"abc"`}},
	{schema: `{"pattern":"^[a-z]+\\d?$"}`, instances: []string{`"abc"`, `"abc1"`, `"ABC"`, `"\u0061bc"`, `""`, `5`}},
	{schema: `{"pattern":"é"}`, instances: []string{`"caf\u00e9"`, `"cafe"`}},
	{schema: `{"format":"email","contentEncoding":"base64","contentMediaType":"application/json",` +
		`"contentSchema":{"type":"object"}}`, instances: []string{`"nope"`, `"a@b.example"`, `1`}},
	{schema: `{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`,
		instances: []string{`"nope"`, `"a@b.example"`, `1`}},
	{schema: `{"$schema":"http://json-schema.org/draft-07/schema#","format":"unheard-of"}`,
		instances: []string{`"nope"`}},
	{schema: `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"uri"},` +
		`"b":{"format":"date-time"}}}`,
		instances: []string{`{"a":"("}`, `{"a":"(a)"}`, `{"b":"2020-01-01T00:00:00Z"}`, `{"b":"yesterday"}`,
			`{"a":3}`}},
	{schema: `{"enum":["a",1,null,true,[1,{"x":2.0}],{"p":1,"q":[]}]}`,
		instances: []string{`"a"`, `"b"`, `1`, `1.0`, `10e-1`, `2`, `null`, `false`, `true`, `[1,{"x":2}]`,
			`[1,{"x":3}]`, `{"q":[],"p":1.0}`, `{"q":[]}`, `"\u0061"`, `[]`, `{}`}},
	{schema: `{"enum":[]}`, instances: []string{`1`}},
	{schema: `{"const":{"a":["x",null]}}`, instances: []string{`{"a":["x",null]}`, `{"a":["x"]}`,
		`{"a":["x",null],"b":1}`, `1`}},
	{schema: `{"const":0}`, instances: []string{`0`, `-0`, `0.0`, `0e5`, `"0"`, `false`}},
	{schema: `{"const":"[1]"}`, instances: []string{`"[1]"`, `[1]`}},
	{schema: `{"enum":["1","\"1"]}`, instances: []string{`1`, `"1"`, `"\"1"`}},
	{schema: `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],` +
		`"additionalProperties":false}`,
		instances: []string{`{"text":"hello"}`, `{}`, `{"text":1}`, `{"text":"a","more":1}`, `{"\u0074ext":"a"}`,
			`[]`}},
	{schema: `{"required":["a","b"],"properties":{"b":{"type":"string"}},"additionalProperties":{"type":"integer"}}`,
		instances: []string{`{"a":1,"b":"x"}`, `{"a":"x","b":"x"}`, `{"a":1}`, `{"a":1,"b":"x","c":"y"}`,
			`{"a":1,"b":"x","c":2}`}},
	{schema: `{"properties":{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{},"h":{},"i":{"type":"null"},"j":{}},` +
		`"required":["j","a"],"additionalProperties":false}`,
		instances: []string{`{"j":1,"i":null,"a":2}`, `{"a":1}`, `{"j":1,"a":1,"k":1}`, `{"j":1,"a":1,"i":1}`}},
	{schema: `{"patternProperties":{"^x-":{"type":"string"},"y$":{"minLength":2}},` +
		`"properties":{"x-n":{"type":["string","number"]}},"additionalProperties":false}`,
		instances: []string{`{"x-a":"b"}`, `{"x-a":1}`, `{"x-y":"b"}`, `{"x-y":"bb"}`, `{"x-n":1}`, `{"z":1}`,
			`{"y":"aa"}`}},
	{schema: `{"propertyNames":{"pattern":"^[a-z]+$","maxLength":3}}`,
		instances: []string{`{"abc":1}`, `{"ABC":1}`, `{"abcd":1}`, `{"\u0061":1}`, `{}`, `3`}},
	{schema: `{"propertyNames":false}`, instances: []string{`{}`, `{"a":1}`}},
	{schema: `{"minProperties":1,"maxProperties":2}`, instances: []string{`{}`, `{"a":1}`, `{"a":1,"b":2,"c":3}`,
		`[]`}},
	{schema: `{"dependentRequired":{"a":["b","c"],"d":[]},"dependentSchemas":{"b":{"minProperties":3},"z":false}}`,
		instances: []string{`{}`, `{"a":1}`, `{"a":1,"b":1,"c":1}`, `{"b":1}`, `{"d":1}`, `{"z":1}`, `{"a":1,"b":2}`}},
	{schema: `{"items":{"type":"integer"},"minItems":1,"maxItems":3}`,
		instances: []string{`[]`, `[1]`, `[1,"a"]`, `[1,2,3,4]`, `{}`}},
	{schema: `{"prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`,
		instances: []string{`[]`, `["a"]`, `["a",1]`, `["a",1,2]`, `[1]`}},
	{schema: `{"prefixItems":[{"type":"string"}]}`, instances: []string{`["a",1]`, `[1,1]`}},
	{schema: `{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[{"type":"string"}],` +
		`"additionalItems":{"type":"integer"}}`, instances: []string{`["a",1]`, `["a","b"]`, `[1]`, `[]`}},
	{schema: `{"$schema":"http://json-schema.org/draft-07/schema","items":{"type":"string"},"additionalItems":false}`,
		instances: []string{`["a","b"]`, `[1]`}},
	{schema: `{"uniqueItems":true}`, instances: []string{`[]`, `[1,2]`, `[1,1.0]`, `["a","\u0061"]`,
		`[{"a":1,"b":2},{"b":2,"a":1}]`, `[[1],[1,1]]`, `[1,true]`, `[0,false]`, `[1,2,3,4,5,6,7,8,9,10,11]`,
		`[1,2,3,4,5,6,7,8,9,10,11,1e1]`, `["",null,[],{}]`}},
	{schema: `{"uniqueItems":false}`, instances: []string{`[1,1]`}},
	{schema: `{"contains":{"type":"string"}}`, instances: []string{`[]`, `[1]`, `[1,"a"]`, `"a"`}},
	{schema: `{"contains":{"type":"string"},"minContains":2,"maxContains":3}`,
		instances: []string{`["a"]`, `["a","b"]`, `["a","b",1,"c","d"]`}},
	{schema: `{"contains":{"type":"string"},"minContains":0}`, instances: []string{`[]`, `[1]`}},
	{schema: `{"minContains":5}`, instances: []string{`[]`}},
	{schema: `{"allOf":[{"minimum":1},{"maximum":3}],"anyOf":[{"const":1},{"const":2},{"type":"string"}],` +
		`"not":{"const":2}}`, instances: []string{`1`, `2`, `3`, `0`, `"a"`}},
	{schema: `{"oneOf":[{"minimum":2},{"maximum":4},{"type":"string","minLength":2}]}`,
		instances: []string{`1`, `3`, `5`, `"ab"`, `null`}},
	{schema: `{"if":{"type":"integer"},"then":{"minimum":5},"else":{"type":"string"}}`,
		instances: []string{`4`, `5`, `"a"`, `null`}},
	{schema: `{"if":true,"then":false}`, instances: []string{`4`}},
	{schema: `{"if":false,"else":{"const":1}}`, instances: []string{`1`, `2`}},
	{schema: `{"then":false,"else":false}`, instances: []string{`4`}},
	{schema: `{"$defs":{"tree":{"type":"object","properties":{"kids":{"type":"array",` +
		`"items":{"$ref":"#/$defs/tree"}}},"additionalProperties":false}},"$ref":"#/$defs/tree"}`,
		instances: []string{`{}`, `{"kids":[{"kids":[{}]}]}`, `{"kids":[{"kids":[{"x":1}]}]}`}},
	{schema: `{"type":"object","properties":{"next":{"$ref":"#"}}}`,
		instances: []string{`{"next":{"next":{}}}`, `{"next":{"next":1}}`}},
	{schema: `{"$defs":{"a/b~c d":{"type":"string"},"e":{"$anchor":"here","type":"integer"}},` +
		`"properties":{"x":{"$ref":"#/$defs/a~1b~0c d"},"y":{"$ref":"#here"}}}`,
		instances: []string{`{"x":"a","y":1}`, `{"x":1}`, `{"y":"a"}`}},
	{schema: `{"$defs":{"a b":{"type":"string"}},"$ref":"#/$defs/a%20b"}`, instances: []string{`"a"`, `1`}},
	{schema: `{"$ref":"#/components/pet","components":{"pet":{"type":"string"}}}`, instances: []string{`"a"`, `1`}},
	{schema: `{"$id":"https://example.com/root","$defs":{"a":{"type":"string"}},"$ref":"#/$defs/a"}`,
		instances: []string{`"a"`, `1`}},
	{schema: `{"$id":"urn:example:root","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`,
		instances: []string{`{"a":"a"}`, `{"a":1}`}},
	{schema: `{"$id":"https://example.com/root","$defs":{"a":{"$id":"a","type":"string"}},"$ref":"a"}`,
		instances: []string{`"a"`, `1`}},
	{schema: `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a",` +
		`"definitions":{"a":{"type":"string"}}}`, instances: []string{`"a"`, `1`}},
	{schema: `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","minLength":5,` +
		`"definitions":{"a":{"type":"string"}}}`, instances: []string{`"a"`, `1`}},
	{schema: `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":3,"exclusiveMinimum":true}`,
		instances: []string{`3`, `4`, `2`}},
	{schema: `{"$schema":"http://json-schema.org/draft-06/schema#","const":3}`, instances: []string{`3`, `4`}},
	{schema: `{"properties":{"a":true},"unevaluatedProperties":false,"allOf":[{"properties":{"b":true}}]}`,
		instances: []string{`{"a":1,"b":2}`, `{"c":1}`}},
	{schema: `{"prefixItems":[true],"unevaluatedItems":{"type":"string"}}`, instances: []string{`[1,"a"]`, `[1,2]`}},
	{schema: `{"dependencies":{"a":["b"]}}`, instances: []string{`{"a":1}`, `{"a":1,"b":1}`}},
	{schema: `{"$dynamicAnchor":"node","type":"object","properties":{"kids":{"type":"array",` +
		`"items":{"$dynamicRef":"#node"}}}}`, instances: []string{`{"kids":[{"kids":[]}]}`, `{"kids":[{"kids":[1]}]}`}},
	{schema: fixture2020, instances: []string{`{"phone":"1","contactMethod":"phone"}`, `{"email":"x"}`, `{"phone":"1"}`,
		`{"contactMethod":"phone","email":"x"}`, `{"email":"x","address":{"street":"s","city":1}}`,
		`{"email":"x","other":1}`, `{}`, `{"email":"x","contactMethod":"fax"}`}},
}
