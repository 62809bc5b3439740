package mcptest_test

import (
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// A client that has listed the tools validates the results.
func TestResultMatchesListedOutputSchema(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		for tool, err := range c.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name != "weather" {
				continue
			}
			result, err := c.CallTool(t.Context(), tool.Name, place{"Oslo"})
			if err != nil || result.IsError {
				t.Errorf("%+v, %v", result, err)
			}
			if has := result.StructuredContent != nil; has != (c.Revision() >= mcp.V20250618) {
				t.Errorf("structured content %s", result.StructuredContent)
			}
		}
	})
}
