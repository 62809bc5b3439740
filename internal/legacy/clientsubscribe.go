package legacy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// watching is what a client does about changes at its server, which come on the
// session without belonging to any request.
type subscriber struct {
	Changes rpc.Changes // those that the server reports

	lock chan struct{} // held by whoever subscribes or unsubscribes

	once   sync.Once
	closed chan struct{} // closed when no more changes can come
}

func (w *subscriber) init() { w.lock, w.closed = make(chan struct{}, 1), make(chan struct{}) }

var _ rpc.Listener = (*Client)(nil)

// Listening implements call.Listener.
func (c *Client) Listening() { c.Changes.Unsure() }

// Deaf implements call.Listener.
func (c *Client) Deaf() { c.once.Do(func() { close(c.closed) }) }

// IsDeaf returns a channel that is closed when the server's word does not reach this
// client any more, though its requests may reach the server.
func (c *Client) NotificationsClosed() <-chan struct{} { return c.closed }

// subscribing is how many requests are under way for one Subscribe.
const maxSubscribing = 16

// Subscribe has the server report updates of resources, and returns those of which it
// does. If it refuses them all, the error is that of one.
func (c *Client) Subscribe(ctx context.Context, uris []string, like rpc.Request) (honoured []string, err error) {
	select {
	case c.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.lock }()
	refused, refusal, err := c.forEach(ctx, uris, mcp.MethodSubscribe, like)
	if err != nil {
		return nil, err
	}
	for _, uri := range uris {
		if !refused[uri] {
			honoured = append(honoured, uri)
		}
	}
	if len(honoured) == 0 {
		return nil, refusal
	}
	return honoured, nil
}

// Unsubscribe ends that for resources that no subscription is for any more.
func (c *Client) Unsubscribe(ctx context.Context, uris []string, like rpc.Request) error {
	select {
	case c.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.lock }()
	var unwanted []string
	for _, uri := range uris {
		if !c.Changes.Wanted(uri) {
			unwanted = append(unwanted, uri)
		}
	}
	_, refusal, err := c.forEach(ctx, unwanted, mcp.MethodUnsubscribe, like)
	return cmp.Or(err, refusal)
}

// forEach sends one request for each resource. It ends with the first that fails, but
// goes on when the server refuses one.
func (c *Client) forEach(ctx context.Context, uris []string, method string, like rpc.Request) (refused map[string]bool, refusal, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string)
	var sending sync.WaitGroup
	var mu sync.Mutex
	refused = make(map[string]bool)
	for range min(maxSubscribing, len(uris)) {
		sending.Go(func() {
			for uri := range next {
				req := like
				req.Method, req.Params = method, append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
				_, err := c.Call(ctx, &req)
				if err == nil {
					continue
				}
				err = fmt.Errorf("%s %s: %w", method, uri, err)
				var reported *jsonrpc.Error
				if !errors.As(err, &reported) {
					cancel(err)
					continue
				}
				mu.Lock()
				refused[uri], refusal = true, err
				mu.Unlock()
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
	return refused, refusal, context.Cause(ctx)
}
