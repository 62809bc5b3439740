package oauth_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// Login gets the challenge of the server and uses it.
func TestLoginUsesTheChallenge(t *testing.T) {
	w := newEnvironment(t)
	w.scope, w.challengeURL = "tools admin", "/elsewhere"
	wellKnown := w.resourcePath
	w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case wellKnown: // must not be used
			http.NotFound(rw, r)
			return true
		case "/elsewhere":
			w.json(rw, http.StatusOK, map[string]any{"resource": w.url(), "authorization_servers": []string{w.as.URL}})
			return true
		}
		return false
	}
	c := w.client()
	if err := c.Login(t.Context(), w.url(), "files"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(w.queries[len(w.queries)-1].Get("scope")); !slices.Equal(got, []string{"tools", "admin", "files"}) {
		t.Errorf("scopes %q", got)
	}
	if err := c.Login(t.Context(), w.url(), "more"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(w.queries[len(w.queries)-1].Get("scope")); !slices.Equal(got, []string{"tools", "admin", "files", "more"}) {
		t.Errorf("second login: scopes %q", got)
	}
}

func TestLoginFailsWithoutAuthorization(t *testing.T) {
	w := newEnvironment(t)
	open := true
	w.challengeURL = ""
	w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		if open && r.URL.Path == w.path {
			rw.WriteHeader(http.StatusBadRequest) // like a ping without session
			return true
		}
		if r.URL.Path != w.path {
			http.NotFound(rw, r)
			return true
		}
		return false
	}
	c := w.client()
	if err := c.Login(t.Context(), w.url()); !errors.Is(err, oauth.ErrDiscovery) || !strings.Contains(err.Error(), "without a token") {
		t.Error(err)
	}
	open = false // the default endpoints of 2025-03-26 are tried
	if err := w.client().Login(t.Context(), w.url()); !errors.Is(err, oauth.ErrDiscovery) || !strings.Contains(err.Error(), "API key") {
		t.Error(err)
	}
}
