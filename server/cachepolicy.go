package server

import (
	"time"

	"github.com/parley-mcp/parley/mcp"
)

// CachePolicy is what clients of 2026-07-28 are told about keeping a result
// (server/utilities/caching). The zero CachePolicy is the cautious one: not at all, and
// for nobody else.
type CachePolicy struct {
	// TTL is how long the result is fresh, in whole milliseconds. It is a hint: what
	// changes meanwhile is reported to those who have subscribed, and else seen later.
	// 0 or less: it is stale at once.
	TTL time.Duration
	// Public says that the result is the same for everybody, so that caches may give one
	// caller what another has asked for, whoever these are. Leave it false if callers
	// are authenticated and anything depends on who they are. Lists that are made for
	// each caller, because of [VisibleTo], are private nevertheless.
	Public bool
}

// hints is what is sent of the policy. What was made for its caller is private.
func (p CachePolicy) hints(personal bool) mcp.CacheHints {
	ttl := max(p.TTL.Milliseconds(), 0)
	h := mcp.CacheHints{TTLMs: &ttl, CacheScope: mcp.CacheScopePrivate}
	if p.Public && !personal {
		h.CacheScope = mcp.CacheScopePublic
	}
	return h
}

// Cached tells clients how long to keep what they read of a resource, or of any that a
// template or directory serves. A handler that returns a *mcp.ReadResourceResult with
// hints of its own is followed instead. With [VisibleTo] and [RequireScopes], Public is
// left out: the contents are for those who see them, and may read them.
func Cached(policy CachePolicy) ResourceOption { return cached(policy) }

type cached CachePolicy

func (c cached) ofResource(e *resourceOffer) { e.cache = CachePolicy(c) }

// resourceOffer is what resources, templates and directories have in common.
type resourceOffer struct {
	offer
	cache  CachePolicy
	follow whileSubscribed // nil: nothing to be run
}

func (s *Server) resourceOffer(name string, options []ResourceOption) resourceOffer {
	o := resourceOffer{offer: offer{name: name, logger: s.logger}}
	for _, option := range options {
		option.ofResource(&o)
	}
	if o.follow != nil {
		s.followers.expect(s)
	}
	return o
}

// fill completes the hints that a handler gives: with those of the policy where it
// gives none, and with cautious ones for such as the protocol does not allow.
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
