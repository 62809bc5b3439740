package server

import (
	"context"
	"slices"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/principal"
)

// RequireScopes restricts a tool, prompt or resource to callers who were granted all of the
// scopes, in addition to those that [Server.Auth] requires for every request and for the method.
// The scopes also apply to subscriptions to a resource, and to completion for a prompt or
// template. For scopes that depend on the arguments, call auth.Require in the handler.
//
// Other callers still see the entry in lists, so that they can request the scopes; [VisibleTo]
// hides entries. When they call it, they receive an error that names the missing scopes, before
// the handler runs. Over HTTP the response also has a challenge for the missing scopes
// (2026-07-28, basic/authorization, Scope Challenge Handling).
//
// RequireScopes applies on every transport. Callers on standard input and on [Server.ServeConn]
// have [Server.LocalScopes]. Over HTTP without [Server.Auth] no caller has scopes, unless an
// HTTP handler around the server sets them with auth.NewContext. All calls that need scopes are
// then rejected, and the server logs an error once.
//
// RequireScopes panics without scopes, and if a scope is invalid.
func RequireScopes(scopes ...string) Option {
	if len(scopes) == 0 {
		panic("server: RequireScopes: at least one scope is required")
	}
	if err := challenge.CheckScopes(scopes); err != nil {
		panic("server: RequireScopes: " + err.Error())
	}
	return requireScopes(slices.Clone(scopes))
}

type requireScopes []string

func (r requireScopes) of(o *offer)                 { o.scopes = challenge.Union(o.scopes, r) }
func (r requireScopes) ofTool(e *toolEntry)         { r.of(&e.offer) }
func (r requireScopes) ofPrompt(e *promptEntry)     { r.of(&e.offer) }
func (r requireScopes) ofResource(o *resourceOffer) { r.of(&o.offer) }

// scoped reports whether any entry requires scopes.
func (s *Server) scoped() bool {
	return s.tools.scoped.Load() || s.prompts.scoped.Load() || s.resources.scoped.Load() || s.templates.scoped.Load()
}

// warnOfScopes logs once that no caller over HTTP can have the required scopes.
func (s *Server) warnOfScopes() {
	if s.warned.CompareAndSwap(false, true) {
		s.logger().Error("RequireScopes is used over HTTP without Server.Auth: no caller can have the scopes, and all calls that need them are rejected; set Server.Auth")
	}
}

// local grants LocalScopes to a caller without authentication.
func (s *Server) local(ctx context.Context) context.Context {
	info := &auth.Info{Principal: principal.Local, Scopes: s.LocalScopes}
	if s.Auth != nil {
		info.Implies = s.Auth.Implies
	}
	return auth.NewContext(ctx, info)
}
