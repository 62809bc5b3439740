package revision_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

// one decodes the only element of a list in a result.
func one(t *testing.T, raw, list string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &members); err != nil {
		t.Fatal(err)
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(members[list], &elements); err != nil || len(elements) != 1 {
		t.Fatalf("%v: %s in %s", err, list, raw)
	}
	if members["ttlMs"] != nil && members["resultType"] == nil {
		t.Errorf("caching hints for a legacy peer: %s", raw)
	}
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
		{mcp.MethodListResourceTemplates, "resourceTemplates", &mcp.ListResourceTemplatesResult{CacheHints: hints, ResourceTemplates: []mcp.ResourceTemplate{{
			URITemplate: "a:{b}", Name: "n", Title: "T", Annotations: &mcp.Annotations{LastModified: "2026-01-02T03:04:05Z"}, Icons: icons, Meta: meta,
		}}}, [3]string{
			`{"uriTemplate":"a:{b}","name":"n","title":"T","annotations":{"lastModified":"2026-01-02T03:04:05Z"}` + anyIcons + anyMeta + `}`,
			`{"uriTemplate":"a:{b}","name":"n","title":"T","annotations":{"lastModified":"2026-01-02T03:04:05Z"}` + anyMeta + `}`,
			`{"uriTemplate":"a:{b}","name":"n"}`,
		}},
		{mcp.MethodReadResource, "contents", &mcp.ReadResourceResult{CacheHints: hints, Contents: []mcp.ResourceContents{{
			URI: "a:b", Text: "t", Meta: meta,
		}}}, [3]string{
			`{"uri":"a:b","text":"t"` + anyMeta + `}`,
			`{"uri":"a:b","text":"t"` + anyMeta + `}`,
			`{"uri":"a:b","text":"t"}`,
		}},
		{mcp.MethodListPrompts, "prompts", &mcp.ListPromptsResult{CacheHints: hints, Prompts: []mcp.Prompt{{
			Name: "n", Title: "T", Arguments: []mcp.PromptArgument{{Name: "a", Title: "A", Required: true}}, Icons: icons, Meta: meta,
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
			if diff := cmp.Diff(want, one(t, encodeFor(t, r, tc.method, tc.result), tc.list)); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", tc.method, r, diff)
			}
		}
		if after := marshal(t, tc.result); after != before {
			t.Errorf("%s: the result was modified:\n%s\n%s", tc.method, before, after)
		}
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
		if err := json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodGetPrompt, prompt)), &messages); err != nil {
			t.Fatal(err)
		}
		var result struct{ Content []json.RawMessage }
		if err := json.Unmarshal([]byte(encodeFor(t, r, mcp.MethodCallTool, &mcp.CallToolResult{Content: everyContent})), &result); err != nil {
			t.Fatal(err)
		}
		for i, m := range messages.Messages {
			if string(m.Content) != string(result.Content[i]) {
				t.Errorf("%s: %s in a prompt, %s in a tool result", r, m.Content, result.Content[i])
			}
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
		if knows := r >= mcp.V20250618; (got.Ref.Title != "") != knows || (got.Context != nil) != knows {
			t.Errorf("%s: %+v", r, got)
		}
	}
}

// The hand-written encoding of contents must equal that of the JSON library.
func TestContentsEncodeAsByTheLibrary(t *testing.T) {
	contents := rapid.Custom(func(t *rapid.T) mcp.ResourceContents {
		c := mcp.ResourceContents{URI: text().Draw(t, "uri"), MimeType: text().Draw(t, "type"), Text: text().Draw(t, "text"), Meta: meta().Draw(t, "meta")}
		if rapid.Bool().Draw(t, "binary") {
			c.Blob = rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "blob")
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		result := &mcp.ReadResourceResult{
			CacheHints: mcp.CacheHints{TTLMs: ptr(rapid.Int64Min(0).Draw(t, "ttl")), CacheScope: rapid.SampledFrom([]string{"", "private", "public"}).Draw(t, "scope")},
			Contents:   rapid.SliceOfN(contents, 0, 3).Draw(t, "contents"),
		}
		result.Meta = meta().Draw(t, "_meta")
		r := rapid.SampledFrom(mcp.Revisions()).Draw(t, "revision")
		before, err := json.Marshal(result)
		if err != nil {
			t.Fatalf("%v", err)
		}
		got, err := revision.AppendResult(nil, r, result, nil)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if after, _ := json.Marshal(result); string(before) != string(after) {
			t.Fatalf("the result was modified:\n%s\n%s", before, after)
		}
		plain, err := json.Marshal(revision.Downgrade(r, result))
		if err != nil {
			t.Fatalf("%v", err)
		}
		want := members(t, plain)
		if r.Modern() {
			want["resultType"] = mcp.ResultTypeComplete
		}
		if diff := cmp.Diff(want, members(t, got)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s\n%s", r, diff, got)
		}
	})
}

func TestInvalidUTF8InPromptsAndResourcesIsReplaced(t *testing.T) {
	const bad, good = "a\xffb", "a\uFFFDb"
	meta := mcp.Meta{"a": json.RawMessage(`1`)} // not the hand-written encoding
	for _, r := range mcp.Revisions() {
		read := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: "x:" + bad, MimeType: bad, Text: bad, Meta: meta}}}
		raw, err := revision.AppendResult(nil, r, read, nil)
		var back mcp.ReadResourceResult
		if err != nil || json.Unmarshal(raw, &back) != nil || back.Contents[0].Text != good || back.Contents[0].URI != "x:"+good || back.Contents[0].MimeType != good {
			t.Errorf("%s: %s, %v", r, raw, err)
		}
		prompt := &mcp.GetPromptResult{Description: bad, Messages: []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: mcp.Text("fine")},
			{Role: mcp.RoleUser, Content: mcp.Text(bad)},
			{Role: mcp.RoleUser, Content: &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:y", Text: bad}}},
		}}
		raw, err = revision.AppendResult(nil, r, prompt, nil)
		var result mcp.GetPromptResult
		if err != nil || json.Unmarshal(raw, &result) != nil || result.Description != good || result.Messages[1].Content.(*mcp.TextContent).Text != good ||
			result.Messages[2].Content.(*mcp.EmbeddedResource).Resource.Text != good {
			t.Errorf("%s: %s, %v", r, raw, err)
		}
		if prompt.Description != bad || prompt.Messages[1].Content.(*mcp.TextContent).Text != bad {
			t.Error("the result was modified")
		}
	}
}
