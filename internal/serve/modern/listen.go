package modern

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Listen serves subscriptions/listen (2026-07-28, basic/patterns/subscriptions). It acknowledges the part of the filter
// that the server's capabilities and allows, which it calls with each resource, allow, and delivers notifications until
// the client cancels. When the server shuts down, the access token expires or allows rejects one of the resources,
// Listen returns a result.
func (s *Server) Listen(
	ctx context.Context, c *rpc.Call, filter mcp.SubscriptionFilter, announced *changes.Broadcaster,
	offered mcp.ServerCapabilities, allows func(uri string) bool,
) (any, error) {
	if c.Stream == nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			"a subscription requires an event stream: send Accept: application/json, text/event-stream, or see the "+
				"log of the server")
	}
	ids := filter.TaskIDs
	filter = changes.SupportedFilter(filter, offered)
	var recheck <-chan struct{}
	if s.Rechecks != nil {
		recheck = s.Rechecks() // first, so that no change is missed
	}
	rejects := func(uri string) bool { return !allows(uri) }
	filter.ResourceSubscriptions = slices.DeleteFunc(filter.ResourceSubscriptions, rejects)
	var err error
	var states <-chan json.RawMessage
	if ids != nil && s.WatchTasks != nil {
		var stop func()
		if filter.TaskIDs, states, stop, err = s.WatchTasks(ctx, c, ids); err != nil {
			return nil, err
		}
		defer stop()
	}
	owner, size := changes.OwnerOf(c.Principal(), c.Source()), changes.SubscribedSize(filter.ResourceSubscriptions...)+
		changes.SubscribedSize(filter.TaskIDs...)
	if err := announced.Bytes().Add(owner, size); err != nil {
		return nil, err
	}
	defer announced.Bytes().Remove(owner, size)
	sub := announced.Subscribe(c.Principal(), filter) // before the acknowledgement, so that no change is missed
	defer sub.Close()
	acknowledged, err := json.Marshal(filter)
	if err != nil {
		return nil, err
	}
	params := append(changes.AppendSubscription([]byte{'{'}, c.ID()), `,"notifications":`...)
	params = append(append(params, acknowledged...), '}')
	if c.Notify(ctx, mcp.NotificationSubscriptionsAcknowledged, params) != nil {
		return nil, errUndelivered
	}
	for {
		select {
		case <-sub.Ready():
			for _, change := range sub.Take() {
				if c.Notify(ctx, change.Kind.Method(), change.AppendParams(nil, c.ID())) != nil {
					return nil, errUndelivered
				}
			}
		case state := <-states:
			params := append(changes.AppendSubscription([]byte{'{'}, c.ID()), ',')
			if c.Notify(ctx, mcp.NotificationTasks, append(params, state[1:]...)) != nil {
				return nil, errUndelivered
			}
		case <-recheck:
			recheck = s.Rechecks()
			if slices.ContainsFunc(filter.ResourceSubscriptions, rejects) {
				return s.endListen(ctx, c)
			}
		case <-c.Closing:
			return s.endListen(ctx, c)
		case <-c.Expired: // the client subscribes again with a new token
			return s.endListen(ctx, c)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// errUndelivered ends a subscription whose client has disconnected. It is a *jsonrpc.Error,
// because other errors are logged and a disconnect is not a failure.
var errUndelivered = &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
	Message: "cannot deliver the notification: the client has disconnected"}

// endListen ends a subscription that the client has not cancelled. The server cancels it
// (basic/patterns/cancellation), and then answers the request (Graceful Closure).
func (s *Server) endListen(ctx context.Context, c *rpc.Call) (any, error) {
	params := append(changes.AppendSubscription([]byte{'{'}, c.ID()), `,"requestId":`...)
	params = append(c.ID().Append(params), `,"reason":"the server ends the subscription"}`...)
	if c.Notify(ctx, mcp.NotificationCancelled, params) != nil {
		return nil, errUndelivered
	}
	result := []byte(`{"resultType":"complete",`)
	result = changes.AppendSubscription(result, c.ID())
	if s.Engine.Identity != nil {
		result = append(result[:len(result)-1], `,"`+mcp.MetaServerInfo+`":`...)
		result = append(append(result, s.Engine.Identity...), '}')
	}
	// JSON repeats the id byte for byte; an encoder could change it.
	typed := &mcp.ListenResult{ResultBase: mcp.ResultBase{Meta: mcp.Meta{mcp.MetaSubscriptionID: c.ID().Append(nil)}}}
	return &rpc.Encoded{
		Append: func(dst []byte) []byte { return append(append(dst, result...), '}') },
		Result: func() any { return typed },
	}, nil
}

var filterMembers = []string{"toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions",
	"taskIds"}

// maxTasks is the maximum number of tasks in a subscription.
const maxTasks = 100

// FilterOf reads the filter of a subscription. It skips unknown kinds of notifications, so
// that the acknowledgement omits them.
func FilterOf(params *jsonrpc.Members) (filter mcp.SubscriptionFilter, _ error) {
	if name, ok := rpc.CaseVariant(params, "notifications", "_meta"); ok {
		return filter, jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
			"params has an unknown field %q: names are case-sensitive",
			name)
	}
	raw, _ := params.Get("notifications")
	if len(raw) == 0 || raw[0] != '{' {
		return filter, jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
			"params.notifications must be an object that lists the notifications to deliver")
	}
	for name, value := range jsonrpc.All(raw) {
		var err error
		switch name {
		case "toolsListChanged":
			filter.ToolsListChanged, err = boolean(name, value)
		case "promptsListChanged":
			filter.PromptsListChanged, err = boolean(name, value)
		case "resourcesListChanged":
			filter.ResourcesListChanged, err = boolean(name, value)
		case "resourceSubscriptions":
			if value[0] != '[' || schema.Decode(value, &filter.ResourceSubscriptions) != nil {
				err = jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
					"params.notifications.resourceSubscriptions must be an array of URIs")
			}
		case "taskIds":
			switch {
			case value[0] != '[' || schema.Decode(value, &filter.TaskIDs) != nil:
				err = jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
					"params.notifications.taskIds must be an array of task ids")
			case len(filter.TaskIDs) > maxTasks:
				err = jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "too many tasks: the limit is %d", maxTasks)
			}
		default:
			if jsonscan.IsVariant(name, filterMembers) {
				err = jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
					"params.notifications has an unknown field %q: names are case-sensitive", name)
			}
		}
		if err != nil {
			return filter, err
		}
	}
	return filter, changes.CheckSubscriptions(filter.ResourceSubscriptions)
}

func boolean(name string, value []byte) (bool, error) {
	switch string(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.notifications.%s must be true or false", name)
}
