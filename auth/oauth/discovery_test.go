package oauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule O4: discovery requests the well-known URLs in order until one has metadata, and no other URLs.
func TestDiscoveryRequestsTheWellKnownURLsInOrder(t *testing.T) {
	const (
		resource = "/.well-known/oauth-protected-resource"
		rfc8414  = "/.well-known/oauth-authorization-server"
		openID   = "/.well-known/openid-configuration"
	)
	for name, tc := range map[string]struct {
		challengeURL, resourcePath, issuerPath, tenant string
		mcp, as                                        []string // paths requested before the authorization
		fails                                          bool
	}{
		"URL in the challenge": {challengeURL: "/custom", resourcePath: "/custom", issuerPath: rfc8414,
			mcp: []string{"/custom"}, as: []string{rfc8414}},
		"well-known URL for the path": {resourcePath: resource + "/mcp", issuerPath: openID,
			mcp: []string{resource + "/mcp"}, as: []string{rfc8414, openID}},
		"well-known URL for the root": {resourcePath: resource, issuerPath: rfc8414,
			mcp: []string{resource + "/mcp", resource}, as: []string{rfc8414}},
		"issuer with a path": {challengeURL: "/x", resourcePath: "/x", tenant: "/t",
			issuerPath: rfc8414 + "/t", mcp: []string{"/x"}, as: []string{rfc8414 + "/t"}},
		"issuer with a path, OpenID": {challengeURL: "/x", resourcePath: "/x", tenant: "/t",
			issuerPath: openID + "/t", mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t"}},
		"issuer with a path, appended": {challengeURL: "/x", resourcePath: "/x", tenant: "/t",
			issuerPath: "/t" + openID, mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t", "/t" + openID}},
		"issuer with a path, no metadata": {challengeURL: "/x", resourcePath: "/x", tenant: "/t", issuerPath: rfc8414,
			mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t", "/t" + openID}, fails: true},
		"own authorization server": {resourcePath: "/never",
			mcp: []string{resource + "/mcp", resource, rfc8414}},
		"no metadata at all": {resourcePath: "/never", issuerPath: "/never",
			mcp: []string{resource + "/mcp", resource, rfc8414}},
	} {
		w := newEnvironment(t)
		w.ChallengeURL, w.ResourcePath, w.IssuerPath = tc.challengeURL, tc.resourcePath, tc.issuerPath
		w.OnResource = func(m map[string]any) {
			m["authorization_servers"] = []string{w.AS.URL + tc.tenant}
			if tc.resourcePath == resource {
				m["resource"] = w.MCP.URL // without a trailing slash
			}
		}
		w.OnIssuer = func(m map[string]any) { m["issuer"] = w.AS.URL + tc.tenant }
		w.OnAuthorize = func(_, a url.Values) { a["iss"] = []string{w.AS.URL + tc.tenant} }
		c := w.Client()
		own := tc.resourcePath == "/never"
		w.ServeMCP = func(rw http.ResponseWriter, r *http.Request) bool {
			switch {
			case own && r.URL.Path == rfc8414 && tc.issuerPath == "":
				w.JSON(rw, http.StatusOK, map[string]any{
					"issuer": w.MCP.URL, "authorization_endpoint": w.MCP.URL + "/authorize",
					"token_endpoint": w.MCP.URL + "/token", "registration_endpoint": w.MCP.URL + "/register",
				})
				return true
			case own && slices.Contains([]string{"/authorize", "/token", "/register"}, r.URL.Path):
				w.ServeAS = nil
				w.Authorization(rw, r)
				return true
			}
			return false
		}
		if own {
			w.OnAuthorize = func(_, a url.Values) { delete(a, "iss") }
		}
		err := c.Login(t.Context(), w.URL())
		if (err != nil) != tc.fails {
			t.Errorf("%s: %v", name, err)
			continue
		}
		login := func(p string) bool { return p == "/authorize" }
		must.CheckEqual(t, cmp.Diff(tc.mcp, slices.DeleteFunc(w.Paths("mcp"), login)), "", name)
		must.CheckEqual(t, cmp.Diff(tc.as, slices.DeleteFunc(w.Paths("as"), login)), "", name)
		if tc.resourcePath == resource && w.Queries[0].Get("resource") != w.MCP.URL {
			t.Errorf("O2: the resource is %q", w.Queries[0].Get("resource"))
		}
	}
}

// Rule U8: two servers of 2025-03-26 on one host have the same authorization server, but different tokens.
func TestServersOnOneHostHaveSeparateTokens(t *testing.T) {
	w := newEnvironment(t)
	w.ChallengeURL, w.ResourcePath, w.IssuerPath = "", "/never", "/never"
	w.OnAuthorize = func(_, a url.Values) { delete(a, "iss") }
	w.ServeMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		if slices.Contains([]string{"/authorize", "/token", "/register"}, r.URL.Path) {
			w.Authorization(rw, r)
			return true
		}
		return false
	}
	c := w.Client()
	must.Do(t, c.Login(t.Context(), w.URL()))
	other := w.MCP.URL + "/other"
	req, _ := http.NewRequest(http.MethodPost, other, nil)
	must.Do(t, must.Err(c.Reauthorize(req, other, &http.Response{StatusCode: 401,
		Header: http.Header{"Www-Authenticate": {"Bearer"}}})))
	must.CheckEqual(t, w.Count("mcp GET /authorize"), 2)
	first := must.Get(authorize(c, w.URL()))(t)
	second, err := authorize(c, other)
	must.CheckThat(t, err == nil && first != second && second != "", "the second server receives %q: %v", second, err)
}

// Rule O15: a configured registration, the client metadata document, dynamic registration, then PromptRegistration.
func TestRegistrationsAreTriedInOrder(t *testing.T) {
	const document = "https://program.example/client.json"
	for _, tc := range []struct {
		pre, documents, dynamic bool
		want                    string
	}{
		{true, true, true, "pre"},
		{false, true, true, document},
		{false, false, true, "client"},
		{false, false, false, "prompted"},
	} {
		w := newEnvironment(t)
		w.OnIssuer = func(m map[string]any) {
			m["client_id_metadata_document_supported"] = tc.documents
			if !tc.dynamic {
				delete(m, "registration_endpoint")
			}
		}
		c := w.Client()
		c.MetadataURL = document
		c.PromptRegistration = registration("prompted")
		c.Registrations = []oauth.Registration{{Issuer: "https://other.example", ClientID: "other"}}
		if tc.pre {
			c.Registrations = append(c.Registrations, oauth.Registration{Issuer: w.AS.URL, ClientID: "pre",
				ClientSecret: oauthtest.Secret + "pre"})
		}
		must.Do(t, c.Login(t.Context(), w.URL()))
		must.CheckEqual(t, w.Queries[0].Get("client_id"), tc.want, tc)
		n := w.Count("as POST /register")
		must.CheckEqual(t, n > 0, tc.want == "client", tc, n)
	}
}

// Rule O15: if a client cannot authenticate in the registered way, the login fails before the user is asked, and the
// client is not stored. A client without a secret is public, whatever the registration says.
func TestUnusableRegistrationsFailBeforeTheLogin(t *testing.T) {
	const configured, prompted, dynamic = "configured", "prompted", "dynamic"
	for _, tc := range []struct {
		source, method, secret string
		fails                  bool
		sent                   string // the client_id in the body of the token request
	}{
		{dynamic, "private_key_jwt", "x", true, ""},
		{dynamic, "tls_client_auth", "x", true, ""},
		{configured, "private_key_jwt", "", true, ""},
		{configured, "tls_client_auth", "x", true, ""},
		{prompted, "private_key_jwt", "", true, ""},
		{dynamic, "client_secret_basic", "", false, "client"},
		{dynamic, "private_key_jwt", "", false, "client"},
		{dynamic, "", "", false, "client"},
		{dynamic, "none", "x", false, "client"},
		{dynamic, "client_secret_basic", oauthtest.Secret + "x", false, ""},
	} {
		w := newEnvironment(t)
		w.ServeAS = oauthtest.Only("/register", func(rw http.ResponseWriter, r *http.Request) {
			w.JSON(rw, http.StatusCreated, map[string]any{"client_id": "client", "client_secret": tc.secret,
				"token_endpoint_auth_method": tc.method})
		})
		registration := oauth.Registration{ClientID: "client", ClientSecret: tc.secret, Method: tc.method}
		c := w.Client()
		store := &tokenstore.Memory{}
		c.Store = store
		switch tc.source {
		case configured:
			registration.Issuer = w.AS.URL
			c.Registrations = []oauth.Registration{registration}
		case prompted:
			w.OnIssuer = func(m map[string]any) { delete(m, "registration_endpoint") }
			c.PromptRegistration = func(context.Context, string) (*oauth.Registration, error) {
				return &registration, nil
			}
		}
		err := c.Login(t.Context(), w.URL())
		switch {
		case tc.fails:
			if !errors.Is(err, oauth.ErrRegistration) || w.Count("as GET /authorize") > 0 {
				t.Errorf("%+v: %v after %d logins", tc, err, w.Count("as GET /authorize"))
			}
		case err != nil:
			t.Errorf("%+v: %v", tc, err)
		default:
			must.CheckEqual(t, w.Forms[0].Get("client_id"), tc.sent, tc)
		}
		if tc.fails { // another program does not find it
			again := w.Client()
			again.Store = store
			w.ServeAS, w.OnIssuer = nil, nil
			must.Check(t, again.Login(t.Context(), w.URL()))
		}
	}
}

// Rule O15: a registration says whether the program is on the user's machine, and what it will request.
func TestRegistrationsDescribeTheProgram(t *testing.T) {
	for _, tc := range []struct {
		redirect  string
		supported []string // grant types; nil: the metadata has none
		want      string
	}{
		{"http://localhost:3000/callback", nil, `["authorization_code","refresh_token"] "native"`},
		{"https://localhost/callback", []string{"refresh_token"}, `["authorization_code","refresh_token"] "native"`},
		{"https://app.example/callback", []string{"authorization_code"}, `["authorization_code"] "web"`},
	} {
		w := newEnvironment(t)
		w.OnIssuer = func(m map[string]any) {
			if tc.supported != nil {
				m["grant_types_supported"] = tc.supported
			}
		}
		c := w.Client()
		c.Interaction = w.withRedirectURI(tc.redirect)
		must.Do(t, c.Login(t.Context(), w.URL()))
		var sent struct {
			GrantTypes      json.RawMessage `json:"grant_types"`
			ApplicationType json.RawMessage `json:"application_type"`
		}
		must.Do(t, json.Unmarshal([]byte(w.Bodies[0]), &sent))
		must.CheckEqual(t, string(sent.GrantTypes)+" "+string(sent.ApplicationType), tc.want, tc.redirect)
	}
}

// Login works without a challenge if the server has metadata.
func TestLoginNeedsNoChallenge(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusForbidden} {
		w := newEnvironment(t)
		w.ServeMCP = oauthtest.Only(w.Path, func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(status) })
		if err := w.Client().Login(t.Context(), w.URL()); err != nil {
			t.Errorf("status %d: %v", status, err)
		} else if got := w.Queries[0].Get("scope"); got != "listed" {
			t.Errorf("status %d: scope %q", status, got)
		}
	}
}

// Rule O13: the scopes of the challenge, else the scopes of the metadata, else none;
// offline_access only if the authorization server supports it.
func TestScopesOfTheChallengeComeFirst(t *testing.T) {
	for _, tc := range []struct{ challenged, listed, supported, want string }{
		{"a b", "c", "", "a b"},
		{"", "c d", "", "c d"},
		{"", "", "", ""},
		{"a", "c", "a offline_access", "a offline_access"},
		{"a offline_access", "", "a", "a"},
		{"", "", "offline_access", ""},
	} {
		w := newEnvironment(t)
		w.Scope = tc.challenged
		w.OnResource = func(m map[string]any) { m["scopes_supported"] = strings.Fields(tc.listed) }
		w.OnIssuer = func(m map[string]any) {
			if tc.supported != "" {
				m["scopes_supported"] = strings.Fields(tc.supported)
			}
		}
		must.Get(w.Dial(w.Client(), ""))(t)
		if got := w.Queries[0]; got.Get("scope") != tc.want || got.Has("scope") != (tc.want != "") ||
			(got.Get("prompt") == "consent") != strings.Contains(tc.want, "offline_access") {
			t.Errorf("%+v: %q is requested with the prompt %q", tc, got["scope"], got["prompt"])
		}
	}
}

// Some authorization servers send errors with status 200. A response with an error and a token is not used either.
func TestErrorWithStatus200IsAnError(t *testing.T) {
	for _, more := range []string{"", "access_token"} {
		w := newEnvironment(t)
		w.ServeAS = oauthtest.Only("/token", func(rw http.ResponseWriter, r *http.Request) {
			body := map[string]any{"error": "bad_verification_code", "error_description": "The code is incorrect.",
				"token_type": "Bearer"}
			if more != "" {
				body[more] = oauthtest.Secret + "access-x"
			}
			w.JSON(rw, http.StatusOK, body)
		})
		c := w.Client()
		err := c.Login(t.Context(), w.URL())
		if e, ok := errors.AsType[*oauth.ServerError](err); !ok || e.Code != "bad_verification_code" ||
			!strings.Contains(err.Error(), "(HTTP status 200)") || e.Description != "The code is incorrect." {
			t.Errorf("with %q: %v", more, err)
		}
		must.CheckEqual(t, c.Identity(w.URL()), "", more)
	}
}

// Some authorization servers send the lifetime of a token as a string.
func TestLifetimeCanBeAString(t *testing.T) {
	for lifetime, known := range map[any]bool{"3600": true, 3600.5: true, "soon": false, "-1": false, nil: false} {
		w := newEnvironment(t)
		w.OnToken = func(_ url.Values, body map[string]any) { body["expires_in"] = lifetime }
		c := w.Client()
		must.Do(t, c.Login(t.Context(), w.URL()))
		status, err := c.Status(t.Context(), w.URL())
		must.CheckThat(t, err == nil && !status.Expires.IsZero() == known &&
			(!known || time.Until(status.Expires) <= 2*time.Hour), "%v: %+v, %v", lifetime, status, err)
	}
}

// Some authorization servers answer every unknown path with a web page. But invalid JSON at a well-known URL is an
// error.
func TestWebPageIsNoMetadata(t *testing.T) {
	for page, valid := range map[string]bool{"<html></html>": true, "": true, `{}`: true, `{"issuer":`: false} {
		w := newEnvironment(t)
		w.ServeAS = oauthtest.Only(w.IssuerPath, func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, page)
		})
		w.IssuerPath = "/.well-known/openid-configuration"
		err := w.Client().Login(t.Context(), w.URL())
		must.CheckThat(t, (err == nil) == valid, "%q: %v", page, err)
	}
}

// After a refusal, the user is asked to log in. After any other error, the refresh token is kept, because it
// may still be valid.
func TestRefreshTokenIsForgottenOnlyAfterARefusal(t *testing.T) {
	for _, test := range []struct {
		status  int
		code    string
		forgets bool
	}{
		{http.StatusOK, "bad_refresh_token", true},
		{http.StatusOK, "invalid_grant", true},
		{http.StatusBadRequest, "invalid_grant", true},
		{http.StatusUnauthorized, "token_revoked", true},
		{http.StatusOK, "temporarily_unavailable", false},
		{http.StatusBadRequest, "unsupported_grant_type", false},
		{http.StatusForbidden, "", false}, // for example, from a proxy
		{http.StatusTooManyRequests, "token_limit", false},
		{http.StatusServiceUnavailable, "invalid_grant", false},
	} {
		w := newEnvironment(t)
		store := &tokenstore.Memory{}
		w.expired(store)
		w.ServeAS = oauthtest.Only("/token", func(rw http.ResponseWriter, r *http.Request) {
			w.JSON(rw, test.status, map[string]any{"error": test.code})
		})
		c := w.Client()
		c.Store, c.Interaction = store, nil
		_, err := w.Dial(c, "")
		must.CheckThat(t, errors.Is(err, call.ErrUnauthorized) && errors.Is(err, oauth.ErrInteraction) == test.forgets,
			"%d %s: %v", test.status, test.code, err)
		status, err := c.Status(t.Context(), w.URL())
		must.CheckThat(t, err == nil && status != nil && status.Renewable != test.forgets,
			"%d %s: %+v, %v", test.status, test.code, status, err)
	}
}

// A refresh token remains valid if the response to its use contains no new one (RFC 6749, section 6). A new login
// without a refresh token discards the old one.
func TestRefreshTokenIsKeptIfTheResponseHasNone(t *testing.T) {
	for _, atLogin := range []bool{true, false} {
		w := newEnvironment(t)
		store := &tokenstore.Memory{}
		none := func(_ url.Values, body map[string]any) { delete(body, "refresh_token") }
		if !atLogin {
			w.OnToken = none
		}
		w.expired(store)
		w.OnToken = none
		c := w.Client()
		c.Store = store
		if atLogin {
			c.Interaction = nil
		}
		must.Get(w.Dial(c, ""))(t)
		status := must.Get(c.Status(t.Context(), w.URL()))(t)
		if status.Renewable != atLogin || w.Count("as GET /authorize") != map[bool]int{true: 1, false: 2}[atLogin] {
			t.Errorf("with a refresh token at the login %v: %+v after %d logins", atLogin, status,
				w.Count("as GET /authorize"))
		}
	}
}

// Some authorization servers let a client request only the scopes with which it was registered. Others reject
// registrations with scopes.
func TestRegistrationHasTheScopesOfTheLogin(t *testing.T) {
	for _, test := range []struct {
		status int      // status that rejects a registration with scopes; 0: accepted
		want   []string // the scopes of accepted registrations
		fails  bool
	}{
		{0, []string{"tools first listed"}, false}, // the other logins use the same client
		{http.StatusBadRequest, []string{""}, false},
		{http.StatusForbidden, nil, true},
	} {
		w := newEnvironment(t)
		w.ServeAS = func(rw http.ResponseWriter, r *http.Request) bool {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			rejects := r.URL.Path == "/register" && test.status != 0 && bytes.Contains(body, []byte(`"scope"`))
			if rejects {
				w.JSON(rw, test.status, map[string]any{"error": "invalid_client_metadata"})
			}
			return rejects
		}
		store := &tokenstore.Memory{}
		for _, scope := range []string{"first", "second", "first"} {
			c := w.Client()
			c.Store = store
			err := c.Login(t.Context(), w.URL(), scope)
			must.That(t, (err != nil) == test.fails, "%d: %v", test.status, err)
		}
		var got []string
		for _, body := range w.Bodies {
			var metadata struct{ Scope string }
			must.Do(t, json.Unmarshal([]byte(body), &metadata))
			got = append(got, metadata.Scope)
		}
		must.CheckThat(t, slices.Equal(got, test.want),
			"%d: registrations with %q, want %q", test.status, got, test.want)
	}
}

// A client may have been registered for fewer scopes than a login requests. The next login registers again.
func TestInvalidScopeForgetsTheRegistration(t *testing.T) {
	w := newEnvironment(t)
	store := &tokenstore.Memory{}
	for _, fails := range []bool{true, false} {
		w.OnAuthorize = func(_, redirect url.Values) {
			if fails {
				redirect.Del("code")
				redirect.Set("error", "invalid_scope")
			}
		}
		c := w.Client()
		c.Store = store
		err := c.Login(t.Context(), w.URL())
		must.That(t, (err != nil) == fails, "%v", err)
	}
	must.CheckEqual(t, len(w.Bodies), 2)
}

func TestErrorsNameTheTargetOfARedirectThatIsNotFollowed(t *testing.T) {
	for _, path := range []string{"metadata", "/token", "/register", "/mcp"} {
		w := newEnvironment(t)
		w.ServeMCP = oauthtest.Only(path, func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, w.Unrelated.URL+"/moved?"+oauthtest.Secret, http.StatusPermanentRedirect)
		})
		w.ServeAS = func(rw http.ResponseWriter, r *http.Request) bool {
			matches := r.URL.Path == path || path == "metadata" && strings.HasPrefix(r.URL.Path, "/.well-known/")
			if matches {
				http.Redirect(rw, r, w.Unrelated.URL+"/moved?"+oauthtest.Secret, http.StatusTemporaryRedirect)
			}
			return matches
		}
		err := w.Client().Login(t.Context(), w.URL())
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), "redirect to "+w.Unrelated.URL+"/moved") &&
			!strings.Contains(err.Error(), oauthtest.Secret), "%s: %v", path, err)
	}
}

// newProxy returns a function for Client.Proxy, and the requests that its proxy has received. The proxy opens no
// tunnels.
func newProxy(t *testing.T) (proxy func(*http.Request) (*url.URL, error), seen func() []string) {
	var mu sync.Mutex
	var all []string
	forward := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {},
		Transport: &http.Transport{DisableKeepAlives: true}}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r.Method+" "+r.Host)
		mu.Unlock()
		if r.Method == http.MethodConnect {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		forward.ServeHTTP(rw, r)
	}))
	t.Cleanup(s.Close)
	u := must.Get(url.Parse(s.URL))(t)
	return http.ProxyURL(u), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestEveryRequestOfALoginUsesTheProxy(t *testing.T) {
	w := newEnvironment(t)
	c := &oauth.Client{Interaction: w.User()}
	proxy, seen := newProxy(t)
	c.Proxy = proxy
	must.Do(t, c.Login(t.Context(), w.URL()))
	must.Do(t, c.Logout(t.Context(), w.URL()))
	steps := []string{"mcp POST /mcp", "mcp GET " + w.ResourcePath, "as GET " + w.IssuerPath, "as POST /register",
		"as GET /authorize", "as POST /token", "as GET " + w.IssuerPath, "as POST /revoke"}
	if !slices.Equal(w.Seen, steps) || len(seen()) != len(steps)-1 { // the browser, not the client, opens the page
		t.Errorf("the servers have received %q, and the proxy %q", w.Seen, seen())
	}
}

// Rule O12: no proxy is asked to connect to an address that is not public, in any notation. Requests without a proxy
// are checked when they are dialled.
func TestAddressesAreCheckedBeforeAProxy(t *testing.T) {
	for host, allowed := range map[string]bool{
		"as.example": true, "1.1.1.1": true, "10.0.0.1": false, "169.254.169.254": false, "[::1]": false,
		"localhost":  false,
		"LOCALHOST.": false, "127.0.0.1.": false, "2130706433": false, "0x7f.1": false, "[::ffff:10.0.0.1]": false,
		"direct.localhost": false,
	} {
		w := newEnvironment(t)
		c := w.Client()
		proxy, seen := newProxy(t)
		c.Proxy = func(req *http.Request) (*url.URL, error) {
			if req.URL.Hostname() == "direct.localhost" {
				return nil, nil
			}
			return proxy(req)
		}
		req, _ := http.NewRequest(http.MethodPost, "https://mcp.example/mcp", nil)
		_, err := c.Reauthorize(req, "https://mcp.example/mcp",
			&http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{
				"Www-Authenticate": {`Bearer resource_metadata="https://` + host + `/x"`},
			}})
		if err == nil || len(seen()) > 0 != allowed {
			t.Errorf("%s: %v, the proxy has received %q", host, err, seen())
		}
		must.CheckThat(t, allowed || host == "direct.localhost" || errors.Is(err, oauth.ErrForbiddenAddress),
			"%s: %v", host, err)
		w.Dialed = nil // the proxy
	}
}
