package devissuer

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

func TestUnregisteredRedirectURIsAreRejected(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "web",
		RedirectURIs: []string{"https://web.example/back", "http://localhost:3000/x"}}}})
	for _, test := range []struct{ client, redirectURI string }{
		{"editor", ""},
		{"editor", redirectURI + "/more"},
		{"editor", redirectURI + "?x=1"},
		{"editor", "http://127.0.0.1:3000@evil.example/redirectURI"},
		{"editor", "https://127.0.0.1:3000/redirectURI"},
		{"editor", "http://localhost:3000/redirectURI"},
		{"editor", "javascript:alert(1)"},
		{"web", "https://web.example:444/back"},
		{"web", "https://WEB.example/back"},
		{"web", "http://localhost:3001/x"}, // a name, not an address: the port counts
		{"unknown", redirectURI},
		{"", redirectURI},
	} {
		location, err := new(Browser).Authorize(t.Context(),
			page(i, "client_id", test.client, "redirect_uri", test.redirectURI))
		if err == nil {
			t.Errorf("%q, %q: redirect to %s", test.client, test.redirectURI, location)
		}
	}
}

func TestPortOfLoopbackRedirectURIsIsIgnored(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	location, err := new(Browser).Authorize(t.Context(), page(i, "redirect_uri", "http://127.0.0.1:49152/redirectURI"))
	if err != nil || !strings.HasPrefix(location, "http://127.0.0.1:49152/redirectURI?") {
		t.Errorf("redirect to %q, %v", location, err)
	}
}

func TestErrorsAreReportedToTheClient(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Scopes: []string{"read", "write"}})
	for name, test := range map[string]struct {
		changes []string
		code    string
	}{
		"implicit flow":          {[]string{"response_type", "token"}, "unsupported_response_type"},
		"fragment mode":          {[]string{"response_mode", "fragment"}, "invalid_request"},
		"no PKCE":                {[]string{"code_challenge", "", "code_challenge_method", ""}, "invalid_request"},
		"plain PKCE":             {[]string{"code_challenge_method", "plain"}, "invalid_request"},
		"short challenge":        {[]string{"code_challenge", "abc"}, "invalid_request"},
		"unknown scope":          {[]string{"scope", "read admin"}, "invalid_scope"},
		"quoted scope":           {[]string{"scope", `a"b`}, "invalid_scope"},
		"no resource":            {[]string{"resource", ""}, "invalid_target"},
		"resource with fragment": {[]string{"resource", resource + "#x"}, "invalid_target"},
	} {
		params := authorize(t, new(Browser), page(i, test.changes...))
		if params.Get("error") != test.code || params.Get("state") != "s1" || params.Get("iss") != i.URL() ||
			params.Has("code") {
			t.Errorf("%s: redirect with %v", name, params)
		}
	}
	if _, err := new(Browser).Authorize(t.Context(), page(i)+"&client_id=editor"); err == nil {
		t.Error("a repeated parameter is accepted")
	}
}

func TestUserDeniesAccess(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	if params := authorize(t, &Browser{Deny: true}, page(i)); params.Get("error") != "access_denied" ||
		params.Has("code") || params.Get("state") != "s1" {
		t.Errorf("redirect with %v", params)
	}
}

func TestUserDeselectsAScope(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	params := authorize(t, &Browser{without: []string{"write"}}, page(i))
	if issued := redeem(t, i, params.Get("code")); issued.Scope != "read" {
		t.Errorf("issued %+v", issued)
	}
}

// openPage opens a consent page and returns the ID in its form.
func openPage(t *testing.T, b *Browser, page string) string {
	t.Helper()
	body, _, err := b.do(t.Context(), http.MethodGet, page, nil)
	must.Do(t, err)
	for _, tag := range inputTag.FindAllStringSubmatch(body, -1) {
		if tag[1] == "id" {
			return tag[2]
		}
	}
	t.Fatalf("no form: %s", body)
	return ""
}

func TestConsentIsAcceptedOnceFromTheSameBrowser(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	form := func(id string) url.Values {
		return url.Values{"id": {id}, "user": {defaultUser}, "decision": {"allow"}, "scope": {"read"}}
	}
	victim, attacker := new(Browser), new(Browser)
	id := openPage(t, victim, page(i))
	openPage(t, attacker, page(i)) // sets another cookie

	if _, location, err := attacker.do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err == nil {
		t.Errorf("another browser: redirect to %s", location)
	}
	if _, location, err := new(Browser).do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err == nil {
		t.Errorf("browser without a cookie: redirect to %s", location)
	}
	if _, location, err := victim.do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err != nil ||
		!strings.Contains(location, "code=") {
		t.Errorf("browser of the user: redirect to %q, %v", location, err)
	}
	if _, location, err := victim.do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err == nil {
		t.Errorf("second submission: redirect to %s", location)
	}
}

func TestTwoConsentPagesInOneBrowser(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	b := new(Browser)
	for _, id := range []string{openPage(t, b, page(i)), openPage(t, b, page(i))} {
		_, location, err := b.do(t.Context(), http.MethodPost, i.URL()+"/authorize",
			url.Values{"id": {id}, "user": {defaultUser}, "decision": {"allow"}})
		if err != nil || !strings.Contains(location, "code=") {
			t.Errorf("redirect to %q, %v", location, err)
		}
	}
	if cookies := b.jar.Cookies(&url.URL{Scheme: "http", Host: i.host, Path: "/authorize"}); len(cookies) > 0 {
		t.Errorf("cookies of submitted pages remain: %v", cookies)
	}
}

func TestOtherSitesCannotSubmitTheForm(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	b := new(Browser)
	id := openPage(t, b, page(i))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.URL()+"/authorize",
		strings.NewReader(url.Values{"id": {id}, "user": {defaultUser}, "decision": {"allow"}}.Encode()))
	must.Do(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	got := must.Get((&http.Client{Jar: b.jar}).Do(r))(t)
	defer got.Body.Close()
	must.CheckEqual(t, got.StatusCode, http.StatusForbidden)
}

func TestUnknownUserCannotLogIn(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Users: []string{"ada"}})
	if location, err := (&Browser{User: "root"}).Authorize(t.Context(), page(i)); err == nil {
		t.Errorf("redirect to %s", location)
	}
}

// Without Users, the page asks for a name and proposes one.
func TestAnyUserCanLogIn(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	for name, want := range map[string]string{"": defaultUser, "ada": "ada", `"<&> \u00e9`: `"<&> \u00e9`} {
		authorize(t, &Browser{User: name}, page(i))
		i.mu.Lock()
		granted := ""
		for _, entry := range i.codes.entries {
			granted += entry.value.grant.user
		}
		i.codes = newExpiring[*code](maxCodes)
		i.mu.Unlock()
		must.CheckEqual(t, granted, want)
	}
	for _, name := range []string{strings.Repeat("x", 2000), "a\nb", "\xff"} {
		if location, err := (&Browser{User: name}).Authorize(t.Context(), page(i)); err == nil ||
			!strings.Contains(err.Error(), "This name cannot be used: subject") {
			t.Errorf("%.20q: redirect to %s, %v", name, location, err)
		}
	}
	if _, err := newIssuer(Config{Users: []string{"ada", ""}}, "127.0.0.1:1"); err == nil {
		t.Error("an empty user is configured")
	}
}

// Every value of the consent page can come from a client.
func TestValuesOfTheConsentPageAreEscaped(t *testing.T) {
	const value, escaped = `"'<&>`, "&#34;&#39;&lt;&amp;&gt;"
	for _, users := range [][]string{{value}, {value, value}} {
		p := consentPage{
			Issuer: value, ID: value, Client: value, ClientID: value, Resource: value, Redirect: value,
			RedirectHost: value,
			Users:        users, Scopes: []string{value},
		}
		plain := consentPage{Users: make([]string, len(users)), Scopes: []string{""}}
		// The client, the user and the scope are on the page twice.
		if got := p.html(); strings.Count(got, escaped) != 12 || strings.ReplaceAll(got, escaped, "") != plain.html() {
			t.Errorf("%d values are escaped:\n%s", strings.Count(got, escaped), got)
		}
	}
}

func TestExpiringMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := newExpiring[int](3)
		for n := range 5 {
			entries.put(string(rune('a'+n)), n, time.Now().Add(time.Minute))
		}
		if _, found := entries.get("b"); found || len(entries.entries) != 3 || len(entries.order) != 3 {
			t.Errorf("%d entries, %d in order", len(entries.entries), len(entries.order))
		}
		if n, found := entries.get("e"); !found || n != 4 {
			t.Error("the newest entry is missing")
		}
		time.Sleep(time.Minute)
		if _, found := entries.get("e"); found {
			t.Error("an expired entry is returned")
		}
	})
}

func TestConcurrentFlows(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Users: []string{"ada", "grace"}})
	var group sync.WaitGroup
	for n := range 8 {
		user := i.config.Users[n%2]
		group.Go(func() {
			location, err := (&Browser{User: user}).Authorize(t.Context(), page(i))
			if err != nil {
				t.Error(err)
				return
			}
			u, err := url.Parse(location)
			if err != nil {
				t.Error(err)
				return
			}
			if issued := redeem(t, i, u.Query().Get("code")); issued.Status != 200 {
				t.Errorf("issued %+v", issued)
			} else if claims, err := verify(t, i, issued.Access); err != nil || claims.Subject != user {
				t.Errorf("%+v, %v", claims, err)
			}
		})
	}
	group.Wait()
}
