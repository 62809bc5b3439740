package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// clientCache is a Client's use of its Cache.
type clientCache struct {
	*Cache
	server   cachedServer
	own      bool          // no other Client has this server
	declared string        // digest of what the client declares about itself
	identity func() string // digest of the credentials
}

func newClientCache(d *Dialer, target Target) *clientCache {
	u := &clientCache{Cache: d.Cache}
	if u.Cache == nil {
		u.Cache = new(Cache)
	}
	info, _ := schema.Marshal(d.info()) // a Dial reports values that cannot be encoded
	capabilities, _ := schema.Marshal(d.capabilities())
	u.declared = digest.Join(info, capabilities)
	unique := rand.Text() // for a server that no other client reaches, or unknown credentials
	u.server, u.own, u.identity = cachedServer{address: unique}, true, func() string { return unique }
	if t, ok := target.(*HTTPTarget); ok {
		u.server, u.own = cachedServer{digest.Join([]byte(t.URL)), d.HTTPClient}, false
		authorizer, ok := d.Auth.(identifier)
		switch {
		case t.Identity != nil:
			u.identity = func() string { return digest.Join([]byte("identity"), []byte(t.Identity()), encodeHeader(t.Header)) }
		case ok:
			hidden := "" // an HTTPClient may add credentials of its own
			if d.HTTPClient != nil {
				hidden = unique
			}
			u.identity = func() string {
				who := authorizer.Identity(t.URL)
				if who == "" {
					return unique
				}
				return digest.Join([]byte("authorizer"), []byte(who), encodeHeader(t.Header), []byte(hidden))
			}
		case d.Auth == nil && d.HTTPClient == nil:
			header := digest.Join([]byte("header"), encodeHeader(t.Header))
			u.identity = func() string { return header }
		}
	}
	return u
}

// identifier is an Authorizer that identifies the credentials that it would add now, by a
// digest; empty if it does not know. See Authorizer.
type identifier interface {
	Identity(server string) string
}

func encodeHeader(header map[string][]string) []byte {
	raw, _ := schema.Marshal(header) // sorts the keys
	return raw
}

// close removes the results that no other client can use.
func (u *clientCache) close() {
	if u.own {
		u.Cache.forget(u.server)
	}
}

func (u *clientCache) forget() { u.Cache.forget(u.server) }

// invalidate removes the results of a method.
func (u *clientCache) invalidate(method string) { u.Cache.invalidate(u.server, method, nil) }

// dropChanged removes the results that a change affects.
func (u *clientCache) dropChanged(change changes.Change) {
	switch change.Kind {
	case changes.ToolsChanged:
		u.invalidate(mcp.MethodListTools)
	case changes.PromptsChanged:
		u.invalidate(mcp.MethodListPrompts)
	case changes.ResourcesChanged:
		u.invalidate(mcp.MethodListResources)
		u.invalidate(mcp.MethodListResourceTemplates)
	case changes.ResourceUpdated:
		u.Cache.invalidate(u.server, mcp.MethodReadResource, func(params string) bool {
			raw, _ := jsonrpc.Get([]byte(params), "uri")
			return contains(jsonrpc.Unquote(raw), change.URI)
		})
	}
}

// contains reports whether one of two resources may be a part of the other, such as a file
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
func (u *clientCache) dropUnwatched(filter mcp.SubscriptionFilter) {
	for kind, watched := range map[changes.Kind]bool{
		changes.ToolsChanged: filter.ToolsListChanged, changes.PromptsChanged: filter.PromptsListChanged, changes.ResourcesChanged: filter.ResourcesListChanged,
	} {
		if watched {
			u.dropChanged(changes.Change{Kind: kind})
		}
	}
	if len(filter.ResourceSubscriptions) > maxDropsByURI {
		u.invalidate(mcp.MethodReadResource)
		return
	}
	for _, uri := range filter.ResourceSubscriptions {
		u.dropChanged(changes.Change{Kind: changes.ResourceUpdated, URI: uri})
	}
}

// key returns the cache key of a request. It excludes the trace context, which does not
// affect results.
func (u *clientCache) key(req *outbound.Request, meta mcp.Meta) cacheKey {
	params := string(req.Params)
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		switch name {
		case mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage:
		default:
			params += "\n" + string(jsonrpc.AppendString(nil, name)) + ":" + string(bytes.TrimSpace(meta[name]))
		}
	}
	return cacheKey{u.server, req.Method, u.declared, params}
}

// isCacheable reports whether results of a method may be cached (2026-07-28,
// server/utilities/caching, Cacheable Results).
func isCacheable(method string) bool {
	return isList(method) || method == mcp.MethodReadResource || method == mcp.MethodDiscover
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
			public = jsonrpc.Unquote(value) == mcp.CacheScopePublic
		}
	}
	if !complete {
		ttl = 0
	}
	return ttl, public
}

// fetch sends a request without side effects, unless the Cache has a fresh result, and
// reports whether the result is cached.
func (c *Client) fetch(ctx context.Context, req outbound.Request, o callOptions) (raw json.RawMessage, cached bool, _ error) {
	var pending *pendingResult
	var audience string
	if isCacheable(req.Method) && c.cache.max() > 0 && c.Revision().Modern() {
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
		r.Meta, r.LogLevel, r.OnProgress, r.InputRequested = o.meta, o.logLevel, c.dialer.progressContained(o.onProgress), &input
		r.Timeout, r.MaxTimeout = o.timeout, c.dialer.Timeouts.Max
		return &r
	}, true)
	// If the credentials changed during the request, it is unknown which it was sent with.
	if err == nil && pending != nil && modern && !input && audience == c.cache.identity() {
		pending.keep(raw, audience)
	}
	return raw, false, err
}

// stillOpen returns the error of a request after Close or the end of ctx.
func (c *Client) stillOpen(ctx context.Context) error {
	if c.life.Err() != nil {
		return ErrClientClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
