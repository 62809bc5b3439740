package toolargs

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

const everything = `{
	"type": "object",
	"properties": {
		"text": {"type": "string"},
		"whole": {"type": "integer"},
		"real": {"type": "number"},
		"flag": {"type": "boolean"},
		"nothing": {"type": "null"},
		"numbers": {"type": "array", "items": {"type": "integer"}},
		"words": {"type": "array", "items": {"type": "string"}},
		"object": {"type": "object"},
		"objects": {"type": "array", "items": {"type": "object"}},
		"maybe": {"type": ["integer", "null"]},
		"either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
		"oneOrMore": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
		"referred": {"$ref": "#/$defs/a~1b"},
		"choice": {"enum": ["a", "b"]},
		"size": {"enum": [1, 2]},
		"fixed": {"const": true},
		"any": {}
	},
	"additionalProperties": {"type": "integer"},
	"$defs": {"a/b": {"type": "boolean"}}
}`

func TestParseConvertsWordsByTheirSchemaTypes(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{``, `{}`}, {`text=hello`, `{"text":"hello"}`},
		{`text=`, `{"text":""}`},
		{`text=5`, `{"text":"5"}`},
		{`text=a=b`, `{"text":"a=b"}`},
		{`text="quoted"<&>`, `{"text":"\"quoted\"<&>"}`},
		{`whole=9007199254740993`, `{"whole":9007199254740993}`},
		{`whole=-123456789012345678901234567890`, `{"whole":-123456789012345678901234567890}`},
		{`real=1.50`, `{"real":1.50}`},
		{`real=1e400`, `{"real":1e400}`},
		{`real=3`, `{"real":3}`},
		{`flag=true`, `{"flag":true}`},
		{`nothing=null`, `{"nothing":null}`},
		{`numbers=1`, `{"numbers":[1]}`},
		{`numbers=1|numbers=2`, `{"numbers":[1,2]}`},
		{`numbers=1|text=x|numbers=2`, `{"numbers":[1,2],"text":"x"}`},
		{`numbers=1|numbers:=2`, `{"numbers":[1,2]}`},
		{`numbers:=[1,2]`, `{"numbers":[1,2]}`},
		{`words=[1]`, `{"words":["[1]"]}`},
		{`object={"a":1}`, `{"object":{"a":1}}`},
		{`objects={"a":1}|objects={"a":2}`, `{"objects":[{"a":1},{"a":2}]}`},
		{`maybe=4`, `{"maybe":4}`},
		{`maybe=null`, `{"maybe":null}`},
		{`either=4`, `{"either":4}`},
		{`either=four`, `{"either":"four"}`},
		{`oneOrMore=x`, `{"oneOrMore":"x"}`},
		{`oneOrMore=x|oneOrMore=y`, `{"oneOrMore":["x","y"]}`},
		{`referred=false`, `{"referred":false}`},
		{`choice=a`, `{"choice":"a"}`},
		{`size=2`, `{"size":2}`},
		{`fixed=true`, `{"fixed":true}`},
		{`any=5`, `{"any":"5"}`},
		{`any:=5`, `{"any":5}`},
		{`text:={"not":"text"}`, `{"text":{"not":"text"}}`}, // the server validates
		{`more=7`, `{"more":7}`},
	} {
		var words []string
		if c.words != "" {
			words = strings.Split(c.words, "|")
		}
		got, err := Parse(json.RawMessage(everything), words)
		must.CheckThat(t, err == nil && string(got) == c.want, "Parse(%s) = %s, %v, want %s", c.words, got, err, c.want)
		must.CheckThat(t, err != nil || json.Valid(got), "Parse(%s) = %s, want valid JSON", c.words, got)
	}
}

func TestParseRejectsInvalidWords(t *testing.T) {
	const closed = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},` +
		`"required":["city"],"additionalProperties":false}`
	for _, c := range []struct{ schema, words, want string }{
		{everything, `whole=1.5`, `argument "whole": "1.5" must be an integer`},
		{everything, `whole=1e3`, `argument "whole": "1e3" must be an integer`},
		{everything, `whole=0x10`, `argument "whole": "0x10" must be an integer`},
		{everything, `whole=+1`, `argument "whole": "+1" must be an integer`},
		{everything, `whole=007`, `argument "whole": "007" must be an integer`},
		{everything, `whole= 1`, `argument "whole": " 1" must be an integer`},
		{everything, `whole=`, `argument "whole": "" must be an integer`},
		{everything, `real=NaN`, `argument "real": "NaN" must be a number`},
		{everything, `flag=yes`, `argument "flag": "yes" must be true or false`},
		{everything, `object=x`, `argument "object": "x" must be a JSON object`},
		{everything, `maybe=x`, `argument "maybe": "x" must be an integer or null`},
		{everything, `numbers=1|numbers=x`, `argument "numbers": element 2: "x" must be an integer`},
		{everything, `text=a|text=b`, `argument "text": given 2 times, but it is not a list; give it once`},
		{everything, `more=x`, `argument "more": "x" must be an integer`},
		{everything, `text`, `invalid argument "text"; write key=value or key:=json`},
		{everything, `=x`, `invalid argument "=x"; write key=value or key:=json`},
		{everything, `:=1`, `invalid argument ":=1"; write key=value or key:=json`},
		{everything, `any:={`, `argument "any": "{" must be valid JSON; write any=… for plain text`},
		{everything, "text=\xff", `argument "text=\xff" must be valid UTF-8`},
		{closed, `town=Oslo`, `unknown argument "town"; the arguments are city=string [days=integer]`},
		{`{"properties":{"name":{}},"required":["name"]}`, `nmae=Ada`, `unknown argument "nmae"; did you mean name?`},
		{closed, `days=3`, `argument "city" is missing; the arguments are city=string [days=integer]`},
		{`{"type":"object","additionalProperties":false}`, `x=1`, `unknown argument "x"; there are no arguments`},
	} {
		got, err := Parse(json.RawMessage(c.schema), strings.Split(c.words, "|"))
		must.CheckThat(t, err != nil && err.Error() == c.want,
			"Parse(%s) = %s, %v, want the error %s", c.words, got, err, c.want)
	}
}

// A server that allows further arguments ignores one with a wrong name, so the user has to be told.
func TestUndefinedArgumentsAreNamedAlthoughTheSchemaAllowsThem(t *testing.T) {
	for _, c := range []struct{ schema, arguments, want string }{
		{`{"properties":{"name":{}}}`, `{"nmae":"Ada"}`, `unknown argument "nmae"; did you mean name?`},
		{`{"properties":{"name":{}}}`, `{"city":"Oslo","name":1}`,
			`unknown argument "city"; the arguments are [name=any]`},
		{`{"properties":{"name":{}},"additionalProperties":true}`, `{"Name":1}`,
			`unknown argument "Name"; did you mean name?`},
		{`{"properties":{"name":{}},"additionalProperties":{"type":"string"}}`, `{"nmae":"a","x":"b"}`,
			`unknown argument "nmae"; did you mean name?`},
		{`{"allOf":[{"properties":{"a":{}}}],"anyOf":[{"properties":{"b":{}}},{}]}`, `{"a":1,"b":1}`, ``},
		{`{"properties":{"a":{}},"patternProperties":{"^x-":{}}}`, `{"x-1":1}`, ``},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"b":1}`, ``}, // Parse returns an error
		{`{"type":"object"}`, `{"b":1}`, ``},
		{`{"additionalProperties":{}}`, `{"b":1}`, ``},
		{`{"properties":{"a":{}}}`, `[`, ``},
	} {
		var got []string
		for _, err := range Undefined(json.RawMessage(c.schema), json.RawMessage(c.arguments)) {
			got = append(got, err.Error())
		}
		must.CheckEqual(t, strings.Join(got, "\n"), c.want, c.schema, c.arguments, got)
	}
}

func TestSummaryUsesTheNotationOfTheCommandLine(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},` +
			`"required":["a"]}`: `[z=string] a=integer`,
		`{"properties":{"tags":{"type":"array","items":{"type":"string"}}}}`:    `[tags=string…]`,
		`{"properties":{"unit":{"enum":["c","f"]}}}`:                            `[unit=c|f]`,
		`{"properties":{"x":{"type":["string","null"]},"y":{}}}`:                `[x=string] [y=any]`,
		`{"properties":{"m":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`: `[m=string|integer]`,
		`{"type":"object"}`: ``,
		`true`:              ``,
		`not JSON`:          ``,
		``:                  ``,
	} {
		must.CheckEqual(t, Summary(json.RawMessage(schema)), want, schema)
	}
}

func TestRecursiveAndInvalidSchemasAreReadWithinBounds(t *testing.T) {
	for _, schema := range []string{
		`{"$ref":"#"}`,
		`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}}}`,
		`{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[` +
			strings.Repeat(`{"$ref":"#/$defs/a"},`, 500) + `{}]}}}`,
		`{"properties":{"a":{"$ref":"https://example.com/schema"}}}`,
		`{"properties":{"a":{"$ref":7,"type":7,"enum":7,"anyOf":7,"items":7}},"required":7}`,
		`{"properties":[]}`,
		`{"anyOf":[` + strings.Repeat(`{"$ref":"#"},`, 50) +
			`{"properties":{"a":{}}}],"patternProperties":{"[":true},"$id":":","$anchor":"%"}`,
		`{"$ref":"#/allOf/0","allOf":[{"$ref":"#","if":{},"then":{"$ref":"#"},"dependentSchemas":{"a":{"$ref":"#"}}}]}`,
	} {
		_ = Summary(json.RawMessage(schema))
		got := must.Get(Parse(json.RawMessage(schema), []string{"a:=1"}))(t)
		must.CheckEqual(t, string(got), `{"a":1}`, "Parse with the schema", schema, got)
		_, _ = Parse(json.RawMessage(schema), []string{"a=1", "a=2"})
	}
}

func TestParseObjectKeepsTheTextOfTheObject(t *testing.T) {
	got := must.Get(ParseObject(` {"a": 9007199254740993} `))(t)
	must.CheckEqual(t, string(got), `{"a": 9007199254740993}`, "ParseObject() =", got)
	for _, text := range []string{"", "[]", "1", "{", `{"a":1} x`, "null"} {
		got, err := ParseObject(text)
		must.CheckThat(t, err != nil, "ParseObject(%q) = %s, want an error", text, got)
	}
}

func FuzzParseReturnsJSON(f *testing.F) {
	f.Add(everything, "whole=1", "text=x")
	f.Add(`{"properties":{"a":{"$ref":"#"}}}`, "a:=[1]", "a=2")
	f.Fuzz(func(t *testing.T, schema, one, two string) {
		_ = Summary(json.RawMessage(schema))
		got, err := Parse(json.RawMessage(schema), []string{one, two})
		must.CheckThat(t, err != nil || json.Valid(got), "Parse() = %s, want valid JSON", got)
	})
}

func TestArgumentsDescribeTheSchema(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["city"],"$defs":{"unit":{"enum":["c","f"],"default":"c","title":"Unit"}},"properties":{
		"city":{"type":"string","description":"Name of a city"},"unit":{"$ref":"#/$defs/unit"},"days":{"type":["integer","null"],"default":3},"tags":{"type":"array","items":{"type":"string"}},"any":true,"sizes":{"type":"array","items":{"enum":["s","m"]}},"on":{"type":"boolean"},"n":{"enum":[1,2]},
		"size":{"type":"integer","minimum":1,"maximum":512},"from":{"type":"number","exclusiveMinimum":0},"to":{"minimum":-2.5,"exclusiveMaximum":9},"v4":{"type":"integer","exclusiveMinimum":true}}}`)
	want := []Argument{
		{Name: "city", Type: "string", Required: true, Description: "Name of a city"},
		{Name: "unit", Type: "c|f", Default: `"c"`, Description: "Unit", Values: []string{"c", "f"}},
		{Name: "days", Type: "integer", Default: "3"},
		{Name: "tags", Type: "string…", Repeats: true},
		{Name: "any", Type: "any"},
		{Name: "sizes", Type: "s|m…", Values: []string{"s", "m"}, Repeats: true},
		{Name: "on", Type: "boolean", Values: []string{"true", "false"}},
		{Name: "n", Type: "1|2", Values: []string{"1", "2"}},
		{Name: "size", Type: "integer", Range: "1 to 512"},
		{Name: "from", Type: "number", Range: "more than 0"},
		{Name: "to", Type: "any", Range: "at least -2.5 and less than 9"},
		{Name: "v4", Type: "integer"},
	}
	got := Arguments(schema)
	must.CheckThat(t, reflect.DeepEqual(got, want), "got %+v\nwant %+v", got, want)
}

// Each word of an example is one that a user could type, and Parse makes the value of it.
func TestExamplesParse(t *testing.T) {
	for _, test := range []struct {
		property, word, value string
	}{
		{`{"type":"string"}`, "x=text", `"text"`},
		{`{"type":"string","format":"date"}`, "x=2030-01-31", `"2030-01-31"`},
		{`{"type":"string","examples":["Oslo"]}`, "x=Oslo", `"Oslo"`},
		{`{"type":"string","default":"a b <c>"}`, "x=a b <c>", `"a b <c>"`},
		{`{"type":"integer","minimum":10}`, "x=10", `10`},
		{`{"type":"number"}`, "x=1", `1`},
		{`{"type":"boolean"}`, "x=true", `true`},
		{`{"enum":["celsius","fahrenheit"]}`, "x=celsius", `"celsius"`},
		{`{"type":"array","items":{"type":"integer"},"default":[1,2]}`, "x=1 x=2", `[1,2]`},
		{`{"type":"array","items":{"type":"string"}}`, "x=text", `["text"]`},
		{`{"type":"array","default":[]}`, "x:=[]", `[]`},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"],` +
			`"properties":{"b":{"type":"boolean"}}}}}`, `x={"a":{"b":true}}`, `{"a":{"b":true}}`},
		{`{"type":"null"}`, "x=null", `null`},
		{`{"const":7}`, "x=7", `7`},
		{`{"type":["string","integer"],"default":7}`, "x=7", `7`},
		{`true`, "x=text", `"text"`},
		{`{"$ref":"#/properties/x"}`, "x=text", `"text"`},
	} {
		schema := json.RawMessage(`{"type":"object","required":["x"],"properties":{"x":` + test.property + `}}`)
		words := Example(schema)
		object := must.Get(Parse(schema, words))(t)
		must.CheckEqual(t, string(object), `{"x":`+test.value+`}`, test.property, "the words", words, object)
		must.CheckEqual(t, strings.Join(words, " "), test.word, test.property, "the words")
	}
}

func TestExampleOfOptionalArguments(t *testing.T) {
	got := Example(json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},` +
		`"a":{"type":"string"}}}`))
	must.CheckThat(t, slices.Equal(got, []string{"b=text"}), "%q", got)
	for _, schema := range []string{`{}`, ``, `true`, `{"required":["a=b",""]}`, `[`} {
		got := Example(json.RawMessage(schema))
		must.CheckThat(t, len(got) == 0, "%s: %q", schema, got)
	}
}

// References, combinations and alternatives count at the root and below.
func TestSubschemasAreCombined(t *testing.T) {
	for _, test := range []struct{ schema, words, summary, object string }{
		{ // references through arrays, with percent-encoding, and next to other keywords
			`{"properties":{"body":{"anyOf":[{"type":"null"},{"type":"object","properties":{"n":{"type":"integer"},"to":{"type":"array","items":{"type":"object"}}}}]},
				"count":{"$ref":"#/properties/body/anyOf/1/properties/n"},"cc":{"type":"array","items":{"$ref":"#/properties/body/anyOf/1/properties/to/items"}},
				"page":{"$ref":"#/$defs/Page%5BItem%5D"},"a/b~c":{"$ref":"#/$defs/a~1b~0c"}},"$defs":{"Page[Item]":{"type":"object"},"a/b~c":{"type":"boolean"}}}`,
			`count=3|cc={"a":1}|page={"n":1}|a/b~c=true`,
			`[body=object] [count=integer] [cc=object…] [page=object] [a/b~c=boolean]`,
			`{"count":3,"cc":[{"a":1}],"page":{"n":1},"a/b~c":true}`,
		},
		{`{"type":"object","$ref":"#/$defs/In","$defs":{"In":{"properties":{"n":{"type":"integer"}},` +
			`"required":["n"]}}}`, `n=1`, `n=integer`, `{"n":1}`},
		{`{"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},` +
			`{"properties":{"b":{"allOf":[{"type":["number","null"]},{"type":"integer"}]}}}]}`,
			`a=1|b=2`, `a=integer [b=integer]`, `{"a":1,"b":2}`},
		{ // alternatives at the root: what all require is required
			`{"anyOf":[{"properties":{"id":{"type":"integer"},"v":{"type":"string"}},"required":["v","id"]},` +
				`{"$ref":"#/$defs/b"},{"type":"null"}],"$defs":{"b":{"properties":{"name":{"type":"string"},` +
				`"v":{"type":"string"}},"required":["v","name"]}}}`,
			`name=5|v=6`, `[id=integer] v=string [name=string]`, `{"name":"5","v":"6"}`,
		},
		{ // values of alternatives
			`{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/c"},{"type":"null"}]},"b":{"oneOf":[{"const":"x","title":"X"},{"const":"y"}]},"c":{"type":["string","null"],"enum":["u",null]},
				"d":{"anyOf":[{"enum":["v"]},{"type":"string"}]},"e":{"allOf":[{"enum":["p","q","r"]},{"enum":["q","r","s"]}]}},"$defs":{"c":{"enum":["red","blue"]}}}`,
			`a=red|c=null|d=5`, `[a=red|blue] [b=x|y] [c=u] [d=string] [e=q|r]`, `{"a":"red","c":null,"d":"5"}`,
		},
		{`{"properties":{"a":{"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"string"}},` +
			`"b":{"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"boolean"}}}}`,
			`a=1|a=2|b=1|b=true`, `[a=integer…] [b=integer…]`, `{"a":[1,"2"],"b":[1,true]}`},
		{ // names of patterns are permitted
			`{"properties":{"a":{}},"patternProperties":{"^n":{"type":"integer"}},"additionalProperties":false}`,
			`n1:=1`, `[a=any]`, `{"n1":1}`},
		{`{"required":["x"],"properties":{"never":false}}`, `x=1`, `x=any`, `{"x":"1"}`},
		{`{"properties":{"x":{"$ref":"#/%zz","type":"integer"},"y":{"$ref":"#/properties/x/5"}}}`, `x=1|y=1`,
			`[x=integer] [y=any]`, `{"x":1,"y":"1"}`},
	} {
		schema := json.RawMessage(test.schema)
		must.CheckEqual(t, Summary(schema), test.summary, schema, "the arguments")
		got := must.Get(Parse(schema, strings.Split(test.words, "|")))(t)
		must.CheckEqual(t, string(got), test.object, schema, test.words, got)
		if _, err := Parse(schema, Example(schema)); err != nil {
			t.Errorf("%s: the example %q: %v", schema, Example(schema), err)
		}
	}
	for schema, words := range map[string]string{
		`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`: "b=1",
		`{"anyOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}},` +
			`"additionalProperties":false}]}`: "c=1",
		`{"properties":{"a":false}}`: "a=1",
	} {
		got, err := Parse(json.RawMessage(schema), []string{words})
		must.CheckThat(t, err != nil, "%s: %s is %s", schema, words, got)
	}
}

func TestAnnotationsNextToAReferenceComeFirst(t *testing.T) {
	got := Arguments(json.RawMessage(`{"$defs":{"c":{"enum":["red","blue"],"description":"A colour","default":"red"}},"properties":{
		"wall":{"$ref":"#/$defs/c","default":"blue","description":"Colour of the wall"},"trim":{"anyOf":[{"$ref":"#/$defs/c"},{"type":"null"}]}}}`))
	want := []Argument{
		{Name: "wall", Type: "red|blue", Default: `"blue"`, Description: "Colour of the wall",
			Values: []string{"red", "blue"}},
		{Name: "trim", Type: "red|blue", Default: `"red"`, Description: "A colour", Values: []string{"red", "blue"}},
	}
	must.CheckThat(t, reflect.DeepEqual(got, want), "got %+v\nwant %+v", got, want)
}
