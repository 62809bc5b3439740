package gateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// Callers subscribe to the resources that they alone have at a server, and receive their updates only.
func TestCallersSubscribeToTheirOwnResources(t *testing.T) {
	for _, theirs := range []mcp.Revision{mcp.V20250618, mcp.V20260728} {
		for _, ours := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				u := newUsers(t, "ada", "bob")
				x := newExchange(t, u)
				p := newProtectedServer(t, x.URL)
				ownEntries(p.Server, "ada", "bob")
				x.up[p.url] = p
				u.start(&host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())}, Dialer: client.Dialer{Revision: theirs}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				updates := make(map[string]chan client.Change)
				for _, name := range []string{"ada", "bob"} {
					c, changes := u.dial(name, ours), make(chan client.Change, 1000)
					updates[name] = changes
					go func() {
						for change, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{"server:up/lib://ada", "server:up/lib://bob"}}) {
							if err == nil && !change.Resync {
								changes <- change
							}
						}
					}()
				}
				for name, other := range map[string]string{"ada": "bob", "bob": "ada"} {
					for received := false; !received; { // until the subscription has reached the server
						p.ResourceUpdated("lib://" + name)
						select {
						case change := <-updates[name]:
							if change.URI != "server:up/lib://"+name {
								t.Errorf("%s has received an update of %s", name, change.URI)
							}
							received = true
						case change := <-updates[other]:
							if change.URI != "server:up/lib://"+other { // a late one of the first round may follow
								t.Errorf("%s has received an update of %s", other, change.URI)
							}
						case <-time.After(50 * time.Millisecond):
						case <-ctx.Done():
							t.Fatalf("%s has received no update", name)
						}
					}
				}
			})
		}
	}
}
