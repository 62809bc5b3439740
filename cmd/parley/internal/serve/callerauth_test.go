package serve

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// newTestCallerAuths returns the ways for an endpoint at https://mcp.example/mcp, and what is printed.
func newTestCallerAuths(t *testing.T) (*callerAuths, *bytes.Buffer) {
	t.Helper()
	s := &server.Server{Auth: jwt.Protect(&auth.ProtectedResource{URI: "https://mcp.example/mcp",
		Issuers: []string{"https://as.example"}})}
	var printed bytes.Buffer
	flags := &endpoint.AuthFlag{ClientID: "browser-client"}
	return newCallerAuths(s, "http://127.0.0.1:7777/mcp", flags, slog.New(slog.DiscardHandler),
		endpoint.NewStatus(&printed), nil), &printed
}

func TestCallerAuthContinuesWithTheSameConfiguration(t *testing.T) {
	a, printed := newTestCallerAuths(t)
	current := make(map[string]*callerAuth)
	of := func(name, url string, c *config.Credentials) *host.CallerAuth {
		got := must.Get(a.of(name, url, c))(t)
		current[name] = got
		return got.auth
	}
	login, exchange := &config.Credentials{Type: config.CallerLogin},
		&config.Credentials{Type: config.TokenExchange, TokenEndpoint: "https://sts.example/token"}
	first, second := of("one", "https://one.example/mcp", login), of("two", "https://two.example/mcp", exchange)
	must.CheckThat(t, len(a.byServer) == 0, "what is only prepared is used")
	a.set(current)
	must.CheckThat(t, first != nil && second != nil &&
		first == of("one", "https://one.example/mcp", &config.Credentials{Type: config.CallerLogin}),
		"the same configuration has another value")
	a.set(map[string]*callerAuth{"one": current["one"], "two": current["two"]})
	must.CheckThat(t, first != must.Get(a.of("one", "https://other.example/mcp", login))(t).auth &&
		second != must.Get(a.of("two", "https://two.example/mcp", login))(t).auth,
		"another configuration has the same value")
	a.print()
	must.CheckContains(t, printed.String(), "one  each caller logs in at https://mcp.example/login/start/one\n",
		printed)
	open := func(path string) int {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://mcp.example"+path, nil))
		return w.Code
	}
	for path, want := range map[string]int{
		"/login/start/three": http.StatusNotFound, "/login/start/": http.StatusNotFound,
		"/login/end/three": http.StatusNotFound, "/login/end/one": http.StatusMethodNotAllowed,
		"/login/callback": http.StatusBadRequest, "/login/callback/one": http.StatusBadRequest,
		"/login/callback/three": http.StatusNotFound,
		// The page of all logins, which asks the issuer who the user is. It cannot be reached.
		"/login/": http.StatusBadGateway,
	} {
		must.CheckEqual(t, open(path), want, path)
	}
	a.set(map[string]*callerAuth{"two": current["two"]})
	must.CheckEqual(t, open("/login/"), http.StatusNotFound)
	must.CheckEqual(t, open("/login/callback/one"), http.StatusNotFound, "the page of a removed server has status")
}

func TestCredentialsAreThoseOfTheConfiguration(t *testing.T) {
	a, _ := newTestCallerAuths(t)
	const url = "https://mcp.example/mcp"
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tc := range []struct {
		config config.Credentials
		grant  oauth.Grant
		want   []oauth.Registration
	}{
		{
			config.Credentials{Type: config.TokenExchange, Issuer: "i", TokenEndpoint: "e", ClientID: "c",
				ClientSecret: "s",
				Audience:     "a", Scopes: []string{"x"}, SubjectTokenType: "t"},
			&oauth.TokenExchange{Registration: oauth.Registration{Issuer: "i", ClientID: "c", ClientSecret: "s"},
				TokenEndpoint: "e", Audience: "a", Scopes: []string{"x"}, SubjectType: "t"}, nil,
		},
		{
			config.Credentials{Type: config.Enterprise, Issuer: "i", ClientID: "c", ClientSecret: "s",
				ServerClientID:     "sc",
				ServerClientSecret: "ss", Networks: networks},
			&oauth.Enterprise{Registration: oauth.Registration{Issuer: "i", ClientID: "c", ClientSecret: "s"}},
			[]oauth.Registration{{Server: url, ClientID: "sc", ClientSecret: "ss"}},
		},
		{
			config.Credentials{Type: config.Enterprise, Issuer: "i", TokenEndpoint: "e", SubjectTokenType: "t",
				ServerIssuer: "as", ServerClientID: "sc", ServerClientSecret: "ss"},
			&oauth.Enterprise{Registration: oauth.Registration{Issuer: "i"}, TokenEndpoint: "e", SubjectType: "t"},
			[]oauth.Registration{{Issuer: "as", ClientID: "sc", ClientSecret: "ss"}},
		},
	} {
		c := a.newExchanging(url, &tc.config)
		if diff := cmp.Diff(tc.grant, c.Grant) + cmp.Diff(tc.want, c.Registrations,
			cmpopts.EquateEmpty()); diff != "" ||
			len(c.Networks) != len(tc.config.Networks) {
			t.Errorf("%+v: %s %v", tc.config, diff, c.Networks)
		}
	}
	login := &callerAuth{url: url, config: config.Credentials{ClientID: "c", ClientSecret: "s", Networks: networks}}
	c := a.newBroker(nil, &login.config, login.registrations()...).New()
	want := []oauth.Registration{{Issuer: "https://as.example", ClientID: "browser-client"},
		{Server: url, ClientID: "c", ClientSecret: "s"}}
	diff := cmp.Diff(want, c.Registrations)
	must.CheckThat(t, diff == "" && len(c.Networks) == 1, "%v %v", diff, c.Networks)
}

func TestNeededLoginsAreReportedOnce(t *testing.T) {
	a, printed := newTestCallerAuths(t)
	ada := must.Get(principal.New("https://as.example", "ada", ""))(t)
	for _, err := range []error{oauth.ErrInteraction, oauth.ErrInteraction,
		&oauth.ServerError{Code: "invalid_grant"}, oauth.ErrInteraction, nil, oauth.ErrInteraction} {
		a.reportLogin(ada, "one", err)
	}
	var got []string
	for line := range strings.Lines(printed.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	const needs = "✗ one ada at https://as.example needs a login; open https://mcp.example/login/start/one"
	want := []string{
		needs, "✗ one the login of ada at https://as.example has failed: error from the " +
			"authorization server: invalid_grant",
		needs, "– one ada at https://as.example has logged in", needs,
	}
	must.CheckEqual(t, cmp.Diff(want, got), "")
}

// A toolset accepts the tokens that the endpoint accepts, and no others: only its URI and its scopes differ.
func TestToolsetsAreProtectedAsTheEndpointIs(t *testing.T) {
	whole := &auth.ProtectedResource{
		URI: "https://mcp.example.com/mcp", Issuers: []string{"https://as.example.com"}, RequireDPoP: true,
		Audiences: []string{"mcp"}, Clients: []string{"editor"}, Scopes: []string{"a"}, Name: "Endpoint",
		Verifier: auth.VerifierFunc(func(context.Context, string) (*auth.Info, error) { return nil, nil }),
		DPoP:     new(jwt.ProofVerifier), Implies: func(string, string) bool { return true },
		OnReject: func(*http.Request, *auth.Info, *auth.Rejection) {},
	}
	toolset := (&protection{resource: whole}).below("/docs", []string{"b"})
	must.CheckEqual(t, toolset.URI, "https://mcp.example.com/mcp/docs")
	must.CheckEqual(t, strings.Join(toolset.Scopes, " "), "a b")
	for field, has := range reflect.ValueOf(whole).Elem().Fields() {
		switch field.Name {
		case "URI", "Scopes", "MethodScopes", "AdvertisedScopes", "Now": // no flag sets the last three
			continue
		}
		must.CheckThat(t, !field.IsExported() || !has.IsZero() &&
			fmt.Sprint(has) == fmt.Sprint(reflect.ValueOf(toolset).Elem().FieldByIndex(field.Index)),
			"the field %s of a toolset differs from the endpoint's, or this test does not set it", field.Name)
	}
}
