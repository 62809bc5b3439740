package toolargs

import (
	"encoding/json"
	"strings"
	"testing"
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
		{``, `{}`},
		{`text=hello`, `{"text":"hello"}`},
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
		if err != nil || string(got) != c.want {
			t.Errorf("Parse(%s) = %s, %v, want %s", c.words, got, err, c.want)
		}
		if err == nil && !json.Valid(got) {
			t.Errorf("Parse(%s) = %s, want valid JSON", c.words, got)
		}
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
		{everything, `text=a|text=b`, `argument "text": given 2 times, but only arrays can be repeated`},
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
		if err == nil || err.Error() != c.want {
			t.Errorf("Parse(%s) = %s, %v, want the error %s", c.words, got, err, c.want)
		}
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
		if strings.Join(got, "\n") != c.want {
			t.Errorf("Undefined(%s, %s) = %q, want %q", c.schema, c.arguments, got, c.want)
		}
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
		if got := Summary(json.RawMessage(schema)); got != want {
			t.Errorf("Summary(%s) = %q, want %q", schema, got, want)
		}
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
		if got, err := Parse(json.RawMessage(schema), []string{"a:=1"}); err != nil || string(got) != `{"a":1}` {
			t.Errorf("Parse with the schema %.60s = %s, %v", schema, got, err)
		}
		_, _ = Parse(json.RawMessage(schema), []string{"a=1", "a=2"})
	}
}

func TestParseObjectKeepsTheTextOfTheObject(t *testing.T) {
	if got, err := ParseObject(` {"a": 9007199254740993} `); err != nil || string(got) != `{"a": 9007199254740993}` {
		t.Errorf("ParseObject() = %s, %v", got, err)
	}
	for _, text := range []string{"", "[]", "1", "{", `{"a":1} x`, "null"} {
		if got, err := ParseObject(text); err == nil {
			t.Errorf("ParseObject(%q) = %s, want an error", text, got)
		}
	}
}

func FuzzParseReturnsJSON(f *testing.F) {
	f.Add(everything, "whole=1", "text=x")
	f.Add(`{"properties":{"a":{"$ref":"#"}}}`, "a:=[1]", "a=2")
	f.Fuzz(func(t *testing.T, schema, one, two string) {
		_ = Summary(json.RawMessage(schema))
		got, err := Parse(json.RawMessage(schema), []string{one, two})
		if err == nil && !json.Valid(got) {
			t.Errorf("Parse() = %s, want valid JSON", got)
		}
	})
}
