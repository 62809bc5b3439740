package mcptest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The resource has cache hints, which exist in 2026-07-28 only. Clients of older revisions
// read it each time.
func TestClientCachesFreshResourceUntilItChanges(t *testing.T) {
	var s *server.Server
	var reads atomic.Int32
	fresh := func() *server.Server {
		reads.Store(0)
		s = newServer()
		server.AddResource(s, mcp.Resource{URI: "note://a", Name: "a"}, func(context.Context) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{
				CacheHints: mcp.CacheHints{TTLMs: ptr(int64(3_600_000)), CacheScope: mcp.CacheScopePrivate},
				Contents:   []mcp.ResourceContents{{URI: "note://a", Text: fmt.Sprint(reads.Add(1))}},
			}, nil
		})
		return s
	}
	everywhere(t, fresh, func(t *testing.T, c *client.Client) {
		last := int32(0)
		read := func(want int32, options ...client.CallOption) {
			t.Helper()
			if !c.Revision().Modern() {
				want = last + 1
			}
			last = want
			result, err := c.ReadResource(t.Context(), "note://a", options...)
			if err != nil || result.Contents[0].Text != fmt.Sprint(want) {
				t.Errorf("%+v, %v; want %d", result, err, want)
			}
		}
		read(1)
		read(1)
		read(2, client.WithRefresh())
		read(2)
		// The resource may have changed between the read and the start of the subscription.
		w := watch(t, c, client.WatchFilter{URIs: []string{"note://a"}})
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
		read(3)
		read(3)
		s.ResourceUpdated("note://a")
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
		read(4)
		read(4)
	})
}
