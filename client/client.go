package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpwire"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// Errors of this side, besides those of contexts. See package call.
var (
	ErrConnectionLost  = call.ErrConnectionLost
	ErrClientClosed    = call.ErrClosed
	ErrInvalidResponse = call.ErrInvalidResponse
	ErrUnauthorized    = call.ErrUnauthorized
)

// Client is one server, as seen by its client. It is safe for concurrent use.
type Client struct {
	dialer *Dialer
	target Target
	turn   chan struct{} // held while dialling
	memory *Discovery    // until there was a connection; of who has the turn

	life context.Context // ends when Close begins
	end  context.CancelCauseFunc

	mu   sync.Mutex
	link *link              // nil until dialled, and after it was lost
	last *link              // the newest that there was; for Server and Revision
	open map[*link]struct{} // those that are not closed yet

	pinging  sync.WaitGroup                   // joined under mu before life ends
	cache    *clientCache                     // what is kept of results
	marked   marked                           // parameters to repeat in headers
	outputs  outputs                          // what tools return
	logLevel atomic.Pointer[mcp.LoggingLevel] // nil: none was asked for
}

func newClient(dialer *Dialer, target Target) *Client {
	c := &Client{dialer: dialer, target: target, turn: make(chan struct{}, 1), open: make(map[*link]struct{})}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.cache = newClientCache(dialer, target)
	return c
}

// Server returns what the server declares about itself.
func (c *Client) Server() ServerDetails {
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

// Close ends the connection: calls in flight fail with ErrClientClosed, a session is
// ended, a child process exits within five seconds. It may be called more than
// once and concurrently; each call returns when all is closed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.end(ErrClientClosed)
	c.link = nil
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()

	errs := make([]error, len(open))
	var closing sync.WaitGroup
	for i, l := range open {
		closing.Go(func() {
			errs[i] = l.close()
			if l.retired {
				<-l.gone
			}
		})
	}
	// A dial that is under way has been told to end, and closes what it has opened.
	c.turn <- struct{}{}
	<-c.turn
	closing.Wait()
	c.pinging.Wait()
	c.cache.close()
	return errors.Join(errs...)
}

// Ping asks whether the server is there. In 2026-07-28, which has no ping, it asks
// for the server's description.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.request(ctx, func(l *link) *rpc.Request {
		method := mcp.MethodPing
		if l.revision.Modern() {
			method = mcp.MethodDiscover
		}
		return &rpc.Request{Method: method, Timeout: c.dialer.Timeouts.Ping, MaxTimeout: c.dialer.Timeouts.Max}
	}, true)
	return err
}

// request sends a request, on a new connection if the last one is gone. A request
// that the server has certainly not acted on is sent once more, and so is one that
// may be repeated.
func (c *Client) request(ctx context.Context, make func(*link) *rpc.Request, repeatable bool) (json.RawMessage, error) {
	for attempt := 0; ; attempt++ {
		l, err := c.connected(ctx)
		if err != nil {
			return nil, err
		}
		req := make(l)
		c.addLogLevel(l, req)
		raw, err := l.call(ctx, req)
		sessionGone := errors.Is(err, httpwire.ErrSessionGone)
		lost := err != nil && (sessionGone || l.failed() != nil)
		doubtful := l.doubtful(ctx, err)
		c.release(l, lost || doubtful)
		if err == nil {
			return raw, nil
		}
		again := lost && (sessionGone || errors.Is(err, call.ErrNotSent)) ||
			repeatable && errors.Is(err, ErrConnectionLost)
		if doubtful {
			other, dialErr := c.otherEra(ctx)
			if dialErr != nil {
				return nil, fmt.Errorf("%s: %w", req.Method, dialErr)
			}
			again = other && (repeatable || notServed(err))
		}
		if attempt > 0 || !again || ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", req.Method, err)
		}
	}
}

// connected returns the connection, after dialling if there is none. It is
// followed by release.
func (c *Client) connected(ctx context.Context) (*link, error) {
	if l, err := c.current(); l != nil || err != nil {
		return l, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-c.life.Done():
		return nil, ErrClientClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	if l, err := c.current(); l != nil || err != nil { // somebody else has dialled
		return l, err
	}
	dialling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(ErrClientClosed) })()
	if err := c.predecessors(dialling); err != nil {
		return nil, err
	}
	l, err := c.target.dial(dialling, c.dialer, c.memory)
	if err != nil {
		return nil, dialError(c.target, err)
	}
	recalled := c.memory != nil
	c.memory = nil
	if err := c.dialer.require(l.server.Capabilities); err != nil {
		_ = l.close() // what is wrong with the server is known already
		return nil, dialError(c.target, at(StageRequire, err))
	}
	c.restoreLogLevel(dialling, l)
	if c.last != nil && !recalled { // it may be another server now
		c.cache.forget()
	}
	c.keepDiscovery(l)
	c.mu.Lock()
	closed := c.life.Err() != nil
	if !closed {
		c.link, c.last = l, l
		l.users, l.gone, l.dropped = 1, make(chan struct{}), make(chan struct{})
		c.open[l] = struct{}{}
		if every := c.dialer.keepAlive(c.target, l); every > 0 {
			c.pinging.Go(func() { c.keepAlive(l, every) })
		}
	}
	c.mu.Unlock()
	if closed {
		l.close()
		return nil, ErrClientClosed
	}
	return l, nil
}

// predecessors waits until the child processes that came before are gone: two of
// them at a time might not get on.
func (c *Client) predecessors(ctx context.Context) error {
	if _, ok := c.target.(*CommandTarget); !ok {
		return nil
	}
	c.mu.Lock()
	before := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, l := range before { // all are retired, or there would be no need to dial
		select {
		case <-l.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// current returns the connection if it is of use, and counts one more user of it.
// One that is of none is put away.
func (c *Client) current() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, ErrClientClosed
	}
	if c.link == nil {
		return nil, nil
	}
	if c.link.failed() != nil {
		c.retire(c.link)
		return nil, nil
	}
	c.link.users++
	return c.link, nil
}

// release ends one use of a connection, which is of no more use if it is lost.
func (c *Client) release(l *link, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.users--
	if lost || l.lost {
		c.retire(l)
	}
}

// retire puts a connection away, and closes it in the background: at once if it
// has failed and otherwise, as with a session that the server has forgotten, when
// the other calls on it have found out for themselves. It is called with mu held.
func (c *Client) retire(l *link) {
	if !l.lost {
		close(l.dropped)
	}
	l.lost = true
	if c.link == l {
		c.link = nil
	}
	if l.retired || c.life.Err() != nil || l.users > 0 && l.failed() == nil {
		return
	}
	l.retired = true
	go func() {
		defer close(l.gone)
		if err := l.close(); err != nil {
			c.dialer.Logger.Warn("closing a lost connection failed", "server", c.target.String(), "error", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, l)
	}()
}
