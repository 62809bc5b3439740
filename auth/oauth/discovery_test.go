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

// O4: each place is asked in its order, until one answers, and no other ever.
func TestO4DiscoveryGoesInItsOrder(t *testing.T) {
	const (
		resource = "/.well-known/oauth-protected-resource"
		rfc8414  = "/.well-known/oauth-authorization-server"
		openID   = "/.well-known/openid-configuration"
	)
	for what, tc := range map[string]struct {
		hint, prmAt, metaAt, tenant string
		mcp, as                     []string // what is asked for, before the login
		unknown                     bool
	}{
		"the challenge says":    {hint: "/custom", prmAt: "/custom", metaAt: rfc8414, mcp: []string{"/custom"}, as: []string{rfc8414}},
		"below the path":        {prmAt: resource + "/mcp", metaAt: openID, mcp: []string{resource + "/mcp"}, as: []string{rfc8414, openID}},
		"at the root":           {prmAt: resource, metaAt: rfc8414, mcp: []string{resource + "/mcp", resource}, as: []string{rfc8414}},
		"a tenant":              {hint: "/x", prmAt: "/x", tenant: "/t", metaAt: rfc8414 + "/t", mcp: []string{"/x"}, as: []string{rfc8414 + "/t"}},
		"a tenant of OpenID":    {hint: "/x", prmAt: "/x", tenant: "/t", metaAt: openID + "/t", mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t"}},
		"a tenant, appended":    {hint: "/x", prmAt: "/x", tenant: "/t", metaAt: "/t" + openID, mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t", "/t" + openID}},
		"a tenant, nowhere":     {hint: "/x", prmAt: "/x", tenant: "/t", metaAt: rfc8414, mcp: []string{"/x"}, as: []string{rfc8414 + "/t", openID + "/t", "/t" + openID}, unknown: true},
		"a server of its own":   {prmAt: "/never", mcp: []string{resource + "/mcp", resource, rfc8414}},
		"a server without data": {prmAt: "/never", metaAt: "/never", mcp: []string{resource + "/mcp", resource, rfc8414}},
	} {
		w := newWorld(t)
		w.hintAt, w.prmAt, w.metaAt = tc.hint, tc.prmAt, tc.metaAt
		w.prm = func(m map[string]any) {
			m["authorization_servers"] = []string{w.as.URL + tc.tenant}
			if tc.prmAt == resource {
				m["resource"] = w.mcp.URL // as it is, without a slash
			}
		}
		w.meta = func(m map[string]any) { m["issuer"] = w.as.URL + tc.tenant }
		w.onAuthorize = func(_, a url.Values) { a["iss"] = []string{w.as.URL + tc.tenant} }
		c := w.client()
		own := tc.prmAt == "/never"
		w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
			switch {
			case own && r.URL.Path == rfc8414 && tc.metaAt == "":
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
		if (err != nil) != tc.unknown {
			t.Errorf("%s: %v", what, err)
			continue
		}
		login := func(p string) bool { return p == "/authorize" }
		if diff := cmp.Diff(tc.mcp, slices.DeleteFunc(w.paths("mcp"), login)); diff != "" {
			t.Errorf("%s: the MCP server is asked for (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(tc.as, slices.DeleteFunc(w.paths("as"), login)); diff != "" {
			t.Errorf("%s: the authorization server is asked for (-want +got):\n%s", what, diff)
		}
		if tc.prmAt == resource && w.queries[0].Get("resource") != w.mcp.URL {
			t.Errorf("O2: the resource is %q", w.queries[0].Get("resource"))
		}
	}
}

// U8: servers of 2025-03-26 that share a host share its authorization server, and not
// what it gave out for one of them.
func TestU8NeighboursWithoutMetadataHaveTokensOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.hintAt, w.prmAt, w.metaAt = "", "/never", "/never"
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
	neighbour := w.mcp.URL + "/neighbour"
	req, _ := http.NewRequest(http.MethodPost, neighbour, nil)
	if _, err := c.Reauthorize(req, neighbour, &http.Response{StatusCode: 401, Header: http.Header{"Www-Authenticate": {"Bearer"}}}); err != nil {
		t.Fatal(err)
	}
	if n := w.count("mcp GET /authorize"); n != 2 {
		t.Errorf("for two servers the user was asked %d times", n)
	}
	mine, err := authorize(c, w.url())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := authorize(c, neighbour)
	if err != nil || mine == theirs || theirs == "" {
		t.Errorf("the neighbour is sent %q, which is for the other: %v", theirs, err)
	}
}

// O15: pre-registered, then the document, then registration, then somebody is asked.
func TestO15RegistrationGoesInItsOrder(t *testing.T) {
	const document = "https://program.example/client.json"
	for _, tc := range []struct {
		pre, documents, dynamic bool
		want                    string
	}{
		{true, true, true, "pre"},
		{false, true, true, document},
		{false, false, true, "client"},
		{false, false, false, "asked"},
	} {
		w := newWorld(t)
		w.meta = func(m map[string]any) {
			m["client_id_metadata_document_supported"] = tc.documents
			if !tc.dynamic {
				delete(m, "registration_endpoint")
			}
		}
		c := w.client()
		c.MetadataURL = document
		c.PromptRegistration = askFor("asked")
		c.Registrations = []oauth.Registration{{Issuer: "https://other.example", ClientID: "of another"}}
		if tc.pre {
			c.Registrations = append(c.Registrations, oauth.Registration{Issuer: w.as.URL, ClientID: "pre", ClientSecret: secret + "pre"})
		}
		if err := c.Login(t.Context(), w.url()); err != nil {
			t.Fatal(err)
		}
		if got := w.queries[0].Get("client_id"); got != tc.want {
			t.Errorf("%+v: the client is %q", tc, got)
		}
		if n := w.count("as POST /register"); n > 0 != (tc.want == "client") {
			t.Errorf("%+v: registered %d times", tc, n)
		}
	}
}

// A server that answers anybody, or nobody, is logged in at nevertheless, if it has
// metadata.
func TestALoginNeedsNoChallenge(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusMethodNotAllowed, http.StatusForbidden} {
		w := newWorld(t)
		w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == w.path {
				rw.WriteHeader(status)
			}
			return r.URL.Path == w.path
		}
		if err := w.client().Login(t.Context(), w.url()); err != nil {
			t.Errorf("status %d: %v", status, err)
		} else if got := w.queries[0].Get("scope"); got != "listed" {
			t.Errorf("status %d: it asks for %q", status, got)
		}
	}
}

// O13: what the challenge names, else what the server lists, else nothing; and
// offline_access only where the authorization server offers it.
func TestO13ScopesAreChosenInTheirOrder(t *testing.T) {
	for _, tc := range []struct{ challenged, listed, offered, want string }{
		{"a b", "c", "", "a b"},
		{"", "c d", "", "c d"},
		{"", "", "", ""},
		{"a", "c", "a offline_access", "a offline_access"},
		{"a offline_access", "", "a", "a"},
		{"", "", "offline_access", ""},
	} {
		w := newWorld(t)
		w.scope = tc.challenged
		w.prm = func(m map[string]any) { m["scopes_supported"] = strings.Fields(tc.listed) }
		w.meta = func(m map[string]any) {
			if tc.offered != "" {
				m["scopes_supported"] = strings.Fields(tc.offered)
			}
		}
		if _, err := w.dial(w.client(), ""); err != nil {
			t.Fatal(err)
		}
		if got := w.queries[0]; got.Get("scope") != tc.want || got.Has("scope") != (tc.want != "") {
			t.Errorf("%+v: %q is asked for", tc, got["scope"])
		}
	}
}
