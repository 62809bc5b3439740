package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// Info is what a verified token says. The token itself is no part of it: nothing that
// a handler can reach could be sent on to somebody else. It is shared by all who
// look at it and must not be modified.
type Info struct {
	// Principal is the issuer, the subject and the client.
	Principal principal.Principal
	// Scopes are those that were granted.
	Scopes []string
	// Audience are the resources that the token was issued for. That of a token for
	// this server has the URI of the server's [ProtectedResource] in it.
	Audience []string
	// Expiry is when the token ceases to be valid; zero: it does not say.
	Expiry time.Time
	// KeyThumbprint names the key that the client has to prove possession of (RFC 9449,
	// section 6); empty for a bearer token.
	KeyThumbprint string
	// Claims are all that the token or the introspection's response says: a strict JSON
	// object, or nil. See [Info.Claim].
	Claims json.RawMessage

	// Implies is [ProtectedResource.Implies], which sets it; nil: no scope implies another.
	Implies func(granted, needed string) bool
}

// Claim returns one of the claims as JSON. The bytes must not be modified.
func (i *Info) Claim(name string) (json.RawMessage, bool) {
	value, ok := jsonrpc.Get(i.Claims, name)
	return value, ok
}

// Grants reports whether a scope was granted, by itself or by one that implies it.
func (i *Info) Grants(scope string) bool {
	return slices.Contains(i.Scopes, scope) || i.Implies != nil && slices.ContainsFunc(i.Scopes, func(granted string) bool {
		return i.Implies(granted, scope)
	})
}

func (i *Info) grantsAll(scopes []string) bool {
	for _, scope := range scopes {
		if !i.Grants(scope) {
			return false
		}
	}
	return true
}

// String describes who it is, without the claims.
func (i Info) String() string {
	return i.Principal.String() + " for " + strings.Join(i.Scopes, " ")
}

// GoString is the same, so that no verb of package fmt shows the claims.
func (i Info) GoString() string { return i.String() }

// LogValue implements slog.LogValuer, without the claims.
func (i Info) LogValue() slog.Value {
	return slog.GroupValue(slog.String("principal", i.Principal.String()), slog.Any("scopes", i.Scopes), slog.Time("expiry", i.Expiry))
}

// FromContext returns what is known of the token of the request that ctx belongs to,
// nil where there was none: without authorization, and on streams whose program has
// granted nothing.
func FromContext(ctx context.Context) *Info {
	if r := requestOf(ctx); r != nil {
		return &r.info
	}
	return nil
}

// NewContext returns the context of one request that info speaks for. It is for
// whoever carries requests, and for tests of handlers.
func NewContext(ctx context.Context, info *Info) context.Context {
	return &request{Context: ctx, info: *info}
}

// Require returns nil if all the scopes were granted to the call that ctx belongs to,
// and a *[ScopeError] otherwise. A handler that finds out only while it runs what is
// needed returns that error as it is; what is known before belongs into
// server.RequireScopes.
func Require(ctx context.Context, scopes ...string) error {
	if len(scopes) == 0 {
		return nil
	}
	if info := FromContext(ctx); info != nil && info.grantsAll(scopes) {
		return nil
	}
	return &ScopeError{Needed: slices.Clone(scopes)}
}

// ScopeError reports a call that lacks a scope. Over HTTP it becomes a challenge, with
// which the client can ask its user for more (2026-07-28, basic/authorization, Scope
// Challenge Handling).
type ScopeError struct {
	Needed []string // all that the call needs, those that were granted among them
}

// Error implements the error interface.
func (e *ScopeError) Error() string {
	return "insufficient scope: the call needs " + strings.Join(e.Needed, " ")
}

type requestKey struct{}

// request is a context and what is known of the request's token, in one allocation.
type request struct {
	context.Context
	info Info

	mu     sync.Mutex
	lacked []string
}

func (r *request) Value(key any) any {
	if _, ok := key.(requestKey); ok {
		return r
	}
	return r.Context.Value(key)
}

// String keeps the claims out of what prints a context.
func (r *request) String() string { return fmt.Sprint(r.Context) + ".WithToken" }

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// Refused notes that a call of the request that ctx belongs to lacked scopes, for the
// transport that answers the request. Calls of one request may do so at the same time.
func Refused(ctx context.Context, e *ScopeError) {
	r := requestOf(ctx)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lacked = Union(r.lacked, e.Needed)
}

// Lacked returns the scopes that calls of the request have lacked, see [Refused].
func Lacked(ctx context.Context) []string {
	r := requestOf(ctx)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacked
}

// Union returns the scopes that are in any of the sets, each once, in the order in
// which they come first.
func Union(sets ...[]string) []string {
	var all []string
	for _, set := range sets {
		for _, scope := range set {
			if !slices.Contains(all, scope) {
				all = append(all, scope)
			}
		}
	}
	return all
}
