package httpwire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

const (
	maxReconnects     = 5 // without anything having arrived
	defaultRetry      = time.Second
	minRetry          = 100 * time.Millisecond // whatever the server wants
	standaloneTimeout = time.Second            // for the standalone stream of a new session
	successAfter      = 30 * time.Second       // a stream that was open for so long was no failure
)

// reconnects decides whether and when a stream that broke off is opened again.
type reconnects struct {
	last     string        // Last-Event-ID
	wait     time.Duration // what the server wants us to wait
	failures int
	opened   time.Time
}

// broke notes how far a stream came, and waits until it is to be opened again. It
// reports false when it is not.
func (r *reconnects) broke(ctx context.Context, events *eventReader) bool {
	r.failures++
	if events != nil {
		if events.id != r.last || events.received || time.Since(r.opened) >= successAfter {
			r.failures = 0
		}
		r.last = events.id
		if events.retry >= 0 {
			r.wait = events.retry
		}
	}
	if r.failures >= maxReconnects {
		return false
	}
	timer := time.NewTimer(max(r.wait, minRetry))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read makes a reader of a stream that has been opened.
func (r *reconnects) read(body io.Reader, limit int) *eventReader {
	r.opened = time.Now()
	events := newEventReader(body, limit)
	events.id = r.last
	return events
}

// stream hands on what the event stream of a request carries until the response
// is there. A stream with sessions may break off without anything being lost: if its
// events have ids, it is resumed (2025-11-25, basic/transports, Resumability and
// Redelivery).
func (c *Client) stream(ctx context.Context, body io.ReadCloser, id jsonrpc.ID) error {
	r := reconnects{wait: defaultRetry}
	for {
		events := r.read(body, c.MaxMessage)
		c.watchSilence(events, body)
		answered, err := c.events(events, id)
		err = events.monitor.end(err)
		if answered {
			finish(body)
			return err
		}
		body.Close()
		if c.modern || events.id == "" || errors.Is(err, errEventTooLarge) {
			return responseError(ctx, err)
		}
		for body = nil; body == nil; {
			if !r.broke(ctx, events) {
				return responseError(ctx, err)
			}
			events = nil
			var again bool
			if body, again = c.open(ctx, r.last); body == nil && !again {
				return responseError(ctx, err)
			}
		}
	}
}

// events hands on events until the one that answers the request, or has it fail
// without one. If there is none it returns what ended the stream.
func (c *Client) events(events *eventReader, id jsonrpc.ID) (answered bool, _ error) {
	for {
		ev, err := events.next()
		if err != nil {
			return false, err
		}
		if ev.name != "" && ev.name != "message" {
			continue
		}
		if answered, err := c.deliver(ev.data, id); answered || err != nil {
			return true, err
		}
	}
}

// open opens an event stream with GET: the standalone one, or one that is to be
// resumed behind the event last. Without a body, it reports whether to try again.
func (c *Client) open(ctx context.Context, last string) (body io.ReadCloser, again bool) {
	req, err := c.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, false
	}
	req.Header["Accept"] = eventStreamType
	if last != "" {
		req.Header["Last-Event-Id"] = []string{last}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, ctx.Err() == nil && !errors.Is(err, call.ErrUnauthorized)
	}
	kind := mediaType(resp.Header)
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp.Body, true
	}
	resp.Body.Close()
	return nil, resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500
}

// listen opens the session's standalone stream, on which the server speaks by
// itself, and keeps it open. Servers need not offer one. It waits a moment for the
// stream: what a server says while there is none is lost.
func (c *Client) listen(ctx context.Context) {
	c.mu.Lock()
	if c.modern || c.session == "" || c.listening || c.ctx.Err() != nil {
		c.mu.Unlock()
		return
	}
	c.listening = true
	opened := make(chan struct{})
	c.running.Go(func() { c.standalone(opened) })
	c.mu.Unlock()

	timer := time.NewTimer(standaloneTimeout)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// standalone closes opened when the server has answered the first attempt.
func (c *Client) standalone(opened chan struct{}) {
	to, _ := c.to.(rpc.StreamObserver)
	heard := false
	defer func() {
		if heard && to != nil && c.ctx.Err() == nil {
			to.StreamClosed()
		}
	}()
	r := reconnects{wait: defaultRetry}
	for first := true; ; first = false {
		body, again := c.open(c.ctx, r.last)
		if first {
			close(opened)
		}
		if body == nil && !again {
			if r.last == "" {
				return
			}
			r.last = "" // it begins anew instead: Listening tells that something may be lost
			continue
		}
		var events *eventReader
		if body != nil {
			if heard = true; to != nil {
				to.StreamOpened()
			}
			events = r.read(body, c.MaxMessage)
			c.watchSilence(events, body)
			c.readStandalone(events)
			_ = events.monitor.end(nil)
			body.Close()
		}
		if !r.broke(c.ctx, events) {
			return
		}
	}
}

// overhear hands on what comes on the standalone stream until it ends. Responses
// come where they were asked for, and not here.
func (c *Client) readStandalone(events *eventReader) {
	for {
		ev, err := events.next()
		if err != nil {
			return
		}
		if ev.name != "" && ev.name != "message" {
			continue
		}
		c.trace(false, ev.data)
		m, err := jsonrpc.Parse(ev.data, c.Limits)
		switch {
		case m.Kind == jsonrpc.Response:
			c.Logger.Debug("response ignored: it came on the standalone stream", "id", m.ID)
		case err != nil:
			c.to.ReceiveInvalid(&m, err)
		default:
			c.to.Receive(&m)
		}
	}
}
