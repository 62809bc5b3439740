package revision_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

// encodeFor returns result encoded for a peer of revision r. It validates the encoding
// against the official schema.
func encodeFor(t *testing.T, r mcp.Revision, method string, result any) string {
	t.Helper()
	raw, err := revision.AppendResult(nil, r, result, []byte(`{"name":"s","version":"1"}`))
	if err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	message := append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), raw...), '}')
	if err := spec.ValidateMessage(r, message, method); err != nil {
		t.Errorf("%s: %v", r, err)
	}
	return string(raw)
}

func ptr[T any](v T) *T { return &v }

var everyContent = []mcp.Content{
	&mcp.TextContent{Text: "t", Meta: mcp.Meta{"a": json.RawMessage(`1`)}},
	&mcp.ImageContent{Data: []byte{1}, MimeType: "image/png", Meta: mcp.Meta{"a": json.RawMessage(`1`)}},
	&mcp.AudioContent{Data: []byte{1, 2}, MimeType: "audio/wav", Meta: mcp.Meta{"a": json.RawMessage(`1`)}},
	&mcp.EmbeddedResource{
		Resource: mcp.ResourceContents{URI: "file:///a", Text: "x", Meta: mcp.Meta{"a": json.RawMessage(`1`)}},
		Meta:     mcp.Meta{"a": json.RawMessage(`1`)},
	},
	&mcp.ResourceLink{URI: "file:///b", Name: "b", Title: "The b", Icons: []mcp.Icon{{Src: "https://example.com/i.png"}}},
}

func TestDowngradeConvertsContent(t *testing.T) {
	const (
		blocks = `{"type":"text","text":"t","_meta":{"a":1}},` +
			`{"type":"image","data":"AQ==","mimeType":"image/png","_meta":{"a":1}},` +
			`{"type":"audio","data":"AQI=","mimeType":"audio/wav","_meta":{"a":1}},` +
			`{"type":"resource","resource":{"uri":"file:///a","text":"x","_meta":{"a":1}},"_meta":{"a":1}},`
		link = `{"type":"resource_link","uri":"file:///b","name":"b","title":"The b"`
		old  = `{"type":"text","text":"t"},{"type":"image","data":"AQ==","mimeType":"image/png"},`
	)
	result := &mcp.CallToolResult{Content: everyContent}
	before := marshal(t, result)
	for r, want := range map[mcp.Revision]string{
		mcp.V20260728: `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"content":[` +
			blocks + link + `,"icons":[{"src":"https://example.com/i.png"}]}]}`,
		mcp.V20251125: `{"content":[` + blocks + link + `,"icons":[{"src":"https://example.com/i.png"}]}]}`,
		mcp.V20250618: `{"content":[` + blocks + link + `}]}`,
		mcp.V20250326: `{"content":[` + old + `{"type":"audio","data":"AQI=","mimeType":"audio/wav"},` +
			`{"type":"resource","resource":{"uri":"file:///a","text":"x"}},{"type":"text","text":"The b: file:///b"}]}`,
		mcp.V20241105: `{"content":[` + old + `{"type":"text","text":"[audio, audio/wav, 2 bytes: this revision of the protocol cannot carry it]"},` +
			`{"type":"resource","resource":{"uri":"file:///a","text":"x"}},{"type":"text","text":"The b: file:///b"}]}`,
	} {
		if diff := cmp.Diff(want, encodeFor(t, r, mcp.MethodCallTool, result)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r, diff)
		}
	}
	if after := marshal(t, result); after != before {
		t.Errorf("the result was modified:\n%s\n%s", before, after)
	}
}

// Until 2025-11-25 structured content was an object. Other values are removed together with
// the output schema that describes them, because the peer validates the content with the
// schema.
func TestOnlyModernPeersReceiveStructuredContentOfAnyType(t *testing.T) {
	for _, tc := range []struct {
		structured, content string
		since               mcp.Revision // the first revision with the field
		instead             string       // the content for older revisions
	}{
		{`{"a":1}`, `[{"type":"text","text":"t"}]`, mcp.V20250618, `[{"type":"text","text":"t"}]`},
		{` {"a":1}`, `[{"type":"text","text":"t"}]`, mcp.V20250618, `[{"type":"text","text":"t"}]`},
		{`[1,2]`, `[{"type":"text","text":"t"}]`, mcp.V20260728, `[{"type":"text","text":"t"}]`},
		{`"{"`, `[{"type":"text","text":"t"}]`, mcp.V20260728, `[{"type":"text","text":"t"}]`},
		{`null`, `[{"type":"text","text":"t"}]`, mcp.V20260728, `[{"type":"text","text":"t"}]`},
		{`[1,2]`, `[]`, mcp.V20260728, `[{"type":"text","text":"[1,2]"}]`},
		{`{"a":1}`, `[]`, mcp.V20250618, `[{"type":"text","text":"{\"a\":1}"}]`},
	} {
		result := &mcp.CallToolResult{StructuredContent: json.RawMessage(tc.structured)}
		if tc.content != `[]` {
			result.Content = []mcp.Content{mcp.Text("t")}
		}
		for _, r := range mcp.Revisions() {
			var got struct{ Content, StructuredContent json.RawMessage }
			if err := json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodCallTool, result)), &got); err != nil {
				t.Fatal(err)
			}
			if has := got.StructuredContent != nil; has != (r >= tc.since) {
				t.Errorf("%s: %s is present: %v", r, tc.structured, has)
			}
			want := tc.instead
			if r >= tc.since {
				want = tc.content
			}
			if string(got.Content) != want {
				t.Errorf("%s: the content with %s is %s, want %s", r, tc.structured, got.Content, want)
			}
		}
	}
}

func TestDowngradeConvertsTools(t *testing.T) {
	tool := mcp.Tool{
		Name: "t", Title: "T", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{ "type": "object" }`),
		Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true},
		Execution:    &mcp.ToolExecution{TaskSupport: mcp.TaskOptional},
		Icons:        []mcp.Icon{{Src: "https://example.com/i.png"}},
		Meta:         mcp.Meta{"a": json.RawMessage(`1`)},
	}
	list := &mcp.ListToolsResult{
		CacheHints: mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate},
		PageInfo:   mcp.PageInfo{NextCursor: ptr("n")},
		Tools:      []mcp.Tool{tool},
	}
	before := marshal(t, list)
	const (
		head   = `{"name":"t",`
		middle = `"description":"d","inputSchema":{"type":"object"}`
	)
	for r, want := range map[mcp.Revision]string{
		mcp.V20260728: head + `"title":"T",` + middle + `,"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"https://example.com/i.png"}],"_meta":{"a":1}}`,
		mcp.V20251125: head + `"title":"T",` + middle + `,"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"optional"},"icons":[{"src":"https://example.com/i.png"}],"_meta":{"a":1}}`,
		mcp.V20250618: head + `"title":"T",` + middle + `,"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"a":1}}`,
		mcp.V20250326: head + middle + `,"annotations":{"readOnlyHint":true}}`,
		mcp.V20241105: head + middle + `}`,
	} {
		var got struct {
			Tools      []json.RawMessage
			NextCursor string
			TTLMs      *int
			CacheScope string
		}
		if err := json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodListTools, list)), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Tools) != 1 || got.NextCursor != "n" || (got.TTLMs != nil) != r.Modern() || (got.CacheScope != "") != r.Modern() {
			t.Errorf("%s: %+v", r, got)
		}
		if diff := cmp.Diff(want, string(got.Tools[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r, diff)
		}
	}
	if after := marshal(t, list); after != before {
		t.Errorf("the list was modified:\n%s\n%s", before, after)
	}
}

func TestOnlyModernPeersReceiveOutputSchemasOfAnyType(t *testing.T) {
	for schema, since := range map[string]mcp.Revision{
		`{"type":"object"}`:                          mcp.V20250618,
		"{\n \"type\": \"object\"\n}":                mcp.V20250618,
		`{"type":"\u006fbject"}`:                     mcp.V20250618,
		`{"type":"array","items":{"type":"object"}}`: mcp.V20260728,
		`{"type":["object","null"]}`:                 mcp.V20260728,
		`{"properties":{"type":{"const":"object"}}}`: mcp.V20260728,
		`{}`: mcp.V20260728,
	} {
		list := &mcp.ListToolsResult{
			CacheHints: mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate},
			Tools:      []mcp.Tool{{Name: "t", OutputSchema: json.RawMessage(schema)}},
		}
		for _, r := range mcp.Revisions() {
			var got struct {
				Tools []struct{ OutputSchema json.RawMessage }
			}
			if err := json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodListTools, list)), &got); err != nil {
				t.Fatal(err)
			}
			if has := got.Tools[0].OutputSchema != nil; has != (r >= since) {
				t.Errorf("%s: the output schema %s is present: %v", r, schema, has)
			}
		}
	}
}

func TestDowngradeConvertsInitializeResults(t *testing.T) {
	result := &mcp.InitializeResult{
		ServerInfo: mcp.Implementation{
			Name: "n", Version: "1", Title: "T", Description: "d", WebsiteURL: "https://example.com", Icons: []mcp.Icon{{Src: "https://example.com/i.png"}},
		},
		Capabilities: mcp.ServerCapabilities{
			Completions: &mcp.Supported{}, Tools: &mcp.ToolsCapability{}, Tasks: &mcp.TasksCapability{},
			Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage(`{}`)},
		},
	}
	const whole = `{"name":"n","title":"T","version":"1","description":"d","icons":[{"src":"https://example.com/i.png"}],"websiteUrl":"https://example.com"}`
	for r, want := range map[mcp.Revision]struct{ info, capabilities string }{
		mcp.V20251125: {whole, `{"completions":{},"tools":{},"tasks":{}}`},
		mcp.V20250618: {`{"name":"n","title":"T","version":"1"}`, `{"completions":{},"tools":{}}`},
		mcp.V20250326: {`{"name":"n","version":"1"}`, `{"completions":{},"tools":{}}`},
		mcp.V20241105: {`{"name":"n","version":"1"}`, `{"tools":{}}`},
	} {
		var got struct{ ServerInfo, Capabilities json.RawMessage }
		if err := json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodInitialize, result)), &got); err != nil {
			t.Fatal(err)
		}
		if string(got.ServerInfo) != want.info || string(got.Capabilities) != want.capabilities {
			t.Errorf("%s: %s, %s", r, got.ServerInfo, got.Capabilities)
		}
	}
}

func TestDowngradeReturnsUnchangedResults(t *testing.T) {
	result := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("t")}, StructuredContent: json.RawMessage(`{}`)}
	for _, r := range []mcp.Revision{mcp.V20260728, mcp.V20251125, mcp.V20250618} {
		if revision.Downgrade(r, result) != any(result) {
			t.Errorf("%s: the result was copied", r)
		}
	}
	other := &mcp.EmptyResult{}
	if revision.Downgrade(mcp.V20241105, other) != any(other) {
		t.Error("a result that needs no change was copied")
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
