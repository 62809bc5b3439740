package client_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
)

// The server's details are those of the Discovery until Discover is called.
func TestDiscoverUpdatesServerDetails(t *testing.T) {
	now := newMock("server/discover", ok(strings.NewReplacer(`"name":"new"`, `"name":"newer"`, `"ttlMs":0`, `"ttlMs":60000`).Replace(discovered)))
	c := dialStored(t, modernMock(), now, quiet())
	if old := c.Discovery(); old.IsFresh(time.Now()) || old.Server.Info.Name != "new" {
		t.Errorf("before: %+v", old)
	}
	for range 2 {
		d, err := c.Discover(t.Context())
		if err != nil || d.Server.Info.Name != "newer" || c.Server().Info.Name != "newer" || !d.IsFresh(time.Now()) {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if received := now.methods(); received != probed {
		t.Errorf("the server received %s", received)
	}
	old := dialStored(t, newMock("initialize", ok(initialized)), newMock("initialize", ok(initialized)), quiet())
	if d, err := old.Discover(t.Context()); err != nil || d.Server.Info.Name != "old" {
		t.Errorf("in a session: %+v, %v", d, err)
	}
}

// A watch corrects a stale Discovery before it begins.
func TestWatchCorrectsAStaleDiscovery(t *testing.T) {
	now := legacyMock(status(400, ""))
	now.answers["initialize"] = []reply{ok(strings.Replace(initialized, `{"tools":{}}`, `{"tools":{"listChanged":true}}`, 1))}
	c := dialStored(t, modernMock(), now, quiet())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil || change != (client.Change{Kind: client.ToolsChanged, Resync: true}) {
			t.Errorf("%+v, %v", change, err)
		}
		break
	}
}

// Clients that share a Cache share a fresh result of server/discover.
func TestSharedCacheAvoidsDiscovery(t *testing.T) {
	m := newMock("server/discover", ok(strings.Replace(discovered, `"ttlMs":0`, `"ttlMs":60000`, 1)))
	s := httptest.NewServer(m)
	defer s.Close()
	d := quiet()
	d.Cache = new(client.Cache)
	for range 3 {
		c, err := d.Dial(t.Context(), client.URL(s.URL))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" || c.Server().Info.Name != "new" {
			t.Errorf("%q, %v", text, err)
		}
		c.Close()
	}
	if received := m.methods(); received != probed+" tools/call tools/call tools/call" {
		t.Errorf("the server received %s", received)
	}
}
