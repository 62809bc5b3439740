package revision_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

var identity = []byte(`{"name":"server","version":"1"}`)

// members decodes a JSON object.
func members(t interface{ Fatalf(string, ...any) }, raw []byte) map[string]any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%v: %q", err, raw)
	}
	return m
}

func text() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\n", "\u2028", `"\`, "\x00", "<&>",
		"é\U0001F600"}))
}

func rawValue() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		v := rapid.OneOf(
			rapid.Map(text(), func(s string) any { return s }),
			rapid.Map(rapid.Int64(), func(n int64) any { return n }),
			rapid.Map(rapid.MapOfN(text(), rapid.Int(), 0, 4), func(m map[string]int) any { return m }),
			rapid.Map(rapid.SliceOfN(text(), 0, 3), func(s []string) any { return s }),
			rapid.Just[any](nil), rapid.Just[any](true),
		).Draw(t, "value")
		indent := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent")
		raw := must.Get(json.MarshalIndent(v, "", indent))(t)
		if rapid.Bool().Draw(t, "crlf") {
			raw = bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))
		}
		return raw
	})
}

func meta() *rapid.Generator[mcp.Meta] {
	return rapid.OneOf(
		rapid.Just[mcp.Meta](nil),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "com.example/b", "", mcp.MetaServerInfo, "ü\n"}),
			rawValue(), 0, 3),
			func(m map[string]json.RawMessage) mcp.Meta { return m }),
	)
}

func content() *rapid.Generator[mcp.Content] {
	return rapid.Custom(func(t *rapid.T) mcp.Content {
		var a *mcp.Annotations
		if rapid.Bool().Draw(t, "annotated") {
			a = &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: ptr(0.5)}
		}
		m := meta().Draw(t, "meta")
		data := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "data")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return mcp.Text(text().Draw(t, "text"))
		case 1:
			return &mcp.TextContent{Text: text().Draw(t, "text"), Annotations: a, Meta: m}
		case 2:
			return &mcp.ImageContent{Data: data, MimeType: text().Draw(t, "type"), Annotations: a, Meta: m}
		case 3:
			return &mcp.AudioContent{Data: data, MimeType: text().Draw(t, "type"), Annotations: a, Meta: m}
		case 4:
			return &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: text().Draw(t, "uri"), Blob: data},
				Annotations: a, Meta: m}
		default:
			return &mcp.ResourceLink{URI: text().Draw(t, "uri"), Name: text().Draw(t, "name"), Annotations: a, Meta: m}
		}
	})
}

func toolResult() *rapid.Generator[*mcp.CallToolResult] {
	return rapid.Custom(func(t *rapid.T) *mcp.CallToolResult {
		r := &mcp.CallToolResult{
			Content: rapid.SliceOfN(content(), 0, 4).Draw(t, "content"),
			IsError: rapid.Bool().Draw(t, "isError"),
		}
		r.Meta = meta().Draw(t, "_meta")
		if rapid.Bool().Draw(t, "structured") {
			r.StructuredContent = rawValue().Draw(t, "structuredContent")
		}
		r.ResultType = rapid.SampledFrom([]string{"", "", mcp.ResultTypeComplete, mcp.ResultTypeTask}).Draw(t,
			"resultType")
		return r
	})
}

// The hand-written encoding must equal the JSON library's, on one line. The result, which
// calls share, must not be modified.
func TestToolResultsEncodeAsByTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		result := toolResult().Draw(t, "result")
		r := rapid.SampledFrom(mcp.Revisions()).Draw(t, "revision")
		before := must.Get(json.Marshal(result))(t)
		dst := []byte("before ")
		out := must.Get(revision.AppendResult(dst, r, result, identity))(t)
		after, _ := json.Marshal(result)
		must.That(t, bytes.Equal(before, after), "the result was modified:\n%s\n%s", before, after)
		got, ok := bytes.CutPrefix(out, dst)
		must.That(t, ok, "the buffer lost its content: %q", out)
		must.That(t, !bytes.ContainsAny(got, "\r\n"), "the encoding has several lines: %q", got)
		must.Do(t, jsonrpc.Check(got, jsonrpc.Limits{}), got)
		plain := must.Get(json.Marshal(revision.Downgrade(r, result)))(t)
		want := members(t, plain)
		if r.Modern() {
			meta, _ := want["_meta"].(map[string]any)
			if meta == nil {
				meta = make(map[string]any)
			}
			meta[mcp.MetaServerInfo] = members(t, identity)
			want["_meta"] = meta
			if want["resultType"] == nil {
				want["resultType"] = mcp.ResultTypeComplete
			}
		}
		must.Equal(t, cmp.Diff(want, members(t, got)), "", r, got)
	})
}

func TestModernResultsCarryTypeAndServerInfo(t *testing.T) {
	withMeta := func(meta mcp.Meta) mcp.ResultBase { return mcp.ResultBase{Meta: meta} }
	for _, tc := range []struct {
		name     string
		result   any
		identity []byte
		want     string
	}{
		{"empty", &mcp.EmptyResult{}, nil, `{"resultType":"complete"}`},
		{"empty, with identity", &mcp.EmptyResult{}, identity,
			`{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"1"}}}`},
		{"meta kept", &mcp.EmptyResult{ResultBase: withMeta(mcp.Meta{"a": json.RawMessage(`1`)})}, identity,
			`{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"1"},` +
				`"a":1}}`},
		{"meta kept without identity", &mcp.EmptyResult{ResultBase: withMeta(mcp.Meta{"a": json.RawMessage(`1`)})}, nil,
			`{"resultType":"complete","_meta":{"a":1}}`},
		{"empty meta", &mcp.EmptyResult{ResultBase: withMeta(mcp.Meta{})}, nil, `{"resultType":"complete","_meta":{}}`},
		{"identity is the server's own",
			&mcp.EmptyResult{ResultBase: withMeta(mcp.Meta{mcp.MetaServerInfo: json.RawMessage(`"forged"`)})}, identity,
			`{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"1"}}}`},
		{"another type", &mcp.EmptyResult{ResultBase: mcp.ResultBase{ResultType: "input_required"}}, nil,
			`{"resultType":"input_required"}`},
		{"another type, with meta", &mcp.EmptyResult{ResultBase: mcp.ResultBase{ResultType: "task",
			Meta: mcp.Meta{"a": json.RawMessage(`1`)}}}, identity,
			`{"resultType":"task","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"1"},` +
				`"a":1}}`},
		{"no content", &mcp.CallToolResult{}, nil, `{"resultType":"complete","content":[]}`},
		{"no content, with meta", &mcp.CallToolResult{ResultBase: withMeta(mcp.Meta{"a": json.RawMessage(`1`)})}, nil,
			`{"resultType":"complete","_meta":{"a":1},"content":[]}`},
	} {
		got := must.Get(revision.AppendResult(nil, mcp.V20260728, tc.result, tc.identity))(t)
		must.CheckEqual(t, string(got), tc.want, tc.name)
	}
}

func TestLegacyResultsHaveNoModernMembers(t *testing.T) {
	for _, result := range []any{&mcp.EmptyResult{},
		&mcp.CallToolResult{ResultBase: mcp.ResultBase{ResultType: mcp.ResultTypeComplete}}} {
		got, err := revision.AppendResult(nil, mcp.V20251125, result, identity)
		must.CheckThat(t, err == nil && !bytes.Contains(got, []byte("resultType")) &&
			!bytes.Contains(got, []byte("_meta")), "%T: %s, %v", result, got, err)
	}
}

// Rule S1: a line break in a handler's json.RawMessage must not end the message.
func TestStructuredContentIsEncodedOnOneLine(t *testing.T) {
	pretty := json.RawMessage("{\r\n  \"a\": [\n    1.50,\n    9007199254740993\n  ],\n  \"b\": \"\\n \\u00e9\"\n}")
	original := bytes.Clone(pretty)
	for _, c := range [][]mcp.Content{
		{mcp.Text("t")},
		{&mcp.TextContent{Text: "t", Annotations: &mcp.Annotations{Priority: ptr(1.0)}}}, // encoded by the library
	} {
		for _, r := range mcp.Revisions() {
			if r < mcp.V20250618 {
				continue
			}
			got, err := revision.AppendResult(nil, r, &mcp.CallToolResult{Content: c, StructuredContent: pretty},
				identity)
			must.Do(t, err)
			must.CheckThat(t, !bytes.ContainsAny(got, "\r\n"), "%s: %q", r, got)
			var out struct{ StructuredContent json.RawMessage }
			must.Do(t, json.Unmarshal(got, &out))
			want, have := members(t, pretty), members(t, out.StructuredContent)
			must.CheckThat(t, reflect.DeepEqual(want, have), "%s: %s", r, out.StructuredContent)
		}
	}
	must.CheckEqual(t, string(pretty), string(original), "the handler's bytes were modified")
}

// Rule J6: a tool may print invalid UTF-8, but the message must be valid.
func TestInvalidUTF8InToolResultsIsReplaced(t *testing.T) {
	const bad, good = "a\xffb\xc3", "a\uFFFDb\uFFFD"
	annotated := &mcp.Annotations{Priority: ptr(1.0)}
	for _, c := range []mcp.Content{
		mcp.Text(bad),
		&mcp.TextContent{Text: bad, Annotations: annotated},
		mcp.Image(nil, bad),
		&mcp.ImageContent{MimeType: bad, Annotations: annotated},
		mcp.Audio(nil, bad),
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: bad, Text: bad, MimeType: bad}},
		&mcp.ResourceLink{URI: bad, Name: bad, Title: bad, Description: bad, MimeType: bad},
	} {
		result := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("before"), c}}
		for _, r := range mcp.Revisions() {
			got, err := revision.AppendResult(nil, r, result, identity)
			if err != nil {
				t.Errorf("%s: %T: %v", r, c, err)
				continue
			}
			must.Check(t, jsonrpc.Check(got, jsonrpc.Limits{}), r, c)
			_, converted := c.(*mcp.AudioContent)
			must.CheckThat(t, strings.Contains(string(got), good) || (converted && r < mcp.V20250326),
				"%s: %T: %s", r, c, got)
		}
		must.CheckEqual(t, result.Content[1], c)
	}
}

func TestAppendResultRejectsValuesThatAreNotObjects(t *testing.T) {
	type text string
	for _, result := range []any{
		nil,
		(*mcp.CallToolResult)(nil),
		(*mcp.ListToolsResult)(nil),
		(*mcp.InitializeResult)(nil),
		(*mcp.EmptyResult)(nil),
		text("not an object"),
		[]string{"not an object"},
		make(chan int),
		&mcp.CallToolResult{Content: []mcp.Content{nil}},
		&mcp.CallToolResult{Content: []mcp.Content{(*mcp.TextContent)(nil)}},
		&mcp.CallToolResult{Content: []mcp.Content{(*mcp.AudioContent)(nil), (*mcp.ResourceLink)(nil),
			(*mcp.EmbeddedResource)(nil), (*mcp.ImageContent)(nil)}},
		&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"a":`)},
		&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"a":1,"a":2}`)},
		&mcp.CallToolResult{ResultBase: mcp.ResultBase{Meta: mcp.Meta{"a": json.RawMessage(`{`)}}},
	} {
		for _, r := range []mcp.Revision{mcp.V20260728, mcp.V20250618} {
			got, err := revision.AppendResult([]byte("kept"), r, result, identity)
			must.CheckThat(t, err != nil, "%s: %#v is encoded as %s", r, result, got)
			must.CheckEqual(t, string(got), "kept", r, result)
		}
	}
}

// The common result is appended without an allocation.
func TestAppendingAPlainToolResultDoesNotAllocate(t *testing.T) {
	result := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("hello"), mcp.Image([]byte{1, 2}, "image/png")},
		StructuredContent: json.RawMessage(`{"a":[1]}`)}
	dst := make([]byte, 0, 1024)
	for _, r := range []mcp.Revision{mcp.V20260728, mcp.V20250618} {
		must.CheckEqual(t, testing.AllocsPerRun(100, func() { _, _ = revision.AppendResult(dst, r, result, identity) }),
			0, r)
	}
}
