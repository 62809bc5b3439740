package jwt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/internal/issuer"
)

const (
	typeAccessToken = "at+jwt" // the type of RFC 9068, section 2.1
	typeJWT         = "JWT"    // the type of any token (RFC 7519, section 5.1)
)

// checkUse checks that a genuine token is an access token and belongs to the tenant of its issuer.
func (v *Verifier) checkUse(t *jws, c *issuer.Claims) error {
	types := v.Types
	if types == nil {
		types = v.profile.Types
	}
	if types == nil {
		types = []string{typeAccessToken}
	}
	accepted := slices.ContainsFunc(types, func(typ string) bool {
		return t.isType(typ) || t.typ == "" && strings.EqualFold(typ, typeJWT)
	})
	if accepted && (t.typ == "" || t.isType(typeJWT)) {
		accepted = v.profile.Proves(t.payload, c)
	}
	switch {
	case !accepted:
		return v.notAccess(t, c)
	case !v.profile.OfTenant(t.payload, c):
		return issuer.Invalid("the tenant of the token is not that of its issuer: log in to the tenant of this server")
	}
	return nil
}

// notAccess returns the error for a genuine token that is not known to be an access token.
func (v *Verifier) notAccess(t *jws, c *issuer.Claims) error {
	if issuer.IsIDToken(t.payload) {
		return issuer.Invalid(issuer.NoAccess)
	}
	const reason = "the type of the token is not that of an access token"
	remedy := fmt.Sprintf("add --auth profile=NAME for the provider of %s (in Go: jwt.Verifier.Profile), or let it "+
		"issue access tokens of RFC 9068, with the type at+jwt", c.Issuer)
	if p := issuer.Recognize(t.payload, c); p != nil && p != v.profile {
		return &auth.InvalidTokenError{
			Reason: fmt.Sprintf("%s, but this is a token of %s, for which the server has no profile", reason, p.Title),
			Remedy: fmt.Sprintf("add --auth profile=%s (in Go: jwt.Verifier.Profile)", p.Name),
		}
	}
	if v.profile == issuer.Default {
		found := fmt.Sprintf("%.40q", t.typ)
		if t.typ == "" {
			found = "the token has none"
		}
		if t.typ == "" || t.isType(typeJWT) {
			remedy += "; if its access tokens name their client or scopes, add --auth type=JWT (in Go: " +
				"jwt.Verifier.Types)"
		}
		return &auth.InvalidTokenError{Reason: reason + ", " + typeAccessToken + ", but " + found, Remedy: remedy}
	}
	return &auth.InvalidTokenError{
		Reason: reason + ": send an access token, not an ID token",
		Remedy: fmt.Sprintf("an access token of %s must have %s; if the issuer is another provider, change "+
			"--auth profile (in Go: jwt.Verifier.Profile)", v.profile.Title, v.profile.Proof()),
	}
}

// untrusted returns the error for a token of an issuer that is not one of Issuers. The token has not been verified, so
// the error proposes an issuer only if it is another name of a trusted one.
func (v *Verifier) untrusted(name string) error {
	invalid := &auth.InvalidTokenError{Reason: "the issuer of the token is not trusted: get a token of " +
		strings.Join(v.Issuers, " or ")}
	for _, trusted := range v.Issuers {
		if strings.TrimSuffix(name, "/") == strings.TrimSuffix(trusted, "/") ||
			slices.Contains(issuer.OtherNames(trusted), name) {
			invalid.Remedy = fmt.Sprintf("the issuer %s calls itself %s in its tokens: add --auth issuer=%s (in Go: "+
				"jwt.Verifier.Issuers)", trusted, name, name)
		}
	}
	return invalid
}
