package host

import (
	"context"
	"errors"
	"fmt"
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

	// startTime is how long a server may take until its lists are known, unless ServerConfig.StartTimeout is set.
	startTime = 45 * time.Second

	// lostBackoff limits the backoff of a server over HTTP that was ready. It will probably
	// return, and an attempt is cheap.
	lostBackoff = 5 * time.Second

	// stable is how long a server must have been ready so that its next failure does
	// not increase the backoff. A server that has answered a call counts as stable
	// at once.
	stable = 10 * time.Second
)

// startError is the error of a server that is not ready in time. It matches context.DeadlineExceeded.
type startError struct{ limit time.Duration }

func (e *startError) Error() string { return fmt.Sprintf("not ready within %v", e.limit) }

func (e *startError) Is(target error) bool { return target == context.DeadlineExceeded }

// startFailure returns err with the limit of a start, if ctx has reached it. A request can time out at the same moment,
// before ctx has ended.
func startFailure(ctx context.Context, limit time.Duration, err error) error {
	deadline, _ := ctx.Deadline()
	if err == nil || time.Now().Before(deadline) || errors.As(err, new(*startError)) {
		return err
	}
	return fmt.Errorf("%w: %w", &startError{limit}, err)
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
