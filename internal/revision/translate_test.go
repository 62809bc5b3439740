package revision_test

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

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

// FuzzTranslate encodes a result of 2026-07-28 for every revision. The encoding is valid for the schema of the revision,
// names the same tools, resources and prompts in the same order, and has no member that the result did not have, so that
// no hint or capability appears on the way. The result, which calls share, does not change.
func FuzzTranslate(f *testing.F) {
	for name, raw := range spec.Examples(mcp.V20260728) {
		if at := slices.IndexFunc(translated, func(e translation) bool { return e.definition == path.Dir(name) }); at >= 0 {
			f.Add(uint8(at), raw)
		}
	}
	f.Add(uint8(0), []byte(`{"resultType":"complete","content":[{"type":"audio","data":"AQ==","mimeType":"a/b","annotations":{"lastModified":"x","priority":1}},{"type":"resource_link","uri":"x:y","name":"n","icons":[]}],"structuredContent":[1]}`))
	f.Add(uint8(1), []byte(`{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"a","title":"A","inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"annotations":{"readOnlyHint":false,"destructiveHint":true},"execution":{"taskSupport":"required"},"_meta":{"a":1}}]}`))
	f.Fuzz(func(t *testing.T, at uint8, raw []byte) {
		kind := translated[int(at)%len(translated)]
		if spec.Validate(mcp.V20260728, kind.definition, raw) != nil || bytes.Contains(raw, []byte(`"resultType":"task"`)) {
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
			if err != nil {
				t.Fatalf("%s: %s: %v", r, raw, err)
			}
			if err := spec.Validate(r, kind.definition, out); err != nil {
				t.Fatalf("%s is encoded for %s as %s: %v", raw, r, out, err)
			}
			for member := range membersAt(t, out) {
				if !had[member] && !mayAppear(member) {
					t.Fatalf("%s is encoded for %s as %s, with a new %s", raw, r, out, member)
				}
			}
			if got, want := namesIn(t, out), namesIn(t, raw); !slices.Equal(got, want) {
				t.Fatalf("%s is encoded for %s as %s: names %q, want %q", raw, r, out, got, want)
			}
		}
		if after := marshal(t, result); after != before {
			t.Fatalf("%s was changed to %s", before, after)
		}
	})
}

// mayAppear reports whether a member may be new in a downgraded result: it belongs to the text that takes the place of a
// block.
func mayAppear(member string) bool {
	switch member {
	case ".content[].text", ".content[].type=text", ".content[].type", ".content", ".messages[].content.text", ".messages[].content.type=text", ".resultType=complete", ".resultType":
		return true
	}
	return false
}

// membersAt returns the paths of all members of a document, and of the values of those that are strings or booleans.
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
	if err := jsonv2.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
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
