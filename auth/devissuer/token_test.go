package devissuer

import (
	"net/http"
	"net/url"
	"testing"
)

func granted(t *testing.T, i *Issuer) string {
	t.Helper()
	return authorize(t, new(Browser), page(i)).Get("code")
}

func TestACodeIsForOneClientOneRedirectOneResourceAndOneVerifier(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other", RedirectURIs: []string{callback}}}})
	for name, change := range map[string][]string{
		"no code":            {"code", "nothing"},
		"another client":     {"client_id", "other"},
		"another redirect":   {"redirect_uri", callback + "2"},
		"no redirect":        {"redirect_uri", ""},
		"another verifier":   {"code_verifier", verifier + "x"},
		"no verifier":        {"code_verifier", ""},
		"the challenge":      {"code_verifier", challenge()},
		"another resource":   {"resource", resource + "2"},
		"another grant type": {"grant_type", "password"},
	} {
		form := []string{"grant_type", "authorization_code", "client_id", "editor", "code", granted(t, i),
			"redirect_uri", callback, "code_verifier", verifier, "resource", resource}
		for n := 0; n < len(form); n += 2 {
			if form[n] == change[0] {
				form[n+1] = change[1]
			}
		}
		if given := token(t, i, form...); given.Status != 400 || given.Access != "" || given.Error == "" {
			t.Errorf("%s: given %+v", name, given)
		}
	}
}

func TestACodeThatIsUsedTwiceEndsWhatItGave(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	value := granted(t, i)
	first := redeem(t, i, value)
	if first.Status != 200 {
		t.Fatalf("given %+v", first)
	}
	if again := redeem(t, i, value); again.Error != "invalid_grant" {
		t.Errorf("the second time: %+v", again)
	}
	if renewed := renew(t, i, first.Refresh); renewed.Error != "invalid_grant" {
		t.Errorf("its refresh token lives on: %+v", renewed)
	}
}

func TestRefreshTokensRotateAndACopyEndsThemAll(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	first := redeem(t, i, granted(t, i))
	second := renew(t, i, first.Refresh)
	if second.Status != 200 || second.Refresh == first.Refresh || second.Access == first.Access || second.Scope != "read write" {
		t.Fatalf("renewed %+v", second)
	}
	less := token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", second.Refresh, "scope", "read")
	if less.Scope != "read" {
		t.Fatalf("renewed %+v", less)
	}
	third := renew(t, i, less.Refresh)
	if third.Scope != "read write" {
		t.Fatalf("a smaller token made the grant smaller: %+v", third)
	}
	if copied := renew(t, i, first.Refresh); copied.Error != "invalid_grant" {
		t.Errorf("a used one: %+v", copied)
	}
	if after := renew(t, i, third.Refresh); after.Error != "invalid_grant" {
		t.Errorf("the grant lives on: %+v", after)
	}
}

func TestARefreshGivesNoMoreThanWasGranted(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other"}}})
	refresh := redeem(t, i, granted(t, i)).Refresh
	if got := token(t, i, "grant_type", "refresh_token", "client_id", "other", "refresh_token", refresh); got.Error != "invalid_grant" {
		t.Errorf("another client: %+v", got)
	}
	if got := token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh, "scope", "read admin"); got.Error != "invalid_scope" {
		t.Errorf("more scopes: %+v", got)
	}
}

func TestAMistakeDoesNotCostARefreshToken(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	refresh := redeem(t, i, granted(t, i)).Refresh
	for _, wrong := range [][]string{{"scope", "read admin"}, {"resource", resource + "2"}} {
		form := append([]string{"grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh}, wrong...)
		if got := token(t, i, form...); got.Status != 400 {
			t.Errorf("%v: %+v", wrong, got)
		}
	}
	if got := renew(t, i, refresh); got.Status != 200 {
		t.Errorf("%+v", got)
	}
}

func TestARevokedGrantGivesNothing(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	refresh := redeem(t, i, granted(t, i)).Refresh
	form := url.Values{"client_id": {"editor"}, "token": {refresh}}.Encode()
	if got := post(t, i.URL()+"/revoke", "application/x-www-form-urlencoded", form); got.Status != 200 {
		t.Fatalf("%+v", got)
	}
	if got := renew(t, i, refresh); got.Error != "invalid_grant" {
		t.Errorf("%+v", got)
	}
}

func TestConfidentialClientsProveThemselves(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "batch", Secret: "s3cret"}}})
	own := func(id, secret string) []string {
		return []string{"grant_type", "client_credentials", "resource", resource, "scope", "read", "client_id", id, "client_secret", secret}
	}
	given := token(t, i, own("batch", "s3cret")...)
	if given.Status != 200 || given.Refresh != "" || given.Scope != "read" {
		t.Fatalf("given %+v", given)
	}
	if said, err := verify(t, i, given.Access); err != nil || said.Subject != "batch" {
		t.Errorf("%+v, %v", said, err)
	}
	for name, got := range map[string]answer{
		"a wrong secret":                  token(t, i, own("batch", "s3cretx")...),
		"no secret":                       token(t, i, own("batch", "")...),
		"a public client with a secret":   token(t, i, own("editor", "x")...),
		"a client that nobody registered": token(t, i, own("x", "")...),
	} {
		if got.Status != 401 || got.Error != "invalid_client" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := token(t, i, own("editor", "")...); got.Error != "unauthorized_client" {
		t.Errorf("a public client in its own name: %+v", got)
	}
	basic := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}.Encode()
	r, err := http.NewRequest(http.MethodPost, "http://x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("batch", "s3cret")
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", basic, "Authorization", r.Header.Get("Authorization")); got.Status != 200 {
		t.Errorf("by Basic: %+v", got)
	}
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", basic+"&client_secret=s3cret", "Authorization", r.Header.Get("Authorization")); got.Error != "invalid_request" {
		t.Errorf("in two ways: %+v", got)
	}
}

func TestTheTokenEndpointTakesFormsOnly(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	if got := post(t, i.URL()+"/token", "application/json", `{"grant_type":"client_credentials"}`); got.Error != "invalid_request" {
		t.Errorf("%+v", got)
	}
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", "grant_type=refresh_token&grant_type=x&client_id=editor"); got.Error != "invalid_request" {
		t.Errorf("%+v", got)
	}
}
