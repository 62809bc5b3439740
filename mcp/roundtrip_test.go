package mcp_test

import (
	"bytes"
	"encoding/json"
	"path"
	"reflect"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

// codec is a JSON library.
type codec struct {
	name      string
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

var codecs = []codec{
	{"encoding/json", json.Marshal, json.Unmarshal},
	{
		"json/v2",
		func(v any) ([]byte, error) { return jsonv2.Marshal(v) },
		func(data []byte, v any) error { return jsonv2.Unmarshal(data, v) },
	},
}

func TestPublishedExamplesRoundTrip(t *testing.T) {
	n := 0
	for name, raw := range spec.Examples(mcp.V20260728) {
		goType, raw := typeOfExample(t, path.Dir(name), raw)
		if goType == nil {
			continue
		}
		n++
		for _, codec := range codecs {
			v := reflect.New(goType)
			if err := codec.unmarshal(raw, v.Interface()); err != nil {
				t.Errorf("%s: %s does not decode into %s: %v", name, codec.name, goType, err)
				continue
			}
			for _, v := range []any{v.Interface(), v.Elem().Interface()} { // pointer and value
				got, err := codec.marshal(v)
				if err != nil {
					t.Errorf("%s: %s does not encode %T: %v", name, codec.name, v, err)
					continue
				}
				must.CheckEqual(t, withoutDefaults(canonical(t, got)), withoutDefaults(canonical(t, raw)), name,
					codec.name, v, got)
			}
		}
	}
	must.CheckThat(t, n >= 100, "%d examples, want at least 100", n)
}

// typeOfExample returns the Go type for an example, and the part of the example that it represents.
func typeOfExample(t *testing.T, definition string, raw []byte) (reflect.Type, []byte) {
	t.Helper()
	var message struct {
		Params json.RawMessage
		Result json.RawMessage
		Error  struct{ Data json.RawMessage }
	}
	decodeMessage := func() { must.Do(t, json.Unmarshal(raw, &message)) }
	result, isResponse := strings.CutSuffix(definition, "Response")
	switch {
	case strings.HasSuffix(definition, "Request"), strings.HasSuffix(definition, "Notification"):
		if decodeMessage(); message.Params == nil {
			return nil, nil
		}
		return vocabulary[definition], message.Params
	case isResponse:
		decodeMessage()
		return vocabulary[result], message.Result
	case definition == "MissingRequiredClientCapabilityError", definition == "UnsupportedProtocolVersionError":
		decodeMessage()
		return vocabulary[definition], message.Error.Data
	case without[definition] != "":
		return nil, nil
	}
	goType, ok := vocabulary[definition]
	must.CheckThat(t, ok, "no Go type for examples of %s", definition)
	return goType, raw
}

// canonical returns raw in a canonical form, with the digits of numbers unchanged.
func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	must.Do(t, dec.Decode(&v), raw)
	out := must.Get(json.Marshal(v))(t)
	return string(out)
}

// withoutDefaults removes keys with default values, which are not encoded.
func withoutDefaults(canonical string) string {
	for _, member := range []string{`"isError":false`, `"hasMore":false`} {
		canonical = strings.ReplaceAll(canonical, member+",", "")
		canonical = strings.ReplaceAll(canonical, ","+member, "")
	}
	return canonical
}

func TestRawJSONKeepsItsNumbers(t *testing.T) {
	const args = `{"id":9007199254740993,"big":123456789012345678901234567890,"frac":1.10}`
	for _, codec := range codecs {
		var p mcp.CallToolParams
		must.Do(t, codec.unmarshal([]byte(`{"name":"a","arguments":`+args+`}`), &p))
		must.CheckEqual(t, string(p.Arguments), args, codec.name)
		got := must.Get(codec.marshal(p))(t)
		must.CheckEqual(t, string(got), `{"name":"a","arguments":`+args+`}`, codec.name)
	}
}

func TestDecodedValuesDoNotShareMemoryWithTheInput(t *testing.T) {
	input := []byte(`{"content":[{"type":"text","text":"abc"},{"type":"new","x":"abc"}],` +
		`"structuredContent":{"a":"abc"},"_meta":{"k":"abc"}}`)
	for _, codec := range codecs {
		var r mcp.CallToolResult
		data := bytes.Clone(input)
		must.Do(t, codec.unmarshal(data, &r))
		copy(data, bytes.Repeat([]byte("x"), len(data)))
		got := must.Get(codec.marshal(r))(t)
		must.CheckEqual(t, canonical(t, got), canonical(t, input), codec.name, got)
	}
}

// If two parsers read a message differently, one may authorize what the other does not execute.
func TestUnmarshalJSONMethodsAreStrict(t *testing.T) {
	for _, raw := range []string{
		`{"content":[],"content":[]}`,
		`{"content":[{"type":"text","text":"a","text":"b"}]}`,
		`{"content":[{"type":"text","text":"a","type":"image"}]}`,
		`{"content":[{"type":"new","type":"newer"}]}`,
		"{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}",
	} {
		for _, codec := range codecs {
			var r mcp.CallToolResult
			err := codec.unmarshal([]byte(raw), &r)
			must.CheckThat(t, err != nil, "%s accepted %s as %+v", codec.name, raw, r)
		}
	}
	for _, codec := range codecs {
		var r mcp.CallToolResult
		must.Do(t, codec.unmarshal([]byte(`{"Content":[{"type":"text","text":"a"}],"isError":true}`), &r))
		must.CheckThat(t, r.Content == nil && r.IsError, "%s decodes the member Content as content: %+v", codec.name, r)
	}
}

// Required fields are always encoded, and required arrays are never null.
func TestZeroValuesHaveTheirRequiredMembers(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{mcp.CallToolResult{}, `{"content":[]}`},
		{mcp.ListToolsResult{}, `{"tools":[]}`},
		{mcp.ListResourcesResult{}, `{"resources":[]}`},
		{mcp.ListResourceTemplatesResult{}, `{"resourceTemplates":[]}`},
		{mcp.ListPromptsResult{}, `{"prompts":[]}`},
		{mcp.ListRootsResult{}, `{"roots":[]}`},
		{mcp.ListTasksResult{}, `{"tasks":[]}`},
		{mcp.ReadResourceResult{}, `{"contents":[]}`},
		{mcp.GetPromptResult{}, `{"messages":[]}`},
		{mcp.CompleteResult{}, `{"completion":{"values":[]}}`},
		{mcp.DiscoverResult{}, `{"supportedVersions":[],"capabilities":{}}`},
		{mcp.CreateMessageParams{}, `{"messages":[],"maxTokens":0}`},
		{mcp.UpdateTaskParams{}, `{"taskId":"","inputResponses":{}}`},
		{mcp.UnsupportedVersionData{}, `{"supported":[],"requested":""}`},
		{mcp.URLElicitationRequiredData{}, `{"elicitations":[]}`},
		{mcp.ToolResultContent{}, `{"type":"tool_result","toolUseId":"","content":[]}`},
		{mcp.ElicitSchema{}, `{"type":"object","properties":{}}`},
		{mcp.Tool{}, `{"name":"","inputSchema":{"type":"object"}}`},
		{mcp.ToolUseContent{}, `{"type":"tool_use","id":"","name":"","input":{}}`},
		{mcp.ProgressParams{}, `{"progressToken":null,"progress":0}`},
		{mcp.Task{}, `{"taskId":"","status":"","createdAt":"","lastUpdatedAt":"","ttlMs":null}`},
		{mcp.LegacyTask{}, `{"taskId":"","status":"","createdAt":"","lastUpdatedAt":"","ttl":null}`},
	} {
		for _, codec := range codecs {
			pointer := reflect.New(reflect.TypeOf(c.v))
			pointer.Elem().Set(reflect.ValueOf(c.v))
			for _, v := range []any{c.v, pointer.Interface()} {
				got, err := codec.marshal(v)
				if err != nil {
					t.Errorf("%s: %T: %v", codec.name, v, err)
				} else if string(got) != c.want {
					t.Errorf("%s: %T encodes as %s, want %s", codec.name, v, got, c.want)
				}
			}
		}
	}
}

func TestEmptyCursorIsPresent(t *testing.T) {
	for _, codec := range codecs {
		var page mcp.ListToolsResult
		must.Do(t, codec.unmarshal([]byte(`{"tools":[],"nextCursor":""}`), &page))
		must.That(t, page.NextCursor != nil, "%s: an empty nextCursor decodes as nil", codec.name)
		got := must.Get(codec.marshal(mcp.PaginatedParams{Cursor: page.NextCursor}))(t)
		must.CheckEqual(t, string(got), `{"cursor":""}`, codec.name)
	}
}

func TestEncodingIsDeterministic(t *testing.T) {
	result := mcp.CallToolResult{ResultBase: mcp.ResultBase{Meta: mcp.Meta{}}}
	for _, key := range []string{"e", "d", "c", "b", "a", "h", "g", "f"} {
		must.Do(t, result.Meta.Set(key, 1))
	}
	const want = `{"_meta":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1},"content":[]}`
	for range 20 {
		got := must.Get(result.MarshalJSON())(t)
		must.Equal(t, string(got), want)
	}
}

func FuzzContentRoundTrip(f *testing.F) {
	for name, raw := range spec.Examples(mcp.V20260728) {
		if strings.HasSuffix(path.Dir(name), "Content") || strings.HasPrefix(name, "Resource") ||
			strings.HasPrefix(name, "EmbeddedResource") {
			f.Add(raw)
		}
	}
	f.Add([]byte(`{"type":"later","x":[1.0,{"y":null}]}`))
	f.Fuzz(func(t *testing.T, block []byte) {
		raw := append(append([]byte(`{"content":[`), block...), `]}`...)
		var first mcp.CallToolResult
		if err := first.UnmarshalJSON(raw); err != nil {
			return
		}
		must.That(t, jsontext.Value(raw).IsValid(), "decoded invalid JSON: %q", raw)
		once, err := first.MarshalJSON()
		must.Do(t, err, raw, "decodes but does not encode")
		var second mcp.CallToolResult
		must.Do(t, second.UnmarshalJSON(once), once, "does not decode again")
		twice := must.Get(second.MarshalJSON())(t)
		must.Equal(t, string(once), string(twice), raw)
	})
}
