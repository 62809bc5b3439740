package httpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// PairClient is the client's end of the transport of 2024-11-05: it posts to an
// endpoint that the server names, and everything comes on one event stream.
type PairClient struct {
	Options
	http     *http.Client
	endpoint string
	cancel   context.CancelFunc
	done     chan struct{}
}

var _ call.Wire = (*PairClient)(nil)

// DialPair opens the event stream and waits for the endpoint. Ctx bounds that
// only. It hands what arrives to to.
func DialPair(ctx context.Context, o Options, to call.Receiver) (*PairClient, error) {
	c := &PairClient{Options: o, http: o.doer(), done: make(chan struct{})}
	streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	stop := context.AfterFunc(ctx, cancel)
	events, body, err := c.open(streaming)
	if err != nil {
		cancel()
		return nil, err
	}
	if !stop() { // ctx ended meanwhile
		body.Close()
		return nil, context.Cause(ctx)
	}
	go c.read(events, body, to)
	return c, nil
}

func (c *PairClient) open(ctx context.Context) (*eventReader, io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	req.Header["Accept"] = eventStreamType
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
	}
	if resp.StatusCode != http.StatusOK {
		drain(resp.Body)
		return nil, nil, &call.StatusError{Status: resp.StatusCode, Header: resp.Header}
	}
	if kind, _, _ := mime.ParseMediaType(first(resp.Header, "Content-Type")); kind != "text/event-stream" {
		drain(resp.Body)
		return nil, nil, errNotMCP
	}
	events := newEventReader(resp.Body, c.MaxMessage)
	ev, err := events.next()
	if err == nil && ev.name != "endpoint" {
		err = fmt.Errorf("%w: the event stream begins with %.32q and not with its endpoint", call.ErrInvalidResponse, ev.name)
	}
	if err == nil {
		c.endpoint, err = resolveEndpoint(resp.Request.URL, string(ev.data))
	}
	if err != nil {
		resp.Body.Close()
		return nil, nil, err
	}
	return events, resp.Body, nil
}

// resolveEndpoint takes only an endpoint of the stream's own origin: whatever we
// post, credentials included, is for that one.
func resolveEndpoint(stream *url.URL, endpoint string) (string, error) {
	u, err := stream.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("%w: the endpoint is not a URL", call.ErrInvalidResponse)
	}
	if u.Scheme != stream.Scheme || u.Host != stream.Host || u.User != nil {
		return "", fmt.Errorf("%w: the endpoint is of another origin, %q", call.ErrInvalidResponse, u.Host)
	}
	return u.String(), nil
}

// Send implements call.Wire.
func (c *PairClient) Send(ctx context.Context, out *call.Outgoing) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(out.Message))
	if err != nil {
		return err
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	req.Header["Content-Type"] = jsonType
	c.trace(true, out.Message)
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
	}
	defer drain(resp.Body)
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return ErrSessionGone
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return &call.StatusError{Status: resp.StatusCode, Header: resp.Header}
	}
	return nil
}

// Agreed implements call.Wire.
func (c *PairClient) Agreed(mcp.Revision) {}

// Close implements call.Wire.
func (c *PairClient) Close() error {
	c.cancel()
	<-c.done
	return nil
}

func (c *PairClient) read(events *eventReader, body io.ReadCloser, to call.Receiver) {
	defer close(c.done)
	defer body.Close()
	for {
		ev, err := events.next()
		if err != nil {
			to.Lost(c.lost(err))
			return
		}
		if ev.name != "" && ev.name != "message" {
			continue
		}
		c.trace(false, ev.data)
		var m jsonrpc.Message
		if m, err = jsonrpc.Parse(ev.data, c.Limits); err != nil {
			to.Unusable(&m, err)
		} else {
			to.Receive(&m)
		}
	}
}

func (c *PairClient) lost(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return call.ErrClosed
	case errors.Is(err, io.EOF):
		return call.ErrConnectionLost
	}
	return fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
}
