package revision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// encodeFor returns result encoded for a peer of revision r. It validates the encoding against the official schema.
func encodeFor(t *testing.T, r mcp.Revision, method string, result any) string {
	t.Helper()
	raw, err := revision.AppendResult(nil, r, result, []byte(`{"name":"s","version":"1"}`))
	must.Do(t, err, r)
	message := append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), raw...), '}')
	must.Check(t, spec.ValidateMessage(r, message, method), r)
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
	&mcp.ResourceLink{URI: "file:///b", Name: "b", Title: "The b",
		Icons: []mcp.Icon{{Src: "https://example.com/i.png"}}},
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
		mcp.V20260728: `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s",` +
			`"version":"1"}},"content":[` +
			blocks + link + `,"icons":[{"src":"https://example.com/i.png"}]}]}`,
		mcp.V20251125: `{"content":[` + blocks + link + `,"icons":[{"src":"https://example.com/i.png"}]}]}`,
		mcp.V20250618: `{"content":[` + blocks + link + `}]}`,
		mcp.V20250326: `{"content":[` + old + `{"type":"audio","data":"AQI=","mimeType":"audio/wav"},` +
			`{"type":"resource","resource":{"uri":"file:///a","text":"x"}},{"type":"text","text":"The b: file:///b"}]}`,
		mcp.V20241105: `{"content":[` + old +
			`{"type":"text","text":"[audio, audio/wav, 2 bytes: this revision of the protocol cannot carry it]"},` +
			`{"type":"resource","resource":{"uri":"file:///a","text":"x"}},{"type":"text","text":"The b: file:///b"}]}`,
	} {
		must.CheckEqual(t, cmp.Diff(want, encodeFor(t, r, mcp.MethodCallTool, result)), "", r)
	}
	must.CheckEqual(t, marshal(t, result), before)
}

// Until 2025-11-25 structured content was an object. Other values are wrapped since 2025-06-18, as by other SDKs.
func TestOnlyModernPeersReceiveStructuredContentOfAnyType(t *testing.T) {
	for _, tc := range []struct{ structured, content, wrapped, instead string }{
		{`{"a":1}`, `[{"type":"text","text":"t"}]`, `{"a":1}`, `[{"type":"text","text":"t"}]`},
		{` {"a":1}`, `[{"type":"text","text":"t"}]`, `{"a":1}`, `[{"type":"text","text":"t"}]`},
		{`[1,2]`, `[{"type":"text","text":"t"}]`, `{"result":[1,2]}`, `[{"type":"text","text":"t"}]`},
		{`"{"`, `[{"type":"text","text":"t"}]`, `{"result":"{"}`, `[{"type":"text","text":"t"}]`},
		{`null`, `[{"type":"text","text":"t"}]`, ``, `[{"type":"text","text":"t"}]`},
		{`[1,2]`, `[]`, `{"result":[1,2]}`, `[{"type":"text","text":"[1,2]"}]`},
		{`{"a":1}`, `[]`, `{"a":1}`, `[{"type":"text","text":"{\"a\":1}"}]`},
	} {
		result := &mcp.CallToolResult{StructuredContent: json.RawMessage(tc.structured)}
		if tc.content != `[]` {
			result.Content = []mcp.Content{mcp.Text("t")}
		}
		for _, r := range mcp.Revisions() {
			var got struct{ Content, StructuredContent json.RawMessage }
			must.Do(t, json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodCallTool, result)), &got))
			structured, content := tc.structured, tc.content
			switch {
			case r < mcp.V20250618:
				structured, content = "", tc.instead
			case r < mcp.V20260728:
				structured = tc.wrapped
				if structured != strings.TrimSpace(tc.structured) {
					content = tc.instead
				}
			}
			must.CheckEqual(t, string(got.StructuredContent), strings.TrimSpace(structured), r, tc.structured)
			must.CheckEqual(t, string(got.Content), content, r, tc.structured)
			value, ok := revision.UnwrapValue(got.StructuredContent)
			if must.CheckEqual(t, ok, strings.HasPrefix(structured, `{"result"`), r, tc.structured); ok {
				must.CheckEqual(t, string(value), tc.structured, r)
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
		mcp.V20260728: head + `"title":"T",` + middle +
			`,"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},` +
			`"icons":[{"src":"https://example.com/i.png"}],"_meta":{"a":1}}`,
		mcp.V20251125: head + `"title":"T",` + middle +
			`,"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},` +
			`"execution":{"taskSupport":"optional"},"icons":[{"src":"https://example.com/i.png"}],"_meta":{"a":1}}`,
		mcp.V20250618: head + `"title":"T",` + middle +
			`,"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"a":1}}`,
		mcp.V20250326: head + middle + `,"annotations":{"readOnlyHint":true}}`,
		mcp.V20241105: head + middle + `}`,
	} {
		var got struct {
			Tools      []json.RawMessage
			NextCursor string
			TTLMs      *int
			CacheScope string
		}
		must.Do(t, json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodListTools, list)), &got))
		must.CheckThat(t, len(got.Tools) == 1 && got.NextCursor == "n" && (got.TTLMs != nil) == r.Modern() &&
			(got.CacheScope != "") == r.Modern(), "%s: %+v", r, got)
		must.CheckEqual(t, cmp.Diff(want, string(got.Tools[0])), "", r)
	}
	must.CheckEqual(t, marshal(t, list), before)
}

// A schema that excludes objects is wrapped in the same way as its values. Other schemas are left out, because
// the values may be objects.
func TestOnlyModernPeersReceiveOutputSchemasOfAnyType(t *testing.T) {
	const same = "same"
	wrapped := func(schema string) string {
		return `{"type":"object","properties":{"result":` + schema + `},"required":["result"]}`
	}
	const items = `{"type":"array","items":{"$ref":"#/$defs/a"}`
	for schema, want := range map[string]string{
		`{"type":"object"}`:                          same,
		"{\n \"type\": \"object\"\n}":                same,
		`{"type":"\u006fbject"}`:                     same,
		`{"type":"array","items":{"type":"object"}}`: wrapped(`{"type":"array","items":{"type":"object"}}`),
		`{"type":["string","number"]}`:               wrapped(`{"type":["string","number"]}`),
		`{"type":["string","null"]}`:                 "",
		`{"type":["object","null"]}`:                 "",
		`{"type":7}`:                                 "",
		`{"properties":{"type":{"const":"object"}}}`: "",
		`{}`: "",
		items + `,"$defs":{"a":{"type":"string"}}}`:  `{"$defs":{"a":{"type":"string"}},` + wrapped(items + `}`)[1:],
		`{"type":"array","items":{"$ref":"#"}}`:      "", // the reference would point to the wrapper
		`{"type":"array","$id":"https://a.example"}`: "",
	} {
		list := &mcp.ListToolsResult{
			CacheHints: mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate},
			Tools:      []mcp.Tool{{Name: "t", OutputSchema: json.RawMessage(schema)}},
		}
		for _, r := range mcp.Revisions() {
			var got struct {
				Tools []struct{ OutputSchema json.RawMessage }
			}
			must.Do(t, json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodListTools, list)), &got))
			switch out := string(got.Tools[0].OutputSchema); {
			case r < mcp.V20250618:
				must.CheckEqual(t, out, "", r, schema)
			case r >= mcp.V20260728 || want == same:
				must.CheckEqual(t, out != "", true, r, schema)
			default:
				must.CheckEqual(t, out, want, r, schema)
			}
		}
	}
}

func TestDowngradeConvertsInitializeResults(t *testing.T) {
	result := &mcp.InitializeResult{
		ServerInfo: mcp.Implementation{
			Name: "n", Version: "1", Title: "T", Description: "d", WebsiteURL: "https://example.com",
			Icons: []mcp.Icon{{Src: "https://example.com/i.png"}},
		},
		Capabilities: mcp.ServerCapabilities{
			Completions: &mcp.Supported{}, Tools: &mcp.ToolsCapability{}, Tasks: &mcp.TasksCapability{},
			Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage(`{}`)},
		},
	}
	const whole = `{"name":"n","title":"T","version":"1","description":"d",` +
		`"icons":[{"src":"https://example.com/i.png"}],"websiteUrl":"https://example.com"}`
	for r, want := range map[mcp.Revision]struct{ info, capabilities string }{
		mcp.V20251125: {whole, `{"completions":{},"tools":{},"tasks":{}}`},
		mcp.V20250618: {`{"name":"n","title":"T","version":"1"}`, `{"completions":{},"tools":{}}`},
		mcp.V20250326: {`{"name":"n","version":"1"}`, `{"completions":{},"tools":{}}`},
		mcp.V20241105: {`{"name":"n","version":"1"}`, `{"tools":{}}`},
	} {
		var got struct{ ServerInfo, Capabilities json.RawMessage }
		must.Do(t, json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodInitialize, result)), &got))
		must.CheckThat(t, string(got.ServerInfo) == want.info && string(got.Capabilities) == want.capabilities,
			"%s: %s, %s", r, got.ServerInfo, got.Capabilities)
	}
}

func TestDowngradeReturnsUnchangedResults(t *testing.T) {
	result := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("t")}, StructuredContent: json.RawMessage(`{}`)}
	for _, r := range []mcp.Revision{mcp.V20260728, mcp.V20251125, mcp.V20250618} {
		must.CheckEqual(t, revision.Downgrade(r, result), any(result), r)
	}
	other := &mcp.EmptyResult{}
	must.CheckEqual(t, revision.Downgrade(mcp.V20241105, other), any(other))
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw := must.Get(json.Marshal(v))(t)
	return string(raw)
}

// Rule J10: no peer receives a code that its revision does not have.
func TestDowngradeErrorConvertsCodes(t *testing.T) {
	data := json.RawMessage(`{"uri":"note://a"}`)
	for code, want := range map[int64]map[mcp.Revision]int64{
		mcp.CodeResourceNotFound: {
			mcp.V20260728: jsonrpc.CodeInvalidParams,
			mcp.V20251125: mcp.CodeResourceNotFound, mcp.V20250618: mcp.CodeResourceNotFound,
			mcp.V20250326: mcp.CodeResourceNotFound, mcp.V20241105: mcp.CodeResourceNotFound,
		},
		mcp.CodeURLElicitationRequired: {
			mcp.V20260728: jsonrpc.CodeInternalError, mcp.V20251125: mcp.CodeURLElicitationRequired,
			mcp.V20250618: jsonrpc.CodeInternalError, mcp.V20250326: jsonrpc.CodeInternalError,
			mcp.V20241105: jsonrpc.CodeInternalError,
		},
		jsonrpc.CodeInvalidParams: {
			mcp.V20260728: jsonrpc.CodeInvalidParams, mcp.V20251125: jsonrpc.CodeInvalidParams,
			mcp.V20250618: jsonrpc.CodeInvalidParams,
			mcp.V20250326: jsonrpc.CodeInvalidParams, mcp.V20241105: jsonrpc.CodeInvalidParams,
		},
	} {
		e := &jsonrpc.Error{Code: code, Message: "m", Data: data}
		for r, code := range want {
			got := revision.DowngradeError(r, e)
			if got.Code != code || got.Message != "m" || string(got.Data) != string(data) {
				t.Errorf("%d is reported to %s as %+v", e.Code, r, got)
			}
			must.CheckEqual(t, got == e, code == e.Code, e.Code, r)
			if code != mcp.CodeURLElicitationRequired { // the test data does not fit this error
				must.Check(t, spec.ValidateMessage(r, jsonrpc.AppendError(nil, jsonrpc.IntID(1), got, false), ""))
			}
		}
	}
}

// one decodes the only element of a list in a result.
func one(t *testing.T, raw, list string) string {
	t.Helper()
	var members map[string]json.RawMessage
	must.Do(t, json.Unmarshal([]byte(raw), &members))
	var elements []json.RawMessage
	err := json.Unmarshal(members[list], &elements)
	must.That(t, err == nil && len(elements) == 1, "%v: %s in %s", err, list, raw)
	must.CheckThat(t, members["ttlMs"] == nil || members["resultType"] != nil,
		"caching hints for a legacy peer: %s", raw)
	return string(elements[0])
}

func TestDowngradeConvertsResourcesAndPrompts(t *testing.T) {
	hints := mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate}
	icons := []mcp.Icon{{Src: "https://example.com/i.png"}}
	meta := mcp.Meta{"a": json.RawMessage(`1`)}
	notes := &mcp.Annotations{Priority: ptr(0.5), LastModified: "2026-01-02T03:04:05Z"}
	const (
		anyIcons = `,"icons":[{"src":"https://example.com/i.png"}]`
		anyMeta  = `,"_meta":{"a":1}`
		whole    = `,"annotations":{"priority":0.5,"lastModified":"2026-01-02T03:04:05Z"}`
		less     = `,"annotations":{"priority":0.5}`
	)
	for _, tc := range []struct {
		method, list string
		result       any
		want         [3]string // since 2025-11-25, in 2025-06-18, before
	}{
		{mcp.MethodListResources, "resources", &mcp.ListResourcesResult{CacheHints: hints, Resources: []mcp.Resource{{
			URI: "a:b", Name: "n", Title: "T", Size: ptr(int64(3)), Annotations: notes, Icons: icons, Meta: meta,
		}}}, [3]string{
			`{"uri":"a:b","name":"n","title":"T"` + whole + `,"size":3` + anyIcons + anyMeta + `}`,
			`{"uri":"a:b","name":"n","title":"T"` + whole + `,"size":3` + anyMeta + `}`,
			`{"uri":"a:b","name":"n"` + less + `,"size":3}`,
		}},
		{mcp.MethodListResourceTemplates, "resourceTemplates",
			&mcp.ListResourceTemplatesResult{CacheHints: hints, ResourceTemplates: []mcp.ResourceTemplate{{
				URITemplate: "a:{b}", Name: "n", Title: "T",
				Annotations: &mcp.Annotations{LastModified: "2026-01-02T03:04:05Z"}, Icons: icons, Meta: meta,
			}}}, [3]string{
				`{"uriTemplate":"a:{b}","name":"n","title":"T","annotations":{"lastModified":"2026-01-02T03:04:05Z"}` +
					anyIcons + anyMeta + `}`,
				`{"uriTemplate":"a:{b}","name":"n","title":"T","annotations":{"lastModified":"2026-01-02T03:04:05Z"}` +
					anyMeta + `}`,
				`{"uriTemplate":"a:{b}","name":"n"}`,
			}},
		{mcp.MethodReadResource, "contents", &mcp.ReadResourceResult{CacheHints: hints,
			Contents: []mcp.ResourceContents{{
				URI: "a:b", Text: "t", Meta: meta,
			}}}, [3]string{
			`{"uri":"a:b","text":"t"` + anyMeta + `}`,
			`{"uri":"a:b","text":"t"` + anyMeta + `}`,
			`{"uri":"a:b","text":"t"}`,
		}},
		{mcp.MethodListPrompts, "prompts", &mcp.ListPromptsResult{CacheHints: hints, Prompts: []mcp.Prompt{{
			Name: "n", Title: "T", Arguments: []mcp.PromptArgument{{Name: "a", Title: "A", Required: true}},
			Icons: icons, Meta: meta,
		}}}, [3]string{
			`{"name":"n","title":"T","arguments":[{"name":"a","title":"A","required":true}]` + anyIcons + anyMeta + `}`,
			`{"name":"n","title":"T","arguments":[{"name":"a","title":"A","required":true}]` + anyMeta + `}`,
			`{"name":"n","arguments":[{"name":"a","required":true}]}`,
		}},
		{mcp.MethodGetPrompt, "messages", &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{
			Role: mcp.RoleUser, Content: &mcp.TextContent{Text: "t", Annotations: notes, Meta: meta},
		}}}, [3]string{
			`{"role":"user","content":{"type":"text","text":"t"` + whole + anyMeta + `}}`,
			`{"role":"user","content":{"type":"text","text":"t"` + whole + anyMeta + `}}`,
			`{"role":"user","content":{"type":"text","text":"t"` + less + `}}`,
		}},
	} {
		before := marshal(t, tc.result)
		for _, r := range mcp.Revisions() {
			want := tc.want[2]
			if r >= mcp.V20251125 {
				want = tc.want[0]
			} else if r >= mcp.V20250618 {
				want = tc.want[1]
			}
			must.CheckEqual(t, cmp.Diff(want, one(t, encodeFor(t, r, tc.method, tc.result), tc.list)), "", tc.method, r)
		}
		must.CheckEqual(t, marshal(t, tc.result), before, tc.method)
	}
}

func TestDowngradeConvertsPromptsLikeToolResults(t *testing.T) {
	prompt := &mcp.GetPromptResult{ResultBase: mcp.ResultBase{ResultType: mcp.ResultTypeComplete}}
	for _, c := range everyContent {
		prompt.Messages = append(prompt.Messages, mcp.PromptMessage{Role: mcp.RoleAssistant, Content: c})
	}
	for _, r := range mcp.Revisions() {
		var messages struct {
			Messages []struct{ Content json.RawMessage }
		}
		must.Do(t, json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodGetPrompt, prompt)), &messages))
		var result struct{ Content []json.RawMessage }
		must.Do(t, json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodCallTool,
			&mcp.CallToolResult{Content: everyContent})), &result))
		for i, m := range messages.Messages {
			must.CheckEqual(t, string(m.Content), string(result.Content[i]), r)
		}
	}
}

func TestDowngradeCompletionConvertsParams(t *testing.T) {
	params := mcp.CompleteParams{
		Ref:     mcp.CompleteReference{Type: mcp.RefPrompt, Name: "n", Title: "T"},
		Context: &mcp.CompleteContext{Arguments: map[string]string{"a": "b"}},
	}
	for _, r := range mcp.Revisions() {
		got := revision.DowngradeCompletion(r, params)
		knows := r >= mcp.V20250618
		must.CheckThat(t, (got.Ref.Title != "") == knows && (got.Context != nil) == knows, "%s: %+v", r, got)
	}
}

// The hand-written encoding of contents must equal the JSON library's.
func TestContentsEncodeAsByTheLibrary(t *testing.T) {
	contents := rapid.Custom(func(t *rapid.T) mcp.ResourceContents {
		c := mcp.ResourceContents{URI: text().Draw(t, "uri"), MimeType: text().Draw(t, "type"),
			Text: text().Draw(t, "text"), Meta: meta().Draw(t, "meta")}
		if rapid.Bool().Draw(t, "binary") {
			c.Blob = rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "blob")
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		result := &mcp.ReadResourceResult{
			CacheHints: mcp.CacheHints{TTLMs: ptr(rapid.Int64Min(0).Draw(t, "ttl")),
				CacheScope: rapid.SampledFrom([]mcp.CacheScope{"", "private", "public"}).Draw(t, "scope")},
			Contents: rapid.SliceOfN(contents, 0, 3).Draw(t, "contents"),
		}
		result.Meta = meta().Draw(t, "_meta")
		r := rapid.SampledFrom(mcp.Revisions()).Draw(t, "revision")
		before := must.Get(json.Marshal(result))(t)
		got := must.Get(revision.AppendResult(nil, r, result, nil))(t)
		after, _ := json.Marshal(result)
		must.That(t, string(before) == string(after), "the result was modified:\n%s\n%s", before, after)
		plain := must.Get(json.Marshal(revision.Downgrade(r, result)))(t)
		want := members(t, plain)
		if r.Modern() {
			want["resultType"] = mcp.ResultTypeComplete
		}
		must.Equal(t, cmp.Diff(want, members(t, got)), "", r, got)
	})
}

func TestInvalidUTF8InPromptsAndResourcesIsReplaced(t *testing.T) {
	const bad, good = "a\xffb", "a\uFFFDb"
	meta := mcp.Meta{"a": json.RawMessage(`1`)} // not the hand-written encoding
	for _, r := range mcp.Revisions() {
		read := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: "x:" + bad, MimeType: bad, Text: bad,
			Meta: meta}}}
		raw, err := revision.AppendResult(nil, r, read, nil)
		var back mcp.ReadResourceResult
		must.CheckThat(t, err == nil && json.Unmarshal(raw, &back) == nil && back.Contents[0].Text == good &&
			back.Contents[0].URI == "x:"+good && back.Contents[0].MimeType == good, "%s: %s, %v", r, raw, err)
		prompt := &mcp.GetPromptResult{Description: bad, Messages: []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: mcp.Text("fine")},
			{Role: mcp.RoleUser, Content: mcp.Text(bad)},
			{Role: mcp.RoleUser, Content: &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:y", Text: bad}}},
		}}
		raw, err = revision.AppendResult(nil, r, prompt, nil)
		var result mcp.GetPromptResult
		must.CheckThat(t, err == nil && json.Unmarshal(raw, &result) == nil && result.Description == good &&
			result.Messages[1].Content.(*mcp.TextContent).Text == good &&
			result.Messages[2].Content.(*mcp.EmbeddedResource).Resource.Text == good, "%s: %s, %v", r, raw, err)
		must.CheckThat(t, prompt.Description == bad && prompt.Messages[1].Content.(*mcp.TextContent).Text == bad,
			"the result was modified")
	}
}
