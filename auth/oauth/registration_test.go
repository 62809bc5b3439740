package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// registrar has each registration be another client, and returns who has asked for
// tokens by which grant.
func (w *world) registrar() (asked func() []string) {
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

// at is the user at an address that the browser comes back to.
func (w *world) at(redirect string) oauth.Interaction {
	return &oauth.Manual{RedirectURI: redirect, Open: visit}
}

// A token is renewed by whom it was issued to, though another login at the same
// authorization server has made a new registration necessary.
func TestATokenIsRenewedByTheClientItWasIssuedTo(t *testing.T) {
	w := newWorld(t)
	asked := w.registrar()
	store := &oauth.MemoryStore{}
	w.expired(store)
	other := w.client()
	other.Store, other.Interaction = store, w.at("http://localhost:4000/callback")
	neighbour := newWorld(t)
	neighbour.mcp.Close()
	neighbour.mcp = neighbour.start("mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == neighbour.prmAt {
			w.json(rw, http.StatusOK, map[string]any{"resource": neighbour.url(), "authorization_servers": []string{w.as.URL}})
			return
		}
		neighbour.challenge(rw, http.StatusUnauthorized, "Bearer", "", "")
	})
	if err := other.Login(t.Context(), neighbour.url()); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.egress = nil // the neighbour is one who takes part
	w.mu.Unlock()
	c := w.client()
	c.Store = store
	if header, err := authorize(c, w.url()); err != nil || header == "" {
		t.Fatalf("%q, %v", header, err)
	}
	if err := c.Logout(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if got, want := asked(), []string{"client-1 authorization_code", "client-2 authorization_code", "client-1 refresh_token"}; !slices.Equal(got, want) {
		t.Errorf("tokens were asked for by %q, not %q", got, want)
	}
}

// An authorization server that knows nothing of a client tells the user so, and sends
// nobody back: the next login registers anew.
func TestARegistrationWithWhichNobodyComesBackIsNotUsedAgain(t *testing.T) {
	w := newWorld(t)
	asked := w.registrar()
	lost := errors.New("the user has closed the page")
	store := &oauth.MemoryStore{}
	c := w.client()
	c.Store, c.Interaction = store, &oauth.Manual{RedirectURI: "http://localhost:3000/callback", Open: func(context.Context, string) (string, error) {
		return "", lost
	}}
	if err := c.Login(t.Context(), w.url()); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	c = w.client()
	c.Store = store
	if err := c.Login(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if got, want := asked(), []string{"client-2 authorization_code"}; !slices.Equal(got, want) {
		t.Errorf("tokens were asked for by %q, not %q", got, want)
	}
}

// Whoever has said once what the client is called is not asked again because a port of
// the loopback interface was taken.
func TestAClientIsAskedForOnce(t *testing.T) {
	w := newWorld(t)
	w.meta = func(m map[string]any) { delete(m, "registration_endpoint") }
	store, times := &oauth.MemoryStore{}, 0
	for _, redirect := range []string{"http://127.0.0.1:3000/callback", "http://127.0.0.1:3001/callback"} {
		c := w.client()
		c.Store, c.Interaction = store, w.at(redirect)
		c.PromptRegistration = func(context.Context, string) (*oauth.Registration, error) {
			times++
			return &oauth.Registration{ClientID: "told"}, nil
		}
		if err := c.Login(t.Context(), w.url()); err != nil {
			t.Fatal(err)
		}
	}
	if times != 1 {
		t.Errorf("asked %d times", times)
	}
}
