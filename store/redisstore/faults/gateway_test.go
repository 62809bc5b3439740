//go:build integration && unix

package faults

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store/redisstore"
	"github.com/parley-mcp/parley/transport"
)

// Every feature works between a client of each revision and a server of each revision even if each request reaches
// another replica of the gateway. One upstream server serves all replicas over HTTP; of the other, each replica runs
// its own process.
func TestEveryRevisionReachesEveryRevisionThroughReplicasOfAGateway(t *testing.T) {
	redis := startRedis(t)
	for _, theirs := range mcp.Revisions() {
		bus := openStore(t, redis.addr)
		overHTTP := host.ServerConfig{Name: "http", Target: client.URL(serveUpstream(t, theirs, bus))}
		overStdio := host.ServerConfig{Name: "stdio", Target: upstreamCommand(t, upstreamSettings{redis.addr, theirs})}
		// Both servers list the same resources, so each gets its own gateways.
		for _, upstream := range []host.ServerConfig{overHTTP, overStdio} {
			p := newProxy(t)
			for i := range replicas {
				db := openStore(t, redis.addr)
				s := &server.Server{Name: "gateway", Store: db, Keys: [][]byte{make([]byte, 32)}}
				gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{upstream},
					Dialer: client.Dialer{Revision: theirs}}, s, gatewaytest.OfLocalUser)
				endpoint := httptest.NewServer(s)
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), faulttest.Patience)
					defer cancel()
					if err := s.Shutdown(ctx); err != nil {
						t.Error(err)
					}
					endpoint.Close()
				})
				p.set(i, strings.TrimPrefix(endpoint.URL, "http://"))
			}
			t.Run(upstream.Name, func(t *testing.T) { gatewaytest.RunMatrix(t, p.url, upstream.Name, theirs, bus) })
		}
	}
}

// openStore opens a store and closes it when the test ends.
func openStore(t *testing.T, redis string) redisstore.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), faulttest.Patience)
	defer cancel()
	db, err := redisstore.Open(ctx, redisstore.Options{Addrs: []string{redis}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// serveUpstream serves the features over HTTP, and returns the URL.
func serveUpstream(t *testing.T, r mcp.Revision, bus redisstore.Store) string {
	t.Helper()
	s := gatewaytest.NewServer(r, bus)
	stop, err := s.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		stop()
		ctx, cancel := context.WithTimeout(context.Background(), faulttest.Patience)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.Close()
	})
	return endpoint.URL
}

// upstreamVariable is the environment variable that makes this test program a server of the gateway over stdio.
const upstreamVariable = "PARLEY_FAULTS_UPSTREAM"

// upstreamSettings contains the settings of such a server, as JSON in upstreamVariable.
type upstreamSettings struct {
	Redis    string // address of Redis
	Revision mcp.Revision
}

func upstreamCommand(t *testing.T, o upstreamSettings) client.Target {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return &client.CommandTarget{CommandOptions: transport.CommandOptions{Path: self,
		Env: []string{upstreamVariable + "=" + string(text)}}}
}

// runUpstream serves the features over stdio.
func runUpstream(text string) error {
	var o upstreamSettings
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := redisstore.Open(ctx, redisstore.Options{Addrs: []string{o.Redis}})
	if err != nil {
		return err
	}
	defer db.Close()
	s := gatewaytest.NewServer(o.Revision, db)
	stop, err := s.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return s.Run(ctx)
}
