package gateway_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Every feature works between a client of each revision and a server of each revision, over HTTP.
func TestEveryRevisionReachesEveryRevision(t *testing.T) {
	for _, theirs := range mcp.Revisions() {
		bus := store.NewMemory()
		s := &server.Server{Name: "gateway"}
		h := &host.Host{Servers: []host.ServerConfig{matrixServer(t, theirs, bus)},
			Dialer: client.Dialer{Revision: theirs}}
		gatewaytest.Run(t, h, s, gatewaytest.OfLocalUser)
		gatewaytest.RunMatrix(t, wiretest.Serve(t, s), "up", theirs, bus)
	}
}

// matrixServer returns the config of a server with all features.
func matrixServer(t *testing.T, r mcp.Revision, bus store.Bus) host.ServerConfig {
	up := gatewaytest.NewServer(r, bus)
	stop := must.Get(up.Start(context.Background()))(t)
	t.Cleanup(stop)
	return httpConfig(t, "up", &up.Server)
}

// asksOf is the beginning of the questions of a server to the user.
func asksOf(name string) string { return "The server \"" + name + "\" asks:\n\n> " }
