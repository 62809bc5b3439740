package outbound

import (
	"context"
	"encoding/json"

	"github.com/parley-mcp/parley/internal/rpc"
)

// Limits on the input requests of a server. Each connection of a client has its own.
const (
	MaxInputRequests = 256 // in one result, or without a response in a session
	maxAnswering     = 16  // handled at the same time
)

// LimitInput returns a handler that runs h for a limited number of requests at the same time. Further requests wait
// until one is answered or their ctx ends. Requests that belong to a call that this program serves, as in a gateway,
// have no limit here, because one client must not wait for the answers of others. It returns nil if h is nil.
func LimitInput(h rpc.InputHandler) rpc.InputHandler {
	if h == nil {
		return nil
	}
	slots := make(chan struct{}, maxAnswering)
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if rpc.From(ctx) != nil {
			return h(ctx, method, params)
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		defer func() { <-slots }()
		return h(ctx, method, params)
	}
}
