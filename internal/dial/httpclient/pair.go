package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// PairClient is the client of an HTTP+SSE pair of 2024-11-05. It posts messages to an endpoint that the server names,
// and receives all messages on one event stream. It is safe for concurrent use.
type PairClient struct {
	Options
	http     *http.Client
	endpoint string
	ctx      context.Context // context of the event stream; cancelled when the stream ends
	cancel   context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	ended   bool           // the event stream has ended, or Close was called
	sending sync.WaitGroup // Add is called under mu before ended is set
}

// sendGrace is how long the server may take to respond to POST requests that are in flight when the event stream
// ends. The response tells whether the server has accepted the message.
const sendGrace = 5 * time.Second

var _ outbound.Wire = (*PairClient)(nil)

// DialPair opens the event stream, waits for the endpoint and returns a client that
// passes received messages to to. A limit above 0 is the time-out for all of this; it is
// paused while a user is asked for credentials. ctx applies until DialPair returns.
func DialPair(ctx context.Context, limit time.Duration, o Options, to outbound.Receiver) (*PairClient, error) {
	c := &PairClient{Options: o, http: o.newHTTP(), done: make(chan struct{})}
	c.keepCookies(c.http)
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	ctx, late := context.WithCancelCause(ctx)
	defer late(nil)
	pause := pauseFunc(to)
	if limit > 0 {
		timer := time.AfterFunc(limit, func() { late(context.DeadlineExceeded) })
		defer timer.Stop()
		pause = pauseTimer(timer, limit, pause)
	}
	c.authorize(c.http, pause)
	stop := context.AfterFunc(ctx, c.cancel)
	events, body, err := c.open()
	if !stop() && err == nil { // ctx has ended
		err = context.Cause(ctx)
		body.Close()
	}
	if err != nil {
		c.cancel()
		c.closeIdle(c.http)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	go c.read(events, body, to)
	return c, nil
}

// pauseTimer returns a function that pauses the time-outs of pause, which may be nil, and timer. That function returns
// another one, which resumes them and restarts timer with d, unless timer had fired.
func pauseTimer(timer *time.Timer, d time.Duration, pause func() func()) func() func() {
	return func() func() {
		release := func() {}
		if pause != nil {
			release = pause()
		}
		running := timer.Stop()
		return func() {
			release()
			if running {
				timer.Reset(d)
			}
		}
	}
}

// open sends the GET request and reads the endpoint event.
func (c *PairClient) open() (*httpcodec.EventReader, io.ReadCloser, error) {
	req, err := c.newRequest(c.ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header["Accept"] = httpcodec.EventStreamType
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, sendError(c.ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, nil, c.statusError(resp)
	}
	if kind := mediaType(resp.Header); kind != "text/event-stream" {
		resp.Body.Close()
		return nil, nil, ErrNotMCP
	}
	events := httpcodec.NewEventReader(resp.Body, c.MaxMessage)
	ev, err := events.Next()
	switch {
	case err != nil:
		err = responseError(c.ctx, err)
	case ev.Name != "endpoint":
		err = fmt.Errorf("%w: the first event of the stream must be endpoint, not %.32q", call.ErrInvalidResponse,
			ev.Name)
	default:
		c.endpoint, err = resolveEndpoint(resp.Request.URL, string(ev.Data))
	}
	if err != nil {
		resp.Body.Close()
		return nil, nil, err
	}
	return events, resp.Body, nil
}

// resolveEndpoint returns the URL of the endpoint, which must be of the same origin
// as the stream, because requests to it carry credentials.
func resolveEndpoint(stream *url.URL, endpoint string) (string, error) {
	ref, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("%w: the endpoint must be a URL", call.ErrInvalidResponse)
	}
	u := stream.ResolveReference(ref)
	if u.Scheme != stream.Scheme || !strings.EqualFold(u.Host, stream.Host) || ref.User != nil {
		return "", fmt.Errorf("%w: the endpoint must have the origin of the event stream, not host %.100q",
			call.ErrInvalidResponse, u.Host)
	}
	u.User, u.Fragment, u.RawFragment = stream.User, "", ""
	return u.String(), nil
}

// Send implements outbound.Wire.
func (c *PairClient) Send(ctx context.Context, out *outbound.Outgoing) error {
	if !c.join() {
		if c.ctx.Err() == nil { // Lost has not been called yet; see finishSends
			return ErrSessionGone
		}
		return fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrConnectionLost)
	}
	defer c.sending.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(call.ErrConnectionLost) })()

	req, err := c.newRequest(ctx, http.MethodPost, c.endpoint, out.Message)
	if err != nil {
		return err
	}
	req.Header["Content-Type"] = httpcodec.JSONType
	req.Header["Accept"] = httpcodec.AcceptBoth
	c.trace(true, out.Message)
	resp, err := c.http.Do(req)
	if err != nil {
		return sendError(ctx, err)
	}
	defer finish(resp.Body)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return nil
	case resp.StatusCode == http.StatusNotFound, namesLostSession(resp, c.failureOf(resp)):
		return ErrSessionGone
	}
	return c.statusError(resp)
}

// join makes Close wait until sending.Done is called. It reports false if the stream has ended.
func (c *PairClient) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.sending.Add(1)
	return true
}

// SetRevision implements outbound.Wire.
func (c *PairClient) SetRevision(mcp.Revision) {}

// Close implements outbound.Wire.
func (c *PairClient) Close() error {
	c.end()
	<-c.done
	c.sending.Wait()
	c.closeIdle(c.http)
	return nil
}

// end ends the event stream and makes join report false.
func (c *PairClient) end() {
	c.rejectSends()
	c.cancel()
}

func (c *PairClient) rejectSends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// finishSends makes join report false, and waits until the server has responded to the POST requests in flight.
func (c *PairClient) finishSends() {
	c.rejectSends()
	sent := make(chan struct{})
	go func() {
		c.sending.Wait()
		close(sent)
	}()
	timer := time.NewTimer(sendGrace)
	defer timer.Stop()
	select {
	case <-sent:
	case <-timer.C:
	case <-c.ctx.Done():
	}
}

// read passes the messages of the event stream to to until the stream ends.
func (c *PairClient) read(events *httpcodec.EventReader, body io.ReadCloser, to outbound.Receiver) {
	defer close(c.done)
	defer body.Close()
	c.watchSilence(events, body)
	for {
		ev, err := events.Next()
		if skipped := outbound.SkippedEvent(err); skipped != nil {
			outbound.ReceiveTooLarge(to, skipped)
			continue
		}
		if err != nil {
			err = c.lost(events.End(err))
			c.finishSends()
			to.Lost(err)
			c.end()
			return
		}
		if ev.Name != "" && ev.Name != "message" {
			continue
		}
		c.trace(false, ev.Data)
		var m jsonrpc.Message
		if err = m.Parse(ev.Data, c.Limits); err != nil {
			outbound.ReceiveInvalid(to, &m, ev.Data, err)
		} else {
			to.Receive(&m)
		}
	}
}

// lost returns the error for calls when the event stream ended with err.
func (c *PairClient) lost(err error) error {
	switch {
	case c.ctx.Err() != nil:
		return call.ErrClosed
	case errors.Is(err, io.EOF):
		return call.ErrConnectionLost
	case errors.Is(err, call.ErrConnectionLost): // already wrapped
		return err
	}
	return fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
}
