package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// registrar gives each registration another client identifier. Requests returns the client
// and the grant type of each token request.
func (w *environment) registrar() (requests func() []string) {
	registered := 0
	var tokens []string
	w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch r.URL.Path {
		case "/register":
			registered++
			w.json(rw, http.StatusCreated, map[string]any{
				"client_id": fmt.Sprint("client-", registered), "client_secret": secret + "client", "token_endpoint_auth_method": "client_secret_basic",
			})
			return true
		case "/token":
			r.ParseForm()
			id, _, _ := r.BasicAuth()
			tokens = append(tokens, id+" "+r.PostForm.Get("grant_type"))
		}
		return false
	}
	return func() []string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(tokens)
	}
}

// withRedirectURI returns an Interaction with another redirect URI.
func (w *environment) withRedirectURI(redirect string) oauth.Interaction {
	return &oauth.Manual{RedirectURI: redirect, Open: openPage}
}

// A token is refreshed by the client that it was issued to, even if another login has
// replaced the registration.
func TestRefreshUsesTheOriginalClient(t *testing.T) {
	w := newEnvironment(t)
	requests := w.registrar()
	store := &oauth.MemoryStore{}
	w.expired(store)
	other := w.client()
	other.Store, other.Interaction = store, w.withRedirectURI("http://localhost:4000/callback")
	second := newEnvironment(t)
	second.mcp.Close()
	second.mcp = second.start("mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == second.resourcePath {
			w.json(rw, http.StatusOK, map[string]any{"resource": second.url(), "authorization_servers": []string{w.as.URL}})
			return
		}
		second.challenge(rw, http.StatusUnauthorized, "Bearer", "", "")
	})
	if err := other.Login(t.Context(), second.url()); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.dialed = nil // the second server is allowed
	w.mu.Unlock()
	c := w.client()
	c.Store = store
	if header, err := authorize(c, w.url()); err != nil || header == "" {
		t.Fatalf("%q, %v", header, err)
	}
	if err := c.Logout(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if got, want := requests(), []string{"client-1 authorization_code", "client-2 authorization_code", "client-1 refresh_token"}; !slices.Equal(got, want) {
		t.Errorf("token requests %q, want %q", got, want)
	}
}

// An authorization server does not redirect a client that it does not recognize. The next
// login therefore registers again.
func TestLoginWithoutRedirectForgetsTheRegistration(t *testing.T) {
	w := newEnvironment(t)
	requests := w.registrar()
	closed := errors.New("the user closed the page")
	store := &oauth.MemoryStore{}
	c := w.client()
	c.Store, c.Interaction = store, &oauth.Manual{RedirectURI: "http://localhost:3000/callback", Open: func(context.Context, string) (string, error) {
		return "", closed
	}}
	if err := c.Login(t.Context(), w.url()); !errors.Is(err, closed) {
		t.Fatal(err)
	}
	c = w.client()
	c.Store = store
	if err := c.Login(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if got, want := requests(), []string{"client-2 authorization_code"}; !slices.Equal(got, want) {
		t.Errorf("token requests %q, want %q", got, want)
	}
}

// A registration from PromptRegistration is reused with another port of the loopback interface, and after a login with
// a scope that the server does not know.
func TestPromptRegistrationIsCalledOnce(t *testing.T) {
	w := newEnvironment(t)
	w.onIssuer = func(m map[string]any) { delete(m, "registration_endpoint") }
	store, calls := &oauth.MemoryStore{}, 0
	for i, redirect := range []string{"http://127.0.0.1:3000/callback", "http://127.0.0.1:3000/callback", "http://127.0.0.1:3001/callback"} {
		w.onAuthorize = func(_, redirect url.Values) {
			if i == 1 {
				redirect.Del("code")
				redirect.Set("error", "invalid_scope")
			}
		}
		c := w.client()
		c.Store, c.Interaction = store, w.withRedirectURI(redirect)
		c.PromptRegistration = func(context.Context, string) (*oauth.Registration, error) {
			calls++
			return &oauth.Registration{ClientID: "prompted"}, nil
		}
		if err := c.Login(t.Context(), w.url()); (err != nil) != (i == 1) {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}
