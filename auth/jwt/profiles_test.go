package jwt_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/must"
)

// provider is an authorization server as its documentation describes it; auth/internal/issuer names the pages. The
// tokens contain the claims of the examples there, except personal and opaque ones.
type provider struct {
	profile, issuer, otherTenant string
	header                       object // header of all tokens
	access, id                   object // claims, without iss and times
	audience, client, scopes     string // values expected from the access token
	clientClaim                  string
}

const (
	app    = "6e74172b-be56-4843-9ff4-e66a39bb12e3" // a client
	tenant = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	other  = "fa15d692-e9c7-4460-a743-29f29522229e" // another tenant
)

var providers = []provider{
	{profile: "rfc9068", issuer: "https://as.example.com", otherTenant: "https://as.example.com/other",
		header: object{"typ": "at+jwt"}, audience: self, client: app, scopes: "tools", clientClaim: "client_id",
		access: object{"sub": "ada", "client_id": app, "aud": self, "scope": "tools", "jti": "1"},
		id:     object{"sub": "ada", "aud": app, "nonce": "n"}},
	{profile: "keycloak", issuer: "https://id.example.com/realms/acme", otherTenant: "https://id.example.com/realms/b",
		header: object{"typ": "JWT"}, audience: "mcp", client: app, scopes: "email tools", clientClaim: "azp",
		access: object{"sub": "ada", "azp": app, "aud": []string{"mcp", "account"}, "typ": "Bearer",
			"scope": "email tools", "jti": "1", "sid": "s", "acr": "1", "realm_access": object{"roles": []string{"a"}}},
		id: object{"sub": "ada", "azp": app, "aud": app, "typ": "ID", "jti": "2", "sid": "s", "acr": "1",
			"auth_time": 1, "at_hash": "h", "email_verified": true}},
	{profile: "entra", issuer: "https://login.microsoftonline.com/" + tenant + "/v2.0",
		otherTenant: "https://login.microsoftonline.com/" + other + "/v2.0",
		header:      object{"typ": "JWT"}, audience: app, client: "client", scopes: "tools", clientClaim: "azp",
		access: object{"sub": "ada", "azp": "client", "azpacr": "0", "aud": app, "scp": "tools", "tid": tenant,
			"oid": "o", "uti": "u", "ver": "2.0", "roles": []string{"Reader"}},
		id: object{"sub": "ada", "aud": app, "tid": tenant, "oid": "o", "uti": "u", "ver": "2.0", "nonce": "n",
			"roles": []string{"Reader"}, "preferred_username": "ada@example.com"}},
	{profile: "entra", issuer: "https://sts.windows.net/" + tenant + "/",
		otherTenant: "https://sts.windows.net/" + other + "/",
		header:      object{"typ": "JWT"}, audience: "api://mcp", client: "client", scopes: "Reader",
		access: object{"sub": "daemon", "appid": "client", "appidacr": "1", "aud": "api://mcp", "tid": tenant,
			"oid": "o", "uti": "u", "ver": "1.0", "roles": []string{"Reader"}}, clientClaim: "appid",
		id: object{"sub": "ada", "aud": "client", "tid": tenant, "oid": "o", "uti": "u", "ver": "1.0",
			"amr": []string{"pwd"}, "roles": []string{"Reader"}}},
	{profile: "okta", issuer: "https://acme.okta.com/oauth2/default", otherTenant: "https://b.okta.com/oauth2/default",
		audience: "api://default", client: app, scopes: "openid tools", clientClaim: "cid",
		access: object{"sub": "ada@example.com", "cid": app, "uid": "u", "aud": "api://default", "ver": 1,
			"scp": []string{"openid", "tools"}, "jti": "AT.1", "auth_time": 1},
		id: object{"sub": "u", "aud": app, "ver": 1, "jti": "ID.1", "amr": []string{"pwd"}, "idp": "i", "auth_time": 1,
			"at_hash": "h", "preferred_username": "ada@example.com"}},
	{profile: "auth0", issuer: "https://acme.eu.auth0.com/", otherTenant: "https://b.eu.auth0.com/",
		header: object{"typ": "JWT"}, audience: "my-api", client: app, scopes: "openid tools", clientClaim: "azp",
		access: object{"sub": "auth0|1", "azp": app, "aud": []string{"my-api", "https://acme.eu.auth0.com/userinfo"},
			"scope": "openid tools", "permissions": []string{"tools"}},
		id: object{"sub": "auth0|1", "aud": app, "name": "Ada", "email_verified": true, "nonce": "n", "sid": "s"}},
	{profile: "cognito", issuer: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_A",
		otherTenant: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_B",
		audience:    app, client: app, scopes: "openid mcp/tools", clientClaim: "client_id",
		access: object{"sub": "ada", "client_id": app, "token_use": "access", "scope": "openid mcp/tools", "jti": "1",
			"version": 2, "username": "ada", "auth_time": 1, "cognito:groups": []string{"a"}},
		id: object{"sub": "ada", "aud": app, "token_use": "id", "jti": "2", "auth_time": 1, "email_verified": true,
			"cognito:username": "ada"}},
	{profile: "workos", issuer: "https://acme.authkit.app", otherTenant: "https://b.authkit.app",
		header: object{"typ": "JWT"}, audience: self, client: "client_1", scopes: "openid tools", clientClaim: "client_id",
		access: object{"sub": "user_1", "client_id": "client_1", "aud": self, "org_id": "org_1", "sid": "app_consent_1",
			"scope": "openid tools", "jti": "1"},
		id: object{"sub": "user_1", "aud": "client_1", "name": "Ada", "email": "ada@example.com",
			"email_verified": true}},
	{profile: "ping", issuer: "https://auth.pingone.com/" + tenant + "/as",
		otherTenant: "https://auth.pingone.com/" + other + "/as",
		audience:    self, client: app, scopes: "openid tools", clientClaim: "client_id",
		access: object{"sub": "ada", "client_id": app, "aud": []string{self}, "scope": "openid tools", "sid": "s",
			"auth_time": 1, "acr": "Single_Factor"},
		id: object{"sub": "ada", "aud": app, "acr": "Single_Factor", "amr": []string{"pwd"}, "auth_time": 1,
			"at_hash": "h", "sid": "s", "nonce": "n"}},
	{profile: "zitadel", issuer: "https://acme.zitadel.cloud", otherTenant: "https://b.zitadel.cloud",
		header: object{"typ": "JWT"}, audience: "project", client: app, scopes: "", clientClaim: "client_id",
		access: object{"sub": "1", "client_id": app, "aud": []string{app, "project"}, "jti": "1",
			"urn:zitadel:iam:org:project:roles": object{"tools": object{"1": "acme"}}},
		id: object{"sub": "1", "azp": app, "aud": []string{app, "project"}, "amr": []string{"pwd"}, "auth_time": 1,
			"acr": "", "nonce": "n", "urn:zitadel:iam:org:project:roles": object{"tools": object{"1": "acme"}}}},
}

// claims returns the claims of a token of p that is valid now.
func (p *provider) claims(claims object) object {
	now := time.Now()
	return with(claims, object{"iss": p.issuer, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
}

// sign signs claims with the key of i, which stands in for p.
func (p *provider) sign(i *issuer, claims object) string {
	return i.token(claims, with(object{"typ": nil}, p.header))
}

// signID signs claims as an ID token, which never has the type of an access token.
func (p *provider) signID(i *issuer, claims object) string {
	if p.header["typ"] == "at+jwt" {
		return i.token(claims, object{"typ": "JWT"})
	}
	return p.sign(i, claims)
}

// verifierOf returns a verifier of the tokens of p, whose keys i serves.
func (p *provider) verifierOf(i *issuer, now func() time.Time) *jwt.Verifier {
	return &jwt.Verifier{Issuers: []string{p.issuer}, KeysURL: i.URL + "/keys", Profile: p.profile, Now: now}
}

// access presents a token. For a rejected token, it returns the text for the client and the text for the
// operator.
func access(v auth.Verifier, token string, audiences, clients []string) (info *auth.Info, reason, remedy string) {
	resource := &auth.ProtectedResource{URI: self, Issuers: []string{"https://as.example.com"}, Verifier: v,
		Audiences: audiences, Clients: clients}
	r := httptest.NewRequest(http.MethodPost, self, nil)
	r.Header["Authorization"] = []string{"Bearer " + token}
	info, err := resource.Authenticate(http.Header{}, r)
	rejection, _ := errors.AsType[*auth.Rejection](err)
	if rejection == nil {
		return info, "", ""
	}
	return nil, rejection.Reason, rejection.Remedy
}

// Rules R2, R9, R10: for every provider, only access tokens for this server are accepted, and each rejection says what
// to do.
func TestTokensOfProviders(t *testing.T) {
	for _, p := range providers {
		i, now := newIssuer(t), time.Now()
		v := p.verifierOf(i, func() time.Time { return now })
		accepted := p.claims(p.access)
		token := p.sign(i, accepted)
		public := must.Get(i.key.Load().private.PublicKey.Bytes())(t)
		parts := strings.Split(token, ".")
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."
		info, reason, _ := access(v, token, []string{p.audience}, []string{p.client})
		if info == nil {
			t.Errorf("%s: the access token is rejected: %s", p.profile, reason)
			continue
		}
		must.CheckEqual(t, info.Principal.Client(), p.client, p.profile)
		must.CheckEqual(t, info.Principal.Issuer(), p.issuer, p.profile)
		must.CheckEqual(t, strings.Join(info.Scopes, " "), p.scopes, p.profile)
		wrongAudience := with(accepted, object{"aud": "other"})
		for name, tc := range map[string]struct {
			token, reason, remedy string
			audiences, clients    []string
		}{
			"ID token": {token: p.signID(i, p.claims(p.id)), reason: "send the access token",
				audiences: []string{app, "client", "client_1", "project"}},
			"wrong audience": {token: p.sign(i, wrongAudience), reason: `but for ["other"]`,
				remedy: "--auth audience=other"},
			"wrong tenant": {token: p.sign(i, with(accepted, object{"iss": p.otherTenant})),
				reason: "get a token of " + p.issuer},
			"none": {token: none, reason: "must use an asymmetric one"},
			"confused algorithm": {token: sign(t, jose.HS256, public, accepted, object{"typ": "at+jwt", "kid": "k1"}),
				reason: "must use an asymmetric one"},
			"key of another issuer": {token: sign(t, jose.ES256, newKey(t, "k1").private, accepted,
				with(object{"kid": "k1"}, p.header)), reason: "the signature of the token is invalid"},
			"expired": {token: p.sign(i, with(accepted, object{"exp": now.Add(-time.Hour).Unix()})),
				reason: "get a new one"},
			"another client": {token: token, clients: []string{"another"}, reason: "may not use this server",
				remedy: "--auth allow-client=" + p.client},
			"two clients": {token: p.sign(i, with(accepted, object{p.clientClaim: "another"})), clients: []string{p.client},
				audiences: []string{p.audience, "another"}, reason: "may not use this server",
				remedy: "--auth allow-client=another"},
			"no audience is meant": {token: token, audiences: []string{}, reason: "not for this server"},
		} {
			if tc.audiences == nil {
				tc.audiences = []string{p.audience}
			}
			info, reason, remedy := access(v, tc.token, tc.audiences, tc.clients)
			if name == "ID token" && strings.Contains(reason, "send an access token") {
				reason = tc.reason // nothing in the token says whether it is an ID token or an access token
			}
			must.CheckThat(t, info == nil && strings.Contains(reason, tc.reason) &&
				strings.Contains(remedy, tc.remedy) && !strings.Contains(reason, "--auth"),
				"%s: %s: %v, %s; %s", p.profile, name, info, reason, remedy)
		}
		i.key.Store(newKey(t, "k2"))
		now = now.Add(11 * time.Second)
		if info, reason, _ := access(v, p.sign(i, accepted), []string{p.audience}, nil); info == nil {
			t.Errorf("%s: after the rotation of keys: %s", p.profile, reason)
		}
	}
}

// Rule R9: no setting turns an ID token into an access token, even if the audience fits and the claims that only some
// ID tokens contain are missing.
func TestNoProfileAcceptsAnIDToken(t *testing.T) {
	google := provider{issuer: "https://accounts.google.com", header: object{"typ": "JWT"},
		id: object{"sub": "1", "azp": app, "aud": app, "email": "ada@example.com", "at_hash": "h"}}
	dex := provider{issuer: "https://dex.example.com", id: object{"sub": "1", "aud": app, "at_hash": "h", "c_hash": "c",
		"email": "ada@example.com", "groups": []string{"a"}}}
	for _, p := range append(slices.Clone(providers), google, dex) {
		i := newIssuer(t)
		for _, without := range [][]string{nil, {"nonce"}, {"nonce", "at_hash", "c_hash"}} {
			claims := p.claims(p.id)
			for _, name := range without {
				delete(claims, name)
			}
			token := p.signID(i, claims)
			for _, profile := range []string{"", "keycloak", "entra", "okta", "auth0", "cognito", "workos", "ping",
				"zitadel"} {
				for _, types := range [][]string{nil, {"JWT"}, {"", "JWT", "at+jwt"}} {
					v := p.verifierOf(i, nil)
					v.Profile, v.Types = profile, types
					if info, _, _ := access(v, token, []string{app, "client", "client_1", "project", self},
						nil); info != nil {
						t.Errorf("the ID token of %s without %v is accepted with profile %q and types %q", p.issuer, without,
							profile, types)
					}
				}
			}
		}
	}
}

// Rule R9: the other tokens of a provider are not access tokens, either, although they name a client and scopes.
func TestOtherTokensOfAProviderAreInvalid(t *testing.T) {
	i := newIssuer(t)
	base := with(i.claims(), object{"azp": app, "client_id": app, "aud": "mcp", "scope": "tools", "jti": "1"})
	for name, claims := range map[string]object{
		"refresh token of Keycloak": {"typ": "Refresh"}, "offline token of Keycloak": {"typ": "Offline"},
		"logout token of Keycloak": {"typ": "Logout"}, "refresh token of Hydra": {"token_use": "refresh_token"},
	} {
		for _, profile := range []string{"", "keycloak", "entra", "okta", "auth0", "cognito", "workos", "ping",
			"zitadel"} {
			v := &jwt.Verifier{Issuers: []string{i.URL}, Profile: profile, Types: []string{"JWT"}}
			if info, reason, _ := access(v, i.token(with(base, claims), object{"typ": "JWT"}), []string{"mcp"},
				nil); info != nil || !strings.Contains(reason, "send the access token") {
				t.Errorf("%s with profile %q: %v, %s", name, profile, info, reason)
			}
		}
	}
	for _, ver := range []any{nil, "3.0", 2} { // the rule covers versions 1.0 and 2.0
		v := &jwt.Verifier{Issuers: []string{i.URL}, Profile: "entra"}
		if _, reason, _ := access(v, i.token(with(base, object{"scp": "tools", "ver": ver}), object{"typ": "JWT"}),
			[]string{"mcp"}, nil); !strings.Contains(reason, "send an access token") {
			t.Errorf("a token of Entra of version %v: %s", ver, reason)
		}
	}
}

// Without a profile, the error names the profile that fits the token. The client learns only the provider.
func TestErrorsNameTheProfileOfAToken(t *testing.T) {
	for _, p := range providers {
		i := newIssuer(t)
		token := p.sign(i, p.claims(p.access))
		for _, profile := range []string{"", "cognito", "keycloak"} {
			if v := p.verifierOf(i, nil); profile != p.profile && p.profile != "rfc9068" {
				v.Profile = profile
				_, reason, remedy := access(v, token, []string{p.audience}, nil)
				if !strings.Contains(reason, "this is a token of ") || strings.Contains(reason, "--auth") ||
					!strings.HasPrefix(remedy, "add --auth profile="+p.profile+" (in Go: ") {
					t.Errorf("%s as %q: %s; %s", p.profile, profile, reason, remedy)
				}
				must.CheckFails(t, must.Err(v.Verify(t.Context(), token)), "jwt.Verifier.Profile", p.profile)
			}
		}
	}
	i := newIssuer(t)
	v := &jwt.Verifier{Issuers: []string{i.URL}}
	_, reason, remedy := access(v, i.token(i.claims(), object{"typ": "JWT"}), nil, nil)
	must.CheckContains(t, reason, `at+jwt, but "JWT"`)
	must.CheckContains(t, remedy, "--auth type=JWT")
}

// Rule R11: the issuer in an Entra token depends on the token's version, and Auth0's issuer ends with a slash. The
// error proposes no other issuer.
func TestErrorsNameAnotherNameOfTheIssuer(t *testing.T) {
	for _, tc := range []struct{ trusted, named string }{
		{"https://login.microsoftonline.com/" + tenant + "/v2.0", "https://sts.windows.net/" + tenant + "/"},
		{"https://sts.windows.net/" + tenant + "/", "https://login.microsoftonline.com/" + tenant + "/v2.0"},
		{"https://acme.auth0.com", "https://acme.auth0.com/"},
		{"https://id.example.com/realms/a/", "https://id.example.com/realms/a"},
	} {
		i := newIssuer(t)
		v := &jwt.Verifier{Issuers: []string{tc.trusted}, KeysURL: i.URL + "/keys"}
		_, _, remedy := access(v, i.token(with(i.claims(), object{"iss": tc.named})), nil, nil)
		must.CheckContains(t, remedy, "add --auth issuer="+tc.named+" ", tc.named)
		for _, foreign := range []string{"https://evil.example/", "https://sts.windows.net/" + other + "/", ""} {
			if _, _, remedy := access(v, i.token(with(i.claims(), object{"iss": foreign})), nil, nil); remedy != "" {
				t.Errorf("the error proposes the issuer %q of a token that nobody has verified: %s", foreign, remedy)
			}
		}
	}
}

// Rule R10: a token whose tenant differs from its issuer's tenant belongs to another tenant, even if the signature
// is right.
func TestTheTenantOfATokenMustBeThatOfItsIssuer(t *testing.T) {
	for _, p := range providers {
		if p.profile != "entra" {
			continue
		}
		i := newIssuer(t)
		claims := p.claims(with(p.access, object{"tid": other}))
		info, reason, _ := access(p.verifierOf(i, nil), p.sign(i, claims), []string{p.audience}, nil)
		must.CheckThat(t, info == nil && strings.Contains(reason, "tenant"), "%s: %v, %s", p.issuer, info, reason)
	}
}

func TestScopesComeFromTheConfiguredClaim(t *testing.T) {
	i := newIssuer(t)
	claims := with(i.claims(), object{"permissions": []string{"a", "b"}, "roles": "c d", "realm_access": object{
		"roles": []string{"e f", "g"}}, "urn:zitadel:iam:org:project:roles": object{"h": object{"1": "acme"}},
		"number": 7, "https://example.com/groups": []string{"i"}})
	for name, want := range map[string]string{
		"": "mcp:read|mcp:write", "permissions": "a|b", "roles": "c|d", "realm_access.roles": "e f|g",
		"urn:zitadel:iam:org:project:roles": "h", "https://example.com/groups": "i", "missing": "", "number": "malformed",
	} {
		info, err := (&jwt.Verifier{Issuers: []string{i.URL}, ScopesFrom: name}).Verify(t.Context(), i.token(claims))
		got := "malformed"
		if err == nil {
			got = strings.Join(info.Scopes, "|")
		}
		must.CheckEqual(t, got, want, name, err)
	}
}

func TestTypesOfTokens(t *testing.T) {
	i := newIssuer(t)
	for _, tc := range []struct {
		typ   any // typ in the header; nil: none
		types []string
		ok    bool
	}{
		{"at+jwt", nil, true}, {"JWT", nil, false}, {nil, nil, false}, {"JWT", []string{"JWT"}, true},
		{nil, []string{"jwt"}, true}, {"at+jwt", []string{"JWT"}, false}, {"dpop+jwt", []string{"JWT"}, false},
		{"example+jwt", []string{"example+jwt"}, true}, {"application/JWT", []string{"JWT"}, true},
		{nil, []string{"at+jwt"}, false},
	} {
		v := &jwt.Verifier{Issuers: []string{i.URL}, Types: tc.types}
		_, err := v.Verify(context.Background(), i.token(i.claims(), object{"typ": tc.typ}))
		must.CheckEqual(t, err == nil, tc.ok, tc.typ, tc.types, err)
	}
}

func TestCheckNamesUnknownProfiles(t *testing.T) {
	for profile, want := range map[string]string{"azure": "must be one of rfc9068, keycloak, entra",
		"google": "introspection"} {
		must.CheckFails(t, (&jwt.Verifier{Issuers: []string{"https://as.example.com"}, Profile: profile}).Check(), want,
			profile)
	}
}
