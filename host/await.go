package host

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
)

// restartTime is how long after the loss of a server requests wait for it. It allows the first
// four attempts to restart the server.
const restartTime = 10 * time.Second

// forever is longer than any wait.
const forever = time.Duration(math.MaxInt64)

// use waits until the server is ready and calls f with a client, the caller's or the shared one. It marks
// the server as down if f reports that the shared client lost its connection, or that the server accepts no
// connections. If the request of f was not sent, use waits for the server and calls f again.
func use[Result any](ctx context.Context, s *supervisor,
	f func(context.Context, *client.Client) (*Result, error)) (*Result, error) {
	var until time.Time // f is not called again after it
	for {
		result, lost, err := attempt(ctx, s, f)
		if !lost || !errors.Is(err, call.ErrNotSent) || ctx.Err() != nil {
			return result, err
		}
		switch now := time.Now(); {
		case until.IsZero():
			until = now.Add(restartTime)
		case now.After(until):
			return result, err
		}
	}
}

// attempt calls f once. lost reports whether the server turned out to be unusable; see isLost.
func attempt[Result any](ctx context.Context, s *supervisor,
	f func(context.Context, *client.Client) (*Result, error)) (result *Result, lost bool, err error) {
	shared, err := s.await(ctx)
	if err != nil {
		return nil, false, err
	}
	on, c, release, err := s.connectionFor(ctx, shared)
	if err != nil {
		return nil, false, err
	}
	defer release()
	p := on.begin(ctx)
	defer on.end(p)
	if on == &s.own {
		on.haveRoots(s, callerFrom(ctx), c) // the server may ask for roots at once
	}
	result, err = f(p, c)
	if err == nil {
		if !s.answered.Load() {
			s.answered.Store(true)
		}
		return result, false, nil
	}
	if on != &s.own {
		err = s.missingKey(callerFrom(ctx), err)
	}
	notSent := errors.Is(err, call.ErrNotSent)
	lost = errors.Is(err, call.ErrConnectionLost) && (c == shared || notSent) || c == shared && isLost(ctx, err)
	if lost {
		s.lost(shared, err)
	}
	return result, lost, err
}

// isLost reports whether err shows that a server can no longer be used.
func isLost(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, call.ErrConnectionLost) || errors.As(err, new(*client.DialError)))
}

// await returns the client when the server is ready. It starts a server that is down, unless the
// backoff is running: within restartTime of the loss of the server, it waits for the backoff to end.
// Later, it waits for one attempt if a server over HTTP was ready before, at most once a second.
func (s *supervisor) await(ctx context.Context) (*client.Client, error) {
	began := time.Now()
	for {
		changed := s.changed.wait()
		s.mu.Lock()
		c, status, until := s.client, s.status, s.lostAt.Add(restartTime)
		again := time.Until(s.attempted.Add(firstBackoff))
		mayReturn := c != nil && s.isHTTP() && s.attempted.Before(began) && time.Now().After(s.notBefore)
		mayHaveLoggedIn := status.State == NeedsLogin && s.attempted.Add(loginBackoff).Before(began) &&
			time.Now().After(s.notBefore)
		s.mu.Unlock()
		wait := time.Until(status.Retry)
		switch {
		case status.State.isUsable():
			return c, nil
		case status.State == NotStarted:
			s.want()
			wait = forever
		case !status.State.isDown():
			wait = forever
		case errors.Is(status.Err, errClosed):
			return nil, status.downError()
		case wait <= 0 || mayHaveLoggedIn:
			s.want()
			wait = forever
		case status.State == Down && status.Retry.After(until) && mayReturn:
			if wait = again; wait <= 0 {
				s.want()
				wait = forever
			}
		case status.State == NeedsLogin || status.Retry.After(until):
			return nil, status.downError()
		}
		if !sleep(ctx, wait, changed) {
			return nil, context.Cause(ctx)
		}
	}
}
