//lint:file-ignore SA1019 deprecated features must still work

// Package replicatest tests replicas of a server that share a store of the caller: what the server has stored for one
// principal does not exist for another one, and event streams that are cut are resumed at any replica. Only tests
// import it.
package replicatest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Store is what the replicas of a server share.
type Store interface {
	store.KV
	store.Log
	store.Bus
}

// Principals lets ada store each kind of thing at one of two replicas, and lets bob use its name with each
// method at both replicas. The response must be the one for a thing that never existed, and the thing
// of ada must be unchanged. The replicas use first and second, which share their data.
func Principals(t *testing.T, first, second Store) {
	f := &fleet{first: newReplica(t, first), second: newReplica(t, second)}
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
	t.Run("once", func(t *testing.T) { testOnce(t, f) })
}

// fleet is two replicas of a server.
type fleet struct{ first, second *replica }

// replica is a server with a tool for each kind of thing.
type replica struct {
	url     string
	release chan struct{} // lets one call of "wait" end
}

type person struct {
	Name string `json:"name"`
}

func newReplica(t *testing.T, shared Store) *replica {
	r := &replica{release: make(chan struct{})}
	s := &server.Server{
		Name: "s", Version: "1", Store: shared, Keys: [][]byte{make([]byte, 32)},
		Limits: server.Limits{PageSize: 1},
		Logger: slog.New(slog.DiscardHandler),
	}
	s.Auth = &auth.ProtectedResource{
		URI: "http://localhost", Issuers: []string{"https://issuer.example"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) { // the token is the name
			who, err := principal.New("https://issuer.example", token, "")
			return &auth.Info{Principal: who, Audience: []string{"http://localhost"},
				Expiry: time.Now().Add(time.Hour)}, err
		}),
	}
	elicit := func(ctx context.Context, question string) (string, error) {
		who, err := server.Elicit[person](ctx, question)
		return who.Name, err
	}
	// Every revision with sessions has roots.
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
	web := httptest.NewServer(s)
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
