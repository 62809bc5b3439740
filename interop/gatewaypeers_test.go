//go:build integration && long

package interop

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// A client works with a server of any era through a gateway as it does without.
func TestPeersUnderstandEachOtherThroughAGateway(t *testing.T) {
	for _, c := range []struct {
		name     string
		command  []string
		revision string
	}{
		{"v1", []string{"v1-client.mjs"}, "2025-11-25"},
		{"v2 legacy", []string{"v2-client.mjs", "--era", "legacy"}, "2025-11-25"},
		{"v2 modern", []string{"v2-client.mjs", "--era", "auto"}, "2026-07-28"},
	} {
		for _, s := range []struct {
			name    string
			command []string
			modern  bool
		}{
			{"v1", []string{"v1-server.mjs"}, false},
			{"v2 legacy", []string{"v2-server.mjs", "--era", "legacy"}, false},
			{"v2 modern", []string{"v2-server.mjs"}, true},
		} {
			t.Run(c.name+" to "+s.name, func(t *testing.T) {
				t.Parallel()
				upstream := listen(t, node(t, s.command[0], append(slices.Clone(s.command[1:]), "http", "0")...))
				url := serveGateway(t, client.URL(upstream))
				seen := observe(t, node(t, c.command[0], append(slices.Clone(c.command[1:]), "--gateway", "yes", "http", url)...))
				seen.withoutGateway(t, c.revision, s.name == "v1", s.modern).check(t, c.revision)
			})
		}
	}
}

// A client that starts its servers works with a server over HTTP, through parley bridge, as through a gateway.
func TestPeersUnderstandEachOtherThroughABridge(t *testing.T) {
	parley := buildProgram(t, "../cmd/parley", "")
	for _, c := range []struct {
		name     string
		command  []string
		revision string
	}{
		{"v1", []string{"v1-client.mjs"}, "2025-11-25"},
		{"v2 modern", []string{"v2-client.mjs", "--era", "modern"}, "2026-07-28"},
	} {
		for _, s := range []struct {
			name    string
			command []string
			modern  bool
		}{
			{"v1", []string{"v1-server.mjs"}, false},
			{"v2 modern", []string{"v2-server.mjs"}, true},
		} {
			t.Run(c.name+" to "+s.name, func(t *testing.T) {
				t.Parallel()
				upstream := listen(t, node(t, s.command[0], append(slices.Clone(s.command[1:]), "http", "0")...))
				arguments := append(slices.Clone(c.command[1:]), "--gateway", "yes", "stdio", parley, "bridge", upstream)
				seen := observe(t, node(t, c.command[0], arguments...))
				// The bridge has larger pages than the other servers, and does not say how long lists are fresh.
				if seen.Data.Pages != 1 || seen.Cache.Prompts != 1 {
					t.Errorf("%d pages of resources, %d second requests for prompts, want 1 of each", seen.Data.Pages, seen.Cache.Prompts)
				}
				seen.Data.Pages = 2
				if c.revision >= "2026-07-28" {
					seen.Cache.Prompts = 0
				}
				seen.withoutGateway(t, c.revision, s.name == "v1", s.modern).check(t, c.revision)
			})
		}
	}
}

// withoutGateway returns the observation of the server behind a gateway for one of the gateway. It checks where they
// differ.
func (o observation) withoutGateway(t *testing.T, revision string, firstGeneration, modernServer bool) observation {
	t.Helper()
	// The client peer does not use what a gateway does not forward: changes of roots, and changes of lists that are undone
	// at once.
	o.Changed.RootsChanged = callObservation{Content: []struct{ Type, Text string }{{"text", "1"}}}
	changes := []struct{ Method, URI string }{
		{Method: "notifications/tools/list_changed"}, {Method: "notifications/prompts/list_changed"}, {Method: "notifications/resources/list_changed"},
	}
	for _, change := range o.Changed.Changes { // also those of lists that a server changes meanwhile
		if change.Method == "notifications/resources/updated" {
			changes = append(changes, change)
		}
	}
	o.Changed.Changes = changes
	// A server of the first generation sends log messages on the standalone stream. If the result of the call overtakes
	// one, the gateway does not know whose it is.
	if firstGeneration {
		o.Called.Logs = nil
		for _, level := range []string{"warning", "error"} {
			o.Called.Logs = append(o.Called.Logs, loggedMessage{Level: level})
		}
	}
	// A gateway does not forward how long contents are fresh.
	if revision >= "2026-07-28" {
		if o.Cache.Read != 1 {
			t.Errorf("%d second requests for contents, want 1", o.Cache.Read)
		}
		o.Cache.Read = 0
		return o
	}
	answered := &o.Answered
	switch {
	case modernServer: // it does not have the tools that clients of sessions call last
		answered.Paid, answered.Required, answered.Asked.Completed = callObservation{Content: []struct{ Type, Text string }{{"text", "thank you"}}}, []string{"1"}, []string{"1"}
		answered.Asked.Cancelled = true
	case answered.PayFirst.text() == "thank you" && len(answered.Asked.Completed) > 0: // the gateway has asked, and repeated the call
		answered.Required = answered.Asked.Completed[:1]
	}
	return o
}

// serveGateway serves a gateway to one server, whose names it does not change, until the end of the test.
func serveGateway(t *testing.T, upstream client.Target) (url string) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h := &host.Host{Servers: []host.ServerConfig{{Name: "peer", Target: upstream, Prefix: new("")}}, Logger: quiet}
	s := &server.Server{
		Name: "interop-gateway", Version: "1.0.0", Logger: quiet, PageSize: 2,
		ListCache: server.CachePolicy{TTL: time.Minute, Public: true},
	}
	g, err := gateway.New(h, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		cancel()
		<-done
		_ = h.Close()
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	waiting, stop := context.WithTimeout(t.Context(), peerTimeout)
	defer stop()
	if err := g.WaitReady(waiting); err != nil {
		t.Fatal(err)
	}
	return endpoint.URL
}
