package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

// waitingUser is an Interaction whose user is at the authorization page until the test continues.
func (w *environment) waitingUser() (i oauth.Interaction, atPage, proceed chan struct{}) {
	atPage, proceed = make(chan struct{}, 8), make(chan struct{})
	return &oauth.Manual{RedirectURI: "http://localhost:3000/callback", Open: func(ctx context.Context, url string) (string, error) {
		atPage <- struct{}{}
		select {
		case <-proceed:
			return openPage(ctx, url)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}}, atPage, proceed
}

// While the user is at an authorization page, requests of this and of other processes use the stored token and renew
// it, a request that needs a login fails at once, and another login succeeds. The login that ends last is stored.
func TestNoRequestWaitsForTheUserOfALogin(t *testing.T) {
	w := newEnvironment(t)
	store := &oauth.MemoryStore{}
	loggedIn := w.expired(store)
	waiting, other, alone := w.client(), w.client(), w.client()
	waiting.Store, other.Store, alone.Store, alone.Interaction = store, store, store, nil
	var atPage, proceed chan struct{}
	waiting.Interaction, atPage, proceed = w.waitingUser()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a wait for the user fails the test
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- waiting.Login(ctx, w.url()) }()
	<-atPage

	first := token(ctx, t, loggedIn, w.url()) // renews it
	for name, c := range map[string]*oauth.Client{"that logs in": waiting, "of another process": alone} {
		if got := token(ctx, t, c, w.url()); got != first || got == "" {
			t.Errorf("a request of the Client %s has the token %q, not %q", name, got, first)
		}
	}
	if n := w.count("as POST /token"); n != 2 {
		t.Errorf("%d token requests, %d of them refreshes", n, n-1)
	}
	w.scope = "tools admin"
	w.revokeAll()
	stranger := w.client()
	stranger.Interaction, stranger.Store = nil, store
	if err := stranger.Logout(ctx, w.url()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.dial(stranger, ""); !errors.Is(err, oauth.ErrInteraction) || ctx.Err() != nil {
		t.Errorf("a request that requires a login: %v", err)
	}
	if err := other.Login(ctx, w.url()); err != nil {
		t.Fatal(err)
	}
	second := token(ctx, t, other, w.url())
	close(proceed)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	next := w.client()
	next.Store = store
	if got, last := token(ctx, t, next, w.url()), token(ctx, t, waiting, w.url()); got != last || got == second {
		t.Errorf("the stored token is %q, the one of the last login %q", got, last)
	}
}

// token returns the Authorization header of a request.
func token(ctx context.Context, t *testing.T, c *oauth.Client, server string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Authorize(req, server); err != nil {
		t.Fatal(err)
	}
	return req.Header.Get("Authorization")
}

// A login that the user requests again, for example because the page of the first one was closed, does not wait for
// the first one. A request waits for it, instead of opening another page.
func TestLoginsOfOneClientDoNotWaitForEachOther(t *testing.T) {
	w := newEnvironment(t)
	c := w.client()
	var atPage, proceed chan struct{}
	c.Interaction, atPage, proceed = w.waitingUser()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 3)
	for range 2 {
		go func() { ended <- c.Login(ctx, w.url()) }()
	}
	for range 2 {
		select {
		case <-atPage:
		case <-ctx.Done():
			t.Fatal("the second login waits for the first one")
		}
	}
	go func() { _, err := w.dial(c, ""); ended <- err }()
	close(proceed)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := w.count("as GET /authorize"); n != 2 {
		t.Errorf("%d authorizations", n)
	}
}
