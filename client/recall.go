package client

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxSessionMemory is how long the client assumes that a server supports no newer revision
// than the remembered one.
const maxSessionMemory = 24 * time.Hour

// remembered returns the Discovery that the first connection begins with: that of the
// Dialer, or nil if it is not usable.
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
		l := modernLink(era, wire.Close)
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

// recall begins a session without server/discover, if the server is remembered to have
// sessions. It returns neither a link nor an error if there is no usable memory.
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

// maySupportOtherEra reports whether err indicates that the server is of another era than
// assumed. Errors that are independent of the era do not.
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

// rediscover connects without memory, and reports whether the server turns out to be of the
// legacy era.
func (c *Client) rediscover(ctx context.Context) (legacy bool, _ error) {
	l, err := c.connected(ctx)
	if err != nil {
		return false, err
	}
	defer c.release(l, false)
	return !l.revision.Modern(), nil
}

// notServed reports whether err shows that the server has not acted on the request, so that
// any request may be repeated.
func notServed(err error) bool {
	var status *call.StatusError
	var rejected *modern.Rejected
	var reported *jsonrpc.Error
	switch {
	case errors.Is(err, call.ErrNotSent), errors.As(err, &rejected):
		return true
	case errors.As(err, &status):
		return isLegacyStatus(status.Status)
	case errors.As(err, &reported):
		return reported.Code == mcp.CodeUnsupportedVersion || reported.Code == jsonrpc.CodeMethodNotFound
	}
	return false
}

// verified returns a connection, as connected does, on which the server has declared its
// capabilities, and these capabilities. Remembered ones may be stale.
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
		if _, err := c.Discover(ctx, WithRefresh()); err != nil {
			return nil, mcp.ServerCapabilities{}, err
		}
	}
}
