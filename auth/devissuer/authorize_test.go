package devissuer

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestNobodyIsSentToAnAddressThatTheClientHasNotRegistered(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "web", RedirectURIs: []string{"https://web.example/back", "http://localhost:3000/x"}}}})
	for _, test := range []struct{ client, redirect string }{
		{"editor", ""},
		{"editor", callback + "/more"},
		{"editor", callback + "?x=1"},
		{"editor", "http://127.0.0.1:3000@evil.example/callback"},
		{"editor", "https://127.0.0.1:3000/callback"},
		{"editor", "http://localhost:3000/callback"},
		{"editor", "javascript:alert(1)"},
		{"web", "https://web.example:444/back"},
		{"web", "https://WEB.example/back"},
		{"web", "http://localhost:3001/x"}, // a name, not an address: its port is fixed
		{"nobody", callback},
		{"", callback},
		{"https://app.example/client.json", callback}, // no documents here
	} {
		location, err := new(Browser).Authorize(t.Context(), page(i, "client_id", test.client, "redirect_uri", test.redirect))
		if err == nil {
			t.Errorf("%q, %q: sent to %s", test.client, test.redirect, location)
		}
	}
}

func TestAProgramOnThisMachineChoosesItsPort(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	location, err := new(Browser).Authorize(t.Context(), page(i, "redirect_uri", "http://127.0.0.1:49152/callback"))
	if err != nil || !strings.HasPrefix(location, "http://127.0.0.1:49152/callback?") {
		t.Errorf("sent to %q, %v", location, err)
	}
}

func TestClientsAreToldWhatIsWrongWithTheirRequest(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Scopes: []string{"read", "write"}, Resources: []string{resource, resource + "2"}})
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
		"no resource of two":     {[]string{"resource", ""}, "invalid_target"},
		"another resource":       {[]string{"resource", "https://other.example/mcp"}, "invalid_target"},
		"resource with fragment": {[]string{"resource", resource + "#x"}, "invalid_target"},
	} {
		back := authorize(t, new(Browser), page(i, test.changes...))
		if back.Get("error") != test.code || back.Get("state") != "s1" || back.Get("iss") != i.URL() || back.Has("code") {
			t.Errorf("%s: sent back with %v", name, back)
		}
	}
	if _, err := new(Browser).Authorize(t.Context(), page(i)+"&client_id=editor"); err == nil {
		t.Error("a parameter may be there twice")
	}
}

func TestAUserSaysNo(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	if back := authorize(t, &Browser{Deny: true}, page(i)); back.Get("error") != "access_denied" || back.Has("code") || back.Get("state") != "s1" {
		t.Errorf("sent back with %v", back)
	}
}

func TestAUserGrantsLessThanWasAskedFor(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	back := authorize(t, &Browser{Without: []string{"write"}}, page(i))
	if given := redeem(t, i, back.Get("code")); given.Scope != "read" {
		t.Errorf("given %+v", given)
	}
}

func TestTheOnlyResourceIsMeantWhenNoneIsNamed(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Resources: []string{resource}})
	back := authorize(t, new(Browser), page(i, "resource", ""))
	said, err := verify(t, i, redeem(t, i, back.Get("code")).Access)
	if err != nil || said.Audience != resource {
		t.Errorf("the token says %+v, %v", said, err)
	}
}

// shown opens a consent page and returns the id in its form.
func shown(t *testing.T, b *Browser, page string) string {
	t.Helper()
	body, _, err := b.do(t.Context(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range inputTag.FindAllStringSubmatch(body, -1) {
		if tag[1] == "id" {
			return tag[2]
		}
	}
	t.Fatalf("no form: %s", body)
	return ""
}

func TestAConsentPageIsAnsweredOnceAndByTheBrowserThatShowsIt(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	form := func(id string) url.Values {
		return url.Values{"id": {id}, "user": {DefaultUser}, "answer": {"allow"}, "scope": {"read"}}
	}
	victim, attacker := new(Browser), new(Browser)
	id := shown(t, victim, page(i))
	shown(t, attacker, page(i)) // who has a cookie as well

	if _, location, err := attacker.do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err == nil {
		t.Errorf("another browser is sent to %s", location)
	}
	if _, location, err := new(Browser).do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err == nil {
		t.Errorf("a browser without a cookie is sent to %s", location)
	}
	if _, location, err := victim.do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err != nil || !strings.Contains(location, "code=") {
		t.Errorf("the user's browser is sent to %q, %v", location, err)
	}
	if _, location, err := victim.do(t.Context(), http.MethodPost, i.URL()+"/authorize", form(id)); err == nil {
		t.Errorf("the second answer is sent to %s", location)
	}
}

func TestTwoPagesInOneBrowserAreBothAnswered(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	b := new(Browser)
	for _, id := range []string{shown(t, b, page(i)), shown(t, b, page(i))} {
		_, location, err := b.do(t.Context(), http.MethodPost, i.URL()+"/authorize", url.Values{"id": {id}, "user": {DefaultUser}, "answer": {"allow"}})
		if err != nil || !strings.Contains(location, "code=") {
			t.Errorf("sent to %q, %v", location, err)
		}
	}
	if kept := b.jar.Cookies(&url.URL{Scheme: "http", Host: i.host, Path: "/authorize"}); len(kept) > 0 {
		t.Errorf("cookies of answered pages are kept: %v", kept)
	}
}

func TestAPageOfAnotherSiteCannotAnswer(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	b := new(Browser)
	id := shown(t, b, page(i))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.URL()+"/authorize",
		strings.NewReader(url.Values{"id": {id}, "user": {DefaultUser}, "answer": {"allow"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	got, err := (&http.Client{Jar: b.jar}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", got.StatusCode)
	}
}

func TestAUserWhomThePageDoesNotOfferCannotSignIn(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}, Users: []string{"ada"}})
	if location, err := (&Browser{User: "root"}).Authorize(t.Context(), page(i)); err == nil {
		t.Errorf("sent to %s", location)
	}
}

func TestNamesAreTextOnTheConsentPage(t *testing.T) {
	i := start(t, Config{Clients: []Client{{ID: "editor", Name: `<script>alert(1)</script>`, RedirectURIs: []string{callback}}}})
	b := new(Browser)
	body, _, err := b.do(t.Context(), http.MethodGet, page(i), nil)
	if err != nil || strings.Contains(body, "<script") || !strings.Contains(body, "&lt;script&gt;") {
		t.Errorf("%s, %v", body, err)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newExpiring[int](3)
		for n := range 5 {
			kept.put(string(rune('a'+n)), n, time.Now().Add(time.Minute))
		}
		if _, found := kept.get("b"); found || len(kept.entries) != 3 || kept.order.Len() != 3 {
			t.Errorf("%d entries, %d in order", len(kept.entries), kept.order.Len())
		}
		if n, found := kept.get("e"); !found || n != 4 {
			t.Error("the newest is gone")
		}
		time.Sleep(time.Minute)
		if _, found := kept.get("e"); found {
			t.Error("an entry outlives its time")
		}
	})
}

func TestManyFlowsAtOnceDoNotMix(t *testing.T) {
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
			if given := redeem(t, i, u.Query().Get("code")); given.Status != 200 {
				t.Errorf("given %+v", given)
			} else if said, err := verify(t, i, given.Access); err != nil || said.Subject != user {
				t.Errorf("%+v, %v", said, err)
			}
		})
	}
	group.Wait()
}
