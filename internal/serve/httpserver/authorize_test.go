package httpserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// call returns the probe of a tool call, in a session if the revision has sessions.
func (p *protected) call(t *testing.T, r mcp.Revision, tool string) probe {
	x := probe{method: http.MethodPost,
		body: strings.ReplaceAll(messageOf(*revision.Lookup(mcp.MethodCallTool), r), "echo", tool)}
	if r.Modern() {
		x.header = []string{"MCP-Protocol-Version", string(r), "Mcp-Method", "tools/call", "Mcp-Name", tool}
	} else {
		p.inSession(t, r, &x)
	}
	return x
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	must.Check(t, err)
	return string(body)
}

// withoutPair runs f for each revision except that of the HTTP+SSE pair, whose responses
// arrive on another stream.
func withoutPair(t *testing.T, f func(t *testing.T, r mcp.Revision)) {
	for _, r := range mcp.Revisions() {
		if r != mcp.V20241105 {
			t.Run(string(r), func(t *testing.T) { f(t, r) })
		}
	}
}

// Rule R5: scopes that a handler requires while it runs become a challenge. It names all scopes that the call needs, since
// a client that asks for exactly these must not lose those that have let it come this far.
func TestScopesMissingInAHandlerAreAChallenge(t *testing.T) {
	p := newProtected(t)
	server.AddTool(p.Server, mcp.Tool{Name: "dynamic"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "", fmt.Errorf("open: %w", auth.Require(ctx, "files:b", "mcp", "files:a"))
	}, server.RequireScopes("tool:echo"))
	server.AddTool(p.Server, mcp.Tool{Name: "late"}, func(ctx context.Context, _ struct{}) (string, error) {
		_ = server.Progress(ctx, 1, 2, "")
		return "", auth.Require(ctx, "files:b")
	})
	withoutPair(t, func(t *testing.T, r mcp.Revision) {
		res := p.send(t, p.call(t, r, "dynamic"), "Bearer ada")
		body := text(t, res)
		c := challenge.Parse(res.Header["Www-Authenticate"])
		must.CheckThat(t, res.StatusCode == http.StatusForbidden && len(c) == 1 &&
			c[0].Params["error"] == "insufficient_scope" &&
			c[0].Params["scope"] == "mcp call tool:echo files:b files:a", "%s %v %s", res.Status, c, body)
		must.CheckContains(t, body, `"id":7`)
		must.CheckContains(t, body, `"requiredScopes":["mcp","call","tool:echo","files:b","files:a"]`)
		// After an event stream has begun, the header cannot change.
		late := p.call(t, r, "late")
		late.body = strings.Replace(late.body, `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1)
		if r.Modern() {
			late.body = strings.Replace(strings.Replace(late.body, `"_meta":{"progressToken":1},`, "", 1), `"_meta":{`,
				`"_meta":{"progressToken":1,`, 1)
		}
		res = p.send(t, late, "Bearer ada")
		if body := text(t, res); res.StatusCode != http.StatusOK || !strings.Contains(body, "progress") ||
			!strings.Contains(body, `"requiredScopes":["mcp","call","files:b"]`) {
			t.Errorf("%s %s", res.Status, body)
		}
	})
}

// If one call of a batch requires more scopes, only its own response reports that.
func TestPartlyServedBatchIsNotAChallenge(t *testing.T) {
	p := newProtected(t)
	server.AddTool(p.Server, mcp.Tool{Name: "dynamic"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "", auth.Require(ctx, "files:b")
	})
	x := probe{method: http.MethodPost,
		body: `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"dynamic"}},{"jsonrpc":"2.0","id":2,` +
			`"method":"tools/call","params":{"name":"echo"}}]`}
	p.inSession(t, mcp.V20250326, &x)
	res := p.send(t, x, "Bearer ada")
	body := text(t, res)
	must.CheckThat(t, res.StatusCode == http.StatusOK &&
		strings.Contains(body, `"requiredScopes":["mcp","call","files:b"]`) && strings.Contains(body, `"result"`),
		"%s %s", res.Status, body)
}

// A hidden tool requires no scopes: a challenge would reveal that it exists.
func TestHiddenToolIsNotAChallenge(t *testing.T) {
	p := newProtected(t)
	server.AddTool(p.Server, mcp.Tool{Name: "hidden"}, func(context.Context, struct{}) (string, error) {
		return "", nil
	},
		server.RequireScopes("secret:scope"),
		server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "bob" }))
	withoutPair(t, func(t *testing.T, r mcp.Revision) {
		hidden := text(t, p.send(t, p.call(t, r, "hidden"), "Bearer ada"))
		nowhere := text(t, p.send(t, p.call(t, r, "nowhere"), "Bearer ada"))
		must.CheckThat(t, strings.ReplaceAll(hidden, "hidden", "nowhere") == nowhere &&
			!strings.Contains(hidden, "scope"), "%s\n%s", hidden, nowhere)
	})
}

// The calls of a batch are authorized for their caller, before any of them is served.
func TestAToolThatTheCallerSeesIsAChallengeInABatch(t *testing.T) {
	p := newProtected(t)
	server.AddTool(p.Server, mcp.Tool{Name: "own"}, func(context.Context, struct{}) (string, error) {
		t.Error("the tool was called")
		return "", nil
	},
		server.RequireScopes("files:b"),
		server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "ada" }))
	x := probe{method: http.MethodPost,
		body: `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"own"}},{"jsonrpc":"2.0","id":2,` +
			`"method":"tools/call","params":{"name":"echo"}}]`}
	p.inSession(t, mcp.V20250326, &x)
	res := p.send(t, x, "Bearer ada")
	c := challenge.Parse(res.Header["Www-Authenticate"])
	body := text(t, res)
	must.CheckThat(t, res.StatusCode == http.StatusForbidden && len(c) == 1 &&
		strings.Contains(c[0].Params["scope"], "files:b"), "%s %v %s", res.Status, c, body)
}

// A handler sees the principal and the token of its request. In a pair this is the token
// of the POST request, not that of the stream.
func TestHandlersSeeTheCaller(t *testing.T) {
	p := newProtected(t)
	seen := make(chan string, 1)
	server.AddTool(p.Server, mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
		info := auth.FromContext(ctx)
		seen <- server.PrincipalOf(ctx).Subject() + " " + info.Principal.Subject() + " " +
			strings.Join(info.Scopes, " ")
		return "", nil
	})
	p.Auth.MethodScopes = nil // so that token "basic" allows calls
	for _, r := range mcp.Revisions() {
		x := p.call(t, r, "who")
		res := p.send(t, x, "Bearer basic")
		must.That(t, res.StatusCode < 300, "%s: %s", r, res.Status)
		must.CheckEqual(t, <-seen, "ada ada mcp", r)
	}
}

// Rule R7: a list is the same on each connection of a principal, and for all principals with
// the same permissions.
func TestListsVaryByAuthorizationOnly(t *testing.T) {
	p := newProtected(t)
	server.AddTool(p.Server, mcp.Tool{Name: "bobs"}, func(context.Context, struct{}) (string, error) { return "", nil },
		server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "bob" }))
	withoutPair(t, func(t *testing.T, r mcp.Revision) {
		list := func(token string) string {
			x := probe{method: http.MethodPost, body: messageOf(*revision.Lookup(mcp.MethodListTools), r)}
			if r.Modern() {
				x.header = []string{"MCP-Protocol-Version", string(r), "Mcp-Method", "tools/list"}
				return text(t, p.send(t, x, "Bearer "+token))
			}
			initialize := probe{method: http.MethodPost, body: messageOf(*revision.Lookup(mcp.MethodInitialize), r)}
			id := p.send(t, initialize, "Bearer "+token).Header.Get("Mcp-Session-Id")
			x.header = []string{"Mcp-Session-Id", id}
			return text(t, p.send(t, x, "Bearer "+token))
		}
		ada, again, bob := list("ada"), list("basic"), list("bob")
		must.CheckThat(t, ada == again && ada != bob && !strings.Contains(ada, "bobs") &&
			strings.Contains(bob, "bobs") && strings.Contains(ada, "echo"),
			"ada %s\nada again %s\nbob %s", ada, again, bob)
	})
}

// expiring is a verifier whose token for ada expires soon.
func expiring(p *protected, t *testing.T, d time.Duration) {
	verify := p.Auth.Verifier
	p.Auth.Verifier = auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
		info, err := verify.Verify(ctx, strings.TrimSuffix(token, "-brief"))
		if err == nil && strings.HasSuffix(token, "-brief") {
			brief := *info
			brief.Expiry = time.Now().Add(d)
			return &brief, nil
		}
		return info, err
	})
}

// A long-lived stream ends when its token expires.
func TestStreamsEndWithTheirToken(t *testing.T) {
	p := newProtected(t)
	expiring(p, t, 300*time.Millisecond)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			x := probe{method: http.MethodGet}
			switch {
			case r.Modern():
				x.method, x.body = http.MethodPost, messageOf(*revision.Lookup(mcp.MethodListen), r)
				x.header = []string{"MCP-Protocol-Version", string(r), "Mcp-Method", mcp.MethodListen}
			case r != mcp.V20241105:
				p.inSession(t, r, &x)
			}
			res := p.send(t, x, "Bearer ada-brief")
			must.Equal(t, res.StatusCode, http.StatusOK, res.Status)
			body := text(t, res) // the body ends, or else the context of the request
			must.CheckThat(t, !r.Modern() || strings.Contains(body, "notifications/cancelled") &&
				strings.Contains(body, `"resultType":"complete"`), "the subscription ends without a result: %s", body)
		})
	}
}

// The server serves its metadata at the well-known paths.
// Rule R4.
func TestTheServerServesItsMetadata(t *testing.T) {
	p := newProtected(t)
	for path, want := range map[string]int{
		"/.well-known/oauth-protected-resource": 200, "/.well-known/oauth-protected-resource/mcp": 200,
		"/.well-known/oauth-protected-resource/x": 404,
	} {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil))(t)
		res := must.Get(http.DefaultClient.Do(req))(t)
		body := text(t, res)
		res.Body.Close()
		must.CheckThat(t, res.StatusCode == want &&
			(want != 200 || strings.Contains(body, `"authorization_servers":["https://as.example.com"]`)),
			"%s: %s %s", path, res.Status, body)
	}
}

// untouchable is a body that must not be read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// Rule R1.
func TestBodyIsNotReadWithoutAuthentication(t *testing.T) {
	p := newProtected(t)
	for _, token := range []string{"", "Bearer mallory", "Bearer expired", "Bearer"} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", untouchable{t})
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		must.CheckThat(t, w.Code == http.StatusUnauthorized || w.Code == http.StatusBadRequest, "%q: %d", token, w.Code)
	}
}
