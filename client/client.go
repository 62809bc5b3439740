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
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Client calls one server. [Dial] returns one. It reconnects when a request finds the
// connection lost. It is safe for concurrent use.
type Client struct {
	dialer *Dialer
	target Target
	turn   chan struct{} // held while connecting
	memory *Discovery    // what an earlier run learned, for the first connection; guarded by turn

	life context.Context // cancelled when Close begins
	end  context.CancelCauseFunc

	mu   sync.Mutex
	link *link              // nil before the first connection and after it is lost
	last *link              // the most recent connection
	open map[*link]struct{} // connections that are not closed yet

	pinging  sync.WaitGroup                   // the keep-alive goroutines; added to under mu before life ends
	cache    *resultCache                     // caches results
	marked   marked                           // parameters to mirror in headers
	outputs  outputs                          // output schemas
	supports taskSupports                     // which tools run as tasks, in 2025-11-25
	logLevel atomic.Pointer[mcp.LoggingLevel] // nil before SetLogLevel
}

func newClient(dialer *Dialer, target Target) *Client {
	c := &Client{dialer: dialer, target: target, turn: make(chan struct{}, 1), open: make(map[*link]struct{})}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.cache = newResultCache(dialer, target)
	if dialer.sending != nil {
		dialer.sending.Mirror = c.mirror
	}
	return c
}

// Server returns what the server declares about itself.
func (c *Client) Server() ServerDetails {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.server
}

// Revision returns the revision of the protocol that the connection uses.
func (c *Client) Revision() mcp.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.revision
}

// KeepsSession reports whether the latest HTTP connection uses a session: one with a session id, or one over HTTP+SSE.
// In a session, the requests of different users may affect each other. KeepsSession is false before the first request
// if Dialer.Discovery was used.
func (c *Client) KeepsSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.sse || c.last.session
}

// Close ends the connection: requests in flight fail with call.ErrClosed, a session ends,
// and a child process is terminated within five seconds. It may be called more than once and
// concurrently. Each call returns when everything is closed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.end(call.ErrClosed)
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
	c.turn <- struct{}{} // wait for a connect in progress, which has been cancelled and closes its connection
	<-c.turn
	closing.Wait()
	c.pinging.Wait()
	_ = c.dialer.endings.await(context.Background())
	return errors.Join(errs...)
}

// Ping returns an error if the server does not answer. In 2026-07-28, which has no ping, it
// sends server/discover. The time-out is Timeouts.Ping.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.request(ctx, c.pingRequest, true)
	return err
}

func (c *Client) pingRequest(l *link) *outbound.Request {
	method := mcp.MethodPing
	if l.revision.Modern() {
		method = mcp.MethodDiscover
	}
	return &outbound.Request{Method: method, Timeout: c.dialer.Timeouts.Ping, MaxTimeout: c.dialer.Timeouts.Max}
}

// maxRepeats limits how often a request is repeated that the server has certainly not acted on. While the replicas of a
// server restart one after another, the client may reconnect to the replica that stops next.
const maxRepeats = 2

// request sends the request that build returns. It reconnects first if the connection is
// lost. It repeats the request if the server has certainly not acted on it, and once if it is
// repeatable.
func (c *Client) request(ctx context.Context, build func(*link) *outbound.Request,
	repeatable bool) (json.RawMessage, error) {
	mayHaveRun := false // in an earlier attempt
	for attempt := 0; ; attempt++ {
		l, err := c.connected(ctx)
		switch {
		case err != nil && mayHaveRun:
			return nil, err
		case err != nil:
			return nil, notSent(err)
		}
		req := build(l)
		c.applyLogLevel(ctx, l, req)
		raw, err := l.call(ctx, req)
		unserved := err != nil && !req.MayHaveRun
		sessionGone := unserved && errors.Is(err, httpclient.ErrSessionGone)
		lost := err != nil && (sessionGone || l.failed() != nil)
		if rejection, ok := errors.AsType[*httpclient.Rejection](err); ok && !lost &&
			c.rejectsAll(ctx, l, req.Method, err) {
			lost, sessionGone = true, rejection.NamesSession
		}
		stale := l.isStale(ctx, err)
		c.release(l, lost || stale)
		if err == nil {
			return raw, nil
		}
		mayHaveRun = mayHaveRun || req.RanBefore
		limit := maxRepeats
		if req.RanBefore { // middleware has sent the request again; this goes on with its last attempt
			limit = 1
		}
		again := unserved && lost && attempt < limit && (sessionGone || errors.Is(err, call.ErrNotSent)) ||
			attempt == 0 && repeatable && (lost || errors.Is(err, call.ErrConnectionLost))
		if stale {
			legacy, dialErr := c.rediscover(ctx)
			if dialErr != nil {
				return nil, withMethod(req.Method, dialErr)
			}
			again = attempt == 0 && legacy && (repeatable || unserved || rejectsEra(err))
		}
		if !again || ctx.Err() != nil {
			return nil, withMethod(req.Method, afterAttempts(mayHaveRun, err))
		}
		mayHaveRun = mayHaveRun || req.MayHaveRun
	}
}

// afterAttempts returns the error of the last attempt to send a request. If the server may have acted on an earlier
// one, the error does not match call.ErrNotSent.
func afterAttempts(mayHaveRun bool, err error) error {
	if mayHaveRun && errors.Is(err, call.ErrNotSent) {
		return &repeatError{err}
	}
	return err
}

// repeatError is the error of a repeated request that was not sent, unlike an earlier attempt.
type repeatError struct{ err error }

func (e *repeatError) Error() string {
	return "repeated after an attempt that the server may have received: " + e.err.Error()
}

// Is reports whether the error matches target.
func (e *repeatError) Is(target error) bool {
	return target != call.ErrNotSent && errors.Is(e.err, target)
}

// As finds the first error of the type of target.
func (e *repeatError) As(target any) bool { return errors.As(e.err, target) }

// rejectsAll reports whether a server that has rejected a request of a session rejects a ping as well. If so, it
// has lost the session, perhaps in a restart. err is the error of the request.
func (c *Client) rejectsAll(ctx context.Context, l *link, method string, err error) bool {
	if method != mcp.MethodPing {
		_, err = l.call(ctx, c.pingRequest(l))
	}
	return isSessionLost(err)
}

// isSessionLost reports whether the error of a ping shows that the server does not know the session. A server without
// ping still looks up the session before the method.
func isSessionLost(err error) bool {
	if reported, ok := errors.AsType[*jsonrpc.Error](err); ok && reported.Code == jsonrpc.CodeMethodNotFound {
		return false
	}
	_, rejected := errors.AsType[*httpclient.Rejection](err)
	return rejected || errors.Is(err, httpclient.ErrSessionGone)
}

// notSent adds call.ErrNotSent to the error of a request for which there is no connection.
func notSent(err error) error {
	if dial, ok := err.(*DialError); ok {
		return &unsentError{dial}
	}
	return err
}

// unsentError is a DialError that also matches call.ErrNotSent.
type unsentError struct{ *DialError }

func (e *unsentError) Unwrap() []error { return []error{e.DialError, call.ErrNotSent} }

// withMethod adds the method of the request to err, unless err begins with it.
func withMethod(method string, err error) error {
	if late, ok := errors.AsType[*call.TimeoutError](err); ok && late.Method == method {
		return err
	}
	return fmt.Errorf("%s: %w", method, err)
}
