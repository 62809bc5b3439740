package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// clientCache is the use that one Client makes of a Cache.
type clientCache struct {
	*Cache
	server   cachedServer
	own      bool   // nobody else is at that server
	asker    string // what the client says of itself, digested
	identity func() string
}

func newClientCache(d *Dialer, target Target) *clientCache {
	u := &clientCache{Cache: d.Cache}
	if u.Cache == nil {
		u.Cache = new(Cache)
	}
	info, _ := json.Marshal(d.info()) // dialling reports what cannot be encoded
	capabilities, _ := json.Marshal(d.capabilities())
	u.asker = digest.Join(info, capabilities)
	only := rand.Text() // a server that is this client's alone, or credentials that nobody knows
	u.server, u.own, u.identity = cachedServer{address: only}, true, func() string { return only }
	if t, ok := target.(*HTTPTarget); ok {
		u.server, u.own = cachedServer{digest.Join([]byte(t.URL)), d.HTTPClient}, false
		named, ok := d.Auth.(identifier)
		switch {
		case t.Identity != nil:
			u.identity = func() string { return digest.Join([]byte("identity"), []byte(t.Identity()), encodeHeader(t.Header)) }
		case ok:
			hidden := "" // what an HTTPClient may add
			if d.HTTPClient != nil {
				hidden = only
			}
			u.identity = func() string {
				who := named.Identity(t.URL)
				if who == "" {
					return only
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

// identifier is an Authorizer that says as whom it authorizes at the moment; empty: not
// known. See Authorizer.
type identifier interface {
	Identity(server string) string
}

func encodeHeader(header map[string][]string) []byte {
	raw, _ := json.Marshal(header) // strings; its keys are sorted
	return raw
}

// close forgets what nobody else can use.
func (u *clientCache) close() {
	if u.own {
		u.Cache.forget(u.server)
	}
}

func (u *clientCache) forget() { u.Cache.forget(u.server) }

// invalidate drops what is kept of a method's results.
func (u *clientCache) invalidate(method string) { u.Cache.invalidate(u.server, method, nil) }

// dropChanged drops the results that a change affects.
func (u *clientCache) dropChanged(change rpc.Change) {
	switch change.Kind {
	case rpc.ToolsChanged:
		u.invalidate(mcp.MethodListTools)
	case rpc.PromptsChanged:
		u.invalidate(mcp.MethodListPrompts)
	case rpc.ResourcesChanged:
		u.invalidate(mcp.MethodListResources)
		u.invalidate(mcp.MethodListResourceTemplates)
	case rpc.ResourceUpdated:
		u.Cache.invalidate(u.server, mcp.MethodReadResource, func(params string) bool {
			raw, _ := jsonrpc.Get([]byte(params), "uri")
			return related(jsonrpc.Unquote(raw), change.URI)
		})
	}
}

// related reports whether a resource is another one, or a part of it: the contents of a
// directory, for one, are in what is read of it.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a)
}

// maxDropsByURI limits how many resources dropUnwatched looks up one by one.
const maxDropsByURI = 32

// dropUnwatched drops the results that may have changed before the server began to report
// the changes in filter.
func (u *clientCache) dropUnwatched(filter mcp.SubscriptionFilter) {
	for kind, watched := range map[rpc.ChangeKind]bool{
		rpc.ToolsChanged: filter.ToolsListChanged, rpc.PromptsChanged: filter.PromptsListChanged, rpc.ResourcesChanged: filter.ResourcesListChanged,
	} {
		if watched {
			u.dropChanged(rpc.Change{Kind: kind})
		}
	}
	if len(filter.ResourceSubscriptions) > maxDropsByURI {
		u.invalidate(mcp.MethodReadResource)
		return
	}
	for _, uri := range filter.ResourceSubscriptions {
		u.dropChanged(rpc.Change{Kind: rpc.ResourceUpdated, URI: uri})
	}
}

// key is what is kept of a request under. Trace context is no part of it: it tells
// where a request comes from, and has no influence on its result.
func (u *clientCache) key(req *rpc.Request, meta mcp.Meta) cacheKey {
	params := string(req.Params)
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		switch name {
		case mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage:
		default:
			params += "\n" + string(jsonrpc.AppendString(nil, name)) + ":" + string(bytes.TrimSpace(meta[name]))
		}
	}
	return cacheKey{u.server, req.Method, u.asker, params}
}

// cacheable reports whether results of a method may be kept (2026-07-28,
// server/utilities/caching, Cacheable Results).
func cacheable(method string) bool {
	return isList(method) || method == mcp.MethodReadResource || method == mcp.MethodDiscover
}

// fetch sends a request that changes nothing at the server, unless a fresh result is
// kept, and reports whether there was one.
func (c *Client) fetch(ctx context.Context, req rpc.Request, o callOptions) (raw json.RawMessage, kept bool, _ error) {
	var asked *asked
	var audience string
	if cacheable(req.Method) && c.cache.max() > 0 && c.Revision().Modern() {
		key := c.cache.key(&req, o.meta)
		audience = c.cache.identity()
		if !o.refresh {
			if raw, _ := c.cache.get(key, audience); raw != nil {
				return raw, true, c.stillOpen(ctx)
			}
		}
		asked = c.cache.ask(key)
		defer asked.end()
	}
	modern, input := false, false
	raw, err := c.request(ctx, func(l *link) *rpc.Request {
		modern, input = l.revision.Modern(), false
		r := req
		if r.Method == mcp.MethodDiscover && !modern {
			r.Method = mcp.MethodPing
		}
		r.Meta, r.OnProgress, r.Asked = o.meta, c.dialer.progressContained(o.onProgress), &input
		r.Timeout, r.MaxTimeout = o.timeout, c.dialer.Timeouts.Max
		return &r
	}, true)
	// Credentials that changed meanwhile may or may not be those of the request.
	if err == nil && asked != nil && modern && !input && audience == c.cache.identity() {
		asked.keep(raw, audience)
	}
	return raw, false, err
}

// stillOpen returns the error that a request has after Close, or the end of ctx.
func (c *Client) stillOpen(ctx context.Context) error {
	if c.life.Err() != nil {
		return ErrClientClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
