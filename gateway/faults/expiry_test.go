//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// All sessions of a server expire again and again while users call it, and the access token for it expires. No call fails,
// and one new token is requested for each that expires.
func TestCallsSurviveTheExpiryOfSessionsAndTokens(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for _, sharing := range []host.Sharing{host.PerCaller, host.Shared} {
			t.Run(fmt.Sprint(r, " ", sharing), func(t *testing.T) {
				f := newFixture(t)
				u := f.expiring("expiring")
				f.serve([]host.ServerConfig{{Name: u.name, Target: client.URL(u.url), Sharing: sharing}}, client.Dialer{Revision: r, Auth: u.login(t)})
				f.dial(mcp.V20251125).awaitTools(u.name)
				l := f.startLoad(40, []string{u.name})
				tokens := 1
				var renewed time.Time
				repeat(func() {
					for range 5 {
						l.Proceed(60)
						f.ledger.Fault()
						u.sessions.expire()
					}
					l.Proceed(60)
					// A token that is rejected soon after it was issued would not be renewed.
					if time.Since(renewed) > time.Minute {
						f.ledger.Fault()
						u.tokens.expire()
						renewed = time.Now()
						tokens++
					}
				})
				l.Proceed(60)
				l.stop()
				_ = f.host.Close()
				if n := u.tokens.number(); n != tokens {
					t.Errorf("%d access tokens were used, want %d", n, tokens)
				}
				if n := u.sessions.number(); n == 0 && !r.Modern() {
					t.Error("there were no sessions")
				}
				f.finish()
			})
		}
	}
}

// expiring is a server over HTTP that requires a login. The test lets its sessions and access tokens expire.
type expiring struct {
	name, url        string
	sessions, tokens seen
	logins           sync.WaitGroup
}

func (f *fixture) expiring(name string) *expiring {
	t := f.t
	t.Helper()
	issuer, err := devissuer.Start(devissuer.Config{Scopes: []string{"mcp"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = issuer.Close() })
	open(t, f.journal) // it remains empty, because the server is in this process
	u := &expiring{name: name}
	s := &server.Server{Name: name, Version: "1.0.0", Logger: slog.New(slog.DiscardHandler)}
	// All users are one principal of this server.
	s.Limits.CallsPerSecond, s.Limits.Sessions, s.Limits.SessionsPerPrincipal = -1, 1<<20, 1<<20
	tool := func(name string, handle func(context.Context, arguments) (string, error)) {
		server.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, in arguments) (string, error) {
			f.ledger.Started(in.User, in.Nonce)
			return handle(ctx, in)
		})
	}
	tool("echo", func(_ context.Context, in arguments) (string, error) { return in.Nonce, nil })
	tool("steps", steps)
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("Mcp-Session-Id"); id != "" && !u.sessions.use(id) {
			http.Error(w, "the session has expired", http.StatusNotFound)
			return
		}
		s.ServeHTTP(w, r)
	}))
	u.url = "http://" + h.Listener.Addr().String() + "/mcp"
	s.Auth = jwt.Protect(&auth.ProtectedResource{URI: u.url, Issuers: []string{issuer.URL()}, Scopes: []string{"mcp"}})
	verifier := s.Auth.Verifier
	s.Auth.Verifier = auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
		info, err := verifier.Verify(ctx, token)
		if err == nil && !u.tokens.use(token) {
			return nil, errors.New("the token has expired")
		}
		return info, err
	})
	h.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		h.Close()
		u.logins.Wait()
	})
	return u
}

// login returns the client of a user who has logged in before. It refreshes the access token.
func (u *expiring) login(t *testing.T) *oauth.Client {
	t.Helper()
	browser := new(devissuer.Browser)
	first := &oauth.Client{
		Logger: slog.New(slog.DiscardHandler), Store: new(oauth.MemoryStore),
		Interaction: &oauth.Loopback{Open: func(ctx context.Context, page string) error {
			u.logins.Go(func() { _, _ = browser.LogIn(ctx, page) })
			return nil
		}},
	}
	if err := first.Login(t.Context(), u.url); err != nil {
		t.Fatal(err)
	}
	return &oauth.Client{Logger: first.Logger, Store: first.Store}
}

// seen is the sessions or tokens that a server has received.
type seen struct {
	mu      sync.Mutex
	expired map[string]bool // by session or token
}

// use records one, and reports whether it has not expired.
func (s *seen) use(one string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired == nil {
		s.expired = make(map[string]bool)
	}
	expired := s.expired[one]
	s.expired[one] = expired
	return !expired
}

// expire lets all expire that were used.
func (s *seen) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.expired {
		s.expired[one] = true
	}
}

func (s *seen) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.expired)
}
