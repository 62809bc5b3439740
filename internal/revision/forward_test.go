package revision_test

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

func TestDecodeExceptTextAcceptsText(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"content":[]}`: true,
		`{"content":[{"type":"text","text":"a"}]}`:                    true,
		` { "content" : [ { "text" : "a" , "type" : "text" } ] } `:    true,
		`{"\u0063ontent":[{"t\u0079pe":"text","text":"\"}"}]}`:        true,
		`{"content":[{"type":"text","text":"a","x":[{"type":"x"}]}]}`: true,
		`{"content":[],"isError":true,"structuredContent":null}`:      true,
		`{"content":[],"resultType":"c\u006fmplete","_meta":{}}`:      true,
		`{}`:                            false,
		`{"Content":[]}`:                false,
		`{"content":null}`:              false,
		`{"content":[null]}`:            false,
		`{"content":[{"type":"text"}]}`: false,
		`{"content":[{"type":"image","data":"?","mimeType":"a/b"}]}`:                               true,
		`{"content":[{"type":"image","data":"AAAA"}]}`:                                             false,
		`{"content":[{"type":"audio","data":"AAAA","mimeType":"a/b"}]}`:                            false,
		`{"content":[{"type":"image","text":"a"}]}`:                                                false,
		`{"content":[{"type":"text","text":"a"},{"type":"resource_link","uri":"a:b","name":"a"}]}`: false,
		`{"content":[{"type":"text","text":"a","annotations":{}}]}`:                                false,
		`{"content":[{"type":"text","text":"a","_meta":{}}]}`:                                      false,
		`{"content":[],"isError":null}`:                                                            false,
		`{"content":[],"resultType":"task"}`:                                                       false,
		`{"content":[],"resultType":null}`:                                                         false,
		`{"content":[],"_meta":null}`:                                                              false,
	} {
		_, ok := revision.DecodeExceptText([]byte(raw))
		must.CheckEqual(t, ok, want, raw)
	}
}

// FuzzForward compares a result that is forwarded without decoding its text with the same result decoded, stripped
// of what belongs to the connection, and encoded again, for every revision.
func FuzzForward(f *testing.F) {
	for _, raw := range []string{
		`{"content":[{"type":"text","text":"a\u00e9\n","x":1.50}],"structuredContent":{"n":1.0},"isError":false,` +
			`"x":{"b":1,"a":2}}`,
		`{"resultType":"complete","_meta":{"a/b":[1],"io.modelcontextprotocol/serverInfo":{},"c/d":{}},"content":[]}`,
		"{\n\"content\":\r[\n{\"type\" :\"text\",\"text\": \"\"}],\"structuredContent\":[ ],\"isError\":true," +
			"\"_meta\":{}}",
		`{"content":[{"type":"image","data":"\u0041AAA","mimeType":"a/b","x":1.50}],"structuredContent":{}}`,
		`{"content":[{"type":"text","text":"a","annotations":{"priority":1}}]}`,
		`{"content":[{"type":"text"}],"content":[]}`,
	} {
		f.Add([]byte(raw))
		// Long results are sent from their memory.
		f.Add([]byte(strings.Replace(raw, `"text":"a`, `"text":"`+strings.Repeat("a", 16<<10), 1)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || raw[0] != '{' || jsonrpc.Check(raw, jsonrpc.Limits{}) != nil {
			return
		}
		result, ok := revision.DecodeExceptText(raw)
		if !ok {
			return
		}
		var decoded mcp.CallToolResult
		if err := decoded.UnmarshalJSON(raw); err != nil {
			if bytes.Contains(raw, []byte("data")) {
				return // an image that cannot be decoded is forwarded
			}
			t.Fatalf("%s is not valid: %v", raw, err)
		}
		if result.IsError != decoded.IsError || !bytes.Equal(result.StructuredContent, decoded.StructuredContent) {
			t.Fatalf("%s is decoded as %+v, want %+v", raw, result, decoded)
		}
		for key := range decoded.Meta {
			if mcp.CheckMetaKey(key) != nil {
				delete(decoded.Meta, key)
			}
		}
		if len(decoded.Meta) == 0 {
			decoded.Meta = nil
		}
		result.Meta, decoded.ResultType, decoded.Source = decoded.Meta, "", raw
		for _, r := range mcp.Revisions() {
			if revision.Downgrade(r, result) != any(result) {
				must.That(t, revision.Downgrade(r, &decoded) != any(&decoded), "%s needs no other form in %s", raw, r)
				continue
			}
			want := must.Get(revision.AppendResult(nil, r, &decoded, identity))(t)
			got := revision.AppendForwarded([]byte("x"), r, result, identity, nil)[1:]
			must.That(t, !bytes.ContainsAny(got, "\r\n"), "%q has line breaks", got)
			must.Equal(t, canonical(t, got), canonical(t, want), raw, r, got, want)
			for _, space := range []int{0, 50, 500} { // bytes before the result
				memory := append(bytes.Repeat([]byte{'{'}, space), raw...)
				inMemory := *result
				inMemory.Source = memory[space:]
				must.Equal(t, string(revision.AppendForwarded([]byte("x"), r, &inMemory, identity, memory)[1:]),
					string(got), raw, r)
			}
		}
	})
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	value := jsontext.Value(bytes.Clone(raw))
	must.Do(t, value.Canonicalize(), raw)
	return string(value)
}

// translation is a result that is encoded for every revision, by its name in the schema of 2026-07-28.
type translation struct {
	definition string
	result     func() any
}

var translated = []translation{
	{"CallToolResult", func() any { return new(mcp.CallToolResult) }},
	{"ListToolsResult", func() any { return new(mcp.ListToolsResult) }},
	{"ListResourcesResult", func() any { return new(mcp.ListResourcesResult) }},
	{"ListResourceTemplatesResult", func() any { return new(mcp.ListResourceTemplatesResult) }},
	{"ReadResourceResult", func() any { return new(mcp.ReadResourceResult) }},
	{"ListPromptsResult", func() any { return new(mcp.ListPromptsResult) }},
	{"GetPromptResult", func() any { return new(mcp.GetPromptResult) }},
	{"CompleteResult", func() any { return new(mcp.CompleteResult) }},
}

// FuzzTranslate encodes a result of 2026-07-28 for every revision. The encoding is valid for the schema of the
// revision, names the same tools, resources and prompts in the same order, and contains no key that the result
// lacked, so that no hint or capability appears on the way. The result, which calls share, does not change.
func FuzzTranslate(f *testing.F) {
	for name, raw := range spec.Examples(mcp.V20260728) {
		if at := slices.IndexFunc(translated,
			func(e translation) bool { return e.definition == path.Dir(name) }); at >= 0 {
			f.Add(uint8(at), raw)
		}
	}
	f.Add(uint8(0),
		[]byte(`{"resultType":"complete","content":[{"type":"audio","data":"AQ==","mimeType":"a/b",`+
			`"annotations":{"lastModified":"x","priority":1}},{"type":"resource_link","uri":"x:y","name":"n",`+
			`"icons":[]}],"structuredContent":[1]}`))
	f.Add(uint8(1),
		[]byte(`{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"a","title":"A",`+
			`"inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"annotations":{"readOnlyHint":false,`+
			`"destructiveHint":true},"execution":{"taskSupport":"required"},"_meta":{"a":1}}]}`))
	f.Fuzz(func(t *testing.T, at uint8, raw []byte) {
		kind := translated[int(at)%len(translated)]
		if spec.Validate(mcp.V20260728, kind.definition, raw) != nil ||
			bytes.Contains(raw, []byte(`"resultType":"task"`)) {
			return
		}
		result := kind.result()
		if err := schema.Decode(raw, result); err != nil {
			return // numbers that Go cannot represent
		}
		before := marshal(t, result)
		had := membersAt(t, raw)
		for _, r := range mcp.Revisions() {
			out, err := revision.AppendResult(nil, r, result, nil)
			must.Do(t, err, r, raw)
			must.Do(t, spec.Validate(r, kind.definition, out), raw, r, out)
			for member := range membersAt(t, out) {
				must.That(t, had[member] || had[withoutWrapper.Replace(member)] || mayAppear(member),
					"%s is encoded for %s as %s, with a new %s", raw, r, out, member)
			}
			if got, want := namesIn(t, out), namesIn(t, raw); !slices.Equal(got, want) {
				t.Fatalf("%s is encoded for %s as %s: names %q, want %q", raw, r, out, got, want)
			}
		}
		must.Equal(t, marshal(t, result), before)
	})
}

// withoutWrapper removes the object in which a value or its schema is sent to older peers.
var withoutWrapper = strings.NewReplacer(".structuredContent.result", ".structuredContent",
	".outputSchema.properties.result", ".outputSchema")

// mayAppear reports whether a key may be new in a downgraded result: it belongs to the text that takes the place of a
// block, or to the schema of the object in which a value is sent to older peers.
func mayAppear(member string) bool {
	switch member {
	case ".content[].text", ".content[].type=text", ".content[].type", ".content", ".messages[].content.text",
		".messages[].content.type=text", ".resultType=complete", ".resultType", ".tools[].outputSchema.type=object",
		".tools[].outputSchema.properties", ".tools[].outputSchema.required", ".tools[].outputSchema.required[]=result":
		return true
	}
	return false
}

// membersAt returns the paths of all keys of a document, with the values of strings and booleans.
func membersAt(t *testing.T, raw []byte) map[string]bool {
	all := make(map[string]bool)
	var walk func(at string, value any)
	walk = func(at string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, v := range value {
				all[at+"."+name] = true
				walk(at+"."+name, v)
			}
		case []any:
			for _, v := range value {
				walk(at+"[]", v)
			}
		case string:
			if !strings.HasSuffix(at, ".text") {
				all[at+"="+value] = true
			}
		case bool:
			if value {
				all[at+"=true"] = true
			} else {
				all[at+"=false"] = true
			}
		}
	}
	walk("", members(t, raw))
	return all
}

// namesIn returns the names and URIs of what a result lists, in their order.
func namesIn(t *testing.T, raw []byte) (names []string) {
	var result struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Prompts []struct {
			Name string `json:"name"`
		} `json:"prompts"`
		Resources []struct {
			URI string `json:"uri"`
		} `json:"resources"`
		Contents []struct {
			URI string `json:"uri"`
		} `json:"contents"`
		Templates []struct {
			URI string `json:"uriTemplate"`
		} `json:"resourceTemplates"`
	}
	must.Do(t, jsonv2.Unmarshal(raw, &result))
	for _, e := range append(result.Tools, result.Prompts...) {
		names = append(names, e.Name)
	}
	for _, e := range append(result.Resources, result.Contents...) {
		names = append(names, e.URI)
	}
	for _, e := range result.Templates {
		names = append(names, e.URI)
	}
	return names
}
