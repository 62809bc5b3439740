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

// A resource that its server says is fresh for an hour is read once in the revision that
// can say so, and each time in the others. A change that is reported ends that.
func TestAClientKeepsWhatIsFreshUntilItChanges(t *testing.T) {
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
		asked := int32(0)
		read := func(want int32, options ...client.CallOption) {
			t.Helper()
			if !c.Revision().Modern() {
				want = asked + 1
			}
			asked = want
			result, err := c.ReadResource(t.Context(), "note://a", options...)
			if err != nil || result.Contents[0].Text != fmt.Sprint(want) {
				t.Errorf("%+v, %v; want %d", result, err, want)
			}
		}
		read(1)
		read(1)
		read(2, client.WithRefresh())
		read(2)
		// What was kept before the server listened may have changed since.
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
