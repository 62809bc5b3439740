package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Watch returns the changes of the server's lists and resources that filter selects, in
// every revision, until ctx ends or the loop is left:
//
//	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) { … list the tools … }
//
// When the server has begun to report changes, Watch returns one [Change] with Resync set
// for each list and resource that the server reports on. List or read them then, and no
// later change is missed. Watch reconnects by itself, and then does the same again. Before
// Watch returns a change, it drops the results that the change affects from the cache.
//
// If the server does not watch a resource, for instance because the client may not read it, Watch returns it once for
// each connection, with Change.URI and an error. Such an error does not end the watch, so the loop can go on with the
// other resources.
//
// Changes that arrive while the loop body runs are merged: each list and resource is
// returned at most once.
//
// The end of ctx ends the loop without an error. Otherwise the last element is an error without a URI:
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
		var ended error
		done := make(chan struct{})
		defer func() { // even after a panic in the loop body
			cancel()
			<-done
		}()
		go func() {
			defer close(done)
			ended = c.keepWatching(watching, w)
		}()
		take := func() bool {
			for _, change := range w.sub.Take() {
				if !yield(Change{ChangeKind(change.Kind), change.URI, change.Resync}, nil) {
					return false
				}
			}
			return true
		}
		for {
			select {
			case <-w.sub.Ready():
				if !take() {
					return
				}
			case refusals := <-w.refused:
				if !take() { // what is watched comes first
					return
				}
				for _, r := range refusals {
					if !yield(Change{Kind: ResourceUpdated, URI: r.uri}, fmt.Errorf("watch: %w", r.err)) {
						return
					}
				}
			case <-done:
				if ctx.Err() == nil {
					yield(Change{}, fmt.Errorf("watch: %w", ended))
				}
				return
			}
		}
	}
}

// Limits on reconnecting: a watch ends after maxReconnects failures in a row. The pauses
// between them double from firstPause and add up to about half a minute. The pauses after
// rounds that ended too soon grow in the same way, but do not end the watch.
const (
	maxReconnects = 6
	firstPause    = 500 * time.Millisecond
	// stableAfter is how long a watch must last for the next round to begin without a pause.
	stableAfter = 10 * time.Second
	// maxOverloadPause limits the pause that a server asks for.
	maxOverloadPause = time.Minute
)

// watchFunc is one round of a watch: it watches the changes in filter.
type watchFunc func(ctx context.Context, w *watch, round int, filter mcp.SubscriptionFilter) error

// watch is the state of one call of Watch.
type watch struct {
	filter  mcp.SubscriptionFilter
	options callOptions
	max     time.Duration         // Timeouts.Max
	sub     *changes.Subscription // collects the changes for the loop
	cache   *resultCache          // drops stale results before the loop receives a change

	refused chan []refusal // refusals of the last round, until the loop receives them

	mu     sync.Mutex
	round  int       // number of the current connection
	opened time.Time // when the server began to report on it; zero if it has not
}

func (c *Client) newWatch(filter WatchFilter, options []CallOption) (*watch, error) {
	o, err := optionsOf(options, watchRequest, c.dialer.Timeouts.Read)
	if err != nil {
		return nil, err
	}
	w := &watch{
		filter: filter.subscription(), options: o, max: c.dialer.Timeouts.Max,
		sub: changes.NewSubscription(mcp.SubscriptionFilter{}), cache: c.cache, refused: make(chan []refusal, 1),
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

// refusal is a resource that the server does not watch.
type refusal struct {
	uri string
	err error
}

// errNotWatched is the error of a resource that an acknowledgement leaves out without a reason.
var errNotWatched = errors.New("the server does not report changes of this resource: it may not exist, or be closed " +
	"to this client; the log of the server says why")

// refusals returns the resources of the watch that are not in filter, with the errors of the server.
func (w *watch) refusals(filter mcp.SubscriptionFilter, rejected map[string]error) (all []refusal) {
	for _, uri := range w.filter.ResourceSubscriptions {
		if slices.Contains(filter.ResourceSubscriptions, uri) {
			continue
		}
		err := rejected[uri]
		if err == nil {
			err = fmt.Errorf("%.256q: %w", uri, errNotWatched)
		}
		all = append(all, refusal{uri, err})
	}
	return all
}

// open records that the server reports the changes in filter, and the errors of resources that it has rejected. It
// ignores a late acknowledgement of an earlier round.
func (w *watch) open(round int, filter mcp.SubscriptionFilter, rejected map[string]error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if round != w.round {
		return
	}
	w.opened = time.Now()
	w.cache.dropUnwatched(filter)
	w.sub.Set(filter)
	w.sub.Resync()
	select {
	case <-w.refused:
	default:
	}
	if all := w.refusals(filter, rejected); all != nil {
		w.refused <- all
	}
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
	for failures, brief := 0, 0; ; { // consecutive rounds that were not opened, or ended too soon
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
	pause = pause/2 + rand.N(pause/2) // jitter, so that clients do not all return at once
	if overload, ok := errors.AsType[*call.OverloadError](err); ok {
		pause = max(pause, min(overload.RetryAfter, maxOverloadPause))
	}
	return pause
}

// rejectedError is the error of a server that has rejected all that a watch is about. Even an internal error then
// concerns the resource.
type rejectedError struct{ error }

// Unwrap returns the error of the server.
func (e *rejectedError) Unwrap() error { return e.error }

// isTransient reports whether another attempt may succeed after err.
func isTransient(err error) bool {
	var reported *jsonrpc.Error
	var overload *call.OverloadError
	var rejected *rejectedError
	switch {
	case errors.As(err, &overload):
		return true
	case errors.As(err, &rejected):
		return false
	case errors.Is(err, call.ErrClosed), errors.Is(err, errConnUsed), errors.Is(err, errWatchUnsupported),
		errors.Is(err, call.ErrRevision):
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
	return !filter.ToolsListChanged && !filter.PromptsListChanged && !filter.ResourcesListChanged &&
		len(filter.ResourceSubscriptions) == 0
}

// Change is an element of [Client.Watch]: a list or a resource of the server that changed.
type Change struct {
	Kind ChangeKind
	URI  string // the resource, for ResourceUpdated
	// Resync is set when the watch begins, and again after each reconnect, once for each
	// list and resource that is watched. The server has reported no change, but the client
	// may have missed some: list or read it now.
	Resync bool
}

// ChangeKind is what a [Change] is about. Its values are bits.
type ChangeKind uint8

// The kinds of changes.
const (
	// ToolsChanged means that the list of tools changed.
	ToolsChanged ChangeKind = 1 << iota
	// PromptsChanged means that the list of prompts changed.
	PromptsChanged
	// ResourcesChanged means that the list of resources or of resource templates changed.
	ResourcesChanged
	// ResourceUpdated means that the contents of the resource Change.URI changed.
	ResourceUpdated
)

// The values equal the ones in package changes; if they differ, the index is out of range and this does not
// compile.
var _ = [1]struct{}{}[ToolsChanged-ChangeKind(changes.ToolsChanged)|ResourceUpdated-ChangeKind(changes.ResourceUpdated)]

// String returns the method of the notification without its prefix, such as
// "tools/list_changed".
func (k ChangeKind) String() string { return changes.Kind(k).String() }

// WatchFilter selects what [Client.Watch] watches. The zero value selects all lists and no
// resources.
type WatchFilter struct {
	Tools     bool // the list of tools
	Prompts   bool // the list of prompts
	Resources bool // the lists of resources and of resource templates
	// URIs are the resources to watch: at most 1,024, with at most 8 KiB each and 1 MiB in all. For the URI of a
	// directory, a server may also report changes of the files in it.
	URIs []string
}

func (f *WatchFilter) subscription() mcp.SubscriptionFilter {
	if !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 {
		return mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	}
	return mcp.SubscriptionFilter{
		ToolsListChanged: f.Tools, PromptsListChanged: f.Prompts, ResourcesListChanged: f.Resources,
		ResourceSubscriptions: slices.Clone(f.URIs),
	}
}

// errWatchUnsupported is the error of [Client.Watch] if the server does not report any of
// the changes in the [WatchFilter]: it does not declare the capabilities (listChanged, or
// subscribe for the contents of resources), or does not acknowledge the subscription.
var errWatchUnsupported = revision.MissingFeature("the server does not report these changes")

// listen watches by a subscriptions/listen request, whose response ends the watch
// (2026-07-28, basic/patterns/subscriptions).
func (w *watch) listen(ctx context.Context, round int, filter mcp.SubscriptionFilter,
	send func(context.Context, *outbound.Request) (json.RawMessage, error)) error {
	params, err := schema.Marshal(mcp.ListenParams{Notifications: filter})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := func() { cancel(&call.TimeoutError{Method: mcp.MethodListen, After: w.options.timeout}) }
	timer := time.NewTimer(0)
	if timer.Stop(); w.options.timeout > 0 {
		timer = time.AfterFunc(w.options.timeout, late)
	}
	defer timer.Stop()
	_, err = send(ctx, &outbound.Request{Method: mcp.MethodListen, Params: params, Meta: w.options.meta,
		Capabilities: w.options.capabilities,
		OnNotification: func(m *jsonrpc.Message) {
			if m.Method != mcp.NotificationSubscriptionsAcknowledged {
				if change, ok := changes.Of(m); ok {
					w.cache.dropChanged(change)
					w.sub.Record(change)
				}
				return
			}
			timer.Stop()
			honoured, err := acknowledged(filter, m)
			if err == nil && isEmpty(honoured) {
				err = errWatchUnsupported
			}
			if err != nil {
				cancel(err)
				return
			}
			w.open(round, honoured, nil)
		}})
	switch {
	case ctx.Err() != nil: // the server may have ended the subscription too
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	return outbound.ErrSubscriptionEnded
}

// acknowledged returns the part of the filter that the server accepts.
func acknowledged(filter mcp.SubscriptionFilter, m *jsonrpc.Message) (mcp.SubscriptionFilter, error) {
	var params mcp.SubscriptionsAcknowledgedParams
	if err := schema.Decode(m.Raw, &params); err != nil {
		return filter, fmt.Errorf("%w: %s: %w", call.ErrInvalidResponse, m.Method, err)
	}
	honoured := params.Notifications
	filter.ToolsListChanged = filter.ToolsListChanged && honoured.ToolsListChanged
	filter.PromptsListChanged = filter.PromptsListChanged && honoured.PromptsListChanged
	filter.ResourcesListChanged = filter.ResourcesListChanged && honoured.ResourcesListChanged
	wanted := filter.ResourceSubscriptions
	filter.ResourceSubscriptions = nil
	for _, uri := range wanted {
		if slices.Contains(honoured.ResourceSubscriptions, uri) {
			filter.ResourceSubscriptions = append(filter.ResourceSubscriptions, uri)
		}
	}
	return filter, nil
}

// unsubscribeTimeout limits the wait for the responses to resources/unsubscribe.
const unsubscribeTimeout = 2 * time.Second

// observe watches the notifications of a session. The server reports changes of lists
// without being asked. For resources, observe sends resources/subscribe, and
// resources/unsubscribe at the end.
func (w *watch) observe(ctx context.Context, round int, filter mcp.SubscriptionFilter, era *legacy.Client) error {
	w.sub.Set(filter)
	detach := era.Changes.Attach(w.sub)
	uris := filter.ResourceSubscriptions
	var rejected map[string]error
	request := outbound.Request{Timeout: w.options.timeout, MaxTimeout: w.max, Meta: w.options.meta,
		Capabilities: w.options.capabilities}
	defer func() {
		detach()
		if era.Failed() == nil && len(uris) > 0 {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTimeout)
			defer cancel()
			_ = era.Unsubscribe(ctx, uris, request) // later updates are ignored
		}
	}()
	if len(uris) == 0 { // the response to a ping shows that the server has processed the end of the handshake
		ping := request
		ping.Method = mcp.MethodPing
		if _, err := era.Call(ctx, &ping); err != nil {
			return err
		}
	} else {
		honoured, refused, err := era.Subscribe(ctx, uris, request)
		if err != nil {
			return err
		}
		uris, filter.ResourceSubscriptions, rejected = honoured, honoured, refused
		if isEmpty(filter) {
			return &rejectedError{rejected[w.filter.ResourceSubscriptions[0]]}
		}
	}
	w.open(round, filter, rejected)
	select {
	case <-era.Done():
		return era.Failed()
	case <-era.NotificationsClosed():
		return errStreamLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
