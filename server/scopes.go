package server

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// RequireScopes lets only those callers use what is offered who were granted all the
// scopes, beside those that [Server.Auth] asks of every request and of the
// method. It is listed for the others too, so that they can ask for more: over HTTP
// they are challenged to, before anything runs, and for all the scopes at once
// (2026-07-28, basic/authorization, Scope Challenge Handling). To hide something is
// [VisibleTo]'s business.
//
// What goes for a tool's calls goes for the reading and the subscriptions of a resource
// and for the completion of a prompt's or template's arguments.
//
// It holds on every transport. Callers on standard input have [Server.LocalScopes],
// and where nobody authenticates, nobody has any: they get an error that names what is
// missing. Over HTTP without [Server.Auth] that is everybody, and most likely a mistake:
// the rest of the server works, and the log says so once, as an error. What is known
// only while a handler runs is checked with auth.Require.
//
// RequireScopes panics if there is no scope, or one that is none. See auth.CheckScopes.
func RequireScopes(scopes ...string) Option {
	if len(scopes) == 0 {
		panic("server: RequireScopes: name a scope, or leave the option out")
	}
	if err := auth.CheckScopes(scopes); err != nil {
		panic("server: RequireScopes: " + err.Error())
	}
	return requireScopes(slices.Clone(scopes))
}

type requireScopes []string

func (r requireScopes) of(o *offer)                 { o.scopes = auth.Union(o.scopes, r) }
func (r requireScopes) ofTool(e *toolEntry)         { r.of(&e.offer) }
func (r requireScopes) ofPrompt(e *promptEntry)     { r.of(&e.offer) }
func (r requireScopes) ofResource(o *resourceOffer) { r.of(&o.offer) }

func (o *offer) needs() []string { return o.scopes }

// scoped reports whether anything that is offered needs scopes.
func (s *Server) scoped() bool {
	return s.tools.scoped.Load() || s.prompts.scoped.Load() || s.resources.scoped.Load() || s.templates.scoped.Load()
}

// warnOfScopes tells the operator, once, that nobody over HTTP can have the scopes.
func (s *Server) warnOfScopes() {
	if s.warned.CompareAndSwap(false, true) {
		s.logger().Error("RequireScopes over HTTP without Server.Auth: whatever needs a scope is refused to everybody; set Server.Auth")
	}
}

// local grants LocalScopes to who has not authenticated to a server.
func (s *Server) local(ctx context.Context) context.Context {
	info := &auth.Info{Principal: principal.Local, Scopes: s.LocalScopes}
	if s.Auth != nil {
		info.Implies = s.Auth.Implies
	}
	return auth.NewContext(ctx, info)
}

// scopesOf returns the scopes that a call needs: those of its method, and of what it
// names as far as its caller may know of that.
func (s *Server) scopesOf(c *rpc.Call) []string {
	var needed []string
	if s.Auth != nil {
		needed = s.Auth.MethodScopes[c.Method]
	}
	switch c.Method {
	case mcp.MethodCallTool:
		if s.tools.scoped.Load() {
			if e, ok := s.tools.find(text(c.Params, "name"), c.Principal); ok {
				return auth.Union(needed, e.scopes)
			}
		}
	case mcp.MethodGetPrompt:
		if s.prompts.scoped.Load() {
			if e, ok := s.prompts.find(text(c.Params, "name"), c.Principal); ok {
				return auth.Union(needed, e.scopes)
			}
		}
	case mcp.MethodReadResource, mcp.MethodSubscribe:
		return auth.Union(needed, s.resourceScopes(c.Principal, text(c.Params, "uri")))
	case mcp.MethodListen:
		return auth.Union(needed, s.resourceScopes(c.Principal, subscribed(c.Params)...))
	case mcp.MethodComplete:
		if !s.prompts.scoped.Load() && !s.templates.scoped.Load() {
			break
		}
		if raw, ok := c.Params.Get("ref"); ok && raw[0] == '{' {
			ref := mcp.CompleteReference{Type: member(raw, "type"), Name: member(raw, "name"), URI: member(raw, "uri")}
			if target, err := s.completionTarget(ref, func(e entry) bool { return e.visibleTo(c.Principal) }); err == nil {
				return auth.Union(needed, target.scopes)
			}
		}
	}
	return needed
}

// resourceScopes returns the scopes that the resources of some URIs need.
func (s *Server) resourceScopes(who principal.Principal, uris ...string) []string {
	if !s.resources.scoped.Load() && !s.templates.scoped.Load() {
		return nil
	}
	var needed []string
	for _, uri := range uris {
		if len(uri) > maxURI {
			continue
		}
		if read, from, _ := s.resourceAt(uri, who); read != nil {
			needed = auth.Union(needed, from.scopes)
		}
	}
	return needed
}

// subscribed returns the resources that a subscription is for. What is no filter will
// be told so.
func subscribed(params *jsonrpc.Members) []string {
	raw, _ := params.Get("notifications")
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	list, _ := jsonrpc.Get(raw, "resourceSubscriptions")
	var uris []string
	if json.Unmarshal(list, &uris) != nil || rpc.CheckSubscribed(uris) != nil {
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
