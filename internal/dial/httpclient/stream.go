package httpclient

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
)

const (
	maxReconnects     = 5 // attempts in a row without an event
	defaultRetry      = time.Second
	minRetry          = 100 * time.Millisecond // minimum of the delay that the server asks for
	standaloneTimeout = time.Second            // for opening the standalone stream of a new session
	successAfter      = 30 * time.Second       // a stream that was open this long did not count as failed
)

// reconnects decides whether and when to reopen a broken stream.
type reconnects struct {
	last     string        // Last-Event-ID
	wait     time.Duration // the delay that the server asks for
	failures int
	opened   time.Time
}

// broke records the end of a stream and waits until it is time to reopen it. It reports
// false if the stream must not be reopened. events is nil if the stream could not be opened.
func (r *reconnects) broke(ctx context.Context, events *httpcodec.EventReader) bool {
	r.failures++
	if events != nil {
		if events.ID != r.last || events.Received || time.Since(r.opened) >= successAfter {
			r.failures = 0
		}
		r.last = events.ID
		if events.Retry >= 0 {
			r.wait = events.Retry
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

// read returns a reader for a stream that has been opened.
func (r *reconnects) read(body io.Reader, limit int) *httpcodec.EventReader {
	r.opened = time.Now()
	events := httpcodec.NewEventReader(body, limit)
	events.ResumeAfter(r.last)
	return events
}

// stream passes the messages of a request's event stream to the receiver until the response arrives. In a session it
// resumes a broken stream whose events have ids (2025-11-25, basic/transports, Resumability and Redelivery).
func (c *Client) stream(ctx context.Context, body io.ReadCloser, id jsonrpc.ID) error {
	r := reconnects{wait: defaultRetry}
	for {
		events := r.read(body, c.MaxMessage)
		c.watchSilence(events, body)
		answered, err := c.events(ctx, events, id)
		err = events.End(err)
		if answered {
			finish(body)
			return err
		}
		body.Close()
		if c.modern || events.ID == "" || errors.Is(err, httpcodec.ErrEventTooLarge) {
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

// events passes messages to the receiver. It reports true after the response, or with an
// error that fails the request. It reports false with the error that ended the stream.
func (c *Client) events(ctx context.Context, events *httpcodec.EventReader, id jsonrpc.ID) (answered bool, _ error) {
	for {
		ev, err := events.Next()
		if skipped := outbound.SkippedEvent(err); skipped != nil {
			if skipped.Kind == jsonrpc.Invalid || skipped.Kind == jsonrpc.Response && skipped.ID == id {
				return true, responseError(ctx, err)
			}
			outbound.ReceiveTooLarge(c.to, skipped)
			continue
		}
		if err != nil {
			return false, err
		}
		if ev.Name != "" && ev.Name != "message" {
			continue
		}
		if answered, err := c.deliver(ev.Data, id); answered || err != nil {
			return true, err
		}
	}
}

// open opens an event stream with GET. If last is not empty, it resumes the stream after
// that event. If body is nil, again reports whether to retry. The caller must close body.
func (c *Client) open(ctx context.Context, last string) (body io.ReadCloser, again bool) {
	req, err := c.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, false
	}
	req.Header["Accept"] = httpcodec.EventStreamType
	if last != "" {
		req.Header[httpcodec.HeaderLastEventID] = []string{last}
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

// listen starts a goroutine that keeps the standalone stream of the session open, if the server offers one. It waits up
// to standaloneTimeout for the stream, since messages that the server sends before that are lost.
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

// standalone keeps the standalone stream open until Close. It closes opened when the
// server has answered the first request and the receiver knows about the stream.
func (c *Client) standalone(opened chan struct{}) {
	to, _ := c.to.(outbound.StreamObserver)
	wasOpen := false
	defer func() {
		if wasOpen && to != nil && c.ctx.Err() == nil {
			to.StreamClosed()
		}
	}()
	r := reconnects{wait: defaultRetry}
	for first := true; ; first = false {
		body, again := c.open(c.ctx, r.last)
		if wasOpen = wasOpen || body != nil; body != nil && to != nil {
			to.StreamOpened()
		}
		if first {
			close(opened)
		}
		if body == nil && !again {
			if r.last == "" {
				return
			}
			r.last = "" // open a new stream; Listening reports that messages may be lost
			continue
		}
		var events *httpcodec.EventReader
		if body != nil {
			events = r.read(body, c.MaxMessage)
			c.watchSilence(events, body)
			c.readStandalone(events)
			_ = events.End(nil)
			body.Close()
		}
		if !r.broke(c.ctx, events) {
			return
		}
	}
}

// readStandalone passes the messages of the standalone stream to the receiver until the stream ends. In revision
// 2025-03-26, an event may contain a batch (basic/transports, Listening for Messages from the Server).
func (c *Client) readStandalone(events *httpcodec.EventReader) {
	for {
		ev, err := events.Next()
		if skipped := outbound.SkippedEvent(err); skipped != nil {
			if skipped.Kind != jsonrpc.Response { // which belongs on the stream of its request
				outbound.ReceiveTooLarge(c.to, skipped)
			}
			continue
		}
		if err != nil {
			return
		}
		if ev.Name != "" && ev.Name != "message" {
			continue
		}
		c.trace(false, ev.Data)
		if !jsonrpc.IsBatch(ev.Data) || !c.batches() {
			c.receiveStandalone(ev.Data)
			continue
		}
		parts, err := jsonrpc.SplitBatch(ev.Data, c.Limits)
		if err != nil {
			c.to.ReceiveInvalid(new(jsonrpc.Message), err)
		}
		for _, part := range parts {
			c.receiveStandalone(part)
		}
	}
}

// receiveStandalone passes a message of the standalone stream to the receiver. It ignores
// responses, which belong on the stream of their request.
func (c *Client) receiveStandalone(data []byte) {
	m, err := jsonrpc.Parse(data, c.Limits)
	switch {
	case m.Kind == jsonrpc.Response:
		c.ignored.Log(c.ctx, c.Logger, slog.LevelDebug, "response on the standalone stream ignored",
			slog.String("id", m.ID.String()))
	case err != nil:
		outbound.ReceiveInvalid(c.to, &m, data, err)
	default:
		c.to.Receive(&m)
	}
}
