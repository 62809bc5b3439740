package oauth_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
)

func TestStatusDescribesTheLogin(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			w.onToken = func(_ url.Values, body map[string]any) {
				body["access_token"] = secret + "access-1.eyJzdWIiOiJhZGEifQ.x" // {"sub":"ada"}
				body["scope"] = "tools files"
			}
			c := w.client()
			c.Store = store
			if s, err := c.Status(t.Context(), w.url()); s != nil || err != nil {
				t.Fatalf("before the login: %+v, %v", s, err)
			}
			if err := c.Login(t.Context(), w.url()); err != nil {
				t.Fatal(err)
			}
			other := &oauth.Client{Store: store}
			s, err := other.Status(t.Context(), strings.ToUpper(w.url()[:4])+w.url()[4:])
			if err != nil || s == nil {
				t.Fatalf("%+v, %v", s, err)
			}
			if s.Server != w.url() || s.Resource != w.url() || s.Issuer != w.as.URL || s.Subject != "ada" ||
				!slices.Equal(s.Scopes, []string{"tools", "files"}) || !s.Renewable || s.Bound || time.Until(s.Expires) < 59*time.Minute {
				t.Errorf("%+v", s)
			}
			servers, err := other.Servers(t.Context())
			if err != nil || !slices.Equal(servers, []string{w.url()}) {
				t.Errorf("%q, %v", servers, err)
			}
			if err := other.Logout(t.Context(), w.url()); err != nil {
				t.Fatal(err)
			}
			if s, err := c.Status(t.Context(), w.url()); s != nil || err != nil {
				t.Errorf("after the logout: %+v, %v", s, err)
			}
		})
	}
}

func TestServersNeedsAStoreWithKeys(t *testing.T) {
	c := &oauth.Client{Store: struct{ oauth.TokenStore }{&oauth.MemoryStore{}}}
	if _, err := c.Servers(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// Without Interaction the error contains the authorization request.
func TestInteractionErrorContainsTheRequest(t *testing.T) {
	w := newEnvironment(t)
	c := w.client()
	c.Interaction = nil
	for n := range 5 { // they do not count as attempts
		w.scope = "tools " + strings.Repeat("x", n+1) // another key for the remembered failure
		_, err := w.dial(c, "")
		var needed *oauth.InteractionError
		if !errors.As(err, &needed) || !errors.Is(err, oauth.ErrInteraction) {
			t.Fatal(err)
		}
		if r := needed.Request; r.Server != w.url() || r.Issuer != w.as.URL || !slices.Equal(r.Scopes, strings.Fields(w.scope)) || r.Previous != nil {
			t.Errorf("%+v", r)
		}
	}
}

// A process without Interaction uses the login of another process.
func TestLoginOfAnotherProcessIsUsed(t *testing.T) {
	w := newEnvironment(t)
	store := &oauth.MemoryStore{}
	alone, user := w.client(), w.client()
	alone.Store, user.Store, alone.Interaction = store, store, nil
	for range 2 { // the second dial uses the remembered failure
		if _, err := w.dial(alone, ""); !errors.Is(err, oauth.ErrInteraction) {
			t.Fatal(err)
		}
	}
	if err := user.Login(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.dial(alone, ""); err != nil {
		t.Error(err)
	}
}
