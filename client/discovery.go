package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpwire"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Discovery is what a connection has learned of its server, for a later Dial to begin
// with: see Dialer.Discovery. Store it, as JSON for one, where others cannot change it:
// it says how the server is spoken to. It holds no secrets but those that the server
// tells of itself.
//
// A Dial with a Discovery returns at once. The first request connects: over HTTP, in
// 2026-07-28, it is the first thing that is sent; a session begins before it, without a
// search for the revision; a command is started for it. Until then, errors of dialling
// are those of requests. What the server says of itself is what it once said:
// [Client.Discover] asks anew.
//
// A wrong memory costs time and nothing else. When a server turns out to speak otherwise
// it is dialled as if nothing were known, and the request sent again, unless it is a call
// of a tool that may have run: that one fails.
type Discovery struct {
	Target   string       `json:"target"` // as it is shown; see Target
	Revision mcp.Revision `json:"revision"`
	// HTTPWithSSE says that the server was reached by the transport of 2024-11-05.
	HTTPWithSSE bool          `json:"httpWithSSE,omitzero"`
	Server      ServerDetails `json:"server"`
	// ReceivedAt is when the server has said so, and TTLMs for how many milliseconds that is
	// fresh by its own word; 0 if it does not say.
	ReceivedAt time.Time `json:"receivedAt"`
	TTLMs      int64     `json:"ttlMs"`
}

// IsFresh reports whether what the server says of itself holds at a time by the server's
// own word, a day at most.
func (d *Discovery) IsFresh(at time.Time) bool {
	return at.Before(d.ReceivedAt.Add(freshFor(&d.TTLMs)))
}

// freshFor is for how long a server's word stands.
func freshFor(ttl *int64) time.Duration {
	if ttl == nil {
		return 0
	}
	return time.Duration(max(0, min(*ttl, maxTTL.Milliseconds()))) * time.Millisecond
}

// maxSessionMemory is how long a server is taken to be of an older era without being
// asked: it may have learned a newer one.
const maxSessionMemory = 24 * time.Hour

// Discovery returns what is known of the server. It asks nothing.
func (c *Client) Discovery() Discovery {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.last
	return Discovery{
		Target: c.target.String(), Revision: l.revision, HTTPWithSSE: l.pair, Server: l.server,
		ReceivedAt: l.learned, TTLMs: l.fresh.Milliseconds(),
	}
}

// Discover asks the server what it is, unless that is kept and fresh; from then on
// [Client.Server] says so too. A server with sessions has said it when the session began,
// and is only asked whether it is there. Timeouts.Read bounds the wait, unless an option
// says otherwise.
func (c *Client) Discover(ctx context.Context, options ...CallOption) (Discovery, error) {
	o, err := optionsOf(options, c.dialer.Timeouts.Read)
	if err != nil {
		return Discovery{}, fmt.Errorf("server/discover: %w", err)
	}
	raw, kept, err := c.fetch(ctx, rpc.Request{Method: mcp.MethodDiscover}, o)
	if err != nil {
		return Discovery{}, err
	}
	if c.Revision().Modern() && !kept {
		found, info, err := modern.DecodeDiscovery(raw, c.dialer.Logger)
		if err != nil {
			return Discovery{}, err
		}
		c.mu.Lock()
		c.last.discovered(found, info)
		c.mu.Unlock()
	}
	return c.Discovery(), nil
}

// remembered returns what a dial can begin with, nil if that is nothing: what the program
// has kept, or else what another client has that shares its Cache.
func (c *Client) remembered() *Discovery {
	d, memory := c.dialer, c.dialer.Discovery
	if memory == nil {
		memory = c.sharedDiscovery()
	}
	switch {
	case memory == nil, memory.Target != c.target.String(), !memory.Revision.Known(),
		d.Revision != "" && d.Revision != memory.Revision,
		d.require(memory.Server.Capabilities) != nil: // it may offer more by now
		return nil
	}
	copied := *memory
	return &copied
}

// link is what stands for a connection until there is one.
func (d *Discovery) link(target Target) *link {
	_, isHTTP := target.(*HTTPTarget)
	l := &link{revision: d.Revision, mirrors: isHTTP && d.Revision.Modern()}
	d.tell(l)
	return l
}

func (d *Discovery) tell(l *link) {
	l.pair, l.server, l.learned, l.fresh = d.HTTPWithSSE, d.Server, d.ReceivedAt, freshFor(&d.TTLMs)
}

// keepDiscovery keeps what a server has said when it was dialled.
func (c *Client) keepDiscovery(l *link) {
	if !l.revision.Modern() || !l.proven.Load() || l.fresh <= 0 {
		return
	}
	ttl, scope := l.fresh.Milliseconds(), mcp.CacheScopePrivate
	if l.public {
		scope = mcp.CacheScopePublic
	}
	result := mcp.DiscoverResult{
		CacheHints:        mcp.CacheHints{TTLMs: &ttl, CacheScope: scope},
		SupportedVersions: []string{string(l.revision)},
		Capabilities:      l.server.Capabilities, Instructions: l.server.Instructions,
	}
	info, err := json.Marshal(l.server.Info)
	if err != nil {
		return
	}
	result.Meta = mcp.Meta{mcp.MetaServerInfo: info}
	raw, err := json.Marshal(result)
	if err != nil {
		return
	}
	asked := c.cache.begin(c.cache.key(&rpc.Request{Method: mcp.MethodDiscover}, nil))
	defer asked.end()
	asked.keep(raw, c.cache.identity())
}

// sharedDiscovery is what is kept of a server at a URL.
func (c *Client) sharedDiscovery() *Discovery {
	if _, ok := c.target.(*HTTPTarget); !ok || c.dialer.Cache == nil {
		return nil
	}
	raw, left := c.cache.get(c.cache.key(&rpc.Request{Method: mcp.MethodDiscover}, nil), c.cache.identity())
	if raw == nil {
		return nil
	}
	found, info, err := modern.DecodeDiscovery(raw, c.dialer.Logger)
	if err != nil {
		return nil
	}
	r, err := c.dialer.choose(found.SupportedVersions)
	if err != nil || !r.Modern() {
		return nil
	}
	return &Discovery{
		Target: c.target.String(), Revision: r,
		Server:     ServerDetails{Info: *info, Capabilities: found.Capabilities, Instructions: found.Instructions},
		ReceivedAt: time.Now(), TTLMs: left.Milliseconds(),
	}
}

// recallHTTP connects as it was done before. Without a link and an error, there is
// nothing to go by.
func (d *Dialer) recallHTTP(ctx context.Context, options httpwire.Options, memory *Discovery) (l *link, err error) {
	switch {
	case memory == nil:
		return nil, nil
	case memory.Revision.Modern():
		era, _, err := d.newEras(false)
		if err != nil {
			return nil, err
		}
		wire := httpwire.NewClient(options, true, era)
		era.Wire = wire
		l := modernLink(era, wire.Close)
		l.mirrors = true
		memory.tell(l)
		return l, nil
	case time.Since(memory.ReceivedAt) > maxSessionMemory:
		return nil, nil
	case memory.HTTPWithSSE:
		l, err = d.dialPair(ctx, options)
	default:
		l, err = d.dialSession(ctx, options)
	}
	if err != nil && mistaken(ctx, err) {
		return nil, nil
	}
	return l, err
}

// recall begins a session without asking whether the server is modern, if it was not.
func (p *probe) recall(ctx context.Context, memory *Discovery) (*link, error) {
	if memory == nil || memory.Revision.Modern() || time.Since(memory.ReceivedAt) > maxSessionMemory {
		return nil, nil
	}
	l, err := p.shakeHands(ctx)
	if err != nil && p.legacy.Failed() == nil && mistaken(ctx, err) {
		return nil, nil
	}
	return l, err
}

// mistaken reports whether an error says that a server may be of another era than it
// was. As in a search for the era, one that says nothing of eras does not.
func mistaken(ctx context.Context, err error) bool {
	_, refused := modern.UnsupportedVersion(err)
	return ctx.Err() == nil && (refused || errors.Is(err, ErrRevision) || fallBack(ctx, err))
}

// doubtful reports whether err may come of a memory that was wrong: nothing has shown
// yet that the server speaks the link's revision.
func (l *link) doubtful(ctx context.Context, err error) bool {
	if l.proven.Load() {
		return false
	}
	_, refused := modern.UnsupportedVersion(err)
	if err == nil || modern.IsModernError(err) && !refused {
		l.proven.Store(true)
		return false
	}
	return mistaken(ctx, err)
}

// otherEra dials without memory, and reports whether the server is of another era than
// it was remembered to be.
func (c *Client) otherEra(ctx context.Context) (bool, error) {
	l, err := c.connected(ctx)
	if err != nil {
		return false, err
	}
	defer c.release(l, false)
	return !l.revision.Modern(), nil
}

// notServed reports whether an error says that the request was not acted on, so that
// it may be sent again whatever it asks for.
func notServed(err error) bool {
	var status *call.StatusError
	var rejected *modern.Rejected
	var reported *jsonrpc.Error
	switch {
	case errors.Is(err, call.ErrNotSent), errors.As(err, &rejected):
		return true
	case errors.As(err, &status):
		return isOlder(status.Status)
	case errors.As(err, &reported):
		return reported.Code == mcp.CodeUnsupportedVersion || reported.Code == jsonrpc.CodeMethodNotFound
	}
	return false
}

// provenLink returns a connection, as connected does, on which the server has answered.
func (c *Client) provenLink(ctx context.Context) (*link, error) {
	l, err := c.connected(ctx)
	if err != nil || l.proven.Load() {
		return l, err
	}
	c.release(l, false)
	if err := c.Ping(ctx); err != nil {
		return nil, err
	}
	return c.connected(ctx)
}
