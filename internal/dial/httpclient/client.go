package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Errors of a client.
var (
	// ErrSessionGone means that the server no longer knows the session. It did not process the request.
	ErrSessionGone error = unsentError{errSessionGone{}}
	// ErrNotMCP means that the response does not come from an MCP endpoint.
	ErrNotMCP = fmt.Errorf("%w: the Content-Type must be application/json or text/event-stream",
		call.ErrInvalidResponse)
)

// errSessionGone is the cause of ErrSessionGone.
type errSessionGone struct{}

func (errSessionGone) Error() string { return "session ended by the server" }

// ConnectionEnded marks the error: only a new session can send the request; see call.RetryRequests.
func (errSessionGone) ConnectionEnded() {}

// endSessionTimeout is the time-out of the request that ends a session.
const endSessionTimeout = 2 * time.Second

// Client is a client of Streamable HTTP. It sends each message in a POST request and
// receives messages in the responses. It is safe for concurrent use.
type Client struct {
	Options
	modern bool
	to     outbound.Receiver
	toCall outbound.CallReceiver // the receiver, if it implements this; may be nil
	http   *http.Client
	post   *poster         // nil if the URL is malformed; newRequest reports the error
	ctx    context.Context // cancelled when Close begins
	cancel context.CancelFunc
	close  sync.Once

	ignored loglimit.Limiter // limits log lines about ignored messages

	mu        sync.Mutex
	running   sync.WaitGroup // waited for by Close; Add is called under mu before ctx ends
	session   string
	gone      bool // the server no longer knows the session
	listening bool
	revision  mcp.Revision
}

var _ outbound.Wire = (*Client)(nil)

// NewClient returns a client for the modern era if isModern is set, and otherwise for the
// legacy era. It passes received messages to to.
func NewClient(o Options, isModern bool, to outbound.Receiver) *Client {
	c := &Client{Options: o, modern: isModern, to: to, http: o.newHTTP()}
	c.toCall, _ = to.(outbound.CallReceiver)
	if !isModern {
		c.keepCookies(c.http)
	}
	c.authorize(c.http, pauseFunc(to))
	c.post, _ = newPoster(&c.Options, c.http)
	if isModern {
		c.revision = mcp.V20260728
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// SetRevision implements outbound.Wire.
func (c *Client) SetRevision(r mcp.Revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision = r
}

// Close implements outbound.Wire. It ends the session, if there is one, and waits at
// most two seconds for the server to confirm that.
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

// endSession sends the DELETE request that ends the session.
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

// join makes Close wait until running.Done is called. It reports false if Close has begun.
func (c *Client) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.running.Add(1)
	return true
}

// request returns a request with the headers of the session and the revision. Only a POST has a body.
func (c *Client) request(ctx context.Context, method string, body []byte) (req *http.Request, err error) {
	if method == http.MethodPost && c.post != nil {
		req = c.post.request(ctx, body)
	} else if req, err = c.newRequest(ctx, method, c.URL, nil); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" {
		req.Header[httpcodec.HeaderSession] = []string{c.session}
	}
	// Servers of 2024-11-05 and 2025-03-26 ignore this header.
	if c.revision != "" {
		req.Header[httpcodec.HeaderVersion] = []string{string(c.revision)}
	}
	return req, nil
}

// Send implements outbound.Wire.
func (c *Client) Send(ctx context.Context, out *outbound.Outgoing) error {
	if !c.join() {
		return fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrClosed)
	}
	defer c.running.Done()
	if out.ID.IsZero() { // Close cancels the contexts of requests through Lost
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
	req.Header["Content-Type"] = httpcodec.JSONType
	req.Header["Accept"] = httpcodec.AcceptBoth
	if c.modern {
		setModernHeaders(req.Header, out)
	}
	c.trace(true, out.Message)
	resp, err := c.post.do(req)
	if err != nil {
		return sendError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.statusFailure(req, resp, out)
	}
	switch out.Method {
	case mcp.MethodInitialize:
		if err := c.begin(httpcodec.First(resp.Header, httpcodec.HeaderSession)); err != nil {
			return err
		}
	case mcp.NotificationInitialized:
		c.listen(ctx)
	}
	if out.ID.IsZero() { // notifications and responses get no response
		finish(resp.Body)
		return nil
	}
	return c.answer(ctx, resp, out)
}

// begin records the session id from the response to initialize, if there is one.
func (c *Client) begin(session string) error {
	if session == "" || c.modern {
		return nil
	}
	if !visibleASCII(session) {
		return fmt.Errorf("%w: the session id must be visible ASCII of limited length", call.ErrInvalidResponse)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	return nil
}

// HasSession reports whether the server has assigned a session ID.
func (c *Client) HasSession() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != ""
}

// sessionGone reports whether the server no longer knows the session.
func (c *Client) sessionGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// answer passes the messages of the response to a request to the receiver.
func (c *Client) answer(ctx context.Context, resp *http.Response, out *outbound.Outgoing) error {
	kind := mediaType(resp.Header)
	switch {
	case kind == "application/json":
		reserved := out.Forwarding.Reserve(min(resp.ContentLength, httpcodec.MaxInitialResponse))
		body, err := httpcodec.AppendBody(reserved, resp.Body, resp.ContentLength, int64(c.MaxMessage),
			httpcodec.MaxInitialResponse)
		if err != nil {
			return responseError(ctx, err)
		}
		message := body[len(reserved):]
		if reserved != nil && !jsonrpc.IsBatch(message) { // the other messages of a batch still use the memory
			out.Forwarding.Received(body)
		}
		answered, err := c.deliver(message, out.ID)
		if err == nil && !answered {
			err = fmt.Errorf("%w: the body must contain the response to the request", call.ErrInvalidResponse)
		}
		return err
	case kind == "text/event-stream":
		return c.stream(ctx, resp.Body, out.ID)
	case resp.StatusCode == http.StatusAccepted:
		return fmt.Errorf("%w: status 202 without a response to the request", call.ErrInvalidResponse)
	}
	return ErrNotMCP
}

// mediaType returns the media type of a Content-Type header without its parameters, or "".
func mediaType(h http.Header) string {
	kind := httpcodec.First(h, "Content-Type")
	if kind == "application/json" { // the usual value: avoid the allocations of parsing
		return kind
	}
	kind, _, _ = mime.ParseMediaType(kind)
	return kind
}

// deliver passes a message, or each message of a batch, to the receiver. Outside of revision 2025-03-26 (basic,
// Batching), a batch is an invalid message. deliver reports whether a message is the response to request id, and
// returns an error if an invalid batch contains that response. It drops responses to other requests.
func (c *Client) deliver(data []byte, id jsonrpc.ID) (answered bool, err error) {
	c.trace(false, data)
	parts := [][]byte{data}
	if jsonrpc.IsBatch(data) {
		if c.batches() {
			parts, err = jsonrpc.SplitBatch(data, c.Limits)
		} else if hasResponse(data, id) {
			_, err = jsonrpc.Parse(data, c.Limits)
		}
		if err != nil {
			return false, fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
		}
	}
	for _, part := range parts {
		m, err := jsonrpc.Parse(part, c.Limits)
		switch {
		case m.Kind == jsonrpc.Response && m.ID.IsZero() && err == nil:
			// an error without an id must refer to this request
			return false, m.Err
		case m.Kind == jsonrpc.Response && m.ID != id:
			c.ignored.Log(c.ctx, c.Logger, slog.LevelDebug, "response to another request ignored",
				slog.String("id", m.ID.String()))
		case err != nil:
			answered = answered || m.Kind == jsonrpc.Response
			outbound.ReceiveInvalid(c.to, &m, part, err)
		default:
			answered = answered || m.Kind == jsonrpc.Response
			c.receive(id, &m)
		}
	}
	return answered, nil
}

// receive passes on a message on the stream of the request with this id.
func (c *Client) receive(id jsonrpc.ID, m *jsonrpc.Message) {
	if c.toCall != nil {
		c.toCall.ReceiveFor(id, m)
		return
	}
	c.to.Receive(m)
}

// hasResponse reports whether an invalid batch contains the response to a request.
func hasResponse(batch []byte, id jsonrpc.ID) bool {
	for response := range outbound.Responses(batch) {
		if response == id {
			return true
		}
	}
	return false
}

// batches reports whether the revision has batches.
func (c *Client) batches() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return revision.Batches.In(c.revision)
}

// statusFailure returns the error for a response whose status is not a success.
func (c *Client) statusFailure(req *http.Request, resp *http.Response, out *outbound.Outgoing) error {
	if resp.StatusCode == http.StatusNotFound && req.Header[httpcodec.HeaderSession] != nil {
		return c.lostSession()
	}
	failure, body := c.statusError(resp), c.failureOf(resp)
	if m, err := jsonrpc.Parse(body, c.Limits); err == nil && m.Kind == jsonrpc.Response &&
		(m.ID == out.ID || m.ID.IsZero()) {
		failure.Err = m.Err
	}
	if out.ID.IsZero() {
		return failure
	}
	err := requestError(c.modern, failure)
	inSession := !c.modern && req.Header[httpcodec.HeaderVersion] != nil // initialize is sent without a revision header
	named := inSession && namesLostSession(resp, body)
	if named || !c.modern && resp.StatusCode == http.StatusBadRequest {
		return &Rejection{error: err, Body: string(body[:min(len(body), maxReason)]), NamesSession: named}
	}
	return err
}

// lostSession records that the server no longer knows the session.
func (c *Client) lostSession() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	return ErrSessionGone
}

// sendError returns the error for a request that received no response because of err.
func sendError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, call.ErrUnauthorized) {
		return redact(err)
	}
	if err = redact(err); neverConnected(err) {
		return unsentError{err}
	}
	return fmt.Errorf("%w: %w", call.ErrConnectionLost, err)
}

// unsentError is the error of a request for which no connection could be made. Its text does not
// say that a connection was lost.
type unsentError struct{ cause error }

func (e unsentError) Error() string { return call.ErrNotSent.Error() + ": " + e.cause.Error() }
func (e unsentError) Unwrap() []error {
	return []error{call.ErrNotSent, call.ErrConnectionLost, e.cause}
}

// finish reads the rest of a body for a short time, so that the connection can be reused,
// and closes the body. Some servers never end a body.
func finish(body io.ReadCloser) {
	defer body.Close()
	timer := time.AfterFunc(20*time.Millisecond, func() { body.Close() })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// visibleASCII reports whether s is visible ASCII of at most 1024 bytes.
func visibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7E {
			return false
		}
	}
	return len(s) <= 1024
}

// newBody returns a reader of b, or nil if b is nil.
func newBody(b []byte) io.Reader {
	if b == nil {
		return nil
	}
	return bytes.NewReader(b)
}

// setModernHeaders adds the headers that repeat parts of a modern message.
func setModernHeaders(h http.Header, out *outbound.Outgoing) {
	if out.Method == "" {
		return
	}
	h[httpcodec.HeaderMethod] = []string{out.Method}
	if out.Name != "" {
		h[httpcodec.HeaderName] = []string{httpcodec.EncodeHeader(out.Name)}
	}
	for _, p := range out.Mirror {
		h.Set(httpcodec.ParamPrefix+p.Name, httpcodec.EncodeHeader(p.Text))
	}
}
