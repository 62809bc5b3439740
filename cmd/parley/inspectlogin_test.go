package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/inspect"
	"github.com/parley-mcp/parley/cmd/parley/internal/inspecting"
)

// logInForPage logs in as the page of parley inspect does. A simulated user opens the login page, whose address it
// returns.
func logInForPage(t *testing.T, url string, o inspect.LoginOptions) (page string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var user sync.WaitGroup
	o.Step = func(oauth.Step) {}
	o.Open = func(_ context.Context, opened string) error {
		page = opened
		user.Go(func() {
			if _, err := new(devissuer.Browser).LogIn(ctx, opened); err != nil {
				t.Error(err)
			}
		})
		return nil
	}
	cmd := new(cobra.Command)
	cmd.SetErr(io.Discard)
	err = inspecting.LogIn(ctx, cmd, url, o)
	user.Wait()
	return page, err
}

func TestInspectLogsInWithAClientOfTheUserAndStoresIt(t *testing.T) {
	const secret = "s3cr3t-of-the-client"
	host := "http://localhost:" + freePort(t)
	url := serveAuthorized(t, devissuer.Config{
		Clients: []devissuer.Client{{ID: "mine", Secret: secret, RedirectURIs: []string{host + "/oauth/return"}}},
	})
	start := host + "/login/"
	elsewhere := inspect.LoginOptions{ClientID: "mine", ClientSecret: secret, RedirectURI: "https://example.com/oauth/return"}
	if _, err := logInForPage(t, url, elsewhere); err == nil || !strings.Contains(err.Error(), "it must be like http://localhost:3118/callback") {
		t.Errorf("a redirect to another host: %v", err)
	}
	page, err := logInForPage(t, url, inspect.LoginOptions{ClientID: "mine", ClientSecret: secret, RedirectURI: host + "/oauth/return"})
	if err != nil || !strings.HasPrefix(page, start) {
		t.Fatalf("page %s, %v", page, err)
	}
	if out, err := run(t, "call", "-o", "json", url, "whoami"); err != nil || !strings.Contains(out, `"client": "mine"`) {
		t.Errorf("%v\n%s", err, out)
	}
	// The next login uses the stored client and redirect URI.
	if page, err = logInForPage(t, url, inspect.LoginOptions{}); err != nil || !strings.HasPrefix(page, start) {
		t.Errorf("the next login: page %s, %v", page, err)
	}
	if out, err := run(t, "call", "-o", "json", url, "whoami"); err != nil || !strings.Contains(out, `"client": "mine"`) {
		t.Errorf("after the next login: %v\n%s", err, out)
	}
}

func TestInspectAsksForAClientIfTheIssuerRegistersNone(t *testing.T) {
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	t.Setenv("PARLEY_NO_KEYRING", "1")
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	defer s.Close()
	respond := func(format string, args ...any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, format, args...)
		}
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/resource", respond(`{"resource": "%s/mcp", "authorization_servers": [%q]}`, s.URL, s.URL))
	mux.HandleFunc("/.well-known/oauth-authorization-server", respond(
		`{"issuer": %q, "authorization_endpoint": "%s/authorize", "token_endpoint": "%s/token", "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}`, s.URL, s.URL, s.URL))
	_, err := logInForPage(t, s.URL+"/mcp", inspect.LoginOptions{})
	if err == nil || !strings.Contains(err.Error(), "does not support dynamic registration") || !strings.HasSuffix(err.Error(), `; open "Client and redirect URI" and enter a client that you have registered`) {
		t.Errorf("got %v", err)
	}
}
