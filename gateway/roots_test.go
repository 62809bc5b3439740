//lint:file-ignore SA1019 deprecated features must still work

package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/transport"
)

// rootsServer is a server over a byte stream that requests roots outside of calls: when its session begins, when the
// roots have changed, and when the test calls ask.
type rootsServer struct {
	far     transport.Conn
	answers chan string // the roots, or the error
	asked   atomic.Int64
	eager   atomic.Bool // it requests the roots before it answers a call
}

func startRootsServer(t *testing.T) (*rootsServer, host.ServerConfig) {
	near, far := transport.Pipe()
	u := &rootsServer{far: far, answers: make(chan string, 10)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.serve()
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return u, host.ServerConfig{Name: "up", Target: client.Conn(near)}
}

func (u *rootsServer) serve() {
	answers := upstream{
		mcp.MethodListTools:  `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`,
		mcp.MethodCallTool:   `{"content":[]}`,
		mcp.MethodInitialize: `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"up","version":"1"}}`,
	}
	for {
		raw, err := u.far.Read(context.Background())
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
		switch {
		case err != nil:
		case m.Kind == jsonrpc.Request:
			if m.Method == mcp.MethodCallTool && u.eager.Load() {
				u.ask()
			}
			_ = u.far.Write(context.Background(), answers.answer(&m))
		case m.Kind == jsonrpc.Response && m.Err != nil:
			u.answers <- m.Err.Message
		case m.Kind == jsonrpc.Response:
			u.answers <- string(m.Raw)
		case m.Method == mcp.NotificationInitialized, m.Method == mcp.NotificationRootsListChanged:
			u.ask()
		}
	}
}

func (u *rootsServer) ask() {
	_ = u.far.Write(context.Background(), jsonrpc.AppendRequest(nil, jsonrpc.IntID(1000+u.asked.Add(1)), mcp.MethodListRoots, nil))
}

// expect fails the test unless the next answer has a text.
func (u *rootsServer) expect(t *testing.T, text string) {
	t.Helper()
	if got := u.answer(t); !strings.Contains(got, text) {
		t.Errorf("the server received %s, want %s", got, text)
	}
}

func (u *rootsServer) answer(t *testing.T) string {
	t.Helper()
	select {
	case got := <-u.answers:
		return got
	case <-time.After(20 * time.Second):
		t.Fatal("the server received no answer")
		return ""
	}
}

// A client of each revision with sessions notifies a server of each of them through the gateway, and the server receives
// the changed roots outside of a call.
func TestChangesOfRootsReachTheServer(t *testing.T) {
	for _, theirs := range sessionRevisions() {
		received := make(chan string, 10)
		up := &server.Server{Name: "up", RootsChanged: func(ctx context.Context) {
			session := rpc.From(ctx).SessionNotifier
			go func() { // the handler of a notification must not wait for the client
				raw, err := session.RequestInput(t.Context(), rpc.InputRequest{Method: mcp.MethodListRoots})
				if err != nil {
					raw = []byte(err.Error())
				}
				received <- string(raw)
			}()
		}}
		server.AddTool(up, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (string, error) { return "", nil })
		s := &server.Server{Name: "gateway"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", up)}, Dialer: client.Dialer{Revision: theirs}}, s)
		url := serveHTTP(t, s)
		for _, ours := range sessionRevisions() {
			t.Run(fmt.Sprintf("client %s/server %s", ours, theirs), func(t *testing.T) {
				for _, name := range []string{"ada", "bob"} {
					root := "file:///" + name
					d := client.Dialer{Revision: ours, Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: root}}, nil }}
					c, err := d.Dial(t.Context(), client.URL(url))
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					if _, err := c.CallTool(t.Context(), "up__t", nil); err != nil {
						t.Fatal(err)
					}
					if err := c.NotifyRootsChanged(t.Context()); err != nil {
						t.Fatal(err)
					}
					select {
					case got := <-received:
						if !strings.Contains(got, root) {
							t.Errorf("the server received %s, want %s", got, root)
						}
					case <-time.After(20 * time.Second):
						t.Fatal("the server received nothing")
					}
				}
			})
		}
	}
}

func sessionRevisions() []mcp.Revision {
	return slices.DeleteFunc(mcp.Revisions(), mcp.Revision.Modern)
}

// A server that all callers share receives the roots of a session while it is the only one that is connected.
func TestSharedServerReceivesTheRootsOfTheOnlySession(t *testing.T) {
	u, config := startRootsServer(t)
	var mu sync.Mutex
	var outcomes []string
	h := &host.Host{Servers: []host.ServerConfig{config}, Audit: func(_ context.Context, r *host.AuditRecord) error {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == mcp.MethodListRoots && r.Event == host.AuditDone {
			outcomes = append(outcomes, r.Outcome)
		}
		return nil
	}}
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, h, s)
	u.expect(t, "it belongs to no call that is in flight")

	dial := func(name string, transport func(testing.TB, *server.Server, ...func(*client.Dialer)) *client.Client) (c *client.Client, move func(string)) {
		root := "file:///" + name
		var mu sync.Mutex
		c = transport(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
			d.Roots = func(context.Context) ([]mcp.Root, error) {
				mu.Lock()
				defer mu.Unlock()
				return []mcp.Root{{URI: root}}, nil
			}
		})
		return c, func(to string) {
			mu.Lock()
			root = to
			mu.Unlock()
			if err := c.NotifyRootsChanged(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	use := func(c *client.Client) {
		if _, err := c.CallTool(t.Context(), "up__t", nil); err != nil {
			t.Fatal(err)
		}
	}
	ada, moveAda := dial("ada", mcptest.DialHTTP)
	use(ada) // the server, which had no roots, is notified
	u.expect(t, "file:///ada")
	moveAda("file:///ada/moved")
	u.expect(t, "file:///ada/moved")

	bob, moveBob := dial("bob", mcptest.Dial)
	use(bob)
	u.ask()
	u.expect(t, "it belongs to no call that is in flight")
	moveAda("file:///ada/again") // not forwarded
	moveBob("file:///bob/again")
	bob.Close()
	for { // until the gateway has noticed
		u.ask()
		got := u.answer(t)
		if strings.Contains(got, "file:///ada/again") {
			break
		}
		if !strings.Contains(got, "it belongs to no call") {
			t.Fatalf("the server received %s", got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(outcomes, " "); !strings.Contains(got, "error") || !strings.Contains(got, "ok") {
		t.Errorf("the audit log has the outcomes %s", got)
	}
}

// A server over a byte stream that requests the roots shortly before it answers a call receives those of the session, although the
// call ends before the client answers.
func TestRootsThatAreRequestedDuringACallOutliveIt(t *testing.T) {
	for _, r := range sessionRevisions() {
		for name, dial := range map[string]func(testing.TB, *server.Server, ...func(*client.Dialer)) *client.Client{"memory": mcptest.Dial, "HTTP": mcptest.DialHTTP} {
			t.Run(fmt.Sprintf("%s/%s", r, name), func(t *testing.T) {
				u, config := startRootsServer(t)
				s := &server.Server{Name: "gateway"}
				gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}}, s)
				u.expect(t, "it belongs to no call that is in flight")
				ended := make(chan struct{})
				c := dial(t, s, mcptest.WithRevision(r), func(d *client.Dialer) {
					d.Roots = func(ctx context.Context) ([]mcp.Root, error) {
						select {
						case <-ended:
						case <-ctx.Done():
						}
						return []mcp.Root{{URI: "file:///ada"}}, nil
					}
				})
				u.eager.Store(true)
				if _, err := c.CallTool(t.Context(), "up__t", nil); err != nil {
					t.Fatal(err)
				}
				close(ended)
				u.expect(t, "file:///ada")
			})
		}
	}
}

// A change of roots reaches the sessions with a server that each of two replicas has for the session of the client.
func TestChangesOfRootsReachTheServerFromAllReplicas(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(string(r), func(t *testing.T) {
			sessions := make(chan rpc.SessionNotifier, 100)
			received := make(chan string, 100)
			up := &server.Server{Name: "up", RootsChanged: func(ctx context.Context) {
				session := rpc.From(ctx).SessionNotifier
				go func() { // the handler of a notification must not wait for the client
					raw, err := session.RequestInput(t.Context(), rpc.InputRequest{Method: mcp.MethodListRoots})
					received <- fmt.Sprint(string(raw), " ", err)
				}()
				sessions <- session
			}}
			server.AddTool(up, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (string, error) { return "", nil })
			config := httpConfig(t, "up", up)
			kv := store.NewMemory(store.MemoryOptions{})
			var replicas []http.Handler
			for range 2 {
				s := &server.Server{Name: "gateway", KV: kv, Log: kv, Bus: kv, Keys: [][]byte{make([]byte, 32)}}
				gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}, Dialer: client.Dialer{Revision: mcp.V20251125}}, s)
				t.Cleanup(func() { s.Shutdown(context.Background()) })
				replicas = append(replicas, s)
			}
			var next atomic.Int64
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				replicas[next.Add(1)%2].ServeHTTP(w, r)
			}))
			t.Cleanup(front.Close)
			d := client.Dialer{Revision: r, Logger: quiet, Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///ada"}}, nil }}
			c, err := d.Dial(t.Context(), client.URL(front.URL))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			for range 4 { // at both replicas
				if _, err := c.CallTool(t.Context(), "up__t", nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.NotifyRootsChanged(t.Context()); err != nil {
				t.Fatal(err)
			}
			notified := make(map[rpc.SessionNotifier]bool)
			for range 2 {
				select {
				case session := <-sessions:
					notified[session] = true
				case <-time.After(20 * time.Second):
					t.Fatalf("the server is notified on %d sessions", len(notified))
				}
				expectMessage(t, received, "file:///ada")
			}
			if len(notified) != 2 {
				t.Errorf("the server is notified on %d sessions, want that of each replica", len(notified))
			}
		})
	}
}
