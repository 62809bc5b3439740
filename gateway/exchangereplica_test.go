package gateway_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// The messages of an HTTP+SSE pair arrive at another replica than that of the event stream, which does not receive their
// tokens. It exchanges the token of the stream.
func TestMessagesOfAPairAtAnotherReplicaUseTheTokenOfTheStream(t *testing.T) {
	u := newUsers(t, "ada", "bob")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	x.up[p.url] = p
	shared := store.NewMemory(store.MemoryOptions{})
	var replicas []*server.Server
	for range 2 {
		s := &server.Server{Name: "gateway", Version: "1", Auth: u.resource(), KV: shared, Log: shared, Bus: shared, Keys: [][]byte{make([]byte, 32)}}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())}}, s)
		t.Cleanup(func() { s.Shutdown(context.Background()) })
		replicas = append(replicas, s)
	}
	u.front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		replica := replicas[0]
		if r.Method == http.MethodPost {
			replica = replicas[1]
		}
		replica.ServeHTTP(w, r)
	})
	u.front.Start()
	t.Cleanup(u.front.Close)
	for _, name := range []string{"ada", "bob"} {
		c := u.dial(name, mcp.V20241105)
		for range 3 {
			if who, err := client.CallTool[string](t.Context(), c, "up__whoami", nil); err != nil || who != name {
				t.Errorf("%s: %q, %v", name, who, err)
			}
		}
	}
	if n := x.requests(p.url); n != 2 {
		t.Errorf("%d exchanges for two callers", n)
	}
}
