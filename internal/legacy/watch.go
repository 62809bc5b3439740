package legacy

import (
	"context"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// watching is what a client does about changes at its server, which come on the
// session without belonging to any request.
type watching struct {
	Changes call.Changes // those that the server reports

	turn chan struct{} // held by whoever subscribes or unsubscribes

	once sync.Once
	deaf chan struct{} // closed when no more changes can come
}

func (w *watching) begin() { w.turn, w.deaf = make(chan struct{}, 1), make(chan struct{}) }

var _ call.Listener = (*Client)(nil)

// Listening implements call.Listener.
func (c *Client) Listening() { c.Changes.Unsure() }

// Deaf implements call.Listener.
func (c *Client) Deaf() { c.once.Do(func() { close(c.deaf) }) }

// IsDeaf returns a channel that is closed when the server's word does not reach this
// client any more, though its requests may reach the server.
func (c *Client) IsDeaf() <-chan struct{} { return c.deaf }

// subscribing is how many requests are under way for one Subscribe.
const subscribing = 16

// Subscribe has the server report updates of resources. The error of the first that
// it refuses is returned.
func (c *Client) Subscribe(ctx context.Context, uris []string, like call.Request) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	return c.forEach(ctx, uris, mcp.MethodSubscribe, like)
}

// Unsubscribe ends that for resources that no subscription is for any more.
func (c *Client) Unsubscribe(ctx context.Context, uris []string, like call.Request) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	var unwanted []string
	for _, uri := range uris {
		if !c.Changes.Wanted(uri) {
			unwanted = append(unwanted, uri)
		}
	}
	return c.forEach(ctx, unwanted, mcp.MethodUnsubscribe, like)
}

func (c *Client) forEach(ctx context.Context, uris []string, method string, like call.Request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string)
	var sending sync.WaitGroup
	for range min(subscribing, len(uris)) {
		sending.Go(func() {
			for uri := range next {
				req := like
				req.Method, req.Params = method, append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
				if _, err := c.Call(ctx, &req); err != nil {
					cancel(fmt.Errorf("%s %s: %w", method, uri, err))
				}
			}
		})
	}
	for _, uri := range uris {
		select {
		case next <- uri:
		case <-ctx.Done():
		}
	}
	close(next)
	sending.Wait()
	return context.Cause(ctx)
}
