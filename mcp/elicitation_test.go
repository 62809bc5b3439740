package mcp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

const form = `{"type":"object","properties":{` +
	`"zip":{"type":"string","title":"ZIP code","minLength":5,"maxLength":5},` +
	`"age":{"type":"integer","default":7,"minimum":0,"maximum":150},` +
	`"member":{"type":"boolean","default":true},` +
	`"color":{"type":"string","enum":["r","g"]},` +
	`"named":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},` +
	`"titled":{"type":"string","oneOf":[{"const":"r","title":"Red"}]},` +
	`"several":{"type":"array","items":{"type":"string","enum":["r","g"]},"minItems":1},` +
	`"severalTitled":{"type":"array","default":["r"],"items":{"anyOf":[{"const":"r","title":"Red"}]}}},` +
	`"required":["zip"]}`

func TestFormPreservesOrderOfProperties(t *testing.T) {
	must.Do(t, spec.Validate(mcp.Latest, "ElicitRequestFormParams",
		[]byte(`{"message":"a","requestedSchema":`+form+`}`)))
	schema := must.Get(mcp.ParseElicitSchema([]byte(form)))(t)
	var names []string
	for _, p := range schema.Properties {
		names = append(names, p.Name)
	}
	must.CheckEqual(t, strings.Join(names, " "), "zip age member color named titled several severalTitled")
	for _, codec := range codecs {
		raw := must.Get(codec.marshal(schema))(t)
		must.CheckEqual(t, string(raw), form, codec.name)
	}
}

func TestOptionsSupportsAllFormsOfChoices(t *testing.T) {
	schema := must.Get(mcp.ParseElicitSchema([]byte(form)))(t)
	red, green := mcp.EnumOption{Const: "r", Title: "Red"}, mcp.EnumOption{Const: "g", Title: "Green"}
	r, g := mcp.EnumOption{Const: "r", Title: "r"}, mcp.EnumOption{Const: "g", Title: "g"}
	want := map[string][]mcp.EnumOption{
		"color":         {r, g},
		"named":         {red, green},
		"titled":        {red},
		"several":       {r, g},
		"severalTitled": {red},
	}
	for _, p := range schema.Properties {
		must.CheckEqual(t, cmp.Diff(want[p.Name], p.Schema.Options()), "", p.Name)
	}
}

func TestFormMustBeFlat(t *testing.T) {
	for _, raw := range []string{
		`{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}`,
		`{"type":"object","properties":{"a":{"type":"array"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}`,
		`{"type":"object","properties":{"a":{}}}`,
		`{"type":"object","properties":{"a":true}}`,
		`{"type":"object","properties":{"a":{"type":["string","null"]}}}`,
		`{"type":"object","properties":{"a":{"type":"string"},"a":{"type":"string"}}}`,
		`{"type":"object","properties":[]}`,
		`{"type":"array","properties":{}}`,
		`{"properties":{}}`,
		`true`,
		`null`,
		``,
	} {
		schema, err := mcp.ParseElicitSchema([]byte(raw))
		must.CheckThat(t, err != nil, "accepted %s as %+v", raw, schema)
	}
}

func TestAcceptElicitRequiresObject(t *testing.T) {
	result := must.Get(mcp.AcceptElicit(map[string]any{"age": int64(9007199254740993)}))(t)
	for _, codec := range codecs {
		raw := must.Get(codec.marshal(result))(t)
		must.CheckEqual(t, string(raw), `{"action":"accept","content":{"age":9007199254740993}}`, codec.name)
	}
	for _, content := range []any{nil, 1, "a", []string{"a"}, make(chan int)} {
		_, err := mcp.AcceptElicit(content)
		must.CheckThat(t, err != nil, "accepted %v", content)
	}
}

// Rule H7: URLs must use https or the loopback interface, and must not deceive the user.
func TestElicitURLMustBeSafe(t *testing.T) {
	for _, address := range []string{
		"https://example.com/pay?id=1", "HTTPS://example.com", "https://[2001:db8::1]:8443/x#y",
		"https://xn--pple-43d.com/",
		"http://127.0.0.1:8080/", "http://[::1]/", "http://LOCALHOST:1/",
	} {
		u := must.Get(mcp.ParseElicitURL(address))(t)
		must.CheckThat(t, u.Hostname() != "", "%s", address)
	}
	for _, address := range []string{
		"", "example.com", "//example.com/", "--new-window", "javascript:alert(1)", "file:///etc/passwd",
		"data:text/html,x", "ftp://example.com/",
		"https://", "https:///path", "https:example.com", "https://:443/", "https://%zz/", "https://example.com:x/",
		"http://example.com/", "http://localhost.evil.example/", "http://127.0.0.1.evil.example/", "http://0.0.0.0/",
		"https://example.com@evil.example/", "https://user:secret@example.com/", "https://@example.com/",
		"https://example.com/a b", "https://example.com/\n", "https://example.com/\x1b[2J",
		"https://example.com/\u202egpj", "https://exa\u200bmple.com/", "https://example.com/\xff",
		"https://example.com\\@evil.example/",
		"https://example.com/" + strings.Repeat("x", mcp.MaxElicitURL),
	} {
		u, err := mcp.ParseElicitURL(address)
		must.CheckThat(t, err != nil, "%q is accepted: %v", address, u)
	}
}

func TestSamplingMessageHasOneBlockOrSeveral(t *testing.T) {
	for _, c := range []struct {
		content []mcp.Content
		wire    string
	}{
		{[]mcp.Content{mcp.Text("a")}, `{"type":"text","text":"a"}`},
		{[]mcp.Content{mcp.Text("a"), mcp.Text("b")}, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`},
		{[]mcp.Content{}, `[]`},
	} {
		for _, codec := range codecs {
			message := mcp.SamplingMessage{Role: mcp.RoleUser, Content: c.content}
			raw, err := codec.marshal(message)
			must.Do(t, err)
			must.CheckEqual(t, string(raw), `{"role":"user","content":`+c.wire+`}`, codec.name)
			var back mcp.SamplingMessage
			must.Do(t, codec.unmarshal(raw, &back))
			must.CheckEqual(t, cmp.Diff(message, back), "", codec.name)

			result := mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: c.content, Model: "m"}
			raw, err = codec.marshal(result)
			must.Do(t, err)
			must.CheckEqual(t, string(raw), `{"role":"assistant","content":`+c.wire+`,"model":"m"}`, codec.name)
			var resultBack mcp.CreateMessageResult
			must.Do(t, codec.unmarshal(raw, &resultBack))
			must.CheckEqual(t, cmp.Diff(result, resultBack), "", codec.name)
		}
	}
}

func TestArrayOfOneBlockDecodes(t *testing.T) {
	for _, codec := range codecs {
		var m mcp.SamplingMessage
		must.Do(t, codec.unmarshal([]byte(`{"role":"user","content":[{"type":"text","text":"a"}]}`), &m))
		must.CheckEqual(t, cmp.Diff([]mcp.Content{mcp.Text("a")}, m.Content), "", codec.name)
	}
}

func TestSamplingMessageWithoutContentIsRejected(t *testing.T) {
	for _, raw := range []string{`{"role":"user"}`, `{"role":"user","content":null}`, `{"role":"user","content":"a"}`,
		`{"role":"user","content":[null]}`} {
		for _, codec := range codecs {
			err := codec.unmarshal([]byte(raw), new(mcp.SamplingMessage))
			must.CheckThat(t, err != nil, "%s: accepted the message %s", codec.name, raw)
			if err := codec.unmarshal([]byte(raw), new(mcp.CreateMessageResult)); err == nil {
				t.Errorf("%s: accepted the result %s", codec.name, raw)
			}
		}
	}
}

func use(id string) mcp.Content    { return &mcp.ToolUseContent{ID: id, Name: "weather"} }
func result(id string) mcp.Content { return &mcp.ToolResultContent{ToolUseID: id} }

// Rule Y6: every tool use has a result in the next message, which has no other content.
func TestEveryToolUseHasResult(t *testing.T) {
	user := func(content ...mcp.Content) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: mcp.RoleUser, Content: content}
	}
	model := func(content ...mcp.Content) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: content}
	}
	hello := mcp.Text("hello")
	type messages = []mcp.SamplingMessage
	for name, all := range map[string]messages{
		"nothing":    {},
		"no tools":   {user(hello), model(hello), user(hello, hello), user(hello)},
		"one":        {user(hello), model(hello, use("a")), user(result("a"))},
		"two":        {user(hello), model(use("a"), hello, use("b")), user(result("b"), result("a")), model(hello)},
		"twice":      {model(use("a")), user(result("a")), model(use("a")), user(result("a"))},
		"one by one": {model(use("a")), user(result("a")), model(use("b")), user(result("b")), user(hello)},
		"empty id":   {model(use("")), user(result(""))},
	} {
		must.Check(t, mcp.CheckToolResults(all), name)
	}
	for name, all := range map[string]messages{
		"no result":               {user(hello), model(use("a"))},
		"text instead":            {model(use("a")), user(hello)},
		"one of two":              {model(use("a"), use("b")), user(result("a"))},
		"too late":                {model(use("a")), model(hello), user(result("a"))},
		"too early":               {user(result("a")), model(use("a"))},
		"mixed with text":         {model(use("a")), user(result("a"), hello)},
		"mixed, text first":       {model(use("a")), user(hello, result("a"))},
		"a result too many":       {model(use("a")), user(result("a"), result("b"))},
		"a result twice":          {model(use("a")), user(result("a"), result("a"))},
		"of nothing":              {user(result("a"))},
		"again later":             {model(use("a")), user(result("a")), user(result("a"))},
		"by the model":            {model(use("a")), model(result("a"))},
		"used by the user":        {user(use("a")), user(result("a"))},
		"two uses of one id":      {model(use("a"), use("a")), user(result("a"))},
		"use and result together": {model(use("a"), result("a"))},
		"an empty message":        {model(use("a")), user()},
	} {
		err := mcp.CheckToolResults(all)
		must.CheckThat(t, err != nil, "%s: CheckToolResults returns nil", name)
	}
}

func TestUsesToolsReportsToolsAndToolContent(t *testing.T) {
	conversation := func(content ...mcp.Content) []mcp.SamplingMessage {
		return []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("x")}},
			{Role: mcp.RoleUser, Content: content}}
	}
	for name, test := range map[string]struct {
		params mcp.CreateMessageParams
		want   bool
	}{
		"text":       {mcp.CreateMessageParams{Messages: conversation(mcp.Text("x"))}, false},
		"tools":      {mcp.CreateMessageParams{Tools: []mcp.Tool{{Name: "a"}}}, true},
		"a choice":   {mcp.CreateMessageParams{ToolChoice: &mcp.ToolChoice{Mode: mcp.ToolChoiceNone}}, true},
		"a use":      {mcp.CreateMessageParams{Messages: conversation(use("a"))}, true},
		"its result": {mcp.CreateMessageParams{Messages: conversation(result("a"))}, true},
	} {
		must.CheckEqual(t, test.params.UsesTools(), test.want, name)
	}
}
