package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Option is an option of a tool, prompt, resource, template or directory. An option that does not fit what it is given
// for is an error, which the typed functions turn into a panic:
//
//   - all: [VisibleTo], [Listed], [RequireScopes];
//   - tools: [AsTask], [Parked], [NotSecret], [Forwarded];
//   - prompts, templates and directories: [Complete], [CompleteAll], [CompleteFrom];
//   - resources, templates and directories: [Cached], [WhileSubscribed], [BeforeSubscribe], [UpdatesFor].
type Option func(entry) error

// apply sets the options of an entry.
func apply(e entry, options []Option) error {
	for _, set := range options {
		if err := set(e); err != nil {
			return err
		}
	}
	return nil
}

// ofAll returns an option of every entry.
func ofAll(set func(*offer)) Option {
	return func(e entry) error {
		set(e.common())
		return nil
	}
}

// ofTool returns an option of a tool.
func ofTool(name string, set func(*toolEntry)) Option {
	return func(e entry) error {
		tool, ok := e.(*toolEntry)
		if !ok {
			return fmt.Errorf("%s must be an option of a tool", name)
		}
		set(tool)
		return nil
	}
}

// ofResource returns an option of a resource, template or directory.
func ofResource(name string, set func(*resourceOffer)) Option {
	return func(e entry) error {
		resource, ok := e.(interface{ ofResource() *resourceOffer })
		if !ok {
			return fmt.Errorf("%s must be an option of a resource, template or directory", name)
		}
		set(resource.ofResource())
		return nil
	}
}

// VisibleTo shows a tool, prompt, resource or template only to the callers for whom visible
// returns true. The name is the name of the tool or prompt, the URI of the resource, or the URI
// template of the template or directory. With several VisibleTo options, all must return true.
//
// For other callers the entry does not exist: they cannot list, call, read, complete or
// subscribe to it, and are not notified of its changes. A hidden resource can still be read
// through a template that the caller can see and that matches its URI.
//
// The function must decide by the authorization of the caller, and return the same result for
// all requests of a principal (2026-07-28, server/tools, Listing Tools). The caller is
// principal.Anonymous without authentication, and principal.Local on standard input. The
// function is called for each request and for each entry of a list, so it should be fast. It
// must be safe for concurrent use. If it panics, the entry is hidden, and the panic is logged.
//
// A list with such an entry is computed for each caller, and its cache scope is private,
// whatever [Server.ListCache] is. VisibleTo panics if visible is nil.
func VisibleTo(visible func(caller principal.Principal, name string) bool) Option {
	if visible == nil {
		panic("server: VisibleTo: the function must not be nil")
	}
	return ofAll(func(o *offer) { o.sees = append(o.sees, visible) })
}

// ListFilter decides which entries appear in lists; see [Listed]. Entries that share a filter share the pointer to it.
// It must not change while a server uses it.
type ListFilter struct {
	// Hides is called once for each list, with the caller and the method, such as tools/list. It returns a function
	// that reports whether an entry is left out, given the subject of its [Listed], or nil if none is; callers then
	// share the list. Both functions must be fast and safe for concurrent use, and follow the rules of [VisibleTo]. If
	// one panics, the entry is left out, and the panic is logged.
	Hides func(caller principal.Principal, method string) func(subject any) bool
}

// Listed leaves an entry out of the lists of callers for whom filter hides it. Unlike [VisibleTo], it does not keep
// them from using the entry: it is for entries that they find in another way, or that they would be denied anyway.
// Filter decides by the subject, which may be nil. Of several Listed options, the last one counts. Clients are not
// notified when the decision changes; call [Server.CatalogsChanged]. The cache scope of a list with such an entry is
// private.
//
// Listed panics if filter or its function is nil.
func Listed(filter *ListFilter, subject any) Option {
	if filter == nil || filter.Hides == nil {
		panic("server: Listed: the filter and its function must not be nil")
	}
	return ofAll(func(o *offer) { o.filter, o.subject = filter, subject })
}

// CachePolicy sets how clients of 2026-07-28 may cache a result (server/utilities/caching). The
// zero CachePolicy means that they do not cache it.
type CachePolicy struct {
	// TTL is how long the result is fresh, rounded down to milliseconds. Subscribed clients
	// are notified of changes before it has passed; other clients may not see them. 0 or less
	// means that the result is stale at once.
	TTL time.Duration
	// Public says that the result is the same for every caller, so that a shared cache may return it to others. Leave
	// it false if callers are authenticated and the result depends on the caller. Lists that depend on the caller
	// because of [VisibleTo] are always private.
	Public bool
}

// hints returns the caching hints of the policy. A personal result is private.
func (p CachePolicy) hints(personal bool) mcp.CacheHints {
	ttl := max(p.TTL.Milliseconds(), 0)
	h := mcp.CacheHints{TTLMs: &ttl, CacheScope: mcp.CacheScopePrivate}
	if p.Public && !personal {
		h.CacheScope = mcp.CacheScopePublic
	}
	return h
}

// Cached sets how long clients of 2026-07-28 may cache the contents of a resource, or of every
// resource of a template or directory. If the handler returns a *mcp.ReadResourceResult with
// hints, those take precedence. With [VisibleTo] or [RequireScopes], the contents are always
// private.
func Cached(policy CachePolicy) Option {
	return ofResource("Cached", func(o *resourceOffer) { o.cache = policy })
}

// resourceOffer holds the options that resources, templates and directories share.
type resourceOffer struct {
	offer
	cache  CachePolicy
	follow func(ctx context.Context, uri string)       // see WhileSubscribed; nil: none
	admit  func(ctx context.Context, uri string) error // see BeforeSubscribe; nil: every client may subscribe
	// notifies reports who is notified of updates; see UpdatesFor. nil: every subscriber.
	notifies func(who principal.Principal, uri string) bool
}

func (o *resourceOffer) ofResource() *resourceOffer { return o }

// declareFollow tells the servers of c that a resource has a function of [WhileSubscribed].
func (c *Catalog) declareFollow(o *resourceOffer) {
	if o.follow == nil {
		return
	}
	c.follows.Store(true)
	for _, s := range c.servedBy() {
		s.follows.Store(true)
	}
}

// fill completes the hints of a handler with those of the policy, and replaces hints that the
// protocol does not allow by the safe ones.
func (o *resourceOffer) fill(h mcp.CacheHints) mcp.CacheHints {
	personal := o.restricted() || len(o.scopes) > 0
	policy := o.cache.hints(personal)
	switch {
	case h.TTLMs == nil:
		h.TTLMs = policy.TTLMs
	case *h.TTLMs < 0:
		h.TTLMs = new(int64)
	}
	switch {
	case h.CacheScope == "":
		h.CacheScope = policy.CacheScope
	case h.CacheScope != mcp.CacheScopePublic || personal:
		h.CacheScope = mcp.CacheScopePrivate
	}
	return h
}

// RequireScopes restricts a tool, prompt or resource to callers who were granted all of the
// scopes, in addition to those that [Server.Auth] requires for every request and for the method.
// The scopes also apply to subscriptions to a resource, and to completion for a prompt or
// template. For scopes that depend on the arguments, call auth.Require in the handler.
//
// Other callers still see the entry in lists, so that they can request the scopes; [VisibleTo] hides entries. A call
// then fails with an error that names the missing scopes, before the handler runs. Over HTTP the response also contains
// a challenge for them (2026-07-28, basic/authorization, Scope Challenge Handling).
//
// RequireScopes applies on every transport. Callers on standard input and on [Server.ServeConn] have
// [Server.LocalScopes]. Over HTTP without [Server.Auth], no caller has scopes, unless middleware in front of the server
// authenticates callers with auth.NewContext. Then the server rejects every call that needs scopes, and logs an error
// once.
//
// RequireScopes panics without scopes, and if a scope is invalid.
func RequireScopes(scopes ...string) Option {
	if len(scopes) == 0 {
		panic("server: RequireScopes: at least one scope is required")
	}
	if err := challenge.CheckScopes(scopes); err != nil {
		panic("server: RequireScopes: " + err.Error())
	}
	scopes = slices.Clone(scopes)
	return ofAll(func(o *offer) { o.scopes = challenge.Union(o.scopes, scopes) })
}

// scoped reports whether any entry requires scopes.
func (c *Catalog) scoped() bool {
	return c.tools.scoped.Load() || c.prompts.scoped.Load() || c.resources.scoped.Load() || c.templates.scoped.Load()
}

// warnOfScopes logs once that no caller over HTTP can have the required scopes.
func (s *Server) warnOfScopes() {
	if s.warned.CompareAndSwap(false, true) {
		s.logger().Error("RequireScopes needs Server.Auth over HTTP: without it, no caller has any scopes, " +
			"and calls that require one are rejected; set Server.Auth")
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
