package issuer

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Profile says how the authorization servers of a provider mark their access tokens, so that no ID token is accepted in
// their place, and in which claims they put what the verifiers need.
//
// A token with the type at+jwt is an access token in every profile (RFC 9068, section 2.1). Of the other types, the
// table has what the documentation of a provider says.
type Profile struct {
	Name  string // value of the setting
	Title string // name of the provider
	// Source is the URL of the documentation that the row was made from.
	Source string
	// Types are the types that an access token may have in its header; "" is none. Nil: at+jwt only.
	Types []string
	// Values lists, for some claims, the values that an access token can have.
	Values map[string][]string
	// Requires are groups of claims. A token must have at least one claim of each group.
	Requires [][]string
	// Forbids are claims that only ID tokens have.
	Forbids []string
	// ClientNotAudience means that a token whose audience contains its client is an ID token (OpenID Connect Core,
	// section 2).
	ClientNotAudience bool
	// Tenant is a claim that must be a segment of the path of the issuer.
	Tenant string
	// Subjects, Clients, Audiences and Scopes are the claims with these contents. If the token has several of the
	// claims in a list, the first one in the list counts.
	Subjects, Clients, Audiences, Scopes []string
	// Host is the end of the host name of the provider's own issuers, and Marks are claims that together show the
	// provider. They choose the advice in an error; they prove nothing.
	Host  string
	Marks []string
	// Opaque means that tokens are not JSON Web Tokens. The claims come from an endpoint of the provider, which sends
	// numbers as strings.
	Opaque bool
}

var (
	anyType = []string{"", "JWT", typeAccessToken}
	// ofIDTokens lists claims that OpenID Connect defines for ID tokens (Core, sections 2 and 3.3.2.11).
	ofIDTokens = []string{"nonce", "at_hash", "c_hash", "s_hash"}
)

const typeAccessToken = "at+jwt"

// Default is the profile of RFC 9068.
var Default = &profiles[0]

// profiles contains a row for each provider.
var profiles = [...]Profile{
	{
		Name: "rfc9068", Title: "RFC 9068", Source: "https://www.rfc-editor.org/rfc/rfc9068",
	},
	{
		Name: "keycloak", Title: "Keycloak",
		Source:  "https://github.com/keycloak/keycloak/blob/main/core/src/main/java/org/keycloak/util/TokenUtil.java",
		Types:   anyType,
		Values:  map[string][]string{"typ": {"Bearer", "DPoP"}},
		Clients: []string{"azp", "client_id"},
		Marks:   []string{"typ", "azp"},
	},
	{
		Name: "entra", Title: "Microsoft Entra ID",
		Source:   "https://learn.microsoft.com/en-us/entra/identity-platform/access-token-claims-reference",
		Types:    anyType,
		Values:   map[string][]string{"ver": {"1.0", "2.0"}},
		Requires: [][]string{{"azp", "appid"}, {"scp", "roles"}},
		Forbids:  ofIDTokens,
		Tenant:   "tid",
		Clients:  []string{"azp", "appid"},
		Scopes:   []string{"scp", "roles"},
		Host:     "login.microsoftonline.com", Marks: []string{"tid", "ver", "uti"},
	},
	{
		Name: "okta", Title: "Okta",
		Source: "https://developer.okta.com/docs/guides/validate-access-tokens/" +
			" and https://support.okta.com/help/s/article/list-of-reserved-claim-names",
		Types:             anyType,
		Requires:          [][]string{{"cid"}},
		Forbids:           ofIDTokens,
		ClientNotAudience: true,
		Clients:           []string{"cid", "client_id"},
		Scopes:            []string{"scp", "scope"},
		Marks:             []string{"cid", "ver"},
	},
	{
		Name: "auth0", Title: "Auth0",
		Source:            "https://auth0.com/docs/secure/tokens/access-tokens/access-token-profiles",
		Types:             anyType,
		Requires:          [][]string{{"azp"}},
		Forbids:           ofIDTokens,
		ClientNotAudience: true,
		Clients:           []string{"azp", "client_id"},
		Host:              ".auth0.com", Marks: []string{"azp", "gty"},
	},
	{
		Name: "cognito", Title: "Amazon Cognito",
		Source: "https://docs.aws.amazon.com/cognito/latest/developerguide/" +
			"amazon-cognito-user-pools-using-the-access-token.html",
		Types:     anyType,
		Values:    map[string][]string{"token_use": {"access"}},
		Forbids:   ofIDTokens,
		Clients:   []string{"client_id"},
		Audiences: []string{"aud", "client_id"},
		Marks:     []string{"token_use"},
	},
	{
		Name: "google", Title: "Google",
		Source:  "https://cloud.google.com/docs/authentication/token-types",
		Clients: []string{"azp", "aud"},
		Opaque:  true,
	},
	{
		Name: "workos", Title: "WorkOS AuthKit",
		Source:            "https://workos.com/docs/authkit/connect/token-claims",
		Types:             anyType,
		Requires:          [][]string{{"jti"}, {"client_id"}},
		Forbids:           ofIDTokens,
		ClientNotAudience: true,
		Clients:           []string{"client_id"},
		Host:              ".authkit.app",
	},
	{
		Name: "ping", Title: "PingOne",
		Source: "https://developer.pingidentity.com/pingone-api/foundations/authentication-concepts/" +
			"access-tokens-and-id-tokens/token-claims.html",
		Types:             anyType,
		Requires:          [][]string{{"client_id"}, {"scope"}},
		Forbids:           ofIDTokens,
		ClientNotAudience: true,
		Subjects:          []string{"sub", "client_id"}, // tokens of clients have no subject
		Clients:           []string{"client_id"},
		Host:              "auth.pingone.com",
	},
	{
		Name: "zitadel", Title: "ZITADEL",
		Source:   "https://zitadel.com/docs/apis/openidoauth/claims",
		Types:    anyType,
		Requires: [][]string{{"jti"}},
		Forbids:  append([]string{"acr", "amr", "auth_time"}, ofIDTokens...),
		Clients:  []string{"client_id", "azp"},
		Host:     ".zitadel.cloud",
	},
}

// FindProfile returns the profile with this name, or nil. An empty name means the default.
func FindProfile(name string) *Profile {
	if name == "" {
		return Default
	}
	i := slices.IndexFunc(profiles[:], func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &profiles[i]
}

// ProfileNames returns the names of all profiles.
func ProfileNames() []string {
	names := make([]string, len(profiles))
	for i := range profiles {
		names[i] = profiles[i].Name
	}
	return names
}

// Recognize returns the profile that fits the claims of a token, or nil.
func Recognize(object []byte, c *Claims) *Profile {
	host := ""
	if u, err := url.Parse(c.Issuer); err == nil {
		host = "." + u.Hostname()
	}
	for i := range profiles {
		p := &profiles[i]
		known := p.Host != "" && strings.HasSuffix(host, "."+strings.TrimPrefix(p.Host, ".")) || len(p.Marks) > 0 &&
			!slices.ContainsFunc(p.Marks, func(name string) bool { return !has(object, name) })
		if own, ok := ReadClaims(object, p, ""); known && ok && p.Proves(object, &own) {
			return p
		}
	}
	return nil
}

// untyped is the profile of tokens of type JWT whose issuer has no other profile, if the program accepts the type.
var untyped = &Profile{
	Requires:          [][]string{{"client_id", "cid", "appid", "scope", "scp"}},
	Forbids:           ofIDTokens,
	ClientNotAudience: true,
}

// Proves reports whether the claims show an access token even though the header does not say so. They were
// read from object.
func (p *Profile) Proves(object []byte, c *Claims) bool {
	if p == Default {
		p = untyped
	}
	for name, values := range p.Values {
		if value, _ := jsonrpc.Get(object, name); !slices.Contains(values, jsonrpc.Unquote(value)) {
			return false
		}
	}
	for _, group := range p.Requires {
		if !slices.ContainsFunc(group, func(name string) bool { return has(object, name) }) {
			return false
		}
	}
	if slices.ContainsFunc(p.Forbids, func(name string) bool { return has(object, name) }) {
		return false
	}
	return !hasOtherUse(object) && !(p.ClientNotAudience && slices.Contains(c.Audience, c.Client))
}

// Proof says what the claims of an access token must be.
func (p *Profile) Proof() string {
	if p == Default {
		p = untyped
	}
	var parts []string
	for name, values := range p.Values {
		parts = append(parts, fmt.Sprintf("the claim %s with the value %s", name, strings.Join(values, " or ")))
	}
	for _, group := range p.Requires {
		parts = append(parts, "the claim "+strings.Join(group, " or "))
	}
	if p.ClientNotAudience {
		parts = append(parts, "another audience than its client")
	}
	text := strings.Join(parts, ", ")
	if len(p.Forbids) > 0 {
		text += ", and none of the claims " + strings.Join(p.Forbids, ", ")
	}
	return text
}

// IsIDToken reports whether the claims show an ID token, or another token that gives no access.
func IsIDToken(object []byte) bool {
	return hasOtherUse(object) || slices.ContainsFunc(ofIDTokens, func(name string) bool { return has(object, name) })
}

// otherUses lists claims that say what a token is for, with the values that mark tokens that give no access.
var otherUses = map[string][]string{
	"typ":       {"ID", "Refresh", "Offline", "Logout"}, // Keycloak
	"token_use": {"id", "refresh_token"},                // Amazon Cognito, Ory Hydra
}

func hasOtherUse(object []byte) bool {
	for name, values := range otherUses {
		if value, ok := jsonrpc.Get(object, name); ok && slices.Contains(values, jsonrpc.Unquote(value)) {
			return true
		}
	}
	return false
}

func has(object []byte, name string) bool { _, ok := jsonrpc.Get(object, name); return ok }

// OfTenant reports whether a token and its issuer belong to the same tenant.
func (p *Profile) OfTenant(object []byte, c *Claims) bool {
	if p.Tenant == "" {
		return true
	}
	value, ok := jsonrpc.Get(object, p.Tenant)
	return !ok || slices.Contains(strings.Split(c.Issuer, "/"), jsonrpc.Unquote(value))
}

// entra is the beginning of an issuer of Microsoft Entra ID, whose tokens of version 1.0 name another issuer.
const entra = "https://login.microsoftonline.com/"

// OtherNames returns further names that an issuer can have in tokens.
func OtherNames(id string) []string {
	if tenant, ok := strings.CutPrefix(id, entra); ok {
		tenant, _, _ = strings.Cut(tenant, "/")
		return []string{"https://sts.windows.net/" + tenant + "/", entra + tenant + "/v2.0"}
	}
	if tenant, ok := strings.CutPrefix(id, "https://sts.windows.net/"); ok {
		return []string{entra + strings.Trim(tenant, "/") + "/v2.0"}
	}
	return nil
}
