package httpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Errors of the client's end.
var (
	// ErrSessionGone: the server has forgotten the session. The request was not acted on.
	ErrSessionGone = errors.New("the server has ended the session")
	// errNotMCP: what answered is no MCP server, or not one at this URL.
	errNotMCP = errors.New("the response is neither JSON nor an event stream: is this the URL of an MCP endpoint?")
)

const (
	maxErrorBody  = 64 << 10
	maxRedirects  = 3
	maxReconnects = 5 // of the standalone stream, without anything having arrived
	defaultRetry  = time.Second
)

// Options are what both kinds of client have in common.
type Options struct {
	URL        string
	HTTP       *http.Client // nil: one of our own
	Header     http.Header  // sent with every request
	Logger     *slog.Logger
	Limits     jsonrpc.Limits
	MaxMessage int // bytes of one response or event
	Trace      func(sent bool, message []byte)
}

func (o *Options) trace(sent bool, message []byte) {
	if o.Trace != nil {
		o.Trace(sent, message)
	}
}

// doer is an HTTP client that keeps to the server's origin.
func (o *Options) doer() *http.Client {
	c := http.Client{}
	if o.HTTP != nil {
		c = *o.HTTP
	}
	c.CheckRedirect = sameOrigin
	return &c
}

// sameOrigin follows redirects only where they change nothing but the path: what
// we send, credentials included, is for the origin it was given for, and a POST
// that became a GET would be another request.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// Client is the client's end of Streamable HTTP. Each message is a request of its
// own, and what the server says comes in its response.
type Client struct {
	Options
	modern bool
	to     call.Receiver
	http   *http.Client
	ctx    context.Context // of the standalone stream
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	session  string
	revision mcp.Revision
}

var _ call.Wire = (*Client)(nil)

// NewClient makes a client for a server of the stateless era, or of one with
// sessions. It hands what arrives to to.
func NewClient(o Options, isModern bool, to call.Receiver) *Client {
	c := &Client{Options: o, modern: isModern, to: to, http: o.doer()}
	if isModern {
		c.revision = mcp.V20260728
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Agreed implements call.Wire. With a session, the stream opens on which the
// server speaks by itself.
func (c *Client) Agreed(r mcp.Revision) {
	c.mu.Lock()
	c.revision = r
	session := c.session
	c.mu.Unlock()
	if !c.modern && session != "" {
		c.done.Add(1)
		go c.listen()
	}
}

// Close implements call.Wire. It ends the session, if there is one.
func (c *Client) Close() error {
	c.cancel()
	c.done.Wait()
	c.mu.Lock()
	session := c.session
	c.session = ""
	c.mu.Unlock()
	if session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		req, err := c.request(ctx, http.MethodDelete, nil)
		if err == nil {
			req.Header.Set(headerSession, session)
			if resp, err := c.http.Do(req); err == nil {
				drain(resp.Body)
			}
		}
	}
	c.to.Lost(call.ErrClosed)
	return nil
}

func (c *Client) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL, r)
	if err != nil {
		return nil, err
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" {
		req.Header[headerSession] = []string{c.session}
	}
	// 2024-11-05 and 2025-03-26 know no such header, and ignore it.
	if c.revision != "" {
		req.Header[modern.HeaderVersion] = []string{string(c.revision)}
	}
	return req, nil
}

var acceptBoth = []string{"application/json, text/event-stream"}

// Send implements call.Wire.
func (c *Client) Send(ctx context.Context, out *call.Outgoing) error {
	req, err := c.request(ctx, http.MethodPost, out.Message)
	if err != nil {
		return err
	}
	req.Header["Content-Type"] = jsonType
	req.Header["Accept"] = acceptBoth
	if c.modern && out.Method != "" {
		req.Header[modern.HeaderMethod] = []string{out.Method}
		if out.Name != "" {
			req.Header[modern.HeaderName] = []string{modern.EncodeHeader(out.Name)}
		}
	}
	c.trace(true, out.Message)
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.failed(req, resp, out)
	}
	if id := first(resp.Header, headerSession); id != "" && out.Method == mcp.MethodInitialize && !c.modern {
		if !visibleASCII(id) {
			return fmt.Errorf("%w: the server's session id is not visible ASCII", call.ErrInvalidResponse)
		}
		c.mu.Lock()
		c.session = id
		c.mu.Unlock()
	}
	if out.ID.IsZero() { // nothing answers a notification or a response
		drain(resp.Body)
		return nil
	}
	return c.answer(ctx, resp, out)
}

// answer hands on what the response to a request carries.
func (c *Client) answer(ctx context.Context, resp *http.Response, out *call.Outgoing) error {
	kind, _, _ := mime.ParseMediaType(first(resp.Header, "Content-Type"))
	switch kind {
	case "application/json":
		body, err := readAll(resp.Body, resp.ContentLength, c.MaxMessage)
		if err != nil {
			return c.interrupted(ctx, err)
		}
		answered, err := c.deliver(body, out.ID)
		if err == nil && !answered {
			err = fmt.Errorf("%w: it answers no request of ours", call.ErrInvalidResponse)
		}
		return err
	case "text/event-stream":
		events := newEventReader(resp.Body, c.MaxMessage)
		for {
			ev, err := events.next()
			if err != nil {
				return c.interrupted(ctx, err)
			}
			if ev.name != "" && ev.name != "message" {
				continue
			}
			if answered, err := c.deliver(ev.data, out.ID); answered || err != nil {
				finish(resp.Body)
				return err
			}
		}
	}
	if resp.StatusCode == http.StatusAccepted {
		return fmt.Errorf("%w: the server accepted the request as if it were a notification", call.ErrInvalidResponse)
	}
	return errNotMCP
}

// deliver hands on the message, or the batch of messages that servers of
// 2025-03-26 may answer with, and reports whether it answers the request.
func (c *Client) deliver(data []byte, id jsonrpc.ID) (answered bool, err error) {
	c.trace(false, data)
	parts := [][]byte{data}
	if jsonrpc.IsBatch(data) {
		if parts, err = jsonrpc.SplitBatch(data, c.Limits); err != nil {
			return false, fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
		}
	}
	for _, part := range parts {
		m, err := jsonrpc.Parse(part, c.Limits)
		answered = answered || m.Kind == jsonrpc.Response && m.ID == id
		switch {
		case err != nil && m.Kind != jsonrpc.Response && len(parts) == 1:
			return false, fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
		case err != nil:
			c.to.Unusable(&m, err)
		case m.Kind == jsonrpc.Response && m.ID.IsZero(): // it could not read our id, and can mean no other request
			return false, m.Err
		default:
			c.to.Receive(&m)
		}
	}
	return answered, nil
}

// failed makes an error of a response that is none.
func (c *Client) failed(req *http.Request, resp *http.Response, out *call.Outgoing) error {
	if resp.StatusCode == http.StatusNotFound && req.Header[headerSession] != nil {
		return ErrSessionGone
	}
	failure := &call.StatusError{Status: resp.StatusCode, Header: resp.Header}
	body, err := readAll(resp.Body, resp.ContentLength, maxErrorBody)
	if err == nil {
		c.trace(false, body)
		if m, err := jsonrpc.Parse(body, c.Limits); err == nil && m.Kind == jsonrpc.Response && (m.ID == out.ID || m.ID.IsZero()) {
			failure.Err = m.Err
		}
	}
	return failure
}

// interrupted makes an error of a response that broke off.
func (c *Client) interrupted(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errEventTooLarge), errors.Is(err, errBodyTooLarge):
		return fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
	case errors.Is(err, io.EOF):
		return call.ErrConnectionLost
	}
	return fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
}

// listen keeps the session's standalone stream open. Servers need not offer one.
func (c *Client) listen() {
	defer c.done.Done()
	wait := defaultRetry
	for fruitless := 0; fruitless < maxReconnects; fruitless++ {
		received, retry, offered := c.standalone()
		if !offered {
			return
		}
		if received {
			fruitless = 0
		}
		if retry >= 0 {
			wait = retry
		}
		timer := time.NewTimer(min(wait, time.Minute))
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// standalone opens the stream once and hands on what comes. It reports whether
// anything came, how long the server wants us to wait before the next time, and
// whether there should be one.
func (c *Client) standalone() (received bool, retry time.Duration, offered bool) {
	retry = -1
	req, err := c.request(c.ctx, http.MethodGet, nil)
	if err != nil {
		return false, retry, false
	}
	req.Header["Accept"] = eventStreamType
	resp, err := c.http.Do(req)
	if err != nil {
		return false, retry, c.ctx.Err() == nil
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(first(resp.Header, "Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		return false, retry, false
	}
	events := newEventReader(resp.Body, c.MaxMessage)
	for {
		ev, err := events.next()
		if err != nil {
			return received, events.retry, c.ctx.Err() == nil
		}
		received = true
		c.trace(false, ev.data)
		var m jsonrpc.Message
		if m, err = jsonrpc.Parse(ev.data, c.Limits); err != nil {
			c.to.Unusable(&m, err)
		} else if m.Kind != jsonrpc.Response { // those come where they were asked for
			c.to.Receive(&m)
		}
	}
}

var errBodyTooLarge = errors.New("response too large")

// readAll reads a whole body of at most limit bytes.
func readAll(r io.Reader, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return nil, fmt.Errorf("%w: %d bytes", errBodyTooLarge, length)
	}
	if length >= 0 {
		body := make([]byte, length)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(body) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errBodyTooLarge, limit)
	}
	return body, err
}

// drain reads what little may be left of a body, so that its connection can be
// used again, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	body.Close()
}

// redact takes the URL out of an error of net/http: it can hold secrets.
func redact(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s: %w", strings.ToUpper(u.Op), u.Err)
	}
	return err
}

// finish waits a moment for the end of a stream that has brought what was wanted
// from it: its connection can then be used again. Most servers end it at once.
func finish(body io.ReadCloser) {
	patience := time.AfterFunc(20*time.Millisecond, func() { body.Close() })
	defer patience.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

func visibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7E {
			return false
		}
	}
	return len(s) <= 1024
}
