package server_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

// Tasks extension, Capability Negotiation: server/discover declares the extension with an empty
// object. The tasks capability belongs to 2025-11-25.
func TestDiscoverDeclaresTheTasksExtension(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		result := string(p.must(mcp.MethodDiscover, ""))
		if !strings.Contains(result, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) || strings.Contains(result, `"tasks":{`) {
			t.Errorf("server/discover: %s", result)
		}
	})
}
