package auth

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// Verifier verifies access tokens. Package auth/jwt has a Verifier for JSON Web Tokens,
// package auth/introspection one that asks the authorization server.
//
// Verify returns what is known about a token that is genuine and has not expired. It must set Info.Principal,
// Info.Audience, which [ProtectedResource] checks, and Info.KeyThumbprint if the token is bound to a key. The token has
// the syntax of RFC 6750, section 2.1, and at most 16 KiB. It is a secret and must not appear in a log or an error.
//
// If the error is or wraps an *[InvalidTokenError], the client receives its Reason. If
// it is or wraps [ErrUnavailable], the client receives HTTP status 503 and may try again
// later. Any other error also means that the token is not valid.
//
// A server calls Verify at most once for each request. Verify must be safe for
// concurrent use.
type Verifier interface {
	Verify(ctx context.Context, token string) (*Info, error)
}

// VerifierFunc is a function that implements [Verifier].
type VerifierFunc func(ctx context.Context, token string) (*Info, error)

// Verify calls f.
func (f VerifierFunc) Verify(ctx context.Context, token string) (*Info, error) { return f(ctx, token) }

// ProofVerifier verifies DPoP proofs, with which a client proves that it owns the key that its token is bound to (RFC
// 9449). The ProofVerifier of package auth/jwt implements it.
type ProofVerifier interface {
	// VerifyProof verifies a proof. If nonce is not empty, the response carries it in its
	// DPoP-Nonce header.
	//
	// An *[InvalidTokenError] says what is wrong with the proof. Any other error means
	// that the proof cannot be verified at present.
	VerifyProof(p Proof) (nonce string, err error)
	// Algorithms returns the JWS algorithms of proofs that VerifyProof accepts.
	Algorithms() []string
}

// Proof is the DPoP proof of a request, and what it must match.
type Proof struct {
	// Request carries the proof in its header DPoP. The proof must be for its method.
	Request *http.Request
	// URLs are canonical URLs without a query. The proof must name one of them.
	URLs []string
	// Token is the access token that the proof must be for, and Thumbprint the thumbprint (RFC
	// 7638) of the key that the token is bound to, which must have signed the proof.
	Token, Thumbprint string
}

// ErrUnavailable means that a token cannot be verified at present, for instance because
// the keys of its issuer cannot be fetched.
var ErrUnavailable = errors.New("cannot verify access tokens at present")

// InvalidTokenError reports an access token or a DPoP proof that is not valid.
type InvalidTokenError struct {
	// Reason is sent to the client. It must not contain secrets. Example: "the token has
	// expired".
	Reason string
	// Code is the error code of the challenge (RFC 6750, section 3.1; RFC 9449, section
	// 7.1); empty for "invalid_token".
	Code string
	// Remedy tells the operator of the server how to accept such tokens. It is for logs: the client does not receive
	// it.
	Remedy string
}

// Error implements the error interface.
func (e *InvalidTokenError) Error() string {
	if e.Remedy != "" {
		return "invalid token: " + e.Reason + "; " + e.Remedy
	}
	return "invalid token: " + e.Reason
}

// Info describes a verified access token. Handlers cannot read the token. They share an Info and
// must not modify it.
type Info struct {
	// Principal identifies the caller: issuer, subject and client.
	Principal principal.Principal
	// Scopes are the granted scopes.
	Scopes []string
	// Audience lists the resources that the token was issued for. It must contain the
	// URI of the server's [ProtectedResource], or one of its Audiences. It may be nil, but not empty, if that has
	// neither Issuers nor Audiences, for tokens that only this server accepts.
	Audience []string
	// Expiry is the time at which the token expires; zero if it is not known.
	Expiry time.Time
	// KeyThumbprint is the thumbprint of the key that the token is bound to (RFC 9449,
	// section 6); empty for a bearer token.
	KeyThumbprint string
	// Claims is a JSON object with all claims of the token or of the introspection response, without duplicate keys; it
	// may be nil. See [Info.Claim].
	Claims json.RawMessage

	// Implies reports whether a granted scope includes a needed one. The server sets it
	// to [ProtectedResource.Implies]. Nil: no scope includes another.
	Implies func(granted, needed string) bool

	// own is set if this program issued the token for this server: an API key of [Keys].
	own bool
	// token is the access token, for oauth.TokenExchange. It is a pointer so that no verb of package fmt
	// prints it within another value. It is nil in an Info that Authenticate has not returned.
	token *string
}

// Claim returns the value of a claim as JSON. Dots lead into an object, as in "realm_access.roles". A claim whose own
// name contains dots, such as "https://example.com/roles", is found by that name. The caller must not modify the value.
func (i *Info) Claim(name string) (json.RawMessage, bool) { return claim(i.Claims, name) }

// claim finds a claim by name or path. It prefers the longest name that object contains, so that a name with
// dots has only one meaning.
func claim(object json.RawMessage, name string) (json.RawMessage, bool) {
	for end := len(name); end >= 0; end = strings.LastIndexByte(name[:end], '.') {
		if value, ok := jsonrpc.Get(object, name[:end]); ok && end == len(name) {
			return value, true
		} else if ok {
			return claim(value, name[end+1:])
		}
	}
	return nil, false
}

// Grants reports whether scope was granted, itself or by a scope that implies it.
func (i *Info) Grants(scope string) bool {
	return slices.Contains(i.Scopes, scope) || i.Implies != nil &&
		slices.ContainsFunc(i.Scopes, func(granted string) bool {
			return i.Implies(granted, scope)
		})
}

// String returns the principal and the scopes. It omits the claims.
func (i Info) String() string {
	return i.Principal.String() + " for " + strings.Join(i.Scopes, " ")
}

// GoString returns String(), so that no verb of package fmt prints the claims.
func (i Info) GoString() string { return i.String() }

// LogValue implements [slog.LogValuer]. It omits the claims.
func (i Info) LogValue() slog.Value {
	return slog.GroupValue(slog.String("principal", i.Principal.String()), slog.Any("scopes", i.Scopes),
		slog.Time("expiry", i.Expiry))
}

// credentials contains the access token of a request and its scheme.
type credentials struct {
	dpop  bool // the scheme is DPoP, not Bearer
	token string
}

// maxToken is the maximum length of a token in bytes.
const maxToken = 16 << 10

// readCredentials reads the Authorization headers of a request (RFC 6750, section 2.1; RFC 9449,
// section 7.1). Tokens in the query or the body do not count. given is false if there is no header,
// or only one with another scheme; ok is false if the header is malformed.
func readCredentials(headers []string) (c credentials, given, ok bool) {
	switch {
	case len(headers) == 0:
		return c, false, true
	case len(headers) > 1:
		return c, false, false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case strings.EqualFold(scheme, challenge.DPoP):
		c.dpop = true
	case !strings.EqualFold(scheme, challenge.Bearer):
		return c, false, true
	}
	if len(token) > maxToken || !challenge.IsToken68(token) {
		return c, false, false
	}
	c.token = token
	return c, true, true
}
