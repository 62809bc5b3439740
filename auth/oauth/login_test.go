package oauth_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// A login that nobody has asked for yet finds what one that was asked for would find.
func TestALoginBeginsWithTheChallengeOfTheServer(t *testing.T) {
	w := newWorld(t)
	w.scope, w.hintAt = "tools admin", "/elsewhere"
	plain := w.prmAt
	w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case plain: // a decoy
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
		t.Errorf("it asks for %q", got)
	}
	if err := c.Login(t.Context(), w.url(), "more"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(w.queries[len(w.queries)-1].Get("scope")); !slices.Equal(got, []string{"tools", "admin", "files", "more"}) {
		t.Errorf("the second time it asks for %q", got)
	}
}

func TestNobodyLogsInWhereNothingIsGuarded(t *testing.T) {
	w := newWorld(t)
	open := true
	w.hintAt = ""
	w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		if open && r.URL.Path == w.path {
			rw.WriteHeader(http.StatusBadRequest) // as to a ping without a session
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
	open = false // it asks for a token, and is of 2025-03-26: then endpoints are guessed
	if err := w.client().Login(t.Context(), w.url()); !errors.Is(err, oauth.ErrRegistration) {
		t.Error(err)
	}
}
