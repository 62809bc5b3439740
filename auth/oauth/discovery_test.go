package oauth_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth/oauth"
)

// Rule O4: discovery requests the well-known URLs in order until one has metadata, and no
// other URLs.
func TestDiscoveryRequestsTheWellKnownURLsInOrder(t *testing.T) {
	const (
		resource = "/.well-known/oauth-protected-resource"
		rfc8414  = "/.well-known/oauth-authorization-server"
		openID   = "/.well-known/openid-configuration"
	)
	for name, tc := range map[string]struct {
		challengeURL, resourcePath, issuerPath, tenant string
		mcp, as                                        []string // requested paths before the authorization
		fails                                          bool
	}{
		"URL in the challenge":            {challengeURL: "/custom", resourcePath: "/custom", issuerPath: rfc8414, mcp: []string{"/custom"}, as: []string{rfc8414}},
		"well-known URL for the path":     {resourcePath: resource + "/mcp", issuerPath: openID, mcp: []string{resource + "/mcp"}, as: []string{rfc8414, openID}},
		"well-known URL for the root":     {resourcePath: resource, issuerPath: rfc8414, mcp: []string{resource + "/mcp", resource}, as: []string{rfc8414}},
		"issuer with a path":              {challengeURL: "/x", resourcePath: "/x", tenant: "/t", issuerPath: rfc8414 + "/t", mcp: []string{"/x"}, as: []string{rfc8414 + "/t"}},
		"issuer with a path, OpenID":      {challengeURL: "/x", resourcePath: "/x", tenant: "/t", issuerPath: openID + "/t", mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t"}},
		"issuer with a path, appended":    {challengeURL: "/x", resourcePath: "/x", tenant: "/t", issuerPath: "/t" + openID, mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t", "/t" + openID}},
		"issuer with a path, no metadata": {challengeURL: "/x", resourcePath: "/x", tenant: "/t", issuerPath: rfc8414, mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t", "/t" + openID}, fails: true},
		"own authorization server":        {resourcePath: "/never", mcp: []string{resource + "/mcp", resource, rfc8414}},
		"no metadata at all":              {resourcePath: "/never", issuerPath: "/never", mcp: []string{resource + "/mcp", resource, rfc8414}},
	} {
		w := newEnvironment(t)
		w.challengeURL, w.resourcePath, w.issuerPath = tc.challengeURL, tc.resourcePath, tc.issuerPath
		w.onResource = func(m map[string]any) {
			m["authorization_servers"] = []string{w.as.URL + tc.tenant}
			if tc.resourcePath == resource {
				m["resource"] = w.mcp.URL // without a trailing slash
			}
		}
		w.onIssuer = func(m map[string]any) { m["issuer"] = w.as.URL + tc.tenant }
		w.onAuthorize = func(_, a url.Values) { a["iss"] = []string{w.as.URL + tc.tenant} }
		c := w.client()
		own := tc.resourcePath == "/never"
		w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
			switch {
			case own && r.URL.Path == rfc8414 && tc.issuerPath == "":
				w.json(rw, http.StatusOK, map[string]any{
					"issuer": w.mcp.URL, "authorization_endpoint": w.mcp.URL + "/authorize", "token_endpoint": w.mcp.URL + "/token", "registration_endpoint": w.mcp.URL + "/register",
				})
				return true
			case own && slices.Contains([]string{"/authorize", "/token", "/register"}, r.URL.Path):
				w.serveAS = nil
				w.authorization(rw, r)
				return true
			}
			return false
		}
		if own {
			w.onAuthorize = func(_, a url.Values) { delete(a, "iss") }
		}
		err := c.Login(t.Context(), w.url())
		if (err != nil) != tc.fails {
			t.Errorf("%s: %v", name, err)
			continue
		}
		login := func(p string) bool { return p == "/authorize" }
		if diff := cmp.Diff(tc.mcp, slices.DeleteFunc(w.paths("mcp"), login)); diff != "" {
			t.Errorf("%s: requests to the MCP server (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.as, slices.DeleteFunc(w.paths("as"), login)); diff != "" {
			t.Errorf("%s: requests to the authorization server (-want +got):\n%s", name, diff)
		}
		if tc.resourcePath == resource && w.queries[0].Get("resource") != w.mcp.URL {
			t.Errorf("O2: the resource is %q", w.queries[0].Get("resource"))
		}
	}
}

// Rule U8: two servers of 2025-03-26 on one host have the same authorization server, but
// different tokens.
func TestServersOnOneHostHaveSeparateTokens(t *testing.T) {
	w := newEnvironment(t)
	w.challengeURL, w.resourcePath, w.issuerPath = "", "/never", "/never"
	w.onAuthorize = func(_, a url.Values) { delete(a, "iss") }
	w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
		if slices.Contains([]string{"/authorize", "/token", "/register"}, r.URL.Path) {
			w.authorization(rw, r)
			return true
		}
		return false
	}
	c := w.client()
	if err := c.Login(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	other := w.mcp.URL + "/other"
	req, _ := http.NewRequest(http.MethodPost, other, nil)
	if _, err := c.Reauthorize(req, other, &http.Response{StatusCode: 401, Header: http.Header{"Www-Authenticate": {"Bearer"}}}); err != nil {
		t.Fatal(err)
	}
	if n := w.count("mcp GET /authorize"); n != 2 {
		t.Errorf("%d authorizations for two servers", n)
	}
	first, err := authorize(c, w.url())
	if err != nil {
		t.Fatal(err)
	}
	second, err := authorize(c, other)
	if err != nil || first == second || second == "" {
		t.Errorf("the second server receives %q: %v", second, err)
	}
}

// Rule O15: a configured registration, the client metadata document, dynamic registration,
// then PromptRegistration.
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
		w.onIssuer = func(m map[string]any) {
			m["client_id_metadata_document_supported"] = tc.documents
			if !tc.dynamic {
				delete(m, "registration_endpoint")
			}
		}
		c := w.client()
		c.MetadataURL = document
		c.PromptRegistration = registration("prompted")
		c.Registrations = []oauth.Registration{{Issuer: "https://other.example", ClientID: "other"}}
		if tc.pre {
			c.Registrations = append(c.Registrations, oauth.Registration{Issuer: w.as.URL, ClientID: "pre", ClientSecret: secret + "pre"})
		}
		if err := c.Login(t.Context(), w.url()); err != nil {
			t.Fatal(err)
		}
		if got := w.queries[0].Get("client_id"); got != tc.want {
			t.Errorf("%+v: client %q", tc, got)
		}
		if n := w.count("as POST /register"); n > 0 != (tc.want == "client") {
			t.Errorf("%+v: %d registrations", tc, n)
		}
	}
}

// Login works without a challenge if the server has metadata.
func TestLoginNeedsNoChallenge(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusForbidden} {
		w := newEnvironment(t)
		w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == w.path {
				rw.WriteHeader(status)
			}
			return r.URL.Path == w.path
		}
		if err := w.client().Login(t.Context(), w.url()); err != nil {
			t.Errorf("status %d: %v", status, err)
		} else if got := w.queries[0].Get("scope"); got != "listed" {
			t.Errorf("status %d: scope %q", status, got)
		}
	}
}

// Rule O13: the scopes of the challenge, else those of the metadata, else none; offline_access
// only if the authorization server supports it.
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
		w.scope = tc.challenged
		w.onResource = func(m map[string]any) { m["scopes_supported"] = strings.Fields(tc.listed) }
		w.onIssuer = func(m map[string]any) {
			if tc.supported != "" {
				m["scopes_supported"] = strings.Fields(tc.supported)
			}
		}
		if _, err := w.dial(w.client(), ""); err != nil {
			t.Fatal(err)
		}
		if got := w.queries[0]; got.Get("scope") != tc.want || got.Has("scope") != (tc.want != "") {
			t.Errorf("%+v: %q is requested", tc, got["scope"])
		}
	}
}
