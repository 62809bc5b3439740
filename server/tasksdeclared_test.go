package server_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// The comments of these tests name sections of 2025-11-25, basic/utilities/tasks.

// Capabilities: servers that support tasks MUST declare it. Security Considerations: those that cannot
// identify the client SHOULD NOT declare tasks.list. Other revisions have no such capability.
func TestInitializeDeclaresTasks(t *testing.T) {
	s, _ := taskServer()
	without := quiet()
	server.AddTool(without, newTool("plain"), nothing)
	ada := person(t, "ada")
	for _, test := range []struct {
		revision mcp.Revision
		server   *server.Server
		who      principal.Principal
		want     string
	}{
		{mcp.V20251125, s, ada, `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`},
		{mcp.V20251125, s, principal.Anonymous, `{"cancel":{},"requests":{"tools":{"call":{}}}}`},
		{mcp.V20251125, without, ada, ""},
		{mcp.V20250618, s, ada, ""},
		{mcp.V20241105, s, ada, ""},
	} {
		l := connectLineAs(t, test.server, test.who)
		l.Send(fmt.Sprintf(initializeParams, test.revision, "{}"))
		raw := l.Receive()
		var m struct {
			Result struct {
				Capabilities struct{ Tasks, Extensions json.RawMessage }
			}
		}
		if err := json.Unmarshal([]byte(raw), &m); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got := string(m.Result.Capabilities.Tasks); got != test.want || m.Result.Capabilities.Extensions != nil {
			t.Errorf("%s to %v: %s, want %s", test.revision, test.who, raw, test.want)
		}
	}
}

// Tool-Level Negotiation: tools/list declares the support of a tool. Only 2025-11-25 has the field.
func TestToolsListDeclaresTaskSupport(t *testing.T) {
	newServer := func() *server.Server { s, _ := taskServer(); return s }
	onEverySurface(t, newServer, func(t *testing.T, s surface) {
		raw := s.ask(1, mcp.MethodListTools, "")
		var m struct{ Result struct{ Tools []mcp.Tool } }
		if err := json.Unmarshal([]byte(raw), &m); err != nil || len(m.Result.Tools) == 0 {
			t.Fatalf("%s: %v", raw, err)
		}
		for _, tool := range m.Result.Tools {
			want := map[string]string{"plain": "", "only": mcp.TaskRequired}[tool.Name]
			if want == "" && tool.Name != "plain" {
				want = mcp.TaskOptional
			}
			got := ""
			if tool.Execution != nil {
				got = tool.Execution.TaskSupport
			}
			if s.revision != mcp.V20251125 {
				want = ""
			}
			if got != want {
				t.Errorf("tool %s has support %q, want %q", tool.Name, got, want)
			}
		}
	})
}
