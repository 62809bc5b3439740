package devissuer

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

func start(t *testing.T, config Config) *Issuer {
	t.Helper()
	i := must.Get(Start(config))(t)
	t.Cleanup(func() {
		must.Check(t, i.Close())
		http.DefaultClient.CloseIdleConnections()
	})
	return i
}

const (
	resource = "http://127.0.0.1:8080/mcp"
	redirect = "http://127.0.0.1:3000/callback"
	verifier = "a-verifier-of-at-least-forty-three-characters-in-length"
)

var public = Client{ID: "editor", RedirectURIs: []string{redirect}}

// changed returns parameters with changes, given as names and values. An empty value removes the parameter.
func changed(parameters url.Values, changes ...string) string {
	for n := 0; n < len(changes); n += 2 {
		parameters.Set(changes[n], changes[n+1])
		if changes[n+1] == "" {
			parameters.Del(changes[n])
		}
	}
	return parameters.Encode()
}

// page returns the URL of a valid authorization request with changes.
func page(i *Issuer, changes ...string) string {
	return i.URL() + "/authorize?" + changed(url.Values{
		"response_type": {"code"}, "client_id": {"editor"}, "redirect_uri": {redirect}, "state": {"s1"},
		"code_challenge": {digest.Of(verifier)}, "code_challenge_method": {"S256"}, "resource": {resource},
		"scope": {"read write"},
	}, changes...)
}

// authorize returns the parameters of the redirect to the client.
func authorize(t *testing.T, b logintest.Browser, page string) url.Values {
	t.Helper()
	u := must.Get(url.Parse(must.Get(b.Authorize(t.Context(), page))(t)))(t)
	q := u.Query()
	must.That(t, q.Get("state") == "s1" && strings.HasPrefix(page, q.Get("iss")+"/authorize?"), "redirect to %s", u)
	return u.Query()
}

// response is a response of the token endpoint or the registration endpoint.
type response struct {
	tokens
	failure
	status int
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

func post(t *testing.T, address, body string, headers ...string) response {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	got := must.Get(http.DefaultClient.Do(r))(t)
	defer got.Body.Close()
	raw := must.Get(io.ReadAll(got.Body))(t)
	a := response{status: got.StatusCode}
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatalf("%s: %d %s", address, got.StatusCode, raw)
	}
	return a
}

// redeem exchanges a code of page for tokens, with changes of the request.
func redeem(t *testing.T, i *Issuer, code string, changes ...string) response {
	t.Helper()
	return post(t, i.URL()+"/token", changed(url.Values{"grant_type": {grantCode}, "client_id": {"editor"},
		"code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}, "resource": {resource}}, changes...))
}

// verify verifies a token with the published keys and returns its claims.
func verify(t *testing.T, i *Issuer, token string) (c claims) {
	t.Helper()
	got := must.Get(http.Get(i.URL() + "/jwks"))(t)
	defer got.Body.Close()
	var set jose.JSONWebKeySet
	must.Do(t, json.NewDecoder(got.Body).Decode(&set))
	must.That(t, set.Keys[0].IsPublic(), "a private key is published")
	signed := must.Get(jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256}))(t)
	must.CheckEqual(t, signed.Signatures[0].Protected.ExtraHeaders["typ"], any("at+jwt"))
	must.Do(t, json.Unmarshal(must.Get(signed.Verify(&set))(t), &c))
	return c
}

func TestUsersLogInAndClientsRefresh(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other"}}, Users: []string{"ada", "grace"}})
	var group sync.WaitGroup
	for _, user := range []string{"ada", "grace", "", "grace"} {
		group.Go(func() {
			issued := redeem(t, i, authorize(t, logintest.Browser{User: user}, page(i)).Get("code"))
			if issued.status != 200 || issued.Type != "Bearer" || issued.Scope != "read write" || issued.Expires != 300 {
				t.Errorf("issued %+v", issued)
				return
			}
			refreshed := redeem(t, i, "", "grant_type", grantRefresh, "refresh_token", issued.Refresh)
			for _, access := range []string{issued.Access, refreshed.Access} {
				if c := verify(t, i, access); c.Issuer != i.URL() || c.Audience != resource || c.Client != "editor" ||
					c.Subject != user && (c.Subject != "ada" || user != "") || c.Scope != "read write" || c.ID == "" ||
					c.Expires-c.IssuedAt != 300 {
					t.Errorf("claims %+v of %q", c, user)
				}
			}
			got := redeem(t, i, "", "grant_type", grantRefresh, "client_id", "other", "refresh_token", issued.Refresh)
			must.CheckEqual(t, got.Code, "invalid_grant", "refresh by another client", got)
		})
	}
	group.Wait()
}

// A code works only for the request that it was issued for, and only once, even if it is rejected.
func TestCodeIsBoundToItsRequest(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other", RedirectURIs: []string{redirect}}}})
	for name, change := range map[string][]string{
		"no code":            {"code", "unknown"},
		"another client":     {"client_id", "other"},
		"another redirect":   {"redirect_uri", redirect + "2"},
		"no redirect":        {"redirect_uri", ""},
		"another verifier":   {"code_verifier", verifier + "x"},
		"no verifier":        {"code_verifier", ""},
		"the challenge":      {"code_verifier", digest.Of(verifier)},
		"another resource":   {"resource", resource + "2"},
		"another grant type": {"grant_type", "password"},
	} {
		code := authorize(t, logintest.Browser{}, page(i)).Get("code")
		if issued := redeem(t, i, code, change...); issued.status != 400 || issued.Access != "" || issued.Code == "" {
			t.Errorf("%s: issued %+v", name, issued)
		}
	}
	code := authorize(t, logintest.Browser{}, page(i)).Get("code")
	must.CheckEqual(t, redeem(t, i, code).status, 200)
	must.CheckEqual(t, redeem(t, i, code).Code, "invalid_grant", "the second use")
}

func TestCodesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := new(Issuer)
		code := i.newCode(&grant{client: "editor", challenge: digest.Of(verifier), until: time.Now().Add(codeLifetime)})
		time.Sleep(codeLifetime + 1)
		_, failed := i.redeem(&public, url.Values{"code": {code}, "code_verifier": {verifier}})
		must.CheckThat(t, failed != nil, "an expired code is accepted")
	})
}

func TestUnregisteredRedirectURIsAreRejected(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "web",
		RedirectURIs: []string{"https://web.example/back?a=b", "http://localhost:3000/x"}}}})
	for _, test := range []struct {
		client, uri string
		allowed     bool
	}{
		{"editor", "", false},
		{"editor", redirect + "/more", false},
		{"editor", redirect + "?x=1", false},
		{"editor", "http://127.0.0.1:3000@evil.example/callback", false},
		{"editor", "http://user@127.0.0.1:3000/callback", false},
		{"editor", "https://127.0.0.1:3000/callback", false},
		{"editor", "http://localhost:3000/callback", false},
		{"editor", "javascript:alert(1)", false},
		{"editor", "http://127.0.0.1:49152/callback", true},
		{"web", "https://web.example:444/back?a=b", false},
		{"web", "https://WEB.example/back?a=b", false},
		{"web", "http://localhost:3001/x", false}, // a name, not an address: the port counts
		{"web", "https://web.example/back?a=b", true},
		{"unknown", redirect, false},
		{"", redirect, false},
	} {
		location, err := new(logintest.Browser).Authorize(t.Context(),
			page(i, "client_id", test.client, "redirect_uri", test.uri))
		must.CheckThat(t, (err == nil) == test.allowed && (!test.allowed || strings.HasPrefix(location, test.uri)),
			"%q, %q: redirect to %q, %v", test.client, test.uri, location, err)
	}
}

func TestErrorsAreReportedToTheClient(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Scopes: []string{"read", "write"}})
	for name, test := range map[string]struct {
		changes []string
		code    string
	}{
		"implicit flow":          {[]string{"response_type", "token"}, "unsupported_response_type"},
		"no PKCE":                {[]string{"code_challenge", "", "code_challenge_method", ""}, "invalid_request"},
		"plain PKCE":             {[]string{"code_challenge_method", "plain"}, "invalid_request"},
		"short challenge":        {[]string{"code_challenge", "abc"}, "invalid_request"},
		"unknown scope":          {[]string{"scope", "read admin"}, "invalid_scope"},
		"no resource":            {[]string{"resource", ""}, "invalid_target"},
		"resource with fragment": {[]string{"resource", resource + "#x"}, "invalid_target"},
	} {
		got := authorize(t, logintest.Browser{}, page(i, test.changes...))
		must.CheckThat(t, got.Get("error") == test.code && !got.Has("code"), "%s: redirect with %v", name, got)
	}
	got := authorize(t, logintest.Browser{Deny: true}, page(i))
	must.CheckThat(t, got.Get("error") == "access_denied" && !got.Has("code"), "denied: redirect with %v", got)
}

// Without Users, the page asks for a name and proposes one.
func TestNamesOfUsers(t *testing.T) {
	anybody, some := start(t, Config{Clients: []Client{public}}), start(t, Config{Clients: []Client{public},
		Users: []string{"ada"}})
	for name, want := range map[string]string{"": defaultUser, "ada": "ada", `"<&> é`: `"<&> é`} {
		code := authorize(t, logintest.Browser{User: name}, page(anybody)).Get("code")
		must.CheckEqual(t, verify(t, anybody, redeem(t, anybody, code).Access).Subject, want)
	}
	for name, i := range map[string]*Issuer{strings.Repeat("x", 2000): anybody, "a\nb": anybody, "\xff": anybody,
		"root": some} {
		must.CheckFails(t, must.Err((&logintest.Browser{User: name}).Authorize(t.Context(), page(i))),
			"This name cannot be used", name)
	}
}

// Every value of the page can come from a client. No other site can frame the page or submit its form.
func TestPageIsSafe(t *testing.T) {
	const value, escaped = `"'<&>`, "&#34;&#39;&lt;&amp;&gt;"
	got := pageOf(&Client{name: value}, &grant{resource: value, scopes: []string{value}, redirectURI: value},
		[]string{value})
	plain := pageOf(&Client{}, &grant{scopes: []string{""}}, []string{""})
	must.CheckThat(t, strings.Count(got, escaped) == 6 && strings.ReplaceAll(got, escaped, "") == plain,
		"%d values are escaped:\n%s", strings.Count(got, escaped), got) // the client is on it twice
	must.CheckContains(t, got, "is for development")

	i := start(t, Config{Clients: []Client{public}})
	send := func(method, address string, change func(*http.Request)) *http.Response {
		r := must.Get(http.NewRequestWithContext(t.Context(), method, address, strings.NewReader("decision=allow")))(t)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		change(r)
		got := must.Get(http.DefaultTransport.RoundTrip(r))(t)
		_ = got.Body.Close()
		return got
	}
	shown := send(http.MethodGet, page(i), func(*http.Request) {})
	must.CheckThat(t, shown.Header.Get("X-Frame-Options") == "DENY" &&
		strings.Contains(shown.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'"),
		"the page allows frames: %v", shown.Header)
	other := send(http.MethodPost, page(i), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	must.CheckEqual(t, other.StatusCode, http.StatusForbidden, "the form of another site")
	other = send(http.MethodGet, page(i), func(r *http.Request) { r.Host = "rebound.example" })
	must.CheckEqual(t, other.StatusCode, http.StatusForbidden, "another host")
	for path, open := range map[string]bool{"/token": true, "/jwks": true, "/register": true, "/authorize": false} {
		got := send(map[bool]string{true: http.MethodOptions, false: http.MethodGet}[open], i.URL()+path,
			func(*http.Request) {})
		must.CheckEqual(t, got.Header.Get("Access-Control-Allow-Origin") == "*", open, path)
	}
}

func TestClientAuthentication(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "batch", Secret: "s3cr%t"}}})
	own := func(id, secret string, headers ...string) response {
		return post(t, i.URL()+"/token", changed(url.Values{"grant_type": {grantClient}, "resource": {resource},
			"scope": {"read"}}, "client_id", id, "client_secret", secret), headers...)
	}
	basic := &http.Request{Header: make(http.Header)}
	basic.SetBasicAuth("batch", url.QueryEscape("s3cr%t"))
	for name, issued := range map[string]response{
		"in the form": own("batch", "s3cr%t"),
		"HTTP Basic":  own("", "", "Authorization", basic.Header.Get("Authorization")),
	} {
		must.CheckThat(t, issued.status == 200 && issued.Refresh == "" && issued.Scope == "read" &&
			verify(t, i, issued.Access).Subject == "batch", "%s: issued %+v", name, issued)
	}
	for name, got := range map[string]response{
		"wrong secret":                own("batch", "s3cretx"),
		"no secret":                   own("batch", ""),
		"public client with a secret": own("editor", "x"),
		"unknown client":              own("x", ""),
	} {
		must.CheckEqual(t, got.status, 401, name, got)
		must.CheckEqual(t, got.Code, "invalid_client", name, got)
	}
	must.CheckEqual(t, own("editor", "").Code, "unauthorized_client", "public client")
}

func TestDynamicRegistration(t *testing.T) {
	i := start(t, Config{})
	register := func(body string) response { return post(t, i.URL()+"/register", body) }
	c := register(`{"client_name":"An editor","redirect_uris":["` + redirect + `"]}`)
	must.That(t, c.status == 201 && c.ID != "" && c.Secret == "", "registration %+v", c)
	code := authorize(t, logintest.Browser{}, page(i, "client_id", c.ID)).Get("code")
	must.CheckEqual(t, redeem(t, i, code, "client_id", c.ID).status, 200)
	for body, code := range map[string]string{
		`[]`:                      "invalid_client_metadata",
		`{}`:                      "invalid_redirect_uri",
		`{"redirect_uris":["x"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["javascript:alert(1)"]}`:              "invalid_redirect_uri",
		`{"redirect_uris":["http://web.example/"]}`:              "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/#f"]}`:             "invalid_redirect_uri",
		`{"redirect_uris":["https://u@a.example/"]}`:             "invalid_redirect_uri",
		`{"client_name":"` + strings.Repeat("x", maxBody) + `"}`: "invalid_client_metadata",
	} {
		got := register(body)
		must.CheckThat(t, got.status == 400 && got.Code == code, "%.60s: %+v", body, got)
	}
	for n := range maxEntries {
		i.clients.put(string(rune(n)), nil)
	}
	must.CheckThat(t, len(i.clients.entries) == maxEntries && i.client(c.ID) == nil,
		"%d registrations are kept", len(i.clients.entries))
}

func TestStartRejectsInvalidConfigurations(t *testing.T) {
	for name, config := range map[string]Config{
		"empty user":              {Users: []string{"ada", ""}},
		"client without an ID":    {Clients: []Client{{}}},
		"javascript redirect URI": {Clients: []Client{{ID: "x", RedirectURIs: []string{"javascript:alert(1)"}}}},
	} {
		if i, err := Start(config); err == nil {
			t.Errorf("%s is accepted", name)
			_ = i.Close()
		}
	}
}

func TestMetadataNamesTheEndpoints(t *testing.T) {
	i := start(t, Config{Scopes: []string{"read"}})
	got := must.Get(http.Get(i.URL() + "/.well-known/oauth-authorization-server"))(t)
	defer got.Body.Close()
	var document map[string]any
	must.Do(t, json.NewDecoder(got.Body).Decode(&document))
	must.CheckThat(t, document["issuer"] == i.URL() &&
		document["authorization_response_iss_parameter_supported"] == true, "metadata: %v", document)
	for _, name := range []string{"jwks_uri", "token_endpoint", "registration_endpoint", "authorization_endpoint"} {
		address, _ := document[name].(string)
		r := must.Get(http.Get(address))(t)
		_ = r.Body.Close()
		must.CheckThat(t, r.StatusCode != http.StatusNotFound, "%s is %s, which is not found", name, address)
	}
}
