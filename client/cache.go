package client

import (
	"bytes"
	lru "container/list"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// defaultCacheBytes bounds a Cache that says nothing else.
const defaultCacheBytes = 8 << 20

// maxFresh bounds for how long a server's word stands that a result is fresh.
const maxFresh = 24 * time.Hour

// Cache keeps the results that servers of 2026-07-28 say may be kept, for as long as
// they say: lists, resources, and what a server says of itself (2026-07-28,
// server/utilities/caching). Each Client has one of its own unless Dialer.Cache is set.
//
// Clients that share a Cache, such as those of one host, share what a server has marked
// as public. They are at the same server if they have the same URL and the same
// Dialer.HTTPClient, or none. What is private is only reused with the same credentials:
// see HTTPTarget.Identity. The zero Cache is ready for use, and must not be copied. Safe for
// concurrent use.
type Cache struct {
	// MaxBytes bounds what is kept, keys and bookkeeping included; what has not been used
	// for the longest goes first. Zero: [defaultCacheBytes]. Negative: nothing is kept.
	MaxBytes int

	mu     sync.Mutex
	kept   map[audienceKey]*lru.Element // of *keptResult
	recent lru.List                     // the one used last is at the front
	bytes  int
	groups map[group]*groupState
}

// cacheKey is a request: two with the same key have the same result. Asker is what the
// client says of itself with each request.
type cacheKey struct {
	server                cachedServer
	method, asker, params string
}

// cachedServer tells servers apart: by the whole address, and by the Dialer.HTTPClient, if
// there is one, since that decides where the address leads.
type cachedServer struct {
	address string
	via     *http.Client
}

// audienceKey says also whom a result is for: a digest of the credentials that it was
// obtained with, empty if it is for everybody.
type audienceKey struct {
	cacheKey
	audience string
}

// group is what a change invalidates together: all pages of a list, all resources.
type group struct {
	server cachedServer
	method string
}

// groupState is there while the group has results, or some are being asked for.
type groupState struct {
	kept    map[*keptResult]struct{}
	private int // how many of them are not for everybody
	asking  int
	version uint64 // grows when results are invalidated
}

type keptResult struct {
	key   audienceKey
	raw   []byte
	until time.Time
	size  int
}

// keptOverhead is about what a result costs beside its bytes.
const keptOverhead = 512

func (x *Cache) max() int {
	switch {
	case x.MaxBytes < 0:
		return 0
	case x.MaxBytes == 0:
		return defaultCacheBytes
	}
	return x.MaxBytes
}

// Size returns how many results are kept, and their bytes as MaxBytes counts them.
func (x *Cache) Size() (results, bytes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.kept), x.bytes
}

// Clear drops all that is kept.
func (x *Cache) Clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for g := range x.groups {
		x.dropGroup(g, func(*keptResult) bool { return true })
	}
}

// get returns a result that is fresh, one for these credentials or for everybody, and
// for how long it still is; nil if there is none. It must not be modified.
func (x *Cache) get(key cacheKey, audience string) (json.RawMessage, time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, audience := range []string{audience, ""} {
		e := x.kept[audienceKey{key, audience}]
		if e == nil {
			continue
		}
		r := e.Value.(*keptResult)
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

// asked is a request whose result may be kept. What is invalidated meanwhile is not.
type asked struct {
	cache   *Cache
	key     cacheKey
	version uint64
}

// ask begins a request, which end ends.
func (x *Cache) ask(key cacheKey) *asked {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.group(key)
	g.asking++
	return &asked{x, key, g.version}
}

func (a *asked) end() {
	a.cache.mu.Lock()
	defer a.cache.mu.Unlock()
	g := group{a.key.server, a.key.method}
	a.cache.groups[g].asking--
	a.cache.tidy(g)
}

// keep keeps the result, which has just come, if its server allows it. It takes a copy.
func (a *asked) keep(raw json.RawMessage, audience string) {
	fresh, public := hintsOf(raw)
	x := a.cache
	size := len(raw) + len(a.key.server.address) + len(a.key.asker) + len(a.key.params) + len(audience) + keptOverhead
	if fresh <= 0 || size > x.max() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.group(a.key)
	if g.version != a.version {
		return
	}
	if isList(a.key.method) { // all pages have one scope; if they differ, the narrower one is it
		if !public {
			x.dropGroup(group{a.key.server, a.key.method}, func(r *keptResult) bool { return r.key.audience == "" })
		} else if g.private > 0 {
			public = false
		}
	}
	if public {
		audience = ""
	}
	r := &keptResult{audienceKey{a.key, audience}, bytes.Clone(raw), time.Now().Add(fresh), size}
	x.drop(x.find(r.key))
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
		x.drop(x.recent.Back().Value.(*keptResult))
	}
}

func (x *Cache) find(key audienceKey) *keptResult {
	if e := x.kept[key]; e != nil {
		return e.Value.(*keptResult)
	}
	return nil
}

func isList(method string) bool {
	switch method {
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates:
		return true
	}
	return false
}

// hintsOf reads for how long a result is fresh, 0 if it is not or does not say so, and
// whether it is for everybody.
func hintsOf(raw json.RawMessage) (fresh time.Duration, public bool) {
	complete := true
	for name, value := range jsonrpc.All(raw) {
		switch name {
		case "resultType": // absent, it is that of older servers; an extension's are no results to keep
			complete = jsonrpc.Unquote(value) == mcp.ResultTypeComplete
		case "ttlMs": // a negative one counts as none
			if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms > 0 {
				fresh = time.Duration(min(ms, maxFresh.Milliseconds())) * time.Millisecond
			}
		case "cacheScope":
			public = jsonrpc.Unquote(value) == mcp.CacheScopePublic
		}
	}
	if !complete {
		fresh = 0
	}
	return fresh, public
}

// invalidate drops the results of a method of a server that match, and has those not be
// kept that are being asked for.
func (x *Cache) invalidate(server cachedServer, method string, match func(params string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropGroup(group{server, method}, func(r *keptResult) bool { return match == nil || match(r.key.params) })
}

// forget drops all that is known of a server.
func (x *Cache) forget(server cachedServer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for g := range x.groups {
		if g.server == server {
			x.dropGroup(g, func(*keptResult) bool { return true })
		}
	}
}

// group returns the state of a key's group. It is called with mu held, as all below.
func (x *Cache) group(key cacheKey) *groupState {
	g := x.groups[group{key.server, key.method}]
	if g == nil {
		if x.groups == nil {
			x.groups = make(map[group]*groupState)
		}
		g = &groupState{kept: make(map[*keptResult]struct{})}
		x.groups[group{key.server, key.method}] = g
	}
	return g
}

func (x *Cache) dropGroup(which group, match func(*keptResult) bool) {
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

// drop drops one result, if there is one.
func (x *Cache) drop(r *keptResult) {
	if r == nil {
		return
	}
	x.recent.Remove(x.kept[r.key])
	delete(x.kept, r.key)
	x.bytes -= r.size
	which := group{r.key.server, r.key.method}
	g := x.groups[which]
	delete(g.kept, r)
	if r.key.audience != "" {
		g.private--
	}
	x.tidy(which)
}

// tidy forgets a group of which there is nothing.
func (x *Cache) tidy(which group) {
	if g := x.groups[which]; g != nil && g.asking == 0 && len(g.kept) == 0 {
		delete(x.groups, which)
	}
}
