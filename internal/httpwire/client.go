package httpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Errors of the client's end.
var (
	// ErrSessionGone: the server has forgotten the session. The request was not acted on.
	ErrSessionGone = errors.New("the server has ended the session")
	// errNotMCP: what answered is no MCP server, or not one at this URL.
	errNotMCP = fmt.Errorf("%w: neither JSON nor an event stream: is this the URL of an MCP endpoint?", call.ErrInvalidResponse)
)

// goodbye is how long a server may take to note that its session has ended.
const endSessionTimeout = 2 * time.Second

// Client is the client's end of Streamable HTTP. Each message is a request of its
// own, and what the server says comes in its response.
type Client struct {
	Options
	modern bool
	to     rpc.Receiver
	http   *http.Client
	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	close  sync.Once

	mu        sync.Mutex
	running   sync.WaitGroup // what Close waits for; joined under mu before ctx ends
	session   string
	gone      bool // the server has forgotten the session
	listening bool
	revision  mcp.Revision
}

var _ rpc.Wire = (*Client)(nil)

// NewClient makes a client for a server of the stateless era, or of one with
// sessions. It hands what arrives to to.
func NewClient(o Options, isModern bool, to rpc.Receiver) *Client {
	c := &Client{Options: o, modern: isModern, to: to, http: o.newHTTP()}
	c.authorize(c.http, pauseFunc(to))
	if isModern {
		c.revision = mcp.V20260728
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// SetRevision implements call.Wire.
func (c *Client) SetRevision(r mcp.Revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision = r
}

// Close implements call.Wire. It ends the session, if there is one, and takes as
// long as the server takes to answer that, but no more than two seconds.
func (c *Client) Close() error {
	c.close.Do(func() {
		c.mu.Lock()
		c.cancel()
		session := c.session
		if c.gone {
			session = ""
		}
		c.mu.Unlock()
		c.to.Lost(call.ErrClosed)
		c.running.Wait()
		if session != "" {
			c.endSession()
		}
		c.closeIdle(c.http)
	})
	return nil
}

func (c *Client) endSession() {
	ctx, cancel := context.WithTimeout(context.Background(), endSessionTimeout)
	defer cancel()
	req, err := c.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	if resp, err := c.http.Do(req); err == nil {
		finish(resp.Body)
	}
}

// join makes Close wait until running.Done is called, unless it waits already.
func (c *Client) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.running.Add(1)
	return true
}

func (c *Client) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	req, err := c.newRequest(ctx, method, c.URL, body)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" {
		req.Header[headerSession] = []string{c.session}
	}
	// 2024-11-05 and 2025-03-26 know no such header, and ignore it.
	if c.revision != "" {
		req.Header[headerVersion] = []string{string(c.revision)}
	}
	return req, nil
}

var acceptBoth = []string{"application/json, text/event-stream"}

// Send implements call.Wire.
func (c *Client) Send(ctx context.Context, out *rpc.Outgoing) error {
	if !c.join() {
		return fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrClosed)
	}
	defer c.running.Done()
	if out.ID.IsZero() { // the context of a request ends when Close reports that the server is lost
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.ctx, func() { cancel(call.ErrClosed) })()
	}

	req, err := c.request(ctx, http.MethodPost, out.Message)
	if err != nil {
		return err
	}
	if c.sessionGone() {
		return ErrSessionGone
	}
	req.Header["Content-Type"] = jsonType
	req.Header["Accept"] = acceptBoth
	if c.modern {
		setModernHeaders(req.Header, out)
	}
	c.trace(true, out.Message)
	resp, err := c.http.Do(req)
	if err != nil {
		return sendError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.statusFailure(req, resp, out)
	}
	switch out.Method {
	case mcp.MethodInitialize:
		if err := c.begin(first(resp.Header, headerSession)); err != nil {
			return err
		}
	case mcp.NotificationInitialized:
		c.listen(ctx)
	}
	if out.ID.IsZero() { // nothing answers a notification or a response
		finish(resp.Body)
		return nil
	}
	return c.answer(ctx, resp, out)
}

// begin notes the session that the server has begun, if it has.
func (c *Client) begin(session string) error {
	if session == "" || c.modern {
		return nil
	}
	if !visibleASCII(session) {
		return fmt.Errorf("%w: the server's session id is too long or not visible ASCII", call.ErrInvalidResponse)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	return nil
}

func (c *Client) sessionGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// answer hands on what the response to a request carries.
func (c *Client) answer(ctx context.Context, resp *http.Response, out *rpc.Outgoing) error {
	kind := mediaType(resp.Header)
	switch {
	case kind == "application/json":
		body, err := readBody(resp.Body, resp.ContentLength, int64(c.MaxMessage))
		if err != nil {
			return responseError(ctx, err)
		}
		answered, err := c.deliver(body, out.ID)
		if err == nil && !answered {
			err = fmt.Errorf("%w: it answers no request of ours", call.ErrInvalidResponse)
		}
		return err
	case kind == "text/event-stream":
		return c.stream(ctx, resp.Body, out.ID)
	case resp.StatusCode == http.StatusAccepted:
		return fmt.Errorf("%w: the server accepted the request as if it were a notification", call.ErrInvalidResponse)
	}
	return errNotMCP
}

// mediaType is what a response says that its body is.
func mediaType(h http.Header) string {
	kind := first(h, "Content-Type")
	if kind == "application/json" { // as most servers write it: parsing costs a map
		return kind
	}
	kind, _, _ = mime.ParseMediaType(kind)
	return kind
}

// deliver hands on the message, or the batch of messages that servers of
// 2025-03-26 may answer with, and reports whether it answers the request. Responses
// to other requests belong to other responses of HTTP, and are dropped.
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
		switch {
		case m.Kind == jsonrpc.Response && m.ID.IsZero() && err == nil: // it could not read our id, and can mean no other request
			return false, m.Err
		case m.Kind == jsonrpc.Response && m.ID != id:
			c.Logger.Debug("response ignored: it is to another request", "id", m.ID)
		case err != nil:
			answered = answered || m.Kind == jsonrpc.Response
			c.to.ReceiveInvalid(&m, err)
		default:
			answered = answered || m.Kind == jsonrpc.Response
			c.to.Receive(&m)
		}
	}
	return answered, nil
}

// failed makes an error of a response that is none.
func (c *Client) statusFailure(req *http.Request, resp *http.Response, out *rpc.Outgoing) error {
	if resp.StatusCode == http.StatusNotFound && req.Header[headerSession] != nil {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		return ErrSessionGone
	}
	failure := statusError(resp)
	timer := time.AfterFunc(errorBodyTimeout, func() { resp.Body.Close() })
	defer timer.Stop()
	body, err := readBody(resp.Body, resp.ContentLength, maxErrorBody)
	if err == nil {
		c.trace(false, body)
		if m, err := jsonrpc.Parse(body, c.Limits); err == nil && m.Kind == jsonrpc.Response && (m.ID == out.ID || m.ID.IsZero()) {
			failure.Err = m.Err
		}
	}
	if out.ID.IsZero() {
		return failure
	}
	return requestError(c.modern, failure)
}

// Bounds on a body that comes with an error: it explains at most.
const (
	maxErrorBody     = 64 << 10
	errorBodyTimeout = 2 * time.Second
)

// unsent makes an error of a request that brought no response.
func sendError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, call.ErrUnauthorized) {
		return redact(err)
	}
	err = fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
	if neverConnected(err) {
		err = fmt.Errorf("%w: %w", call.ErrNotSent, err)
	}
	return err
}

// interrupted makes an error of a response that broke off.
func responseError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errEventTooLarge), errors.Is(err, errTooLarge):
		return fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
	case errors.Is(err, io.EOF):
		return call.ErrConnectionLost
	case errors.Is(err, call.ErrConnectionLost): // it says more
		return err
	}
	return fmt.Errorf("%w: %w", call.ErrConnectionLost, redact(err))
}

// finish waits a moment for the end of a body that has brought what was wanted from
// it: its connection can then be used again. Most servers end it at once, but some
// never do.
func finish(body io.ReadCloser) {
	defer body.Close()
	timer := time.AfterFunc(20*time.Millisecond, func() { body.Close() })
	defer timer.Stop()
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

func newBody(b []byte) io.Reader {
	if b == nil {
		return nil
	}
	return bytes.NewReader(b)
}
