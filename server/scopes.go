package server

import (
	"context"
	"slices"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
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

// scopesOf returns the scopes that a call needs: those of its method and those of the entry
// that it names, if the caller can see it.
func (s *Server) scopesOf(c *call.Call) []string {
	var needed []string
	if s.Auth != nil {
		needed = s.Auth.MethodScopes[c.Method()]
		overHTTP := c.Principal() != principal.Local
		if overHTTP && len(s.Auth.Scopes) > 0 && !c.Notification() { // the HTTP binding checks those of notifications
			needed = challenge.Union(s.Auth.Scopes, needed)
		}
	}
	switch c.Method() {
	case mcp.MethodCallTool:
		if s.tools.scoped.Load() {
			if e, ok := s.tools.find(text(c.Params(), "name"), c.Principal()); ok {
				return challenge.Union(needed, s.toolScopes(c, e))
			}
		}
	case mcp.MethodGetPrompt:
		if s.prompts.scoped.Load() {
			if e, ok := s.prompts.find(text(c.Params(), "name"), c.Principal()); ok {
				return challenge.Union(needed, e.scopes)
			}
		}
	case mcp.MethodReadResource, mcp.MethodSubscribe:
		return challenge.Union(needed, s.resourceScopes(c.Principal(), text(c.Params(), "uri")))
	case mcp.MethodListen:
		return challenge.Union(needed, s.resourceScopes(c.Principal(), subscribed(c.Params())...))
	case mcp.MethodComplete:
		if !s.prompts.scoped.Load() && !s.templates.scoped.Load() {
			break
		}
		if raw, ok := c.Params().Get("ref"); ok && raw[0] == '{' {
			ref := mcp.CompleteReference{Type: member(raw, "type"), Name: member(raw, "name"), URI: member(raw, "uri")}
			if target, err := s.completionTarget(ref, func(e entry) bool { return e.visibleTo(c.Principal()) }); err == nil {
				return challenge.Union(needed, target.scopes)
			}
		}
	}
	return needed
}

// toolScopes returns the scopes that a call of a tool needs.
func (s *Server) toolScopes(c *call.Call, e *toolEntry) []string {
	if e.target == nil {
		return e.scopes
	}
	arguments, err := argumentsOf(c.Params())
	if err != nil { // the handler rejects the call
		return e.scopes
	}
	target, _, err := s.targetOf(context.Background(), e, arguments, c.Principal())
	if err != nil {
		return e.scopes
	}
	return challenge.Union(e.scopes, target.scopes)
}

// resourceScopes returns the scopes that the resources with the given URIs need.
func (s *Server) resourceScopes(who principal.Principal, uris ...string) []string {
	if !s.resources.scoped.Load() && !s.templates.scoped.Load() {
		return nil
	}
	var needed []string
	for _, uri := range uris {
		if len(uri) > maxURI {
			continue
		}
		if _, from, _, err := s.resourceAt(uri, who); err == nil {
			needed = challenge.Union(needed, from.scopes)
		}
	}
	return needed
}

// subscribed returns the resource URIs of a subscription filter. The handler rejects an
// invalid filter.
func subscribed(params *jsonrpc.Members) []string {
	raw, _ := params.Get("notifications")
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	list, _ := jsonrpc.Get(raw, "resourceSubscriptions")
	var uris []string
	if schema.Decode(list, &uris) != nil || changes.CheckSubscriptions(uris) != nil {
		return nil
	}
	return uris
}

func text(params *jsonrpc.Members, name string) string {
	raw, _ := params.Get(name)
	return jsonrpc.Unquote(raw)
}

func member(object []byte, name string) string {
	raw, _ := jsonrpc.Get(object, name)
	return jsonrpc.Unquote(raw)
}
