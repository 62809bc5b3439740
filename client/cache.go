package client

import (
	"bytes"
	lru "container/list"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxCacheBytes limits the size of everything that the cache of a client holds: results, keys and
// bookkeeping.
const maxCacheBytes = 8 << 20

// maxTTL limits how long a result is fresh, whatever the server declares.
const maxTTL = 24 * time.Hour

// resultCache keeps the results of a client for as long as the server allows: lists, resources and
// the result of server/discover (2026-07-28, server/utilities/caching). It evicts the least recently
// used ones. It is safe for concurrent use.
type resultCache struct {
	identity func() string // digest of the credentials

	mu     sync.Mutex
	kept   map[audienceKey]*lru.Element // elements are *cachedResult
	recent lru.List                     // most recently used first
	bytes  int
	groups map[string]*groupState // by method
}

// cacheKey identifies a request: requests with equal keys have equal results.
type cacheKey struct{ method, params string }

// audienceKey adds the audience of a result: a digest of the credentials, empty if the
// result is public.
type audienceKey struct {
	cacheKey
	audience string
}

// groupState contains the results that one change invalidates: all pages of a list, or all resources. It
// exists while it contains results or a request is in flight.
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

// size returns the number of results and their size in bytes.
func (x *resultCache) size() (results, bytes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.kept), x.bytes
}

// get returns a fresh result that is public or belongs to the audience, and how long
// it stays fresh. The result is nil if there is none; it must not be modified.
func (x *resultCache) get(key cacheKey, audience string) (json.RawMessage, time.Duration) {
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
	cache   *resultCache
	key     cacheKey
	version uint64
}

// begin registers a request in flight. The caller must call end.
func (x *resultCache) begin(key cacheKey) *pendingResult {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.group(key)
	g.inFlight++
	return &pendingResult{x, key, g.version}
}

func (p *pendingResult) end() {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	p.cache.groups[p.key.method].inFlight--
	p.cache.dropEmptyGroup(p.key.method)
}

// keep caches a copy of raw, the result of the request, if the server allows it.
func (p *pendingResult) keep(raw json.RawMessage, audience string) {
	ttl, public := cacheHints(raw)
	x := p.cache
	size := len(raw) + len(p.key.params) + len(audience) + resultOverhead
	if ttl <= 0 || size > maxCacheBytes {
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
			x.dropGroup(p.key.method, func(r *cachedResult) bool { return r.key.audience == "" })
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
	for x.bytes > maxCacheBytes {
		x.drop(x.recent.Back().Value.(*cachedResult))
	}
}

// invalidate removes the results of a method whose params match, or all if match is nil, and prevents
// the caching of results that are in flight.
func (x *resultCache) invalidate(method string, match func(params string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropGroup(method, func(r *cachedResult) bool { return match == nil || match(r.key.params) })
}

// forget removes all results.
func (x *resultCache) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for method := range x.groups {
		x.dropGroup(method, func(*cachedResult) bool { return true })
	}
}

// group returns the state of a key's group. x.mu must be held, here and in the methods below.
func (x *resultCache) group(key cacheKey) *groupState {
	g := x.groups[key.method]
	if g == nil {
		if x.groups == nil {
			x.groups = make(map[string]*groupState)
		}
		g = &groupState{kept: make(map[*cachedResult]struct{})}
		x.groups[key.method] = g
	}
	return g
}

func (x *resultCache) dropGroup(method string, match func(*cachedResult) bool) {
	g := x.groups[method]
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

func (x *resultCache) drop(r *cachedResult) {
	x.recent.Remove(x.kept[r.key])
	delete(x.kept, r.key)
	x.bytes -= r.size
	g := x.groups[r.key.method]
	delete(g.kept, r)
	if r.key.audience != "" {
		g.private--
	}
	x.dropEmptyGroup(r.key.method)
}

func (x *resultCache) dropEmptyGroup(method string) {
	if g := x.groups[method]; g != nil && g.inFlight == 0 && len(g.kept) == 0 {
		delete(x.groups, method)
	}
}

// newResultCache returns the cache of a client. Private results are kept per credentials. Without an
// Authorizer that identifies them, the credentials count as unchanging.
func newResultCache(d *Dialer, target Target) *resultCache {
	x := &resultCache{identity: func() string { return "unchanging" }}
	t, isHTTP := target.(*HTTPTarget)
	authorizer, identifies := d.Auth.(identifier)
	if isHTTP && identifies {
		unknown := rand.Text()
		x.identity = func() string {
			if who := authorizer.Identity(t.URL); who != "" {
				return digest.Of(who)
			}
			return unknown
		}
	}
	return x
}

// identifier is an Authorizer whose Identity returns a digest of the credentials that it
// would add now, or "" if it does not know them. See Authorizer.
type identifier interface {
	Identity(server string) string
}

// dropChanged removes the results that a change affects.
func (x *resultCache) dropChanged(change changes.Change) {
	switch change.Kind {
	case changes.ToolsChanged:
		x.invalidate(mcp.MethodListTools, nil)
	case changes.PromptsChanged:
		x.invalidate(mcp.MethodListPrompts, nil)
	case changes.ResourcesChanged:
		x.invalidate(mcp.MethodListResources, nil)
		x.invalidate(mcp.MethodListResourceTemplates, nil)
	case changes.ResourceUpdated:
		x.invalidate(mcp.MethodReadResource, func(params string) bool {
			raw, _ := jsonrpc.Get([]byte(params), "uri")
			return contains(jsonrpc.Unquote(raw), change.URI)
		})
	}
}

// contains reports whether one of two resources may be part of the other, such as a file
// of a directory.
func contains(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a)
}

// maxDropsByURI limits how many resources dropUnwatched looks up one by one.
const maxDropsByURI = 32

// dropUnwatched removes the results that may have changed before the server began to report
// the changes in filter.
func (x *resultCache) dropUnwatched(filter mcp.SubscriptionFilter) {
	for kind, watched := range map[changes.Kind]bool{
		changes.ToolsChanged: filter.ToolsListChanged, changes.PromptsChanged: filter.PromptsListChanged,
		changes.ResourcesChanged: filter.ResourcesListChanged,
	} {
		if watched {
			x.dropChanged(changes.Change{Kind: kind})
		}
	}
	if len(filter.ResourceSubscriptions) > maxDropsByURI {
		x.invalidate(mcp.MethodReadResource, nil)
		return
	}
	for _, uri := range filter.ResourceSubscriptions {
		x.dropChanged(changes.Change{Kind: changes.ResourceUpdated, URI: uri})
	}
}

// key returns the cache key of a request. It excludes the trace context, which does not
// affect results.
func (x *resultCache) key(req *outbound.Request, meta mcp.Meta) cacheKey {
	params := string(req.Params)
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		switch name {
		case mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage:
		default:
			params += "\n" + string(jsonrpc.AppendString(nil, name)) + ":" + string(bytes.TrimSpace(meta[name]))
		}
	}
	return cacheKey{req.Method, params}
}

// isCacheable reports whether results of a method may be cached (2026-07-28,
// server/utilities/caching, Cacheable Results).
func isCacheable(method string) bool {
	return isList(method) || method == mcp.MethodReadResource
}

func isList(method string) bool {
	switch method {
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates:
		return true
	}
	return false
}

// cacheHints returns how long a result is fresh, 0 if it must not be cached, and whether it
// is public.
func cacheHints(raw json.RawMessage) (ttl time.Duration, public bool) {
	complete := true
	for name, value := range jsonrpc.All(raw) {
		switch name {
		case "resultType": // older servers leave it out; results of extensions are not cached
			complete = jsonrpc.Unquote(value) == mcp.ResultTypeComplete
		case "ttlMs":
			if ms, ok := jsonscan.Integer(value); ok && ms > 0 {
				ttl = time.Duration(min(ms, maxTTL.Milliseconds())) * time.Millisecond
			}
		case "cacheScope":
			public = mcp.CacheScope(jsonrpc.Unquote(value)) == mcp.CacheScopePublic
		}
	}
	if !complete {
		ttl = 0
	}
	return ttl, public
}

// fetch sends a request without side effects, unless a fresh result is cached, and
// reports whether the result came from the cache.
func (c *Client) fetch(ctx context.Context, req outbound.Request,
	o callOptions) (raw json.RawMessage, cached bool, _ error) {
	var pending *pendingResult
	var audience string
	if isCacheable(req.Method) && c.Revision().Modern() {
		key := c.cache.key(&req, o.meta)
		audience = c.cache.identity()
		if !o.refresh {
			if raw, _ := c.cache.get(key, audience); raw != nil {
				return raw, true, c.stillOpen(ctx)
			}
		}
		pending = c.cache.begin(key)
		defer pending.end()
	}
	modern, input := false, false
	raw, err := c.request(ctx, func(l *link) *outbound.Request {
		modern, input = l.revision.Modern(), false
		r := req
		if r.Method == mcp.MethodDiscover && !modern {
			r.Method = mcp.MethodPing
		}
		r.Meta, r.LogLevel, r.OnProgress, r.InputRequested = o.meta, o.logLevel,
			c.dialer.progressContained(o.onProgress), &input
		r.Timeout, r.MaxTimeout, r.Capabilities = o.timeout, c.dialer.Timeouts.Max, o.capabilities
		return &r
	}, true)
	// If the credentials changed during the request, we do not know which ones it was sent with.
	if err == nil && pending != nil && modern && !input && audience == c.cache.identity() {
		pending.keep(raw, audience)
	}
	return raw, false, err
}

// stillOpen returns the error of a request after Close or the end of ctx.
func (c *Client) stillOpen(ctx context.Context) error {
	if c.life.Err() != nil {
		return call.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
