package mcptest_test

import (
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// What our servers list and what they return fit in every revision, as clients see it
// that have listed the tools.
func TestResultsFitWhatIsListed(t *testing.T) {
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
