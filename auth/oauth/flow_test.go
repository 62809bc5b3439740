package oauth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

var revisions = []mcp.Revision{"", mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728}

// Rules O1, O2, O8, U7: in every revision, a challenge leads to an authorization with PKCE,
// state and resource, after which the request succeeds.
func TestChallengeStartsAuthorizationInEveryRevision(t *testing.T) {
	for _, r := range revisions {
		t.Run(string(r), func(t *testing.T) {
			w := newEnvironment(t)
			if _, err := w.dial(w.client(), r); err != nil {
				t.Fatal(err)
			}
			if n := w.count("as GET /authorize"); n != 1 {
				t.Fatalf("%d authorizations", n)
			}
			q, form := w.queries[0], w.forms[0]
			for name, want := range map[string]string{
				"response_type": "code", "client_id": "client", "redirect_uri": "http://localhost:3000/callback",
				"code_challenge_method": "S256", "resource": w.url(), "scope": "tools",
			} {
				if q.Get(name) != want {
					t.Errorf("%s is %q, want %q", name, q.Get(name), want)
				}
			}
			if len(q.Get("state")) < 22 || len(form.Get("code_verifier")) < 43 {
				t.Errorf("state %q and verifier %q are too short", q.Get("state"), form.Get("code_verifier"))
			}
			if form.Get("resource") != q.Get("resource") || form.Get("redirect_uri") != q.Get("redirect_uri") {
				t.Errorf("token request %v does not match authorization request %v", form, q)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if !strings.Contains(w.bodies[0], `"application_type":"native"`) {
				t.Errorf("O14: registration: %s", w.bodies[0])
			}
		})
	}
}

func TestErrorWithoutInteractionNamesTheField(t *testing.T) {
	w := newEnvironment(t)
	c := w.client()
	c.Interaction = nil
	_, err := w.dial(c, "")
	if !errors.Is(err, client.ErrUnauthorized) || !strings.Contains(err.Error(), "Interaction") {
		t.Fatal(err)
	}
}

func registration(id string) func(context.Context, string) (*oauth.Registration, error) {
	return func(context.Context, string) (*oauth.Registration, error) {
		return &oauth.Registration{ClientID: id}, nil
	}
}

func TestConcurrentRequestsShareOneAuthorization(t *testing.T) {
	w := newEnvironment(t)
	c := w.client()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := w.dial(c, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.count("as GET /authorize"); n != 1 {
		t.Fatalf("%d authorizations", n)
	}
}

func TestTimeoutsPauseWhileTheUserLogsIn(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
		w := newEnvironment(t)
		c := w.client()
		const timeout = 1500 * time.Millisecond
		c.Interaction = &oauth.Manual{RedirectURI: "http://localhost:3000/callback", Open: func(ctx context.Context, url string) (string, error) {
			select { // longer than the time-out
			case <-time.After(timeout + 500*time.Millisecond):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			return openPage(ctx, url)
		}}
		d := client.Dialer{Auth: c, Revision: r, Timeouts: client.Timeouts{Initialize: timeout}}
		mc, err := d.Dial(t.Context(), client.URL(w.url()))
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		mc.Close()
	}
}

// Rule C1: caches separate results by the token in use.
func TestIdentityDependsOnTheToken(t *testing.T) {
	w := newEnvironment(t)
	c := w.client()
	if got := c.Identity(w.url()); got != "" {
		t.Errorf("before the login: %q", got)
	}
	seen := map[string]bool{"": true}
	for range 2 {
		if err := c.Login(t.Context(), w.url()); err != nil {
			t.Fatal(err)
		}
		got := c.Identity(w.url())
		if seen[got] || strings.Contains(got, secret) || got != c.Identity(w.url()) {
			t.Errorf("after a login: %q", got)
		}
		seen[got] = true
	}
	if err := c.Logout(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if got := c.Identity(w.url()); got != "" {
		t.Errorf("after the logout: %q", got)
	}
}
