package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/challenge"
)

// FromContext returns the caller of the request that ctx belongs to: the information about its access token, or what
// the program has put there with [NewContext]. It returns nil if the caller is not authenticated, and on transports
// other than HTTP if the program grants no scopes.
func FromContext(ctx context.Context) *Info {
	if r, _ := ctx.Value(requestKey{}).(*request); r != nil && !r.nobody {
		return &r.info
	}
	return nil
}

// NewContext returns a context with a copy of info, for [FromContext] and [Require]. A nil info removes the one in ctx.
//
// Use it to authenticate callers yourself: middleware in front of a server.Server, or the code that calls its
// ServeConn, finds out who the caller is, and puts the caller into the context. The server then requires no token, even
// if it has Auth. Sessions, tasks, catalogs and limits belong to info.Principal, which must be set; calls get
// info.Scopes. The server rejects requests after info.Expiry. It ends event streams then, and at the latest after an
// hour, so that the client authenticates again. It ignores info.Audience.
//
// The middleware must reject a request whose credentials are wrong. A request without a
// caller in its context is verified by Auth, or is anonymous if the server has none. If web pages of other origins
// use the server, the middleware must let requests with the method OPTIONS pass, which carry no credentials.
func NewContext(ctx context.Context, info *Info) context.Context {
	if info == nil {
		return &request{Context: ctx, nobody: true}
	}
	return &request{Context: ctx, info: *info}
}

// Require returns nil if the caller was granted all scopes, and a *[ScopeError] otherwise. Call it in a handler if the
// needed scopes depend on the arguments, and return its error. Otherwise use the option server.RequireScopes.
func Require(ctx context.Context, scopes ...string) error {
	if len(scopes) == 0 {
		return nil
	}
	if info := FromContext(ctx); info != nil && !slices.ContainsFunc(scopes,
		func(s string) bool { return !info.Grants(s) }) {
		return nil
	}
	return &ScopeError{Needed: slices.Clone(scopes)}
}

// ScopeError reports that a call needs scopes that its caller lacks. Over HTTP the server turns it into a challenge,
// with which the client can ask its user for the scopes (2026-07-28, basic/authorization, Scope Challenge Handling).
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
	nobody  bool // the context has no caller, even if a parent has one
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
