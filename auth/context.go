package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/challenge"
)

// FromContext returns the token information of the request that ctx belongs to. It
// returns nil if the server has no authorization, and on other transports than HTTP if
// the program has granted no scopes.
func FromContext(ctx context.Context) *Info {
	if r, _ := ctx.Value(requestKey{}).(*request); r != nil {
		return &r.info
	}
	return nil
}

// NewContext returns a context that carries a copy of info, for [FromContext] and
// [Require]. Tests of handlers use it; a server with authorization calls it for every
// request.
func NewContext(ctx context.Context, info *Info) context.Context {
	return &request{Context: ctx, info: *info}
}

// Require returns nil if the caller was granted all scopes, and a *[ScopeError]
// otherwise. A handler calls it if the needed scopes depend on the arguments, and
// returns the error. If they do not, use the option server.RequireScopes.
func Require(ctx context.Context, scopes ...string) error {
	if len(scopes) == 0 {
		return nil
	}
	if info := FromContext(ctx); info != nil && !slices.ContainsFunc(scopes, func(s string) bool { return !info.Grants(s) }) {
		return nil
	}
	return &ScopeError{Needed: slices.Clone(scopes)}
}

// ScopeError reports that a call needs scopes that its caller does not have. Over HTTP
// the server turns it into a challenge, with which the client can ask its user for the
// scopes (2026-07-28, basic/authorization, Scope Challenge Handling).
type ScopeError struct {
	Needed []string // all scopes that the call needs, granted ones included
}

// Error implements the error interface.
func (e *ScopeError) Error() string {
	return "insufficient scope: the call needs " + strings.Join(e.Needed, " ")
}

type requestKey struct{}

// request is a context with the token information and the missing scopes of one request,
// in one allocation.
type request struct {
	context.Context
	info    Info
	missing challenge.Missing
}

func (r *request) Value(key any) any {
	switch key.(type) {
	case requestKey:
		return r
	case challenge.MissingKey:
		return &r.missing
	case challenge.TokenKey:
		return r.info.token
	}
	return r.Context.Value(key)
}

// String keeps the claims out of a printed context.
func (r *request) String() string { return fmt.Sprint(r.Context) + ".WithToken" }
