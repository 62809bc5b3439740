package challenge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Union returns the scopes of all sets without duplicates, in the order in which they
// first occur.
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

// CheckScopes returns an error if a server must not ask for one of the scopes. That is
// the case for invalid scopes (RFC 6749, section 3.3) and for offline_access: refresh
// tokens do not concern the resource server (2026-07-28, basic/authorization, Refresh
// Tokens).
func CheckScopes(scopes []string) error {
	for _, scope := range scopes {
		invalid := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
		switch {
		case scope == "" || strings.ContainsFunc(scope, invalid):
			return fmt.Errorf("invalid scope %q: a scope must be printable ASCII without spaces, quotes and "+
				"backslashes", scope)
		case scope == "offline_access":
			return errors.New("invalid scope offline_access: only clients ask for it, at their authorization server; " +
				"remove it")
		}
	}
	return nil
}

// Missing collects the scopes that the calls of one HTTP request turned out to lack, so
// that the response can challenge for all of them. It is safe for concurrent use.
type Missing struct {
	mu     sync.Mutex
	scopes []string
}

// MissingKey is the context key of the *[Missing] of a request.
type MissingKey struct{}

// AddMissing records that a call of the request of ctx needs scopes that the caller
// lacks. Without a *[Missing] in ctx it does nothing.
func AddMissing(ctx context.Context, scopes []string) {
	if m, _ := ctx.Value(MissingKey{}).(*Missing); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.scopes = Union(m.scopes, scopes)
	}
}

// MissingScopes returns the scopes that [AddMissing] has recorded for the request of ctx.
func MissingScopes(ctx context.Context) []string {
	m, _ := ctx.Value(MissingKey{}).(*Missing)
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scopes
}

// TokenKey is the context key of the access token of a request, a *string, which may be nil.
type TokenKey struct{}

// Token returns the access token of the request of ctx, or an empty string. It must be sent only to the issuer of
// the token, or to an authorization server that the program has configured.
func Token(ctx context.Context) string {
	if token, _ := ctx.Value(TokenKey{}).(*string); token != nil {
		return *token
	}
	return ""
}
