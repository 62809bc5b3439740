package gateway_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

// Two servers have a user interface with the same URI. The tools of each refer to its own.
func TestUserInterfacesOfToolsFollowTheirResources(t *testing.T) {
	app := func(text string) upstream {
		return upstream{
			mcp.MethodListTools: `{"tools":[{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://app","visibility":["model"]},"ui/resourceUri":"ui://app"}},` +
				`{"name":"other","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]},"ui/resourceUri":7}}]}`,
			mcp.MethodListResources: `{"resources":[{"uri":"ui://app","name":"app","mimeType":"text/html;profile=mcp-app"}]}`,
			mcp.MethodReadResource:  `{"contents":[{"uri":"ui://app","text":"` + text + `"}]}`,
			mcp.MethodCallTool:      `{"content":[{"type":"text","text":"shown"}],"_meta":{"ui":{"resourceUri":"ui://app"}}}`,
		}
	}
	s := gatewayTo(t, app("one").start(t, "first"), app("two").start(t, "second"))
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} { // tools have _meta
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		want := map[string][2]string{"first__show": {"server:first/ui://app", "one"}, "second__show": {"server:second/ui://app", "two"}}
		for _, tool := range listed(t, c) {
			expected, ok := want[tool.Name]
			if !ok {
				continue
			}
			delete(want, tool.Name)
			var ui struct {
				ResourceURI string   `json:"resourceUri"`
				Visibility  []string `json:"visibility"`
			}
			var flat string
			if err := json.Unmarshal(tool.Meta["ui"], &ui); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(tool.Meta["ui/resourceUri"], &flat); err != nil {
				t.Fatal(err)
			}
			if ui.ResourceURI != expected[0] || flat != expected[0] || len(ui.Visibility) != 1 {
				t.Errorf("%s: %s has %s and %s", r, tool.Name, tool.Meta["ui"], flat)
			}
			read, err := c.ReadResource(t.Context(), ui.ResourceURI)
			if err != nil || read.Contents[0].Text != expected[1] {
				t.Errorf("%s: the user interface of %s is %+v, %v", r, tool.Name, read, err)
			}
			result, err := c.CallTool(t.Context(), tool.Name, nil)
			if err != nil || string(result.Meta["ui"]) != `{"resourceUri":"`+expected[0]+`"}` {
				t.Errorf("%s: the result of %s has %s, %v", r, tool.Name, result.Meta, err)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: not listed: %v", r, want)
		}
	}
}
