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
		"city":{"type":"string","description":"Name of a city"},"unit":{"$ref":"#/$defs/unit"},"days":{"type":["integer","null"],"default":3},"tags":{"type":"array","items":{"type":"string"}},"any":true,"sizes":{"type":"array","items":{"enum":["s","m"]}},"on":{"type":"boolean"},"n":{"enum":[1,2]}}}`)
	want := []Argument{
		{Name: "city", Type: "string", Required: true, Description: "Name of a city"},
		{Name: "unit", Type: "c|f", Default: `"c"`, Description: "Unit", Values: []string{"c", "f"}},
		{Name: "days", Type: "integer", Default: "3"},
		{Name: "tags", Type: "string…", Repeats: true},
		{Name: "any", Type: "any"},
		{Name: "sizes", Type: "s|m…", Values: []string{"s", "m"}, Repeats: true},
		{Name: "on", Type: "boolean", Values: []string{"true", "false"}},
		{Name: "n", Type: "integer", Values: []string{"1", "2"}},
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
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"],"properties":{"b":{"type":"boolean"}}}}}`, `x={"a":{"b":true}}`, `{"a":{"b":true}}`},
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
	if got := Example(json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`)); !slices.Equal(got, []string{"b=text"}) {
		t.Errorf("%q", got)
	}
	for _, schema := range []string{`{}`, ``, `true`, `{"required":["a=b",""]}`, `[`} {
		if got := Example(json.RawMessage(schema)); len(got) > 0 {
			t.Errorf("%s: %q", schema, got)
		}
	}
}
