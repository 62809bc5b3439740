package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// listen watches by a subscriptions/listen request, whose response ends the watch
// (2026-07-28, basic/patterns/subscriptions).
func (w *watch) listen(ctx context.Context, round int, filter mcp.SubscriptionFilter, send func(context.Context, *outbound.Request) (json.RawMessage, error)) error {
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
	_, err = send(ctx, &outbound.Request{Method: mcp.MethodListen, Params: params, Meta: w.options.meta, OnNotification: func(m *jsonrpc.Message) {
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
		w.open(round, honoured)
	}})
	switch {
	case ctx.Err() != nil: // the server may have ended the subscription too
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	return call.ErrSubscriptionEnded
}

// acknowledged returns the part of the filter that the server honours.
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
	request := outbound.Request{Timeout: w.options.timeout, MaxTimeout: w.max, Meta: w.options.meta}
	defer func() {
		detach()
		if era.Failed() == nil && len(uris) > 0 {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTimeout)
			defer cancel()
			_ = era.Unsubscribe(ctx, uris, request) // further updates are ignored
		}
	}()
	if len(uris) == 0 { // the response to a ping shows that the server has processed the end of the handshake
		ping := request
		ping.Method = mcp.MethodPing
		if _, err := era.Call(ctx, &ping); err != nil {
			return err
		}
	} else {
		honoured, err := era.Subscribe(ctx, uris, request)
		if err != nil {
			return err
		}
		uris, filter.ResourceSubscriptions = honoured, honoured
	}
	w.open(round, filter)
	select {
	case <-era.Done():
		return era.Failed()
	case <-era.NotificationsClosed():
		return errStreamLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
