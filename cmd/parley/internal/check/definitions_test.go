package check

import (
	"fmt"
	"slices"
	"testing"
)

func TestChangesThatBreakClientsAreFound(t *testing.T) {
	object := func(members string) string { return `{"name":"n","inputSchema":{"type":"object",` + members + `}}` }
	output := func(members string) string {
		return `{"name":"n","inputSchema":{"type":"object"},"outputSchema":{"type":"object",` + members + `}}`
	}
	for _, test := range []struct {
		name, kind, before, after string
		want                      []string // path and reason
	}{
		{"the order of members", kindTool, `{"name":"n","title":"t"}`, `{"title": "t", "name": "n"}`, nil},
		{"a description", kindTool, `{"name":"n","description":"a"}`, `{"name":"n","description":"b"}`,
			[]string{"/description "}},
		{"a new optional argument", kindTool, object(`"properties":{}`), object(`"properties":{"a":{}}`),
			[]string{"/inputSchema/properties/a "}},
		{"a required argument", kindTool, object(`"properties":{"a":{}}`), object(`"properties":{"a":{}},"required":["a"]`),
			[]string{"/inputSchema/required a is required now"}},
		{"an argument that is not required anymore", kindTool, object(`"required":["a","b"]`), object(`"required":["b"]`),
			[]string{"/inputSchema/required "}},
		{"a removed argument", kindTool, object(`"properties":{"a":{}}`), object(`"properties":{}`),
			[]string{"/inputSchema/properties/a the argument a is removed"}},
		{"an argument called type", kindTool, object(`"properties":{"type":{"type":"string"}}`),
			object(`"properties":{"type":{"type":["string","null"]}}`), []string{"/inputSchema/properties/type/type "}},
		{"a narrower type", kindTool, object(`"properties":{"a":{"type":"number"}}`),
			object(`"properties":{"a":{"type":"integer"}}`),
			[]string{"/inputSchema/properties/a/type fewer types are accepted"}},
		{"a wider type", kindTool, object(`"properties":{"a":{"type":"integer"}}`),
			object(`"properties":{"a":{"type":"number"}}`), []string{"/inputSchema/properties/a/type "}},
		{"fewer values", kindTool, object(`"properties":{"a":{"enum":["x","y"]}}`),
			object(`"properties":{"a":{"enum":["x"]}}`),
			[]string{"/inputSchema/properties/a/enum fewer values are accepted"}},
		{"more values", kindTool, object(`"properties":{"a":{"enum":["x"]}}`),
			object(`"properties":{"a":{"enum":["x","y"]}}`), []string{"/inputSchema/properties/a/enum "}},
		{"a higher minimum", kindTool, object(`"properties":{"a":{"minimum":1}}`),
			object(`"properties":{"a":{"minimum":2}}`),
			[]string{"/inputSchema/properties/a/minimum the lower limit is higher"}},
		{"a new maximum", kindTool, object(`"properties":{"a":{}}`), object(`"properties":{"a":{"maxLength":2}}`),
			[]string{"/inputSchema/properties/a/maxLength the upper limit is lower"}},
		{"a higher maximum", kindTool, object(`"properties":{"a":{"maxLength":1}}`),
			object(`"properties":{"a":{"maxLength":2}}`), []string{"/inputSchema/properties/a/maxLength "}},
		{"no unknown arguments", kindTool, object(`"x":1`), object(`"x":1,"additionalProperties":false`),
			[]string{"/inputSchema/additionalProperties unknown arguments are rejected now"}},
		{"an alternative", kindTool, object(`"not":{"required":[]}`), object(`"not":{"required":["a"]}`),
			[]string{"/inputSchema/not/required "}},
		{"a removed member of the result", kindTool, output(`"properties":{"a":{}}`), output(`"properties":{}`),
			[]string{"/outputSchema/properties/a the member a of the result is removed"}},
		{"a member of the result that can be missing", kindTool, output(`"required":["a"]`), output(`"required":[]`),
			[]string{"/outputSchema/required a can be missing now"}},
		{"more types and values of the result", kindTool, output(`"properties":{"a":{"type":"integer","enum":[1]}}`),
			output(`"properties":{"a":{"type":"number","enum":[1,2]}}`),
			[]string{"/outputSchema/properties/a/enum results can have other values",
				"/outputSchema/properties/a/type results can have other types"}},
		{"fewer types and values of the result", kindTool, output(`"properties":{"a":{"type":"number","maximum":1}}`),
			output(`"properties":{"a":{"type":"integer","enum":[1],"maximum":2}}`),
			[]string{"/outputSchema/properties/a/enum ", "/outputSchema/properties/a/maximum ",
				"/outputSchema/properties/a/type "}},
		{"no output schema", kindTool, output(`"x":1`), `{"name":"n","inputSchema":{"type":"object"}}`,
			[]string{"/outputSchema there is no structured content anymore"}},
		{"a new output schema", kindTool, `{"name":"n","inputSchema":{"type":"object"}}`, output(`"x":1`),
			[]string{"/outputSchema "}},
		{"an optional argument of a prompt", kindPrompt, `{"name":"n"}`, `{"name":"n","arguments":[{"name":"a"}]}`,
			[]string{"/arguments/a "}},
		{"a required argument of a prompt", kindPrompt, `{"name":"n","arguments":[{"name":"a"}]}`,
			`{"name":"n","arguments":[{"name":"b","required":true},{"name":"a","required":true}]}`,
			[]string{"/arguments/a/required the argument a is required now",
				"/arguments/b the argument b is required now"}},
		{"a removed argument of a prompt", kindPrompt, `{"name":"n","arguments":[{"name":"a"},{"name":"b"}]}`,
			`{"name":"n","arguments":[{"name":"b"}]}`, []string{"/arguments/a the argument a is removed"}},
		{"the type of a resource", kindResource, `{"uri":"x:y","mimeType":"text/plain"}`,
			`{"uri":"x:y","mimeType":"text/html"}`, []string{"/mimeType "}},
	} {
		changes, err := compareDefinitions([]definition{{test.kind, "n", []byte(test.before)}},
			[]definition{{test.kind, "n", []byte(test.after)}})
		var got []string
		for _, c := range changes {
			got = append(got, c.Path+" "+c.Breaking)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

func TestRemovedDefinitionsBreakClients(t *testing.T) {
	empty := []byte("{}")
	changes, err := compareDefinitions([]definition{{kindTemplate, "t", empty}, {kindTool, "b", empty}, {kindTool, "a", empty}},
		[]definition{{kindTool, "b", empty}, {kindResource, "r", empty}})
	got := fmt.Sprint(err)
	for _, c := range changes {
		got += fmt.Sprintf("; %s %s %s %s %s", c.Kind, c.Name, string(c.Before), string(c.After), c.Breaking)
	}
	if want := "<nil>; tool a {}  it is removed; resource r  {} ; resource template t {}  it is removed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := compareDefinitions([]definition{{kindTool, "a", []byte("[]")}}, nil); err == nil {
		t.Error("an array is not a definition")
	}
}
