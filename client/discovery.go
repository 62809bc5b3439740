package client

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ServerDetails are what a server declares about itself. Info is for display only, because a
// server can claim anything there.
type ServerDetails struct {
	Info         mcp.Implementation     `json:"info"`
	Capabilities mcp.ServerCapabilities `json:"capabilities"`
	Instructions string                 `json:"instructions,omitempty"` // for the model: how to use the server
}

// Discovery contains what a connection has learned about its server. A later Dial with Dialer.Discovery sends nothing
// and returns at once; the first request then connects with the known revision, and returns any error of connecting.
// The server's details come from the Discovery until the client has to connect anew.
//
// A Discovery can be stored as JSON. Store it where others cannot change it, because it
// selects the revision. It contains no secrets, unless the server declares some.
//
// An outdated Discovery only costs time: if the server no longer supports the revision, the client connects as if it
// knew nothing, and sends the request again. Only a tool call that may have run fails.
type Discovery struct {
	Target   string       `json:"target"` // its name, see [Target]
	Revision mcp.Revision `json:"revision"`
	// HTTPWithSSE means that the server uses the HTTP+SSE transport of 2024-11-05.
	//
	// Deprecated: 2025-03-26 deprecates HTTP+SSE (SEP-2596). The earliest removal is three months after
	// that SEP became final, which it did in June 2026. Use Streamable HTTP instead.
	HTTPWithSSE bool          `json:"httpWithSSE,omitzero"`
	Server      ServerDetails `json:"server"`
	// ReceivedAt is when the server sent its details. They are fresh for TTLMs milliseconds
	// from then; 0 if the server does not state how long.
	ReceivedAt time.Time `json:"receivedAt"`
	TTLMs      int64     `json:"ttlMs"`
}

// limitTTL returns how long a result is fresh.
func limitTTL(ms *int64) time.Duration {
	if ms == nil {
		return 0
	}
	return time.Duration(max(0, min(*ms, maxTTL.Milliseconds()))) * time.Millisecond
}

// Discovery returns what is known about the server. It sends nothing.
func (c *Client) Discovery() Discovery {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.last
	return Discovery{
		Target: c.target.String(), Revision: l.revision, HTTPWithSSE: l.sse, Server: l.server,
		ReceivedAt: l.receivedAt, TTLMs: l.ttl.Milliseconds(),
	}
}

// discover requests the details of a server anew, after they were only remembered. [Client.Server] then returns
// them. A server with sessions declares them at the beginning of the session only: discover then sends a ping.
func (c *Client) discover(ctx context.Context) error {
	o := callOptions{refresh: true, timeout: max(c.dialer.Timeouts.Read, 0)}
	raw, _, err := c.fetch(ctx, outbound.Request{Method: mcp.MethodDiscover}, o)
	if err != nil || !c.Revision().Modern() {
		return err
	}
	found, info, err := modern.DecodeDiscovery(raw, c.dialer.Logger)
	if err != nil {
		return err
	}
	c.filterIcons(&info.Icons)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.discovered(found, info)
	return nil
}

// maxSessionMemory is how long the client assumes that a server supports no newer revision
// than the remembered one.
const maxSessionMemory = 24 * time.Hour

// remembered returns the Discovery that the first connection begins with:
// Dialer.Discovery, or nil if it is not usable.
func (c *Client) remembered() *Discovery {
	d, memory := c.dialer, c.dialer.Discovery
	switch {
	case memory == nil, memory.Target != c.target.String(), !memory.Revision.Known(),
		d.Revision != "" && d.Revision != memory.Revision:
		return nil
	}
	copied := *memory
	return &copied
}

// link returns a link that answers Server and Revision before the first connection.
func (d *Discovery) link(target Target) *link {
	_, isHTTP := target.(*HTTPTarget)
	l := &link{revision: d.Revision, mirrors: isHTTP && d.Revision.Modern()}
	d.fill(l)
	return l
}

func (d *Discovery) fill(l *link) {
	l.remembered = true
	l.sse, l.server, l.receivedAt, l.ttl = d.HTTPWithSSE, d.Server, d.ReceivedAt, limitTTL(&d.TTLMs)
}

// recallHTTP connects in the remembered revision. It returns neither a link nor an error if
// there is no usable memory.
func (d *Dialer) recallHTTP(ctx context.Context, options httpclient.Options, memory *Discovery) (l *link, err error) {
	switch {
	case memory == nil:
		return nil, nil
	case memory.Revision.Modern():
		era, _, err := d.newEras(false)
		if err != nil {
			return nil, err
		}
		wire := httpclient.NewClient(options, true, era)
		era.Wire = wire
		l := modernLink(era, func() error { return outbound.Close(wire, &era.Requests) })
		l.mirrors = true
		memory.fill(l)
		return l, nil
	case time.Since(memory.ReceivedAt) > maxSessionMemory:
		return nil, nil
	case memory.HTTPWithSSE:
		l, err = d.dialSSE(ctx, options)
	default:
		l, err = d.dialSession(ctx, options)
	}
	if err != nil && maySupportOtherEra(ctx, err) {
		return nil, nil
	}
	return l, err
}

// recall begins a session without server/discover, if the memory says that the server
// uses sessions. It returns neither a link nor an error if there is no usable memory.
func (p *probe) recall(ctx context.Context, memory *Discovery) (*link, error) {
	if memory == nil || memory.Revision.Modern() || time.Since(memory.ReceivedAt) > maxSessionMemory {
		return nil, nil
	}
	l, err := p.handshake(ctx)
	if err != nil && p.legacy.Failed() == nil && maySupportOtherEra(ctx, err) {
		return nil, nil
	}
	return l, err
}

// maySupportOtherEra reports whether err indicates that the server belongs to another era
// than assumed. Errors that are independent of the era do not.
func maySupportOtherEra(ctx context.Context, err error) bool {
	_, rejected := modern.UnsupportedVersion(err)
	return ctx.Err() == nil && (rejected || errors.Is(err, call.ErrRevision) || mayFallBack(ctx, err))
}

// isStale reports whether err indicates that the remembered revision is stale. It is false
// once the server has answered in the link's revision.
func (l *link) isStale(ctx context.Context, err error) bool {
	if l.proven.Load() {
		return false
	}
	_, rejected := modern.UnsupportedVersion(err)
	if err == nil || modern.IsModernError(err) && !rejected {
		l.proven.Store(true)
		return false
	}
	return maySupportOtherEra(ctx, err)
}

// rediscover connects without memory, and reports whether the server turns out to be a
// legacy server.
func (c *Client) rediscover(ctx context.Context) (legacy bool, _ error) {
	l, err := c.connected(ctx)
	if err != nil {
		return false, err
	}
	defer c.release(l, false)
	return !l.revision.Modern(), nil
}

// rejectsEra reports whether err rejects the first request on a connection, before the server has agreed on the
// revision. A server with sessions has not acted on the request then.
func rejectsEra(err error) bool {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (reported.Code == mcp.CodeUnsupportedVersion || reported.Code == jsonrpc.CodeMethodNotFound)
}

// verified returns a connection, as connected does, and the capabilities that the server
// has declared on it. Remembered ones may be stale.
func (c *Client) verified(ctx context.Context) (*link, mcp.ServerCapabilities, error) {
	for discovered := false; ; discovered = true {
		l, err := c.connected(ctx)
		if err != nil {
			return nil, mcp.ServerCapabilities{}, err
		}
		c.mu.Lock()
		remembered, offered := l.remembered, l.server.Capabilities
		c.mu.Unlock()
		if !remembered || discovered {
			return l, offered, nil
		}
		c.release(l, false)
		if err := c.discover(ctx); err != nil {
			return nil, mcp.ServerCapabilities{}, err
		}
	}
}
