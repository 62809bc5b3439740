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

// O1, O2, O8, U7: whatever revision is spoken, a refused request leads to a login
// with PKCE, state and the resource, and is then answered.
func TestARefusedRequestLeadsToALoginInEveryRevision(t *testing.T) {
	for _, r := range revisions {
		t.Run(string(r), func(t *testing.T) {
			w := newWorld(t)
			if _, err := w.dial(w.client(), r); err != nil {
				t.Fatal(err)
			}
			if n := w.count("as GET /authorize"); n != 1 {
				t.Fatalf("the user was asked %d times", n)
			}
			q, form := w.queries[0], w.forms[0]
			for name, want := range map[string]string{
				"response_type": "code", "client_id": "client", "redirect_uri": "http://localhost:3000/callback",
				"code_challenge_method": "S256", "resource": w.url(), "scope": "tools",
			} {
				if q.Get(name) != want {
					t.Errorf("%s is %q, not %q", name, q.Get(name), want)
				}
			}
			if len(q.Get("state")) < 22 || len(form.Get("code_verifier")) < 43 {
				t.Errorf("state %q and verifier %q are too short to be unguessable", q.Get("state"), form.Get("code_verifier"))
			}
			if form.Get("resource") != q.Get("resource") || form.Get("redirect_uri") != q.Get("redirect_uri") {
				t.Errorf("the token was asked for otherwise than the code: %v, %v", form, q)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if !strings.Contains(w.bodies[0], `"application_type":"native"`) {
				t.Errorf("O14: registered as %s", w.bodies[0])
			}
		})
	}
}

func TestWithoutAnInteractionThereIsAnErrorThatSaysSo(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.Interaction = nil
	_, err := w.dial(c, "")
	if !errors.Is(err, client.ErrUnauthorized) || !strings.Contains(err.Error(), "Interaction") {
		t.Fatal(err)
	}
}

func askFor(id string) func(context.Context, string) (*oauth.Registration, error) {
	return func(context.Context, string) (*oauth.Registration, error) {
		return &oauth.Registration{ClientID: id}, nil
	}
}

func TestAllWhoAreRefusedTogetherTroubleTheUserOnce(t *testing.T) {
	w := newWorld(t)
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
		t.Fatalf("the user was asked %d times", n)
	}
}

func TestTheClocksOfRequestsStandStillWhileAUserLogsIn(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
		w := newWorld(t)
		c := w.client()
		const allowed = 300 * time.Millisecond
		c.Interaction = &oauth.Manual{RedirectURI: "http://localhost:3000/callback", Open: func(ctx context.Context, url string) (string, error) {
			select { // longer than a request may take
			case <-time.After(2 * allowed):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			return visit(ctx, url)
		}}
		d := client.Dialer{Auth: c, Revision: r, Timeouts: client.Timeouts{Initialize: allowed}}
		mc, err := d.Dial(t.Context(), client.URL(w.url()))
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		mc.Close()
	}
}

// C1: what a cache keeps for one token is not for another.
func TestAnIdentityIsThatOfTheTokenInUse(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	if got := c.Identity(w.url()); got != "" {
		t.Errorf("before the login it is %q", got)
	}
	seen := map[string]bool{"": true}
	for range 2 {
		if err := c.Login(t.Context(), w.url()); err != nil {
			t.Fatal(err)
		}
		got := c.Identity(w.url())
		if seen[got] || strings.Contains(got, secret) || got != c.Identity(w.url()) {
			t.Errorf("after a login it is %q", got)
		}
		seen[got] = true
	}
	if err := c.Logout(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if got := c.Identity(w.url()); got != "" {
		t.Errorf("after the logout it is %q", got)
	}
}
