package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

// An encoding has the bytes of the source for everything that the program has not changed.
func TestEncodingKeepsWhatTheProgramDoesNotChange(t *testing.T) {
	const tool = `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}}}`
	for name, test := range map[string]struct {
		change func(*mcp.Tool)
		want   string
	}{
		"nothing":            {func(*mcp.Tool) {}, tool},
		"a member":           {func(t *mcp.Tool) { t.Name = "b" }, `{"x":1.50,"name":"b","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"a zero member":      {func(t *mcp.Tool) { t.Title = "t" }, `{"x":1.50,"name":"a","title":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"a member inside":    {func(t *mcp.Tool) { t.Annotations.ReadOnlyHint = true }, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"an element":         {func(t *mcp.Tool) { t.Icons[1].Src = "https://e/c" }, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/c"}],"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"a removed element":  {func(t *mcp.Tool) { t.Icons = t.Icons[1:] }, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}}}`},
		"removed members":    {func(t *mcp.Tool) { t.Annotations = nil; delete(t.Meta, "c/d") }, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],"_meta":{"a/b":1e2}}`},
		"an added member":    {func(t *mcp.Tool) { t.Description = "d" }, `{"x":1.50,"name":"a","title":"","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"y":[null],"destructiveHint":true},"icons":[{"src":"https://e/a","z":false},{"src":"https://e/b"}],"_meta":{"a/b": 1e2,"c/d":{}},"description":"d"}`},
		"an invalid source":  {func(t *mcp.Tool) { t.Source = json.RawMessage("{"); t.Annotations, t.Icons, t.Meta = nil, nil, nil }, `{"name":"a","inputSchema":{"type":"object"}}`},
		"a source of others": {func(t *mcp.Tool) { t.Source = json.RawMessage(`[]`); t.Annotations, t.Icons, t.Meta = nil, nil, nil }, `{"name":"a","inputSchema":{"type":"object"}}`},
	} {
		var got mcp.Tool
		if err := json.Unmarshal([]byte(tool), &got); err != nil {
			t.Fatal(err)
		}
		if got.Source != nil {
			t.Error("decoding sets Source")
		}
		got.Source = json.RawMessage(tool)
		test.change(&got)
		if raw, err := got.MarshalJSON(); err != nil || string(raw) != test.want {
			t.Errorf("%s:\n%s, %v, want\n%s", name, raw, err, test.want)
		}
	}
}

func TestEncodingOfASourceHasOneLine(t *testing.T) {
	result := mcp.CallToolResult{Content: []mcp.Content{mcp.Text("a\nb")}}
	result.Source = json.RawMessage("{\"content\": [\n{\"type\":\"text\",\r\n\"text\":\"a\\nb\"}], \"x\":\n1}")
	want := `{"content": [ {"type":"text",  "text":"a\nb"}], "x": 1}`
	if raw, err := result.MarshalJSON(); err != nil || string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
	result.IsError = true
	want = `{"content":[ {"type":"text",  "text":"a\nb"}],"x":1,"isError":true}`
	if raw, err := result.MarshalJSON(); err != nil || string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
}
