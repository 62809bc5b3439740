package server

import (
	"time"

	"github.com/parley-mcp/parley/mcp"
)

// CachePolicy sets how clients of 2026-07-28 may cache a result (server/utilities/caching). The
// zero CachePolicy means that they do not cache it.
type CachePolicy struct {
	// TTL is how long the result is fresh, rounded down to milliseconds. Subscribed clients
	// are notified of changes before it has passed; other clients may not see them. 0 or less
	// means that the result is stale at once.
	TTL time.Duration
	// Public means that the result is the same for every caller, so that a shared cache may
	// return it to other callers. Leave it false if callers are authenticated and the result
	// depends on the caller. Lists that depend on the caller because of [VisibleTo] are
	// always private.
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
func Cached(policy CachePolicy) ResourceOption { return cached(policy) }

type cached CachePolicy

func (c cached) ofResource(e *resourceOffer) { e.cache = CachePolicy(c) }

// resourceOffer holds the options that resources, templates and directories share.
type resourceOffer struct {
	offer
	cache  CachePolicy
	follow whileSubscribed // nil: none
	admit  beforeSubscribe // nil: every client may subscribe
}

// init sets the name and the options of an entry of c.
func (o *resourceOffer) init(c *Catalog, name string, options []ResourceOption) {
	o.name, o.logger = name, c.logger
	for _, option := range options {
		option.ofResource(o)
	}
	if o.follow != nil {
		c.follows.Store(true)
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
