package legacy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// subscriber holds the subscriptions of a client and the changes that its server reports.
type subscriber struct {
	Changes changes.Broadcaster // the changes that the server reports

	lock chan struct{} // held by Subscribe and Unsubscribe

	once   sync.Once
	closed chan struct{} // closed when no more notifications can arrive
}

func (s *subscriber) init() { s.lock, s.closed = make(chan struct{}, 1), make(chan struct{}) }

var _ outbound.StreamObserver = (*Client)(nil)

// StreamOpened implements outbound.StreamObserver.
func (c *Client) StreamOpened() { c.Changes.ResyncAll() }

// StreamClosed implements outbound.StreamObserver.
func (c *Client) StreamClosed() { c.once.Do(func() { close(c.closed) }) }

// NotificationsClosed returns a channel that is closed when the server's notifications no
// longer reach the client, although requests may still reach the server.
func (c *Client) NotificationsClosed() <-chan struct{} { return c.closed }

// maxSubscribing limits the concurrent requests of one Subscribe.
const maxSubscribing = 16

// Subscribe subscribes to updates of resources. It returns the URIs that the server has accepted, and the errors of
// those that it has rejected.
func (c *Client) Subscribe(ctx context.Context, uris []string, template outbound.Request) (accepted []string,
	rejected map[string]error, err error) {
	select {
	case c.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	defer func() { <-c.lock }()
	rejected, err = c.forEach(ctx, uris, mcp.MethodSubscribe, template)
	if err != nil {
		return nil, nil, err
	}
	for _, uri := range uris {
		if rejected[uri] == nil {
			accepted = append(accepted, uri)
		}
	}
	return accepted, rejected, nil
}

// Unsubscribe ends the subscriptions to resources that no local subscription needs.
func (c *Client) Unsubscribe(ctx context.Context, uris []string, template outbound.Request) error {
	select {
	case c.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.lock }()
	var unwanted []string
	for _, uri := range uris {
		if !c.Changes.HasSubscriber(uri) {
			unwanted = append(unwanted, uri)
		}
	}
	rejected, err := c.forEach(ctx, unwanted, mcp.MethodUnsubscribe, template)
	for _, rejection := range rejected {
		err = cmp.Or(err, rejection)
	}
	return err
}

// forEach sends one request for each resource. It stops at the first local error, but
// continues if the server rejects a request.
func (c *Client) forEach(ctx context.Context, uris []string, method string,
	template outbound.Request) (rejected map[string]error, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string)
	var sending sync.WaitGroup
	var mu sync.Mutex
	rejected = make(map[string]error)
	for range min(maxSubscribing, len(uris)) {
		sending.Go(func() {
			for uri := range next {
				req := template
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
				rejected[uri] = err
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
	return rejected, context.Cause(ctx)
}
