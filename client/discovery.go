package client

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// ServerDetails are what a server declares about itself. Info is for display only, because a
// server can claim anything there.
type ServerDetails struct {
	Info         mcp.Implementation     `json:"info"`
	Capabilities mcp.ServerCapabilities `json:"capabilities"`
	Instructions string                 `json:"instructions,omitempty"` // tell a model how to use the server
}

// Discovery is what a connection has learned about its server. A later Dial with
// Dialer.Discovery sends nothing and returns at once; the first request then connects,
// without a search for the revision, and returns the errors of connecting. Until
// [Client.Discover] requests them again, the server's details are those of the Discovery.
//
// A Discovery can be stored as JSON. Store it where others cannot change it, because it
// selects the revision. It contains no secrets, unless the server declares some.
//
// A Discovery that is no longer true costs time only: if the server does not support the
// revision any more, the client connects as if it knew nothing, and sends the request again.
// Only the call of a tool that may have run fails.
type Discovery struct {
	Target   string       `json:"target"` // its name, see [Target]
	Revision mcp.Revision `json:"revision"`
	// HTTPWithSSE means that the server uses the HTTP+SSE transport of 2024-11-05.
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

// Discover requests the server's details, unless the cache has fresh ones; see
// [WithRefresh]. [Client.Server] then returns them. A server with sessions declares them at
// the beginning of the session only: Discover then sends a ping. The time-out is
// Timeouts.Read.
func (c *Client) Discover(ctx context.Context, options ...CallOption) (Discovery, error) {
	o, err := optionsOf(options, c.dialer.Timeouts.Read)
	if err != nil {
		return Discovery{}, fmt.Errorf("server/discover: %w", err)
	}
	raw, cached, err := c.fetch(ctx, outbound.Request{Method: mcp.MethodDiscover}, o)
	if err != nil {
		return Discovery{}, err
	}
	if c.Revision().Modern() && !cached {
		found, info, err := modern.DecodeDiscovery(raw, c.dialer.Logger)
		if err != nil {
			return Discovery{}, err
		}
		c.filterIcons(&info.Icons)
		c.mu.Lock()
		c.last.discovered(found, info)
		c.mu.Unlock()
	}
	return c.Discovery(), nil
}
