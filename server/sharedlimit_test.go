package server_test

import (
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Limits.CallsPerSecond: replicas with one store count the calls of a principal together, in all
// revisions.
func TestReplicasShareTheRateLimitOfAPrincipal(t *testing.T) {
	const burst = 10
	memory := store.NewMemory(store.MemoryOptions{})
	var all []*endpoint
	for range 3 {
		all = append(all, newEndpoint(t, func(s *server.Server) {
			authenticated(s)
			s.KV, s.Limits.CallsPerSecond, s.Limits.CallBurst = memory, 0.001, burst
		}))
	}
	passed := func(token string) (n int) {
		bearer := []string{"Authorization", "Bearer " + token}
		a := all[0].do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`, bearer...)
		session := append([]string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}, bearer...)
		for i := range 3 * burst {
			if i%2 == 0 {
				a = all[i%3].modern("1", "tools/call", `"name":"echo","arguments":{"text":"a"}`, bearer...)
			} else {
				a = all[i%3].do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}`, session...)
			}
			if code, _ := a.code(t); code == 0 {
				n++
			}
		}
		return n
	}
	for _, token := range []string{"ada", "bob"} {
		if n := passed(token); n != burst { // with so few calls, each needs the store
			t.Errorf("%s: %d calls passed, want %d", token, n, burst)
		}
	}
}
