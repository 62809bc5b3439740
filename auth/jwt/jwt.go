package jwt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/internal/issuer"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// Protect sets the fields Verifier and DPoP of r if they are nil, and returns r: to a
// [Verifier] of the tokens of r.Issuers, and to a [ProofVerifier].
//
//	s := &server.Server{Auth: jwt.Protect(&auth.ProtectedResource{
//		URI:     "https://mcp.example.com/mcp",
//		Issuers: []string{"https://as.example.com"},
//	})}
func Protect(r *auth.ProtectedResource) *auth.ProtectedResource {
	if r.Verifier == nil {
		r.Verifier = &Verifier{Issuers: r.Issuers, Now: r.Now}
	}
	if r.DPoP == nil {
		r.DPoP = &ProofVerifier{Now: r.Now}
	}
	return r
}

const maxToken = 16 << 10 // bytes

// Verifier is an [auth.Verifier] for JSON Web Tokens (RFC 9068). It verifies them with
// the keys that their issuer publishes. It finds the keys through the metadata of the
// issuer (RFC 8414, OpenID Connect Discovery) and caches them for an hour. It fetches
// them again when a token names an unknown key, at most once in ten seconds. If a fetch
// fails, it uses the cached keys for another hour.
//
// A token must be an access token by its type or by the rules of Profile, have one of the
// issuers and an expiry time that has not passed, and be signed with an asymmetric
// algorithm. Set the fields before the first use. A Verifier must not be copied after that.
type Verifier struct {
	// Issuers are the trusted issuers, one or more: https URLs, or http URLs on the
	// loopback interface. They are compared with tokens byte for byte (RFC 8414, section 2).
	Issuers []string
	// KeysURL is the URL of the JWK Set of a single issuer that has no metadata.
	KeysURL string
	// Profile names the provider, which decides how access tokens are marked, and which claims contain the client,
	// audience and scopes: "rfc9068", "keycloak", "entra", "okta", "auth0", "cognito", "workos", "ping" or "zitadel".
	// Empty means "rfc9068", whose tokens have the type "at+jwt". The other profiles also accept tokens of the type
	// "JWT" or without a type, if they contain the claims of the provider's access tokens and none of its ID tokens.
	Profile string
	// Types are the accepted media types of tokens ("typ"); nil: the types of Profile. "JWT" includes tokens without a
	// type. A token of the type "JWT" must have the claims of an access token of Profile. Without a Profile, these are
	// a client or scopes, and none of the claims that only ID tokens have.
	Types []string
	// ScopesFrom is the claim with the scopes, such as "permissions" or
	// "realm_access.roles" (see [auth.Info.Claim]): a string of scopes separated by
	// spaces, an array, or an object whose keys are the scopes. Empty: the claim that
	// Profile says, which is "scope" or "scp" for most.
	ScopesFrom string
	// Leeway is how much clocks may differ; 0 means 30 seconds.
	Leeway time.Duration
	// HTTP fetches metadata and keys; nil: a dedicated client. Redirects to another origin are not followed. A response
	// may contain up to 512 KiB and take up to 10 seconds.
	HTTP *http.Client
	Now  func() time.Time // returns the current time; nil: time.Now

	once    sync.Once
	err     error
	profile *issuer.Profile
	keys    map[string]*keyCache // by issuer
}

var _ auth.Verifier = (*Verifier)(nil)

// Check returns an error if a field has an invalid value.
func (v *Verifier) Check() error {
	v.once.Do(func() { v.err = v.prepare() })
	return v.err
}

func (v *Verifier) prepare() error {
	switch {
	case len(v.Issuers) == 0:
		return errors.New("field Issuers is empty: name the authorization server that issues the tokens")
	case v.KeysURL != "" && len(v.Issuers) > 1:
		return fmt.Errorf("KeysURL needs exactly one issuer, but Issuers has %d", len(v.Issuers))
	}
	if v.profile = issuer.FindProfile(v.Profile); v.profile == nil {
		return fmt.Errorf("profile %q must be one of %s", v.Profile, strings.Join(issuer.ProfileNames(), ", "))
	}
	if v.profile.Opaque {
		return fmt.Errorf("access tokens of %s are not JSON Web Tokens: use the Verifier of package auth/introspection",
			v.profile.Title)
	}
	client := issuer.NewClient(v.HTTP)
	v.keys = make(map[string]*keyCache)
	for _, id := range v.Issuers {
		if err := httpurl.CheckIssuer(id); err != nil {
			return fmt.Errorf("issuer %q: %w", id, err)
		}
		v.keys[id] = &keyCache{now: v.now, fetch: func(ctx context.Context) ([]publicKey, error) {
			return fetchKeys(ctx, client, id, v.KeysURL)
		}}
	}
	if v.KeysURL != "" {
		if _, err := httpurl.ParseSecure(v.KeysURL); err != nil {
			return fmt.Errorf("KeysURL: %w", err)
		}
	}
	return nil
}

func (v *Verifier) now() time.Time {
	if v.Now != nil {
		return v.Now()
	}
	return time.Now()
}

// Verify implements [auth.Verifier].
func (v *Verifier) Verify(ctx context.Context, token string) (*auth.Info, error) {
	if err := v.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	t, err := parseJWS(token)
	if err != nil {
		return nil, issuer.Invalid("the token must be a signed JSON Web Token")
	}
	// The cheap checks come before the signature.
	c, ok := issuer.ReadClaims(t.payload, v.profile, v.ScopesFrom)
	keys := v.keys[c.Issuer]
	leeway := v.Leeway
	if leeway <= 0 {
		leeway = issuer.Leeway
	}
	switch {
	case !ok:
		return nil, issuer.Invalid("a claim of the token is malformed")
	case keys == nil:
		return nil, v.untrusted(c.Issuer)
	case c.Expiry.IsZero():
		return nil, issuer.Invalid("the token has no expiry time")
	case !supported(t.alg):
		return nil, issuer.Invalid(fmt.Sprintf("the token is signed with the algorithm %.20q: the issuer must use an "+
			"asymmetric one, such as RS256 or ES256", t.alg))
	}
	if err := c.Check(v.now(), leeway); err != nil {
		return nil, err
	}
	candidates, fetched, err := keys.find(ctx, t.kid, t.alg, time.Time{})
	if err == nil && !slices.ContainsFunc(candidates, t.verify) { // the issuer may now use another key with this ID
		candidates, _, err = keys.find(ctx, t.kid, t.alg, fetched)
	}
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(candidates, t.verify) {
		return nil, issuer.Invalid("the signature of the token is invalid")
	}
	// After the signature, because the error says how the program can accept such tokens.
	if err := v.checkUse(t, &c); err != nil {
		return nil, err
	}
	return c.Info(t.payload)
}
