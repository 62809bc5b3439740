package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Watch returns the changes of the server's lists and resources that filter selects, in
// every revision, until ctx ends or the loop is left:
//
//	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) { … list the tools … }
//
// When the server has begun to report changes, Watch returns one [Change] with Resync set
// for each list and resource that the server reports on. List or read them then, and no
// later change is missed. Watch reconnects by itself, and then does the same again. Before
// Watch returns a change, it drops the results that the change affects from the [Cache].
//
// Changes that arrive while the loop body runs are merged: each list and resource is
// returned at most once.
//
// The end of ctx ends the loop without an error. Otherwise the last element is an error:
// errors.ErrUnsupported, call.ErrClosed, a *jsonrpc.Error from the server, or the error of the
// last of several attempts to connect. The option [WithTimeout] limits the wait until the
// server has begun; the default is Timeouts.Read.
func (c *Client) Watch(ctx context.Context, filter WatchFilter, options ...CallOption) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		w, err := c.newWatch(filter, options)
		if err != nil {
			yield(Change{}, fmt.Errorf("watch: %w", err))
			return
		}
		watching, cancel := context.WithCancel(ctx)
		defer w.sub.Close()
		done := make(chan error, 1)
		go func() { done <- c.keepWatching(watching, w) }()
		for {
			select {
			case <-w.sub.Ready():
				for _, change := range w.sub.Take() {
					if !yield(Change{ChangeKind(change.Kind), change.URI, change.Resync}, nil) {
						cancel()
						<-done
						return
					}
				}
			case err := <-done:
				cancel()
				if ctx.Err() == nil {
					yield(Change{}, fmt.Errorf("watch: %w", err))
				}
				return
			}
		}
	}
}

// Limits on reconnecting: a watch ends after maxReconnects failures in a row. The pauses
// between them double from firstPause and add up to about half a minute. The pauses after
// rounds that did not last grow in the same way, but such a watch does not end.
const (
	maxReconnects = 6
	firstPause    = 500 * time.Millisecond
	// stableAfter is how long a watch must last for the next one to begin without a pause.
	stableAfter = 10 * time.Second
	// maxOverloadPause limits the pause that a server asks for.
	maxOverloadPause = time.Minute
)

// watchFunc watches the changes in filter in one round of a watch.
type watchFunc func(ctx context.Context, w *watch, round int, filter mcp.SubscriptionFilter) error

// watch is the state of one call of Watch.
type watch struct {
	filter  mcp.SubscriptionFilter
	options callOptions
	max     time.Duration         // Timeouts.Max
	sub     *changes.Subscription // collects the changes for the loop
	cache   *resultCache          // drops results before the loop receives a change

	mu     sync.Mutex
	round  int       // number of the current connection
	opened time.Time // when the server began to report on it; zero if it has not
}

func (c *Client) newWatch(filter WatchFilter, options []CallOption) (*watch, error) {
	o, err := optionsOf(options, c.dialer.Timeouts.Read)
	if err != nil {
		return nil, err
	}
	w := &watch{
		filter: filter.subscription(), options: o, max: c.dialer.Timeouts.Max,
		sub: changes.NewSubscription(mcp.SubscriptionFilter{}), cache: c.cache,
	}
	w.sub.IncludeParts = true
	return w, changes.CheckSubscriptions(w.filter.ResourceSubscriptions)
}

// begin starts the next round and returns its number.
func (w *watch) begin() (round int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.round++
	w.opened = time.Time{}
	return w.round
}

// open records that the server reports the changes in filter. It ignores a late
// acknowledgement of an earlier round.
func (w *watch) open(round int, filter mcp.SubscriptionFilter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if round != w.round {
		return
	}
	w.opened = time.Now()
	w.cache.dropUnwatched(filter)
	w.sub.Set(filter)
	w.sub.Resync()
}

// lasted returns how long the server has reported changes in this round, and whether it has
// begun to.
func (w *watch) lasted() (d time.Duration, opened bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.opened), !w.opened.IsZero()
}

// keepWatching watches on one connection after another.
func (c *Client) keepWatching(ctx context.Context, w *watch) error {
	for failures, brief := 0, 0; ; { // rounds in a row that were not opened, and that did not last
		err := c.watchOnce(ctx, w)
		lasted, opened := w.lasted()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case w.options.noReconnect || !isTransient(err):
			return err
		case !opened:
			if failures++; failures > maxReconnects {
				return err
			}
		case lasted >= stableAfter:
			failures, brief = 0, 0
			continue
		default:
			failures, brief = 0, min(brief+1, maxReconnects)
		}
		timer := time.NewTimer(retryPause(failures+brief, err))
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-c.life.Done():
		}
		timer.Stop()
	}
}

// retryPause returns the pause after n failures in a row, the last of them with err.
func retryPause(n int, err error) time.Duration {
	pause := firstPause << (min(n, maxReconnects) - 1)
	pause = pause/2 + rand.N(pause/2) // jitter, so that clients do not return all at once
	if overload, ok := errors.AsType[*call.OverloadError](err); ok {
		pause = max(pause, min(overload.RetryAfter, maxOverloadPause))
	}
	return pause
}

// isTransient reports whether another attempt may succeed after err.
func isTransient(err error) bool {
	var reported *jsonrpc.Error
	var overload *call.OverloadError
	switch {
	case errors.As(err, &overload):
		return true
	case errors.Is(err, call.ErrClosed), errors.Is(err, errConnUsed), errors.Is(err, errWatchUnsupported), errors.Is(err, call.ErrRevision):
		return false
	case errors.As(err, &reported):
		return reported.Code == jsonrpc.CodeInternalError // for instance from a server that is shutting down
	}
	return true
}

// watchOnce watches until the connection ends.
func (c *Client) watchOnce(ctx context.Context, w *watch) error {
	round := w.begin()
	l, offered, err := c.verified(ctx)
	if err != nil {
		return err
	}
	filter := changes.SupportedFilter(w.filter, offered)
	if isEmpty(filter) {
		c.release(l, false)
		return errWatchUnsupported
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- l.watch(ctx, w, round, filter) }()
	select {
	case err = <-ended:
	case <-l.dropped:
		cancel(call.ErrConnectionLost)
		err = <-ended
	}
	c.release(l, l.failed() != nil || errors.Is(err, errStreamLost))
	return err
}

// errStreamLost retires a connection whose requests may still be answered.
var errStreamLost = fmt.Errorf("%w: the stream of the server's notifications ended", call.ErrConnectionLost)

func isEmpty(filter mcp.SubscriptionFilter) bool {
	return !filter.ToolsListChanged && !filter.PromptsListChanged && !filter.ResourcesListChanged && len(filter.ResourceSubscriptions) == 0
}
