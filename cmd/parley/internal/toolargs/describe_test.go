package toolargs

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

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
	if got := Arguments(schema); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
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
		object, err := Parse(schema, words)
		if err != nil || string(object) != `{"x":`+test.value+`}` {
			t.Errorf("%s: the words %q are %s, %v", test.property, words, object, err)
		}
		if got := strings.Join(words, " "); got != test.word {
			t.Errorf("%s: the words are %s, want %s", test.property, got, test.word)
		}
	}
}

func TestExampleOfOptionalArguments(t *testing.T) {
	if got := Example(json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},` +
		`"a":{"type":"string"}}}`)); !slices.Equal(got, []string{"b=text"}) {
		t.Errorf("%q", got)
	}
	for _, schema := range []string{`{}`, ``, `true`, `{"required":["a=b",""]}`, `[`} {
		if got := Example(json.RawMessage(schema)); len(got) > 0 {
			t.Errorf("%s: %q", schema, got)
		}
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
		if got := Summary(schema); got != test.summary {
			t.Errorf("%s: the arguments are %s, want %s", schema, got, test.summary)
		}
		if got, err := Parse(schema, strings.Split(test.words, "|")); err != nil || string(got) != test.object {
			t.Errorf("%s: %s is %s, %v, want %s", schema, test.words, got, err, test.object)
		}
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
		if got, err := Parse(json.RawMessage(schema), []string{words}); err == nil {
			t.Errorf("%s: %s is %s", schema, words, got)
		}
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
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
