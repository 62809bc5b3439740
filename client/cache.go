package client

import (
	"bytes"
	lru "container/list"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// defaultCacheBytes is the default of Cache.MaxBytes.
const defaultCacheBytes = 8 << 20

// maxTTL limits how long a result is fresh, whatever the server declares.
const maxTTL = 24 * time.Hour

// Cache keeps results for as long as the server allows: lists, resources and the result of
// server/discover (2026-07-28, server/utilities/caching). A [Client] uses Dialer.Cache, or a
// Cache of its own if that is nil. [WithRefresh] bypasses it for one request.
//
// Clients that share a Cache, such as those of one host, share the results that a server
// marks as public, if they have the same URL and the same Dialer.HTTPClient. They share
// private results if they also have the same credentials; see HTTPTarget.Identity.
//
// The zero value is ready for use. A Cache must not be copied after first use. It is safe
// for concurrent use.
type Cache struct {
	// MaxBytes limits the size of all cached results, their keys and bookkeeping included;
	// the least recently used are evicted. Zero means 8 MiB. A negative value disables the
	// Cache.
	MaxBytes int

	mu     sync.Mutex
	kept   map[audienceKey]*lru.Element // of *cachedResult
	recent lru.List                     // most recently used first
	bytes  int
	groups map[group]*groupState
}

// cacheKey identifies a request: requests with equal keys have equal results. declared is a
// digest of what the client declares about itself in each request.
type cacheKey struct {
	server                   cachedServer
	method, declared, params string
}

// cachedServer identifies a server by a digest of its URL and by the Dialer.HTTPClient, which
// may redirect requests elsewhere.
type cachedServer struct {
	address string
	via     *http.Client
}

// audienceKey adds the audience of a result: a digest of the credentials, empty if the
// result is public.
type audienceKey struct {
	cacheKey
	audience string
}

// group holds the results that one change invalidates: all pages of a list, or all resources.
type group struct {
	server cachedServer
	method string
}

// groupState exists while its group has results or requests in flight.
type groupState struct {
	kept     map[*cachedResult]struct{}
	private  int // number of results that are not public
	inFlight int
	version  uint64 // grows when results are invalidated
}

type cachedResult struct {
	key   audienceKey
	raw   []byte
	until time.Time
	size  int
}

// resultOverhead approximates the memory of a result besides its bytes.
const resultOverhead = 512

func (x *Cache) max() int {
	switch {
	case x.MaxBytes < 0:
		return 0
	case x.MaxBytes == 0:
		return defaultCacheBytes
	}
	return x.MaxBytes
}

// Size returns the number of cached results and their size in bytes, as MaxBytes counts it.
func (x *Cache) Size() (results, bytes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.kept), x.bytes
}

// Clear removes all results.
func (x *Cache) Clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for g := range x.groups {
		x.dropGroup(g, func(*cachedResult) bool { return true })
	}
}

// get returns a fresh result that is public or has the given audience, and how long it
// remains fresh. The result is nil if there is none; it must not be modified.
func (x *Cache) get(key cacheKey, audience string) (json.RawMessage, time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, audience := range []string{audience, ""} {
		e := x.kept[audienceKey{key, audience}]
		if e == nil {
			continue
		}
		r := e.Value.(*cachedResult)
		left := time.Until(r.until)
		if left <= 0 {
			x.drop(r)
			continue
		}
		x.recent.MoveToFront(e)
		return r.raw, left
	}
	return nil, 0
}

// pendingResult is a request in flight whose result may be cached, unless its group is
// invalidated before it arrives.
type pendingResult struct {
	cache   *Cache
	key     cacheKey
	version uint64
}

// begin registers a request in flight. The caller must call end.
func (x *Cache) begin(key cacheKey) *pendingResult {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.group(key)
	g.inFlight++
	return &pendingResult{x, key, g.version}
}

func (p *pendingResult) end() {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	g := group{p.key.server, p.key.method}
	p.cache.groups[g].inFlight--
	p.cache.dropEmptyGroup(g)
}

// keep caches a copy of raw, the result of the request, if the server allows it.
func (p *pendingResult) keep(raw json.RawMessage, audience string) {
	ttl, public := cacheHints(raw)
	x := p.cache
	size := len(raw) + len(p.key.server.address) + len(p.key.declared) + len(p.key.params) + len(audience) + resultOverhead
	if ttl <= 0 || size > x.max() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.group(p.key)
	if g.version != p.version {
		return
	}
	if isList(p.key.method) { // all pages have one scope: if they differ, all are private
		if !public {
			x.dropGroup(group{p.key.server, p.key.method}, func(r *cachedResult) bool { return r.key.audience == "" })
		} else if g.private > 0 {
			public = false
		}
	}
	if public {
		audience = ""
	}
	r := &cachedResult{audienceKey{p.key, audience}, bytes.Clone(raw), time.Now().Add(ttl), size}
	if e := x.kept[r.key]; e != nil {
		x.drop(e.Value.(*cachedResult))
	}
	if x.kept == nil {
		x.kept = make(map[audienceKey]*lru.Element)
	}
	x.kept[r.key] = x.recent.PushFront(r)
	x.bytes += size
	g.kept[r] = struct{}{}
	if audience != "" {
		g.private++
	}
	for x.bytes > x.max() {
		x.drop(x.recent.Back().Value.(*cachedResult))
	}
}

// invalidate removes the results of a method of a server whose params match, or all if match
// is nil, and prevents the caching of results that are in flight.
func (x *Cache) invalidate(server cachedServer, method string, match func(params string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropGroup(group{server, method}, func(r *cachedResult) bool { return match == nil || match(r.key.params) })
}

// forget removes all results of a server.
func (x *Cache) forget(server cachedServer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for g := range x.groups {
		if g.server == server {
			x.dropGroup(g, func(*cachedResult) bool { return true })
		}
	}
}

// group returns the state of a key's group. x.mu must be held, also for the methods below.
func (x *Cache) group(key cacheKey) *groupState {
	g := x.groups[group{key.server, key.method}]
	if g == nil {
		if x.groups == nil {
			x.groups = make(map[group]*groupState)
		}
		g = &groupState{kept: make(map[*cachedResult]struct{})}
		x.groups[group{key.server, key.method}] = g
	}
	return g
}

func (x *Cache) dropGroup(which group, match func(*cachedResult) bool) {
	g := x.groups[which]
	if g == nil {
		return
	}
	g.version++
	for r := range g.kept {
		if match(r) {
			x.drop(r)
		}
	}
}

func (x *Cache) drop(r *cachedResult) {
	x.recent.Remove(x.kept[r.key])
	delete(x.kept, r.key)
	x.bytes -= r.size
	which := group{r.key.server, r.key.method}
	g := x.groups[which]
	delete(g.kept, r)
	if r.key.audience != "" {
		g.private--
	}
	x.dropEmptyGroup(which)
}

func (x *Cache) dropEmptyGroup(which group) {
	if g := x.groups[which]; g != nil && g.inFlight == 0 && len(g.kept) == 0 {
		delete(x.groups, which)
	}
}
