package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// inFront puts the caller of a function into the context of each request.
func inFront(s http.Handler, caller func(r *http.Request) *auth.Info) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), caller(r))))
	})
}

// whoami returns a server with a tool that names its caller.
func whoami(auth *auth.ProtectedResource) *server.Server {
	s := quiet()
	s.Auth = auth
	server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "it is " + server.PrincipalOf(ctx).String(), nil
	})
	return s
}

// asWhoami calls the tool in 2026-07-28.
func asWhoami(h http.Handler, header ...string) *httptest.ResponseRecorder {
	body, headers := wiretest.Modern("1", mcp.MethodCallTool, `"name":"whoami"`)
	return wiretest.Record(h, http.MethodPost, "http://localhost/mcp", body, append(headers, header...)...)
}

// Rule R13. A principal that is empty by mistake would make all users the same one.
func TestACallerWithoutAPrincipalIsNotServed(t *testing.T) {
	for name, resource := range map[string]*auth.ProtectedResource{"no Auth": nil, "Auth": tokens(t)} {
		for caller, want := range map[*auth.Info]int{
			{Scopes: []string{"a"}}: http.StatusInternalServerError,
			{Principal: person(t, "ada"), Expiry: time.Now().Add(-time.Second)}:                       http.StatusUnauthorized,
			{Principal: person(t, "ada"), Scopes: []string{"use"}, Expiry: time.Now().Add(time.Hour)}: 0,
		} {
			s := whoami(resource)
			var log bytes.Buffer
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			h := inFront(s, func(*http.Request) *auth.Info { return caller })
			got := map[string]*httptest.ResponseRecorder{
				"call": asWhoami(h), "call with a token": asWhoami(h, "Authorization", "Bearer ada"),
				"initialize": wiretest.Record(h, http.MethodPost, "http://localhost/mcp",
					strings.Replace(wiretest.Initialize, "%s", "2025-11-25", 1)),
			}
			if want != 0 {
				got["stream"] = wiretest.Record(h, http.MethodGet, "http://localhost/mcp", "", "Accept", "text/event-stream")
				got["end"] = wiretest.Record(h, http.MethodDelete, "http://localhost/mcp", "", "Mcp-Session-Id", "x")
			}
			for what, resp := range got {
				must.CheckThat(t, resp.Code == want || (want == 0 && resp.Code == http.StatusOK),
					"%s, %s, %v: %d %s", name, what, caller, resp.Code, resp.Body)
			}
			must.CheckThat(t, want != http.StatusInternalServerError ||
				strings.Contains(log.String(), "has no principal"), "log: %s", &log)
		}
	}
}

// tokens accepts each token as the name of a caller.
func tokens(t testing.TB) *auth.ProtectedResource {
	return &auth.ProtectedResource{Scopes: []string{"use"}, Verifier: auth.VerifierFunc(
		func(_ context.Context, token string) (*auth.Info, error) {
			return &auth.Info{Principal: person(t, token), Scopes: []string{"use"}}, nil
		})}
}

// A request without a caller in its context needs a token, and one with a caller needs the scopes of Auth.
func TestAuthVerifiesRequestsThatTheProgramHasNotAuthenticated(t *testing.T) {
	ada := &auth.Info{Principal: person(t, "ada"), Scopes: []string{"use"}}
	for name, tc := range map[string]struct {
		caller *auth.Info
		header []string
		status int
		want   string
	}{
		"nobody":                {nil, nil, http.StatusUnauthorized, "no access token"},
		"token":                 {nil, []string{"Authorization", "Bearer bob"}, http.StatusOK, "it is bob"},
		"caller":                {ada, nil, http.StatusOK, "it is ada"},
		"caller and token":      {ada, []string{"Authorization", "Bearer bob"}, http.StatusOK, "it is ada"},
		"caller without scopes": {&auth.Info{Principal: ada.Principal}, nil, http.StatusForbidden, "insufficient scope"},
	} {
		got := asWhoami(inFront(whoami(tokens(t)), func(*http.Request) *auth.Info { return tc.caller }), tc.header...)
		must.CheckThat(t, got.Code == tc.status && strings.Contains(got.Body.String(), tc.want),
			"%s: %d %s", name, got.Code, got.Body)
	}
}

// The caller can be in the context of a connection, as with client certificates. A scope that one request lacks must
// not reject the next one.
func TestRequestsOfOneConnectionAreAuthorizedEachByItself(t *testing.T) {
	s := whoami(&auth.ProtectedResource{Verifier: auth.VerifierFunc(nil)})
	server.AddTool(s, mcp.Tool{Name: "guarded"}, func(context.Context, struct{}) (string, error) {
		return "done", nil
	}, server.RequireScopes("more"))
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: person(t, "ada")})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r.WithContext(ctx)) })
	body, headers := wiretest.Modern("1", mcp.MethodCallTool, `"name":"guarded"`)
	must.CheckEqual(t, wiretest.Record(h, http.MethodPost, "http://localhost/mcp", body, headers...).Code,
		http.StatusForbidden)
	must.CheckEqual(t, asWhoami(h).Code, http.StatusOK)
}

// The callers share an address, on which the limits of anonymous callers depend.
func TestLimitsApplyToTheCallersWhomTheProgramAuthenticates(t *testing.T) {
	s := whoami(nil)
	s.Limits.CallsPerSecond = 0.001
	h := inFront(s, func(r *http.Request) *auth.Info {
		return &auth.Info{Principal: person(t, r.Header.Get("X-User"))}
	})
	limited := 0
	for range 10 {
		if strings.Contains(asWhoami(h, "X-User", "ada").Body.String(), "it is") {
			continue
		}
		limited++
	}
	must.CheckThat(t, limited != 0, "ada has no limit")
	must.CheckContains(t, asWhoami(h, "X-User", "bob").Body.String(), "it is bob")
}

// A stream ends with the authentication of its caller, as it does with a token.
func TestStreamsEndWithTheAuthenticationOfTheProgram(t *testing.T) {
	listen, headers := wiretest.Modern("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`)
	for name, tc := range map[string]struct {
		method, body string
		headers      []string
		life, want   time.Duration
	}{
		"HTTP+SSE":   {http.MethodGet, "", []string{"Accept", "text/event-stream"}, 10 * time.Second, 10 * time.Second},
		"2026-07-28": {http.MethodPost, listen, headers, time.Minute, time.Minute},
		"no expiry":  {http.MethodPost, listen, headers, 0, time.Hour},
		"far expiry": {http.MethodPost, listen, headers, 90 * 24 * time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, begin := whoami(nil), time.Now()
				info := &auth.Info{Principal: person(t, "ada")}
				if tc.life > 0 {
					info.Expiry = begin.Add(tc.life)
				}
				h := inFront(s, func(*http.Request) *auth.Info { return info })
				wiretest.Record(h, tc.method, "http://localhost/", tc.body, tc.headers...)
				must.CheckEqual(t, time.Since(begin), tc.want)
				must.Do(t, s.Shutdown(t.Context()))
			})
		})
	}
}

// A stream of bytes has the caller whom the program has authenticated, until the caller expires.
func TestServeConnTakesTheCallerOfTheProgram(t *testing.T) {
	serve := func(info *auth.Info) *wiretest.Peer {
		s := whoami(tokens(t))
		s.LocalScopes = []string{"local"}
		return wiretest.Connect(t, func(ctx context.Context, conn transport.Conn) error {
			return s.ServeConn(auth.NewContext(ctx, info), conn)
		})
	}
	body, _ := wiretest.Modern("1", mcp.MethodCallTool, `"name":"whoami"`)
	use := []string{"use"}
	for name, tc := range map[string]struct {
		info *auth.Info
		want string
	}{
		"nobody":            {nil, "it is local"},
		"ada":               {&auth.Info{Principal: person(t, "ada"), Scopes: use}, "it is ada"},
		"ada, not expired":  {&auth.Info{Principal: person(t, "ada"), Scopes: use, Expiry: time.Now().Add(time.Hour)}, "it is"},
		"ada without scope": {&auth.Info{Principal: person(t, "ada")}, "insufficient scope"},
	} {
		must.CheckContains(t, serve(tc.info).Ask(body), tc.want, name)
	}
	must.CheckFails(t, serve(&auth.Info{}).Served(), "has no principal", "no principal")
	expired := &auth.Info{Principal: person(t, "ada"), Expiry: time.Now().Add(-time.Second)}
	err := serve(expired).Served()
	must.CheckThat(t, err == context.DeadlineExceeded, "expired: %v", err)
}

// The context of Serve may be that of a call, whose caller is not the one of the requests.
func TestRequestsDoNotHaveTheCallerOfTheContextOfServe(t *testing.T) {
	s := whoami(nil)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(auth.NewContext(t.Context(), &auth.Info{Principal: person(t, "ada")}))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	body, headers := wiretest.Modern("1", mcp.MethodCallTool, `"name":"whoami"`)
	resp := wiretest.Do(t, http.MethodPost, "http://"+listener.Addr().String(), body, headers...)
	must.CheckContains(t, wiretest.Text(t, resp), "it is anonymous")
	stop()
	must.Do(t, <-served)
}

// scopesLogged posts several calls of a tool that needs a scope, and returns the responses and the
// server's log.
func scopesLogged(t *testing.T, late bool, info *auth.Info) (answers, log string) {
	t.Helper()
	var logged bytes.Buffer
	s := &server.Server{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	server.AddTool(s, mcp.Tool{Name: "open"}, func(context.Context, struct{}) (string, error) { return "done", nil })
	add := func() {
		server.AddTool(s, mcp.Tool{Name: "guarded"}, func(context.Context, struct{}) (string, error) {
			return "done", nil
		}, server.RequireScopes("files"))
	}
	if !late {
		add()
	}
	for i, tool := range []string{"open", "guarded", "guarded"} {
		if i == 1 && late {
			add()
		}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
				`","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
			r.Header.Set(name, value)
		}
		if info != nil {
			r = r.WithContext(auth.NewContext(r.Context(), info))
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		answers += w.Body.String() + "\n"
	}
	return answers, logged.String()
}

// Callers over HTTP have no scopes without Server.Auth: their calls are rejected, and the server logs it once.
func TestScopesWithoutAuthorizationAreLoggedOnce(t *testing.T) {
	for _, late := range []bool{false, true} {
		answers, log := scopesLogged(t, late, nil)
		n := strings.Count(answers, "insufficient scope")
		must.CheckThat(t, n == 2 && strings.Contains(answers, "done"), "%d calls are rejected: %s", n, answers)
		if n := strings.Count(log, "set Server.Auth"); n != 1 || !strings.Contains(log, "level=ERROR") {
			t.Errorf("added late: %v: it is logged %d times: %s", late, n, log)
		}
	}
}

// A program that authenticates its callers in front of the server grants the scopes itself.
func TestScopesGrantedByTheProgramCount(t *testing.T) {
	answers, log := scopesLogged(t, false, &auth.Info{Principal: principal.Local, Scopes: []string{"files"}})
	must.CheckThat(t, !strings.Contains(answers, "insufficient") && log == "", "%s%s", answers, log)
}

// serverWithHeaders has a tool that returns the headers that its handler can read.
func serverWithHeaders(t *testing.T) (s *server.Server, url string) {
	s = &server.Server{Name: "s", AllowedOrigins: []string{"https://app.example"},
		Headers: func() []string { return []string{"X-Absent", "X-Key"} }}
	server.AddTool(s, mcp.Tool{Name: "headers"}, func(ctx context.Context, _ struct{}) (http.Header, error) {
		return server.HeaderOf(ctx), nil
	})
	return s, wiretest.Serve(t, s)
}

func TestHandlersReadTheHeadersThatTheServerNames(t *testing.T) {
	_, url := serverWithHeaders(t)
	for _, r := range mcp.Revisions() {
		for want, header := range map[string]http.Header{
			`{"X-Key":["mine"]}`: {"X-Key": {"mine"}, "X-Other": {"other"}}, `{}`: {"X-Other": {"other"}},
		} {
			c := must.Get((&client.Dialer{Revision: r}).Dial(t.Context(), &client.HTTPTarget{URL: url, Header: header}))(t)
			result := must.Get(c.CallTool(t.Context(), "headers", nil))(t)
			must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, want, r)
			c.Close()
		}
	}
}

// A Server can be mounted in a handler whose context is that of another request.
func TestHeadersOfAnotherRequestAreNotRead(t *testing.T) {
	inner, _ := serverWithHeaders(t)
	outer := &server.Server{Name: "outer", Headers: inner.Headers}
	server.AddTool(outer, mcp.Tool{Name: "relay"}, func(ctx context.Context, _ struct{}) (string, error) {
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r.WithContext(context.WithoutCancel(ctx)))
		}))
		defer at.Close()
		c, err := client.Dial(ctx, client.URL(at.URL))
		if err != nil {
			return "", err
		}
		defer c.Close()
		result, err := c.CallTool(ctx, "headers", nil)
		if err != nil {
			return "", err
		}
		return result.Content[0].(*mcp.TextContent).Text, nil
	})
	at := httptest.NewServer(outer)
	defer at.Close()
	target := &client.HTTPTarget{URL: at.URL, Header: http.Header{"X-Key": {"mine"}}}
	c := must.Get(client.Dial(t.Context(), target))(t)
	defer c.Close()
	result := must.Get(c.CallTool(t.Context(), "relay", nil))(t)
	must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "{}")
}

func TestPagesMaySendTheHeadersThatHandlersRead(t *testing.T) {
	_, url := serverWithHeaders(t)
	r := must.Get(http.NewRequest(http.MethodOptions, url, nil))(t)
	r.Header = http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"POST"},
		"Access-Control-Request-Headers": {"x-key, x-other, authorization"}}
	resp := must.Get(http.DefaultClient.Do(r))(t)
	resp.Body.Close()
	must.CheckEqual(t, resp.Header.Get("Access-Control-Allow-Headers"), "x-key, authorization")
}
