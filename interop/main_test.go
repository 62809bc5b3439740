//go:build integration

//lint:file-ignore SA1019 These tests use deprecated features.

package interop

import (
	"context"
	"encoding/json"
	"log"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// serveVariable is the environment variable that makes this test binary the server of the stdio tests.
const serveVariable = "PARLEY_INTEROP_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		if err := newServer().Run(context.Background()); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// newServer returns a server with the features of the server peers.
func newServer() *server.Server {
	s := &server.Server{
		Name:      "interop-parley",
		Version:   "1.0.0",
		PageSize:  5,
		ListCache: server.CachePolicy{TTL: time.Minute, Public: true},
	}
	offerTools(s)
	offerData(s)
	offerCalls(s)
	offerChanges(s)
	offerInputRequests(s)
	return s
}

func TestTheirClientsUseOurServer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		client    []string
		transport string
		revision  string
	}{
		{"v1 over stdio", []string{"v1-client.mjs"}, "stdio", "2025-11-25"},
		{"v1 over HTTP", []string{"v1-client.mjs"}, "http", "2025-11-25"},
		{"v1 over HTTP+SSE", []string{"v1-client.mjs"}, "sse", "2025-11-25"},
		{"v2 legacy over stdio", []string{"v2-client.mjs", "--era", "legacy"}, "stdio", "2025-11-25"},
		{"v2 legacy over HTTP", []string{"v2-client.mjs", "--era", "legacy"}, "http", "2025-11-25"},
		{"v2 in 2024-11-05 over HTTP", []string{"v2-client.mjs", "--era", "legacy", "--revision", "2024-11-05"}, "http", "2024-11-05"},
		{"v2 in 2025-03-26 over stdio", []string{"v2-client.mjs", "--era", "legacy", "--revision", "2025-03-26"}, "stdio", "2025-03-26"},
		{"v2 modern over stdio", []string{"v2-client.mjs", "--era", "modern"}, "stdio", "2026-07-28"},
		{"v2 modern over HTTP", []string{"v2-client.mjs", "--era", "modern"}, "http", "2026-07-28"},
		{"v2 auto over stdio", []string{"v2-client.mjs", "--era", "auto"}, "stdio", "2026-07-28"},
		{"v2 auto over HTTP", []string{"v2-client.mjs", "--era", "auto"}, "http", "2026-07-28"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			where := []string{"stdio", self}
			if tt.transport != "stdio" {
				endpoint := httptest.NewServer(newServer())
				t.Cleanup(endpoint.Close)
				t.Cleanup(endpoint.CloseClientConnections)
				where = []string{tt.transport, endpoint.URL}
			}
			seen := observe(t, node(t, tt.client[0], slices.Concat(tt.client[1:], where)...))
			seen.check(t, tt.revision)
			if seen.Server.Name != "interop-parley" {
				t.Errorf("server name %q, want interop-parley", seen.Server.Name)
			}
			if call := seen.Calls["region"]; call.text() != "eu-north" {
				t.Errorf("a call with a mirrored parameter: %+v", call)
			}
			if call := seen.Calls["badArguments"]; !call.IsError || !strings.Contains(call.text(), "a") {
				t.Errorf("invalid arguments: %+v, want a tool error that names them", call)
			}
		})
	}
}

func TestOurClientUsesTheirServers(t *testing.T) {
	for _, tt := range []struct {
		name      string
		server    []string
		transport string
		revision  mcp.Revision
	}{
		{"v1 over stdio", []string{"v1-server.mjs"}, "stdio", mcp.V20251125},
		{"v1 over HTTP", []string{"v1-server.mjs"}, "http", mcp.V20251125},
		{"v1 over HTTP+SSE", []string{"v1-server.mjs"}, "sse", mcp.V20251125},
		{"v2 legacy over stdio", []string{"v2-server.mjs", "--era", "legacy"}, "stdio", mcp.V20251125},
		{"v2 legacy over HTTP", []string{"v2-server.mjs", "--era", "legacy"}, "http", mcp.V20251125},
		{"v2 modern over stdio", []string{"v2-server.mjs", "--era", "modern"}, "stdio", mcp.V20260728},
		{"v2 modern over HTTP", []string{"v2-server.mjs", "--era", "modern"}, "http", mcp.V20260728},
		{"v2 both over stdio", []string{"v2-server.mjs"}, "stdio", mcp.V20260728},
		{"v2 both over HTTP", []string{"v2-server.mjs"}, "http", mcp.V20260728},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, tt.transport, tt.server)
			if p.Revision() != tt.revision {
				t.Errorf("revision %s, want %s", p.Revision(), tt.revision)
			}
			for _, subject := range []struct {
				name string
				use  func(*testing.T, *peer)
			}{
				{"tools", useTools},
				{"data", useData},
				{"cache", useCache},
				{"calls", useCalls},
				{"changes", useChanges},
				{"input requests", useInputRequests},
			} {
				t.Run(subject.name, func(t *testing.T) { subject.use(t, p) })
			}
		})
	}
}

// peer is our client of a server peer, with what it received.
type peer struct {
	*client.Client
	transport string
	logged    chan mcp.LoggingMessageParams
	opened    chan string   // the URLs of its URL elicitations
	cancelled chan struct{} // closed when it has cancelled an input request

	mu       sync.Mutex
	requests []string // the methods sent to it
}

// sent returns the number of messages with a method.
func (p *peer) sent(method string) (times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sent := range p.requests {
		if sent == method {
			times++
		}
	}
	return times
}

func (p *peer) trace(sent bool, message []byte) {
	var request struct{ Method string }
	if sent && json.Unmarshal(message, &request) == nil {
		p.mu.Lock()
		p.requests = append(p.requests, request.Method)
		p.mu.Unlock()
	}
}

// startPeer starts a server peer and dials it.
func startPeer(t *testing.T, transport string, command []string) *peer {
	t.Helper()
	return dialPeer(t, transport, target(t, transport, command))
}

func dialPeer(t *testing.T, transport string, target client.Target) *peer {
	t.Helper()
	p := &peer{
		transport: transport,
		logged:    make(chan mcp.LoggingMessageParams, 16),
		opened:    make(chan string, 16),
		cancelled: make(chan struct{}),
	}
	d := &client.Dialer{
		OnLog:      func(_ context.Context, message mcp.LoggingMessageParams) { p.logged <- message },
		Extensions: []client.SupportedExtension{{ID: shouting}},
		Trace:      p.trace,
		Timeouts:   client.Timeouts{URLElicitation: 10 * time.Second},
	}
	p.setHandlers(d)
	p.Client = dial(t, d, target)
	return p
}

// await receives a value, and fails the test after the time that a peer may take.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("no value within 20 seconds")
		panic("unreachable")
	}
}

func target(t *testing.T, how string, peer []string) client.Target {
	if how == "stdio" {
		command := node(t, peer[0], append(slices.Clone(peer[1:]), "stdio")...)
		return client.Command(command[0], command[1:]...)
	}
	return client.URL(listen(t, node(t, peer[0], append(slices.Clone(peer[1:]), how, "0")...)))
}

func dial(t *testing.T, d *client.Dialer, target client.Target) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
	defer cancel()
	c, err := d.Dial(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("close took %v", took)
		}
	})
	return c
}
