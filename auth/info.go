package auth

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// Info describes a verified access token. Handlers cannot read the token. They share an Info and
// must not modify it.
type Info struct {
	// Principal identifies the caller: issuer, subject and client.
	Principal principal.Principal
	// Scopes are the granted scopes.
	Scopes []string
	// Audience lists the resources that the token was issued for. It must contain the
	// URI of the server's [ProtectedResource]. It may be nil, but not empty, if that has no
	// Issuers, for tokens that only this server accepts.
	Audience []string
	// Expiry is the time at which the token expires; zero if it is not known.
	Expiry time.Time
	// KeyThumbprint is the thumbprint of the key that the token is bound to (RFC 9449,
	// section 6); empty for a bearer token.
	KeyThumbprint string
	// Claims is a JSON object with all claims of the token or of the introspection
	// response, without duplicate names; it may be nil. See [Info.Claim].
	Claims json.RawMessage

	// Implies reports whether a granted scope includes a needed one. The server sets it
	// to [ProtectedResource.Implies]. Nil: no scope includes another.
	Implies func(granted, needed string) bool

	// token is the access token, for oauth.TokenExchange. It is a pointer so that no verb of package fmt
	// prints it within another value. Nil in an Info that Authenticate has not returned.
	token *string
}

// Claim returns the value of a claim as JSON. The caller must not modify it.
func (i *Info) Claim(name string) (json.RawMessage, bool) {
	value, ok := jsonrpc.Get(i.Claims, name)
	return value, ok
}

// Grants reports whether scope was granted, itself or by a scope that implies it.
func (i *Info) Grants(scope string) bool {
	return slices.Contains(i.Scopes, scope) || i.Implies != nil && slices.ContainsFunc(i.Scopes, func(granted string) bool {
		return i.Implies(granted, scope)
	})
}

// String returns the principal and the scopes. It omits the claims.
func (i Info) String() string {
	return i.Principal.String() + " for " + strings.Join(i.Scopes, " ")
}

// GoString returns the same as String, so that no verb of package fmt prints the claims.
func (i Info) GoString() string { return i.String() }

// LogValue implements [slog.LogValuer]. It omits the claims.
func (i Info) LogValue() slog.Value {
	return slog.GroupValue(slog.String("principal", i.Principal.String()), slog.Any("scopes", i.Scopes), slog.Time("expiry", i.Expiry))
}
