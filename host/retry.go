package host

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
)

const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
	// maxLoginBackoff limits the backoff of a server that rejects the credentials: a request that it rejects again and
	// again can lock an account. The host tries again when the configuration or the logins change, or on a call, but on
	// calls at most once per loginBackoff.
	maxLoginBackoff = time.Hour
	loginBackoff    = 15 * time.Second

	// lostBackoff limits the backoff of a server over HTTP that was ready. It will probably
	// return, and an attempt is cheap.
	lostBackoff = 5 * time.Second

	// stable is how long a server must have been ready so that its next failure does
	// not increase the backoff. A server that has answered a call counts as stable
	// at once.
	stable = 10 * time.Second
)

// retryTimer returns a channel that receives a value when the backoff is over, or nil if there is no backoff.
func (s *supervisor) retryTimer() <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.status.State.isDown() || s.status.State == CallersOnly && s.status.Err != nil
	if !failed || s.client != nil && !s.canRestart() {
		return nil
	}
	return time.After(time.Until(s.status.Retry))
}

// lost marks a server that was ready as down. It does nothing if c is neither nil nor
// the current client.
func (s *supervisor) lost(c *client.Client, err error) {
	changed := s.set(func(status *ServerStatus) bool {
		if !status.State.isUsable() || c != nil && c != s.client {
			return false
		}
		if time.Since(s.since) >= stable || s.answered.Load() {
			s.failures = -1 // allow the first attempt at once
		}
		if s.canRestart() {
			s.lostAt = time.Now()
		}
		s.fail(status, err)
		return true
	})
	if changed {
		s.logger.Warn("server lost", "error", err)
	}
}

// canRestart reports whether the server can be dialled again after its connection was lost.
func (s *supervisor) canRestart() bool {
	switch s.config.Target.(type) {
	case *client.CommandTarget, *client.HTTPTarget:
		return true
	}
	return false
}

func (s *supervisor) isHTTP() bool {
	_, ok := s.config.Target.(*client.HTTPTarget)
	return ok
}

// down marks a server as down that could not be started. If attempts keep failing with the
// same error, it logs only the first as a warning.
func (s *supervisor) down(err error) {
	level, text, retry := slog.LevelWarn, "server down", time.Time{}
	s.set(func(status *ServerStatus) bool {
		if status.Err != nil && status.Err.Error() == err.Error() {
			level = slog.LevelDebug
		}
		s.fail(status, err)
		if retry = status.Retry; status.State == CallersOnly {
			text = "the server lists nothing without a login, so only callers who log in can use it"
		}
		return true
	})
	s.logger.Log(context.Background(), level, text, "error", err, "retry", time.Until(retry).Round(time.Second))
}

// fail sets the status of a server that is down; mu must be held. It stops the
// watcher, because a watch would make the client reconnect.
func (s *supervisor) fail(status *ServerStatus, err error) {
	if s.stopWatcher != nil {
		s.stopWatcher()
	}
	s.failures++
	wait := backoff(s.failures)
	if s.client != nil && s.isHTTP() {
		wait = min(wait, lostBackoff)
	}
	status.State, status.Err = Down, err
	if isUnauthorized(err) {
		if status.State = NeedsLogin; s.config.CallerAuth != nil {
			status.State = CallersOnly
		}
		wait = s.loginWait()
	}
	status.Retry = time.Now().Add(jitter(wait))
	s.notBefore = time.Time{}
	if failed := new(call.StatusError); errors.As(err, &failed) && failed.RetryAfter > 0 {
		s.notBefore = time.Now().Add(min(failed.RetryAfter, maxLoginBackoff))
		if s.notBefore.After(status.Retry) {
			status.Retry = s.notBefore
		}
	}
}

// loginWait returns the time until the next attempt to connect to a server that rejects the credentials. A login does
// not replace credentials from the configuration.
func (s *supervisor) loginWait() time.Duration {
	if t, ok := s.config.Target.(*client.HTTPTarget); ok && len(t.Header) > 0 {
		return maxLoginBackoff
	}
	return min(firstBackoff<<min(max(s.failures, 1)-1, 20), maxLoginBackoff)
}

// LoginsChanged tells the Host that the user may have logged in to servers. It tries those in state [NeedsLogin] again
// at once, or 15 seconds after the last attempt. Otherwise it rarely does, except for calls.
func (h *Host) LoginsChanged() {
	for _, s := range h.all() {
		s.set(func(status *ServerStatus) bool {
			again := s.attempted.Add(loginBackoff)
			if s.notBefore.After(again) {
				again = s.notBefore
			}
			if status.State != NeedsLogin || !again.Before(status.Retry) {
				return false
			}
			status.Retry = again
			return true
		})
	}
}

// isUnauthorized reports whether a server requires credentials, or different ones.
func isUnauthorized(err error) bool {
	var status *call.StatusError
	return errors.Is(err, call.ErrUnauthorized) || errors.As(err, &status) && status.Status == http.StatusUnauthorized
}

// jitter shortens a backoff by up to a quarter, so that many hosts do not reconnect at the
// same time to a server that was down.
func jitter(wait time.Duration) time.Duration { return wait - rand.N(wait/4+1) }

// backoff returns how long to wait after a number of failures in a row.
func backoff(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(firstBackoff<<min(failures-1, 10), maxBackoff)
}
