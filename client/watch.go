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

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Change is one thing that has changed at a server. See [Client.Watch].
type Change = rpc.Change

// The kinds of changes.
const (
	ToolsChanged     = rpc.ToolsChanged     // the list of tools
	PromptsChanged   = rpc.PromptsChanged   // the list of prompts
	ResourcesChanged = rpc.ResourcesChanged // the lists of resources and of their templates
	ResourceUpdated  = rpc.ResourceUpdated  // the contents of the resource Change.URI
)

// WatchOptions say what to watch. The zero value is all lists.
type WatchOptions struct {
	Tools, Prompts, Resources bool
	// URIs are resources whose contents to watch: at most 1,024, of 8 KiB each and of
	// 1 MiB together. That of a directory may be that of all that is in it; the server
	// decides.
	URIs []string
	// UntilLost ends the watch when the connection is lost, instead of connecting anew:
	// for programs that decide themselves when to do that. The last error is then
	// ErrConnectionLost, or what the server ended the subscription with.
	UntilLost bool
}

func (o *WatchOptions) filter() mcp.SubscriptionFilter {
	if !o.Tools && !o.Prompts && !o.Resources && len(o.URIs) == 0 {
		return mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	}
	return mcp.SubscriptionFilter{
		ToolsListChanged: o.Tools, PromptsListChanged: o.Prompts, ResourcesListChanged: o.Resources,
		ResourceSubscriptions: slices.Clone(o.URIs),
	}
}

// ErrNotOffered is in the error of [Client.Watch] if the server reports nothing of
// what was to be watched.
var ErrNotOffered = errors.New("the server does not report such changes")

// Watch returns the changes of a server, in every revision, for as long as ctx lasts
// or the loop goes on:
//
//	for change, err := range c.Watch(ctx, client.WatchOptions{Tools: true}) { … list the tools anew … }
//
// It begins with one change of each thing that is watched, marked as Unsure, when the
// server is listening: list it then, and nothing is missed. What the server does not
// report is not among them. The same happens whenever the connection was lost and is
// there again; Watch connects anew by itself, as requests do. Before a change is
// returned, what was kept of the results that it concerns is gone; see [Cache].
//
// Changes gather while the loop's body runs, and each is returned once however often
// it has happened meanwhile.
//
// The end of ctx ends the loop without an error. Otherwise the last element is an
// error: ErrNotOffered, ErrClosed, a *jsonrpc.Error of the server's, or that of the
// last of several failures to connect.
func (c *Client) Watch(ctx context.Context, options WatchOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		filter := options.filter()
		if err := rpc.CheckSubscribed(filter.ResourceSubscriptions); err != nil {
			yield(Change{}, fmt.Errorf("watch: %w", err))
			return
		}
		watching, cancel := context.WithCancel(ctx)
		w := &watch{filter: filter, untilLost: options.UntilLost, sub: rpc.NewSubscription(mcp.SubscriptionFilter{}), timeouts: c.dialer.Timeouts, cache: c.cache}
		w.sub.Parts = true
		defer w.sub.Close()
		done := make(chan error, 1)
		go func() { done <- c.keepWatching(watching, w) }()
		for {
			select {
			case <-w.sub.Wake():
				for _, change := range w.sub.Take() {
					if !yield(change, nil) {
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

// A watch connects anew after up to maxRewatches failures in a row, with growing
// pauses of half a minute together.
const (
	maxRewatches = 6
	firstPause   = 500 * time.Millisecond
	// steady is how long a watch has to last for its end to be followed by no pause.
	steady = 10 * time.Second
)

// watch is one Watch.
type watch struct {
	filter    mcp.SubscriptionFilter
	untilLost bool
	sub       *rpc.Subscription // what the loop is to be told
	timeouts  Timeouts
	cache     *cacheUse // which has to hear of changes first

	mu     sync.Mutex
	round  int       // how many connections there were
	opened time.Time // when the server began to listen on this one; zero if it has not
}

// begin begins another round.
func (w *watch) begin() (round int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.round++
	w.opened = time.Time{}
	return w.round
}

// open begins what is acknowledged of the watch. A word that comes late, when another
// connection is there already, does nothing.
func (w *watch) open(round int, filter mcp.SubscriptionFilter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if round != w.round {
		return
	}
	w.opened = time.Now()
	w.cache.unsure(filter)
	w.sub.Set(filter)
	w.sub.Unsure()
}

// lasted is for how long the server has listened, and whether it has.
func (w *watch) lasted() (d time.Duration, opened bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.opened), !w.opened.IsZero()
}

// keepWatching watches, on one connection after the other.
func (c *Client) keepWatching(ctx context.Context, w *watch) error {
	for failures := 0; ; {
		err := c.watchOnce(ctx, w)
		lasted, opened := w.lasted()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case w.untilLost || !transient(err):
			return err
		case !opened:
			if failures++; failures > maxRewatches {
				return err
			}
		case lasted >= steady:
			failures = 0
			continue
		default:
			failures = 1
		}
		pause := firstPause << (failures - 1)
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) // not all at once
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-c.life.Done():
		}
		timer.Stop()
	}
}

// transient reports whether what ended a watch may be better next time.
func transient(err error) bool {
	var reported *jsonrpc.Error
	var missing *MissingCapabilitiesError
	switch {
	case errors.As(err, &missing):
		return false
	case errors.Is(err, ErrClosed), errors.Is(err, errOneConn), errors.Is(err, ErrNotOffered), errors.Is(err, ErrRevision):
		return false
	case errors.As(err, &reported):
		return reported.Code == jsonrpc.CodeInternalError // as of a server that is just going down
	}
	return true
}

// watchOnce watches for as long as one connection lasts.
func (c *Client) watchOnce(ctx context.Context, w *watch) error {
	round := w.begin()
	l, err := c.provenLink(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- l.watch(ctx, w, round) }()
	select {
	case err = <-ended:
	case <-l.dropped: // somebody else has found out that the link is of no more use
		cancel(ErrConnectionLost)
		err = <-ended
	}
	c.release(l, l.failed() != nil || errors.Is(err, errDeaf))
	return err
}

// errDeaf ends the use of a connection on which requests may still be answered.
var errDeaf = fmt.Errorf("%w: the stream on which the server speaks by itself", ErrConnectionLost)

func isEmpty(filter mcp.SubscriptionFilter) bool {
	return !filter.ToolsListChanged && !filter.PromptsListChanged && !filter.ResourcesListChanged && len(filter.ResourceSubscriptions) == 0
}

// listen watches by a request that stays open (2026-07-28,
// basic/patterns/subscriptions).
func (w *watch) listen(ctx context.Context, round int, send func(context.Context, *rpc.Request) (json.RawMessage, error)) error {
	params, err := json.Marshal(struct {
		Notifications mcp.SubscriptionFilter `json:"notifications"`
	}{w.filter})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := w.timeouts.Read
	late := func() { cancel(&rpc.TimeoutError{Method: mcp.MethodListen, After: patience}) }
	timer := time.NewTimer(0)
	if timer.Stop(); patience > 0 {
		timer = time.AfterFunc(patience, late)
	}
	defer timer.Stop()
	_, err = send(ctx, &rpc.Request{Method: mcp.MethodListen, Params: params, OnNotice: func(m *jsonrpc.Message) {
		if m.Method != mcp.NotificationSubscriptionsAcknowledged {
			if change, ok := rpc.ChangeOf(m); ok {
				w.cache.changed(change)
				w.sub.Note(change)
			}
			return
		}
		timer.Stop()
		filter, err := w.acknowledged(m)
		if err == nil && isEmpty(filter) {
			err = ErrNotOffered
		}
		if err != nil {
			cancel(err)
			return
		}
		w.open(round, filter)
	}})
	if err == nil {
		err = rpc.ErrSubscriptionEnded
	}
	return err
}

// acknowledged returns what the server honours of the watch.
func (w *watch) acknowledged(m *jsonrpc.Message) (filter mcp.SubscriptionFilter, _ error) {
	var params mcp.SubscriptionsAcknowledgedParams
	if err := json.Unmarshal(m.Raw, &params); err != nil {
		return filter, fmt.Errorf("%w: %s: %w", ErrInvalidResponse, m.Method, err)
	}
	honoured := params.Notifications
	for _, uri := range w.filter.ResourceSubscriptions {
		if slices.Contains(honoured.ResourceSubscriptions, uri) {
			filter.ResourceSubscriptions = append(filter.ResourceSubscriptions, uri)
		}
	}
	filter.ToolsListChanged = w.filter.ToolsListChanged && honoured.ToolsListChanged
	filter.PromptsListChanged = w.filter.PromptsListChanged && honoured.PromptsListChanged
	filter.ResourcesListChanged = w.filter.ResourcesListChanged && honoured.ResourcesListChanged
	return filter, nil
}

// unsubscribing is how long a server is waited for that is told of the end of a watch.
const unsubscribing = 2 * time.Second

// overhear watches what the server says on a session by itself. Of lists it does so
// without being asked; resources are subscribed to.
func (w *watch) overhear(ctx context.Context, round int, era *legacy.Client, offered mcp.ServerCapabilities) error {
	filter := rpc.Honoured(w.filter, offered)
	if isEmpty(filter) {
		return ErrNotOffered
	}
	w.sub.Set(filter)
	detach := era.Changes.Attach(w.sub)
	uris, like := filter.ResourceSubscriptions, rpc.Request{Timeout: w.timeouts.Read, MaxTimeout: w.timeouts.Max}
	defer func() {
		detach()
		if era.Failed() == nil && len(uris) > 0 {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribing)
			defer cancel()
			_ = era.Unsubscribe(ctx, uris, like) // updates that are not wanted do no harm
		}
	}()
	if len(uris) == 0 { // an answer to anything says that the server is past the handshake
		like.Method = mcp.MethodPing
		if _, err := era.Call(ctx, &like); err != nil {
			return err
		}
	} else {
		honoured, err := era.Subscribe(ctx, uris, like)
		if err != nil {
			return err
		}
		uris, filter.ResourceSubscriptions = honoured, honoured
	}
	w.open(round, filter)
	select {
	case <-era.Gone():
		return era.Failed()
	case <-era.IsDeaf():
		return errDeaf
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
