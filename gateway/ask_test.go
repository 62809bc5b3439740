//lint:file-ignore SA1019 deprecated features must still work

package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// httpConfig returns the config of a server over HTTP.
func httpConfig(t *testing.T, name string, s *server.Server) host.ServerConfig {
	s.Logger = quiet
	up := httptest.NewServer(s)
	t.Cleanup(up.Close)
	return host.ServerConfig{Name: name, Target: client.URL(up.URL)}
}

// text returns the text of the only content.
func text(content []mcp.Content) string { return content[0].(*mcp.TextContent).Text }

// declaring returns a server with the tool declared, which returns the capabilities of its client.
func declaring() *server.Server {
	s := &server.Server{Name: "declaring"}
	server.AddTool(s, mcp.Tool{Name: "declared"}, func(ctx context.Context, _ none) (string, error) {
		declared := *call.From(ctx).Peer().Capabilities
		declared.Extensions, declared.Tasks = nil, nil // the gateway waits for tasks
		if declared.Roots != nil {
			declared.Roots.ListChanged = false
		}
		raw, err := json.Marshal(declared)
		return string(raw), err
	})
	return s
}

// Servers of 2026-07-28 and of sessions of one caller learn what the client of the call supports.
func TestServersSeeTheCapabilitiesOfTheClient(t *testing.T) {
	form := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }
	for _, theirs := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		s := &server.Server{Name: "gateway", Version: "1"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", declaring())}, Dialer: client.Dialer{Revision: theirs}}, s)
		for want, set := range map[string]func(*client.Dialer){
			`{}`:                          func(*client.Dialer) {},
			`{"elicitation":{"form":{}}}`: func(d *client.Dialer) { d.Elicit = form },
			`{"elicitation":{"url":{}}}`:  func(d *client.Dialer) { d.ElicitURL = form },
			`{"roots":{},"sampling":{}}`: func(d *client.Dialer) {
				d.Roots = func(context.Context) ([]mcp.Root, error) { return nil, nil }
				d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { return nil, nil }
			},
		} {
			for _, ours := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
				if ours.Modern() && !theirs.Modern() {
					continue // callers without authentication share the session
				}
				c := mcptest.Dial(t, s, mcptest.WithRevision(ours), set)
				got, err := client.CallTool[string](t.Context(), c, "up__declared", nil)
				if got = strings.Replace(got, `"elicitation":{}`, `"elicitation":{"form":{}}`, 1); err != nil || !sameJSON(got, want) {
					t.Errorf("client %s, server %s: %s, %v, want %s", ours, theirs, got, err, want)
				}
			}
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	_ = json.Unmarshal([]byte(a), &x)
	_ = json.Unmarshal([]byte(b), &y)
	one, _ := json.Marshal(x)
	two, _ := json.Marshal(y)
	return string(one) == string(two)
}

// A server that asks a client which does not support that receives the error of such a client.
func TestServersLearnThatTheClientCannotAnswer(t *testing.T) {
	up := &server.Server{Name: "up"}
	server.AddTool(up, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ none) (string, error) {
		_, err := server.Roots(ctx)
		if rejected := new(call.AnswerError); errors.As(err, &rejected) {
			return rejected.Err.Error(), nil
		}
		return "", err
	})
	config := httpConfig(t, "up", up)
	config.Sharing = host.Shared // so that the session declares all capabilities
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}, Dialer: client.Dialer{Revision: mcp.V20250618}}, s)
	for _, r := range mcp.Revisions() {
		got, err := client.CallTool[string](t.Context(), mcptest.Dial(t, s, mcptest.WithRevision(r)), "up__roots", nil)
		if err != nil || !strings.Contains(got, "the client of this call does not support it (code -32601)") {
			t.Errorf("%s: %q, %v", r, got, err)
		}
	}
}

// trace collects messages.
type trace struct {
	mu  sync.Mutex
	all []string
}

func (l *trace) add(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(message))
}

// ids returns the values of elicitationId in messages with a method.
func (l *trace) ids(method string) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, message := range l.all {
		if m := regexp.MustCompile(`"elicitationId":"([^"]+)"`).FindStringSubmatch(message); m != nil && strings.Contains(message, `"`+method+`"`) {
			ids = append(ids, m[1])
		}
	}
	return ids
}

func TestEndOfURLElicitationIsForwardedWithTheIDOfTheGateway(t *testing.T) {
	up := &server.Server{Name: "up"}
	var opened atomic.Bool
	server.AddTool(up, mcp.Tool{Name: "open"}, func(ctx context.Context, _ none) (string, error) {
		return "done", server.ElicitURL(ctx, "https://example.com/", "open", func(context.Context) (bool, error) { return opened.Load(), nil })
	})
	var received, sent trace
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{
		Servers: []host.ServerConfig{httpConfig(t, "up", up)}, Dialer: client.Dialer{Revision: mcp.V20251125},
		Trace: func(_ string, _ bool, message []byte) { received.add(message) },
	}, s)
	complete := make(chan struct{}, 1)
	c := mcptest.DialHTTP(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
		d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			opened.Store(true)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		}
		d.Trace = func(_ bool, message []byte) {
			sent.add(message)
			if strings.Contains(string(message), mcp.NotificationElicitationComplete) {
				complete <- struct{}{}
			}
		}
	})
	if got, err := client.CallTool[string](t.Context(), c, "up__open", nil); err != nil || got != "done" {
		t.Fatal(got, err)
	}
	select {
	case <-complete:
	case <-time.After(20 * time.Second):
		t.Fatal("no notification")
	}
	theirs, ours, completed := received.ids(mcp.MethodElicit), sent.ids(mcp.MethodElicit), sent.ids(mcp.NotificationElicitationComplete)
	if len(theirs) != 1 || len(ours) != 1 || len(completed) != 1 || ours[0] != completed[0] || ours[0] == theirs[0] {
		t.Errorf("ids of the server %q, of the gateway %q, completed %q", theirs, ours, completed)
	}
}

// The client of 2026-07-28 retries at another replica of the gateway.
func TestAnswerReachesTheReplicaOfTheCall(t *testing.T) {
	memory := store.NewMemory(store.MemoryOptions{})
	up := matrixServer(t, mcp.V20251125, memory)
	var replicas []*server.Server
	for range 3 {
		s := &server.Server{Name: "gateway", KV: memory, Log: memory, Bus: memory, Keys: [][]byte{make([]byte, 32)}}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{up}, Dialer: client.Dialer{Revision: mcp.V20251125}}, s)
		replicas = append(replicas, s)
		t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	}
	var next atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		replicas[next.Add(1)%3].ServeHTTP(w, r)
	}))
	t.Cleanup(balancer.Close)
	c := gatewaytest.Dial(t, balancer.URL, "up", mcp.V20260728)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i, tool := range []string{"form", "sample", "url", "roots", "form", "form"} {
		nonce := string(rune('a' + i))
		want := map[string]string{"form": "form ", "sample": "sampled ", "url": "opened ", "roots": "file:///"}[tool] + nonce
		if err := c.Wants(ctx, tool, nonce, want); err != nil {
			t.Error(err)
		}
	}
}
