//go:build integration && long

package interop

import (
	"slices"
	"testing"
)

// A failure here is a fault of the peers, so it invalidates the results of the other tests.
func TestPeersUnderstandEachOther(t *testing.T) {
	for _, tt := range []struct {
		name           string
		client, server []string
		transport      string
		revision       string
	}{
		{"v1 over stdio", []string{"v1-client.mjs"}, []string{"v1-server.mjs"}, "stdio", "2025-11-25"},
		{"v1 over HTTP", []string{"v1-client.mjs"}, []string{"v1-server.mjs"}, "http", "2025-11-25"},
		{"v1 over HTTP+SSE", []string{"v1-client.mjs"}, []string{"v1-server.mjs"}, "sse", "2025-11-25"},
		{"v1 to v2 over stdio", []string{"v1-client.mjs"}, []string{"v2-server.mjs"}, "stdio", "2025-11-25"},
		{"v1 to v2 over HTTP", []string{"v1-client.mjs"}, []string{"v2-server.mjs"}, "http", "2025-11-25"},
		{"v2 to v1 over stdio", []string{"v2-client.mjs", "--era", "auto"}, []string{"v1-server.mjs"}, "stdio", "2025-11-25"},
		{"v2 to v1 over HTTP", []string{"v2-client.mjs", "--era", "legacy"}, []string{"v1-server.mjs"}, "http", "2025-11-25"},
		{"v2 modern over stdio", []string{"v2-client.mjs", "--era", "modern"}, []string{"v2-server.mjs", "--era", "modern"}, "stdio", "2026-07-28"},
		{"v2 modern over HTTP", []string{"v2-client.mjs", "--era", "auto"}, []string{"v2-server.mjs"}, "http", "2026-07-28"},
		{"v2 in 2024-11-05", []string{"v2-client.mjs", "--era", "legacy", "--revision", "2024-11-05"}, []string{"v2-server.mjs", "--era", "legacy"}, "http", "2024-11-05"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var where []string
			if tt.transport == "stdio" {
				where = append([]string{"stdio"}, node(t, tt.server[0], append(slices.Clone(tt.server[1:]), "stdio")...)...)
			} else {
				where = []string{tt.transport, listen(t, node(t, tt.server[0], append(slices.Clone(tt.server[1:]), tt.transport, "0")...))}
			}
			observe(t, node(t, tt.client[0], slices.Concat(tt.client[1:], where)...)).check(t, tt.revision)
		})
	}
}
