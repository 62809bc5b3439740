//go:build integration

package interop

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Their OAuth clients register with the issuer that our server names, log in with PKCE and the resource, come back for
// a scope when they are challenged to, and renew a token that is refused.
func TestTheirClientsLogInToOurServer(t *testing.T) {
	for name, peer := range map[string][]string{
		"v1":        {"v1-client.mjs"},
		"v2 legacy": {"v2-client.mjs", "--era", "legacy"},
		"v2 modern": {"v2-client.mjs", "--era", "modern"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := newIssuer(t)
			s := &server.Server{
				Name:   "interop-parley",
				Logger: slog.New(slog.DiscardHandler),
				Auth:   jwt.Protect(&auth.ProtectedResource{Issuers: []string{issuer.URL()}, Scopes: []string{"mcp"}}),
			}
			server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
				return server.PrincipalOf(ctx).Subject(), nil
			})
			server.AddTool(s, mcp.Tool{Name: "secret"}, func(context.Context, struct{}) (string, error) { return "told", nil },
				server.RequireScopes("files:write"))
			endpoint := httptest.NewServer(s)
			t.Cleanup(endpoint.Close)
			t.Cleanup(endpoint.CloseClientConnections)
			resource := endpoint.URL + "/mcp"

			var seen struct {
				Refused, Whoami, Lacking, Secret, Renewed callObservation
				Visited                                   []string
				Saved                                     int
			}
			run(t, node(t, peer[0], slices.Concat([]string{"--browser", newBrowser(t)}, peer[1:], []string{"http", resource})...), &seen)
			if seen.Refused.Error == nil || seen.Lacking.Error == nil {
				t.Errorf("without a token: %+v, without the scope: %+v", seen.Refused, seen.Lacking)
			}
			for what, got := range map[string]callObservation{"ada": seen.Whoami, "told": seen.Secret, "ada ": seen.Renewed} {
				if got.text() != strings.TrimSpace(what) {
					t.Errorf("%+v, want %s", got, what)
				}
			}
			if len(seen.Visited) != 2 || seen.Saved != 3 {
				t.Fatalf("visited %v and got %d tokens, want 2 and 3", seen.Visited, seen.Saved)
			}
			for i, scopes := range []string{"mcp", "files:write mcp"} {
				page, err := url.Parse(seen.Visited[i])
				if err != nil {
					t.Fatal(err)
				}
				q := page.Query()
				asked := strings.Fields(q.Get("scope"))
				slices.Sort(asked)
				if q.Get("code_challenge_method") != "S256" || q.Get("resource") != resource || strings.Join(asked, " ") != scopes {
					t.Errorf("login %d asks for %v, want the scopes %s", i+1, q, scopes)
				}
			}
		})
	}
}

// Our OAuth client does the same, the renewal included, at servers that are guarded by their middleware.
func TestOurClientLogsInToTheirServers(t *testing.T) {
	for name, tt := range map[string]struct {
		server   string
		revision mcp.Revision
	}{
		"v1": {"v1-server.mjs", mcp.V20251125},
		"v2": {"v2-server.mjs", mcp.V20260728},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := newIssuer(t)
			resource := listen(t, node(t, tt.server, "--issuer", issuer.URL(), "http", "0"))
			var mu sync.Mutex
			var visited []url.Values
			browser := &devissuer.Browser{User: "ada"}
			tokens := new(oauth.MemoryStore)
			login := &oauth.Client{
				Name:   "interop",
				Store:  tokens,
				Logger: slog.New(slog.DiscardHandler),
				Interaction: &oauth.Manual{
					RedirectURI: "http://127.0.0.1/callback",
					Open: func(ctx context.Context, page string) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						if u, err := url.Parse(page); err == nil {
							visited = append(visited, u.Query())
						}
						return browser.Authorize(ctx, page)
					},
				},
			}
			c := dial(t, &client.Dialer{Auth: login}, client.URL(resource))
			if c.Revision() != tt.revision {
				t.Errorf("they speak %s", c.Revision())
			}
			call := func(c *client.Client, tool, want string) {
				t.Helper()
				if text, err := client.CallTool[string](t.Context(), c, tool, nil); err != nil || text != want {
					t.Errorf("%s: %q, %v, want %s", tool, text, err, want)
				}
			}
			call(c, "whoami", "ada")
			call(c, "secret", "told")
			call(c, "expire", "expired")
			// The program starts again, with nobody there to be asked: it renews the token that is refused.
			unattended := &oauth.Client{Store: tokens, Logger: slog.New(slog.DiscardHandler)}
			call(dial(t, &client.Dialer{Auth: unattended}, client.URL(resource)), "secret", "told")
			if len(visited) != 2 {
				t.Fatalf("the user was asked %d times, want twice: %v", len(visited), visited)
			}
			for i, scopes := range []string{"mcp", "files:write mcp"} {
				asked := strings.Fields(visited[i].Get("scope"))
				slices.Sort(asked)
				if visited[i].Get("resource") != resource || strings.Join(asked, " ") != scopes {
					t.Errorf("login %d asks for %v, want the scopes %s", i+1, visited[i], scopes)
				}
			}
		})
	}
}

func newIssuer(t *testing.T) *devissuer.Issuer {
	t.Helper()
	issuer, err := devissuer.Start(devissuer.Config{Users: []string{"ada"}, Scopes: []string{"mcp", "files:write"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = issuer.Close() })
	return issuer
}

// newBrowser is where a client peer takes its user: it answers with the URL to which the issuer has sent them back.
func newBrowser(t *testing.T) string {
	t.Helper()
	browser := &devissuer.Browser{User: "ada"}
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		callback, err := browser.Authorize(r.Context(), r.URL.Query().Get("page"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, callback)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
