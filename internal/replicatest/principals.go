// Package replicatest tests replicas of a server on a store that the test provides: nobody sees what the server stored
// for another principal, and any replica resumes an interrupted event stream. Only tests import it.
package replicatest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Door says how a server knows who sends a request.
type Door struct {
	// Protect puts the authentication in front of a server, or into it.
	Protect func(s *server.Server) http.Handler
	// Headers contains the request headers of a user, ada or bob, as names and values; nil if Client knows the user.
	Headers func(user string) []string
	// Strangers contains headers of requests that belong to nobody: the server must reject them.
	Strangers map[string][]string
	// Start serves a handler until the test ends; nil: httptest.NewServer.
	Start func(h http.Handler) *httptest.Server
	// Client returns the client of a user; nil: http.DefaultClient.
	Client func(user string) *http.Client
}

// Tokens returns the Door of a server that verifies access tokens with Server.Auth. The token is the name of
// the user.
func Tokens() Door {
	return Door{
		Protect: func(s *server.Server) http.Handler {
			s.Auth = &auth.ProtectedResource{
				URI: "http://localhost", Issuers: []string{"https://issuer.example"},
				Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
					who, err := principal.New("https://issuer.example", token, "")
					return &auth.Info{Principal: who, Audience: []string{"http://localhost"},
						Expiry: time.Now().Add(time.Hour)}, err
				}),
			}
			return s
		},
		Headers: func(user string) []string { return []string{"Authorization", "Bearer " + user} },
	}
}

// Principals lets ada store each kind of thing at one of two replicas, and lets bob use its name with each
// method at both replicas. Bob must receive the same response as for a thing that never existed, and ada's
// thing must stay unchanged. The replicas use first and second, which share their data.
func Principals(t *testing.T, first, second store.Store, door Door) {
	f := &fleet{first: newReplica(t, first, door), second: newReplica(t, second, door)}
	t.Run("strangers", func(t *testing.T) { testStrangers(t, f, door.Strangers) })
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(string(r)+"/session", func(t *testing.T) { testSession(t, f, r) })
		t.Run(string(r)+"/own session", func(t *testing.T) { testOwnSession(t, f, r) })
	}
	t.Run("2024-11-05/session", func(t *testing.T) { testPair(t, f) })
	t.Run("2025-11-25/task", func(t *testing.T) { testSessionTask(t, f) })
	t.Run("2026-07-28/task", func(t *testing.T) { testTask(t, f) })
	t.Run("2026-07-28/cursor", func(t *testing.T) { testCursor(t, f) })
	for tool, long := range map[string]bool{"ask-once": false, "ask-twice": true, "park": false} {
		t.Run("2026-07-28/state of "+tool, func(t *testing.T) { testState(t, f, tool, long) })
	}
	t.Run("2026-07-28/request in flight", func(t *testing.T) { testCancellation(t, f) })
	t.Run("2026-07-28/catalog", func(t *testing.T) { testCatalog(t, f) })
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(string(r)+"/catalog", func(t *testing.T) { testSessionCatalog(t, f, r) })
	}
	t.Run("once", func(t *testing.T) { testOnce(t, f) })
}

// fleet contains two replicas of a server.
type fleet struct{ first, second *replica }

// replica is a server with a tool for each kind of thing.
type replica struct {
	door    Door
	server  *server.Server
	hers    *server.Catalog // a catalog that only ada sees
	url     string
	release chan struct{} // lets one call of "wait" end
}

type person struct {
	Name string `json:"name"`
}

func newReplica(t *testing.T, shared store.Store, door Door) *replica {
	r := &replica{door: door, release: make(chan struct{}), hers: new(server.Catalog)}
	s := &server.Server{
		Name: "s", Version: "1", Store: shared, Keys: [][]byte{make([]byte, 32)},
		Limits: server.Limits{PageSize: 1},
		Logger: slog.New(slog.DiscardHandler),
	}
	elicit := func(ctx context.Context, question string) (string, error) {
		who, err := server.Elicit[person](ctx, question)
		return who.Name, err
	}
	// Every revision with sessions supports roots.
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		if err := server.Progress(ctx, 1, 2, "asking"); err != nil {
			return "", err
		}
		roots, err := server.Roots(ctx)
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	server.AddTool(s, mcp.Tool{Name: "ask-twice"}, func(ctx context.Context, _ struct{}) (string, error) {
		first, err := elicit(ctx, "Who?")
		if err != nil {
			return "", err
		}
		second, err := elicit(ctx, "And who else?")
		return first[:3] + second, err
	})
	once := func(ctx context.Context, _ struct{}) (string, error) { return elicit(ctx, "Who?") }
	server.AddTool(s, mcp.Tool{Name: "ask-once"}, once)
	server.AddTool(s, mcp.Tool{Name: "park"}, once, server.Parked())
	server.AddTool(s, mcp.Tool{Name: "job"}, once, server.AsTask(server.TaskOptions{}))
	server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		if err := server.Progress(ctx, 1, 2, "waiting"); err != nil {
			return "", err
		}
		select {
		case <-r.release:
			return "released", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
		of, err := server.Once(ctx, "pay", func(ctx context.Context, _ string) (string, error) {
			return server.PrincipalOf(ctx).Subject(), nil
		})
		if err != nil {
			return "", err
		}
		who, err := elicit(ctx, "Who?")
		return of + " and " + who, err
	})
	server.AddTool(s, mcp.Tool{Name: "zzz"}, func(context.Context, struct{}) (string, error) { return "", nil },
		server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "ada" }))
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "text")
	server.AddTool(r.hers, mcp.Tool{Name: "hers"}, func(context.Context, struct{}) (string, error) {
		return "the tool of ada", nil
	})
	server.AddStatic(r.hers, mcp.Resource{URI: "note://hers", Name: "hers"}, "the note of ada")
	s.Catalogs = func(ctx context.Context) ([]*server.Catalog, error) {
		if server.PrincipalOf(ctx).Subject() == "ada" {
			return []*server.Catalog{r.hers}, nil
		}
		return nil, nil
	}
	r.server = s
	start := door.Start
	if start == nil {
		start = httptest.NewServer
	}
	web := start(door.Protect(s))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
		web.CloseClientConnections()
		web.Close()
	})
	r.url = web.URL
	return r
}
