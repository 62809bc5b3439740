package httpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// The authorization matrix tests each rule on each request of each revision. The requests
// come from the method table and the bindings, so the matrix includes new methods.

const protectedURI = "https://mcp.example.com/mcp"

// protected is a server whose verifier accepts a fixed set of tokens.
type protected struct {
	*server.Server
	url      string
	verified atomic.Int32 // number of verified tokens
	ran      atomic.Int32 // number of handlers that ran
}

var everyScope = []string{"mcp", "call", "tool:echo", "prompt:greet", "resource:a", "template:t", "levels"}

func newProtected(t *testing.T) *protected {
	p := &protected{}
	person := func(name string, scopes ...string) *auth.Info {
		who := must.Get(principal.New("https://as.example.com", name, "editor"))(t)
		return &auth.Info{Principal: who, Scopes: scopes, Audience: []string{protectedURI},
			Expiry: time.Now().Add(time.Hour)}
	}
	tokens := map[string]*auth.Info{
		"ada": person("ada", everyScope...), "bob": person("bob", everyScope...),
		"weak": person("ada"), "basic": person("ada", "mcp"),
		"expired": person("ada", everyScope...), "foreign": person("ada", everyScope...),
		"aimless": person("ada", everyScope...),
		"bound":   person("ada", everyScope...), "nameless": {Audience: []string{protectedURI}},
	}
	tokens["expired"].Expiry = time.Now().Add(-time.Minute)
	tokens["foreign"].Audience = []string{"https://other.example.com/mcp", protectedURI + "/x",
		"https://mcp.example.com"}
	tokens["aimless"].Audience = nil
	tokens["bound"].KeyThumbprint = "abc"
	p.Server = &server.Server{
		Logger: slog.New(slog.DiscardHandler),
		Auth: jwt.Protect(&auth.ProtectedResource{
			URI: protectedURI, Issuers: []string{"https://as.example.com"},
			Scopes: []string{"mcp"}, MethodScopes: map[string][]string{mcp.MethodCallTool: {"call"},
				mcp.MethodSetLevel: {"levels"}},
			Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
				p.verified.Add(1)
				if token == "offline" {
					return nil, fmt.Errorf("%w: down", auth.ErrUnavailable)
				}
				if info := tokens[token]; info != nil {
					return info, nil
				}
				return nil, errors.New("unknown token " + token)
			}),
		}),
	}
	server.AddTool(p.Server, mcp.Tool{Name: "echo"}, func(context.Context, struct{}) (string, error) {
		p.ran.Add(1)
		return "", nil
	}, server.RequireScopes("tool:echo"))
	server.AddPrompt(p.Server, mcp.Prompt{Name: "greet"}, func(context.Context, struct {
		Who string `json:"who,omitempty" enum:"ada,bob"`
	}) (string, error) {
		p.ran.Add(1)
		return "hello", nil
	}, server.RequireScopes("prompt:greet"))
	read := func(context.Context) (string, error) {
		p.ran.Add(1)
		return "text", nil
	}
	server.AddResource(p.Server, mcp.Resource{URI: "note://a", Name: "a"}, read, server.RequireScopes("resource:a"))
	server.AddTemplate(p.Server, mcp.ResourceTemplate{URITemplate: "t://{x}", Name: "t"},
		func(ctx context.Context, _ struct {
			X string `json:"x"`
		}) (string, error) {
			return read(ctx)
		}, server.RequireScopes("template:t"))
	p.url = wiretest.Serve(t, p)
	return p
}

// probe is one request of a client.
type probe struct {
	name, method, query, body string
	header                    []string
	owned                     bool     // it is in a session of ada
	scopes                    []string // required besides "mcp"
	ok                        int      // the status if the token allows the request
	keep                      io.Closer
}

func (p *protected) send(t *testing.T, x probe, authorization ...string) *http.Response {
	t.Helper()
	header := append([]string{"Accept", "application/json, text/event-stream"}, x.header...)
	for _, value := range authorization {
		header = append(header, "Authorization", value)
	}
	return wiretest.Do(t, x.method, p.url+"/mcp"+x.query, x.body, header...)
}

// need has the scopes that requests require.
var need = map[string][]string{
	mcp.MethodCallTool: {"call", "tool:echo"}, mcp.MethodGetPrompt: {"prompt:greet"},
	mcp.MethodReadResource: {"resource:a"},
	mcp.MethodSubscribe:    {"template:t"}, mcp.MethodComplete: {"prompt:greet"},
	mcp.MethodListen:   {"resource:a", "template:t"},
	mcp.MethodSetLevel: {"levels"},
}

// paramsOf returns valid params of a method, without the braces.
func paramsOf(method string, r mcp.Revision) string {
	switch method {
	case mcp.MethodInitialize:
		return fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}`, r)
	case mcp.MethodCallTool:
		return `"name":"echo"`
	case mcp.MethodGetPrompt:
		return `"name":"greet"`
	case mcp.MethodReadResource:
		return `"uri":"note://a"`
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return `"uri":"t://b"`
	case mcp.MethodComplete:
		return `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}`
	case mcp.MethodSetLevel:
		return `"level":"info"`
	case mcp.MethodListen:
		return `"notifications":{"resourceSubscriptions":["note://a","t://b"]}`
	}
	return ""
}

func messageOf(m revision.Method, r mcp.Revision) string {
	params := paramsOf(m.Name, r)
	if r.Modern() {
		meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,`+
			`"io.modelcontextprotocol/clientCapabilities":{}}`, r)
		params = strings.TrimPrefix(params+","+meta, ",")
	}
	if m.Notification {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s}}`, m.Name, params)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s}}`, m.Name, params)
}

// probes returns all requests of a revision. Each request of a session has a new session.
func (p *protected) probes(t *testing.T, r mcp.Revision) []probe {
	var all []probe
	tasks := func(method string) bool { return strings.HasPrefix(method, "tasks/") } // this server offers no tasks
	for _, m := range revision.Methods() {
		if !m.In(r) || m.From(r)&revision.Client == 0 || tasks(m.Name) {
			continue
		}
		x := probe{name: m.Name, method: http.MethodPost, body: messageOf(m, r), scopes: need[m.Name],
			ok: http.StatusOK}
		if m.Notification {
			x.ok = http.StatusAccepted
		}
		switch {
		case r.Modern():
			x.header = []string{"MCP-Protocol-Version", string(r), "Mcp-Method", m.Name}
			switch m.Name {
			case mcp.MethodCallTool:
				x.header = append(x.header, "Mcp-Name", "echo")
			case mcp.MethodGetPrompt:
				x.header = append(x.header, "Mcp-Name", "greet")
			case mcp.MethodReadResource:
				x.header = append(x.header, "Mcp-Name", "note://a")
			}
		case m.Name == mcp.MethodInitialize && r != mcp.V20241105:
		default:
			p.inSession(t, r, &x)
		}
		all = append(all, x)
	}
	if r.Modern() {
		return all
	}
	response := probe{name: "a response", method: http.MethodPost, body: `{"jsonrpc":"2.0","id":1,"result":{}}`,
		ok: http.StatusAccepted}
	p.inSession(t, r, &response)
	all = append(all, response)
	if r == mcp.V20241105 {
		return append(all, probe{name: "the event stream", method: http.MethodGet, ok: http.StatusOK})
	}
	for _, x := range []probe{
		{name: "the stream", method: http.MethodGet, ok: http.StatusOK},
		{name: "the stream, resumed after an unknown event", method: http.MethodGet,
			header: []string{"Last-Event-ID", "1"},
			ok:     http.StatusBadRequest},
		{name: "the end", method: http.MethodDelete, ok: http.StatusNoContent},
	} {
		p.inSession(t, r, &x)
		all = append(all, x)
	}
	if r == mcp.V20250326 {
		x := probe{
			name: "a batch", method: http.MethodPost, ok: http.StatusOK,
			scopes: []string{"call", "tool:echo", "resource:a"},
			body: `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call",` +
				`"params":{"name":"echo"}},` +
				`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"note://a"}},{"jsonrpc":"2.0",` +
				`"method":"notifications/x"}]`,
		}
		p.inSession(t, r, &x)
		all = append(all, x)
	}
	return all
}

// inSession puts a probe into a new session of ada.
func (p *protected) inSession(t *testing.T, r mcp.Revision, x *probe) {
	t.Helper()
	x.owned = true
	initialize := probe{method: http.MethodPost, body: messageOf(*revision.Lookup(mcp.MethodInitialize), r)}
	if r != mcp.V20241105 {
		res := p.send(t, initialize, "Bearer ada")
		id := res.Header.Get("Mcp-Session-Id")
		must.That(t, id != "", "no session: %s", res.Status)
		x.header = append(x.header, "Mcp-Session-Id", id, "MCP-Protocol-Version", string(r))
		return
	}
	res := p.send(t, probe{method: http.MethodGet}, "Bearer ada")
	_, endpoint, _ := strings.Cut(wiretest.Stream(t, res).Data(), "?")
	x.query = "?" + endpoint
	x.keep, x.ok = res.Body, http.StatusAccepted
	if strings.Contains(x.body, `"initialize"`) {
		return
	}
	initialize.query = x.query
	if res := p.send(t, initialize, "Bearer ada"); res.StatusCode != http.StatusAccepted {
		t.Fatal(res.Status)
	}
}

var authorizationRules = []struct {
	name          string
	authorization []string
	query         string
	status        int
	code          string // error of the challenge
}{
	{"no token", nil, "", 401, ""},
	{"a token in the query", nil, "access_token=ada", 401, ""},
	{"another scheme", []string{"Basic YWRhOmFkYQ=="}, "", 401, ""},
	{"no token after the scheme", []string{"Bearer"}, "", 400, "invalid_request"},
	{"two tokens", []string{"Bearer ada bob"}, "", 400, "invalid_request"},
	{"two headers", []string{"Bearer ada", "Bearer ada"}, "", 400, "invalid_request"},
	{"odd characters", []string{`Bearer "ada"`}, "", 400, "invalid_request"},
	{"too long", []string{"Bearer " + strings.Repeat("a", 17<<10)}, "", 400, "invalid_request"},
	{"an unknown token", []string{"Bearer mallory"}, "", 401, "invalid_token"},
	{"an expired token", []string{"Bearer expired"}, "", 401, "invalid_token"},
	{"a token for others", []string{"bearer foreign"}, "", 401, "invalid_token"},
	{"a token without an audience", []string{"Bearer aimless"}, "", 401, "invalid_token"},
	{"a token without a principal", []string{"Bearer nameless"}, "", 401, "invalid_token"},
	{"a bound token as a bearer's", []string{"Bearer bound"}, "", 401, "invalid_token"},
	{"a bearer's token as a bound one", []string{"DPoP ada"}, "", 401, "invalid_token"},
	{"a token without scopes", []string{"Bearer weak"}, "", 403, "insufficient_scope"},
	{"a verifier that is down", []string{"Bearer offline"}, "", 503, ""},
}

// Rules R1, R2, R5, R8, T4: each kind of request is rejected in the same way if its token does
// not allow it, and no handler runs.
func TestAuthorizationIsTheSameEverywhere(t *testing.T) {
	for _, r := range mcp.Revisions() {
		p := newProtected(t)
		for _, x := range p.probes(t, r) {
			for _, rule := range authorizationRules {
				t.Run(fmt.Sprintf("%s/%s/%s", r, x.name, rule.name), func(t *testing.T) {
					x := x
					if rule.query != "" {
						x.query = "?" + rule.query + "&" + strings.TrimPrefix(x.query, "?")
					}
					ran, verified := p.ran.Load(), p.verified.Load()
					res := p.send(t, x, rule.authorization...)
					body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
					must.That(t, res.StatusCode == rule.status && strings.Contains(string(body), `"error"`) &&
						!strings.Contains(string(body), `"result"`), "%s %s", res.Status, body)
					n := p.verified.Load() - verified
					must.CheckThat(t, n <= 1, "the token was verified %d times", n)
					must.CheckEqual(t, p.ran.Load(), ran)
					id := res.Header["Mcp-Session-Id"]
					must.CheckThat(t, id == nil, "a session was created: %q", id)
					challenges := challenge.Parse(res.Header["Www-Authenticate"])
					if rule.status == http.StatusServiceUnavailable {
						if len(challenges) > 0 || res.Header.Get("Retry-After") == "" {
							t.Errorf("challenge though the verifier was unavailable: %v", res.Header)
						}
						return
					}
					scopes := []string{"mcp"}
					if rule.status == http.StatusForbidden {
						scopes = append(scopes, x.scopes...)
					}
					switch {
					case len(challenges) != 1 ||
						challenges[0].Is("DPoP") != strings.HasPrefix(strings.Join(rule.authorization, ""), "DPoP"):
						t.Fatalf("challenges %v", challenges)
					case challenges[0].Params["resource_metadata"] != "https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
						challenges[0].Params["scope"] != strings.Join(scopes, " "),
						challenges[0].Params["error"] != rule.code,
						(challenges[0].Params["error_description"] != "") != (rule.code != ""):
						t.Errorf("%v, want the scopes %q", challenges[0], scopes)
					}
				})
			}
		}
	}
}

// Rules T9, T10: a request with a sufficient token is served, but not in a session of another
// principal, which the server reports as not found.
func TestRequestsAreServedInOwnSessionsOnly(t *testing.T) {
	for _, r := range mcp.Revisions() {
		p := newProtected(t)
		probes := p.probes(t, r)
		ran := p.ran.Load()
		for _, x := range probes { // before the others: a pair runs requests after it has accepted them
			if x.owned {
				res := p.send(t, x, "Bearer bob")
				must.CheckThat(t, res.StatusCode == http.StatusNotFound && p.ran.Load() == ran,
					"%s/%s: in a session of another principal: %s", r, x.name, res.Status)
			}
		}
		for _, x := range probes {
			t.Run(fmt.Sprintf("%s/%s", r, x.name), func(t *testing.T) {
				if len(x.scopes) > 0 {
					res := p.send(t, x, "Bearer basic")
					c := challenge.Parse(res.Header["Www-Authenticate"])
					must.CheckThat(t, res.StatusCode == http.StatusForbidden && len(c) == 1 &&
						c[0].Params["scope"] == "mcp "+strings.Join(x.scopes, " "),
						"with some of the scopes: %s %v", res.Status, c)
				}
				res := p.send(t, x, "Bearer ada")
				if res.StatusCode != x.ok || res.Header["Www-Authenticate"] != nil {
					body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
					t.Errorf("%s %s", res.Status, body)
				}
				res.Body.Close()
				if x.keep != nil {
					x.keep.Close()
				}
			})
		}
	}
}
