package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpwire"
	"github.com/parley-mcp/parley/mcp"
)

// Errors of this side, besides those of contexts. See package call.
var (
	ErrConnectionLost  = call.ErrConnectionLost
	ErrClosed          = call.ErrClosed
	ErrInvalidResponse = call.ErrInvalidResponse
)

// Client is one server, as seen by its client. It is safe for concurrent use.
type Client struct {
	dialer *Dialer
	target Target
	turn   chan struct{} // held while dialling

	mu     sync.Mutex
	link   *link // nil until dialled, and after it was lost
	last   *link // the newest that there was; for Server and Revision
	closed bool
}

// Server returns what the server says of itself.
func (c *Client) Server() Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.server
}

// Revision returns the revision of the protocol that is spoken with the server.
func (c *Client) Revision() mcp.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.revision
}

// Close ends the connection: calls in flight fail with ErrClosed, a session is
// ended, a child process exits within five seconds. It may be called more than
// once and concurrently.
func (c *Client) Close() error {
	c.mu.Lock()
	l := c.link
	c.link, c.closed = nil, true
	c.mu.Unlock()
	// A connection that is being made meanwhile is closed by whoever makes it.
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if l == nil {
		return nil
	}
	return l.close()
}

// Ping asks whether the server is there. In 2026-07-28, which has no ping, it asks
// for the server's description.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.request(ctx, func(l *link) *call.Request {
		method := mcp.MethodPing
		if l.revision.Modern() {
			method = mcp.MethodDiscover
		}
		return &call.Request{Method: method, Timeout: c.dialer.Timeouts.Ping, MaxTimeout: c.dialer.Timeouts.Max}
	}, true)
	return err
}

// request sends a request, on a new connection if the last one is gone. A request
// that the server has certainly not acted on is sent once more, and so is one that
// may be repeated.
func (c *Client) request(ctx context.Context, make func(*link) *call.Request, repeatable bool) (json.RawMessage, error) {
	for attempt := 0; ; attempt++ {
		l, err := c.connected(ctx)
		if err != nil {
			return nil, err
		}
		req := make(l)
		raw, err := l.call(ctx, req)
		if err == nil {
			return raw, nil
		}
		untouched := errors.Is(err, httpwire.ErrSessionGone)
		lost := untouched || l.failed() != nil
		if lost {
			c.drop(l)
		}
		if !lost || attempt > 0 || !untouched && !(repeatable && errors.Is(err, ErrConnectionLost)) || ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", req.Method, err)
		}
	}
}

// connected returns the connection, after dialling if there is none.
func (c *Client) connected(ctx context.Context) (*link, error) {
	if l, err := c.current(); l != nil || err != nil {
		return l, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	if l, err := c.current(); l != nil || err != nil { // somebody else has dialled
		return l, err
	}
	l, err := c.target.dial(ctx, c.dialer)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", c.target, err)
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.link, c.last = l, l
	}
	c.mu.Unlock()
	if closed {
		l.close()
		return nil, ErrClosed
	}
	return l, nil
}

// current returns the connection if it is of use. One that is not is put away.
func (c *Client) current() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.link != nil && c.link.failed() != nil {
		go c.link.close()
		c.link = nil
	}
	return c.link, nil
}

// drop puts a connection away that is of no more use.
func (c *Client) drop(l *link) {
	c.mu.Lock()
	mine := c.link == l
	if mine {
		c.link = nil
	}
	c.mu.Unlock()
	if mine {
		l.close()
	}
}

// timeouts is how long a request of a kind may take.
func (c *Client) timeouts(d time.Duration) (timeout, most time.Duration) {
	return d, c.dialer.Timeouts.Max
}
