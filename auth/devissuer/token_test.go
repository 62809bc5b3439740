package devissuer

import (
	"net/http"
	"net/url"
	"testing"
)

// newCode returns an authorization code.
func newCode(t *testing.T, i *Issuer) string {
	t.Helper()
	return authorize(t, new(Browser), page(i)).Get("code")
}

func TestCodeIsBoundToItsRequest(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other", RedirectURIs: []string{redirectURI}}}})
	for name, change := range map[string][]string{
		"no code":            {"code", "unknown"},
		"another client":     {"client_id", "other"},
		"another redirect":   {"redirect_uri", redirectURI + "2"},
		"no redirect":        {"redirect_uri", ""},
		"another verifier":   {"code_verifier", verifier + "x"},
		"no verifier":        {"code_verifier", ""},
		"the challenge":      {"code_verifier", challenge()},
		"another resource":   {"resource", resource + "2"},
		"another grant type": {"grant_type", "password"},
	} {
		form := []string{"grant_type", "authorization_code", "client_id", "editor", "code", newCode(t, i),
			"redirect_uri", redirectURI, "code_verifier", verifier, "resource", resource}
		for n := 0; n < len(form); n += 2 {
			if form[n] == change[0] {
				form[n+1] = change[1]
			}
		}
		if issued := token(t, i, form...); issued.Status != 400 || issued.Access != "" || issued.Error == "" {
			t.Errorf("%s: issued %+v", name, issued)
		}
	}
}

func TestSecondUseOfACodeRevokesItsTokens(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	value := newCode(t, i)
	first := redeem(t, i, value)
	if first.Status != 200 {
		t.Fatalf("issued %+v", first)
	}
	if again := redeem(t, i, value); again.Error != "invalid_grant" {
		t.Errorf("second use: %+v", again)
	}
	if renewed := refreshWith(t, i, first.Refresh); renewed.Error != "invalid_grant" {
		t.Errorf("the refresh token is still valid: %+v", renewed)
	}
}

func TestReuseOfARefreshTokenRevokesTheGrant(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	first := redeem(t, i, newCode(t, i))
	second := refreshWith(t, i, first.Refresh)
	if second.Status != 200 || second.Refresh == first.Refresh || second.Access == first.Access || second.Scope != "read write" {
		t.Fatalf("refreshed %+v", second)
	}
	less := token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", second.Refresh, "scope", "read")
	if less.Scope != "read" {
		t.Fatalf("refreshed %+v", less)
	}
	third := refreshWith(t, i, less.Refresh)
	if third.Scope != "read write" {
		t.Fatalf("the grant has lost a scope: %+v", third)
	}
	if copied := refreshWith(t, i, first.Refresh); copied.Error != "invalid_grant" {
		t.Errorf("used refresh token: %+v", copied)
	}
	if after := refreshWith(t, i, third.Refresh); after.Error != "invalid_grant" {
		t.Errorf("the grant is still valid: %+v", after)
	}
}

func TestRefreshCannotExceedTheGrant(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "other"}}})
	refresh := redeem(t, i, newCode(t, i)).Refresh
	if got := token(t, i, "grant_type", "refresh_token", "client_id", "other", "refresh_token", refresh); got.Error != "invalid_grant" {
		t.Errorf("another client: %+v", got)
	}
	if got := token(t, i, "grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh, "scope", "read admin"); got.Error != "invalid_scope" {
		t.Errorf("more scopes: %+v", got)
	}
}

func TestFailedRefreshKeepsTheToken(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	refresh := redeem(t, i, newCode(t, i)).Refresh
	for _, wrong := range [][]string{{"scope", "read admin"}, {"resource", resource + "2"}} {
		form := append([]string{"grant_type", "refresh_token", "client_id", "editor", "refresh_token", refresh}, wrong...)
		if got := token(t, i, form...); got.Status != 400 {
			t.Errorf("%v: %+v", wrong, got)
		}
	}
	if got := refreshWith(t, i, refresh); got.Status != 200 {
		t.Errorf("%+v", got)
	}
}

func TestRevocation(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	refresh := redeem(t, i, newCode(t, i)).Refresh
	form := url.Values{"client_id": {"editor"}, "token": {refresh}}.Encode()
	if got := post(t, i.URL()+"/revoke", "application/x-www-form-urlencoded", form); got.Status != 200 {
		t.Fatalf("%+v", got)
	}
	if got := refreshWith(t, i, refresh); got.Error != "invalid_grant" {
		t.Errorf("%+v", got)
	}
}

func TestClientAuthentication(t *testing.T) {
	i := start(t, Config{Clients: []Client{public, {ID: "batch", Secret: "s3cret"}}})
	own := func(id, secret string) []string {
		return []string{"grant_type", "client_credentials", "resource", resource, "scope", "read", "client_id", id, "client_secret", secret}
	}
	issued := token(t, i, own("batch", "s3cret")...)
	if issued.Status != 200 || issued.Refresh != "" || issued.Scope != "read" {
		t.Fatalf("issued %+v", issued)
	}
	if claims, err := verify(t, i, issued.Access); err != nil || claims.Subject != "batch" {
		t.Errorf("%+v, %v", claims, err)
	}
	for name, got := range map[string]response{
		"wrong secret":                token(t, i, own("batch", "s3cretx")...),
		"no secret":                   token(t, i, own("batch", "")...),
		"public client with a secret": token(t, i, own("editor", "x")...),
		"unknown client":              token(t, i, own("x", "")...),
	} {
		if got.Status != 401 || got.Error != "invalid_client" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := token(t, i, own("editor", "")...); got.Error != "unauthorized_client" {
		t.Errorf("public client: %+v", got)
	}
	basic := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}.Encode()
	r, err := http.NewRequest(http.MethodPost, "http://x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("batch", "s3cret")
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", basic, "Authorization", r.Header.Get("Authorization")); got.Status != 200 {
		t.Errorf("HTTP Basic: %+v", got)
	}
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", basic+"&client_secret=s3cret", "Authorization", r.Header.Get("Authorization")); got.Error != "invalid_request" {
		t.Errorf("two methods: %+v", got)
	}
}

func TestTokenEndpointRequiresAForm(t *testing.T) {
	i := start(t, Config{Clients: []Client{public}})
	if got := post(t, i.URL()+"/token", "application/json", `{"grant_type":"client_credentials"}`); got.Error != "invalid_request" {
		t.Errorf("%+v", got)
	}
	if got := post(t, i.URL()+"/token", "application/x-www-form-urlencoded", "grant_type=refresh_token&grant_type=x&client_id=editor"); got.Error != "invalid_request" {
		t.Errorf("%+v", got)
	}
}
