package modern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Client is the client side of this era.
type Client struct {
	outbound.Requests
	// OnLog receives the server's log messages, in the goroutine that reads from the wire. It may be nil.
	OnLog func(context.Context, mcp.LoggingMessageParams)
	// Sending is the middleware of requests. It may be nil.
	Sending *outbound.Chain
	// ResultTypes lists the result types that the client's extensions add.
	ResultTypes []string
	// Notifications holds the handlers of extensions' notifications, by method. They run in
	// the goroutine that reads from the wire.
	Notifications map[string]func(ctx context.Context, params json.RawMessage)
	answerer      rpc.InputHandler // nil: input requests fail
	declared      declared
	logger        *slog.Logger
	ignored       loglimit.Limiter // limits log lines about ignored messages
}

var _ outbound.CallReceiver = (*Client)(nil)

// NewClient returns a client that sends info and capabilities with every request. Set its
// Wire before the first request. cancelling reports whether a notification cancels a
// request, as on streams; over HTTP, closing the response does.
func NewClient(info mcp.Implementation, capabilities mcp.ClientCapabilities, answerer rpc.InputHandler, cancelling bool,
	logger *slog.Logger) (*Client, error) {
	c := &Client{logger: logger, answerer: outbound.LimitInput(answerer),
		declared: declared{info: info, capabilities: capabilities}}
	c.NotifyCancelled = cancelling
	var err error
	c.Meta, err = c.declared.meta(rpc.AllInputKinds)
	return c, err
}

// Call sends a request and returns its result. An error that the server reports is a *jsonrpc.Error.
func (c *Client) Call(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
	var raw json.RawMessage
	var err error
	if req.Capabilities != nil {
		if req.ConnectionMeta, err = c.declared.meta(rpc.DeclaredInput(req.Capabilities)); err != nil {
			return nil, err
		}
	}
	if c.Sending == nil {
		raw, err = c.send(ctx, req)
	} else {
		raw, err = c.Sending.Do(ctx, mcp.V20260728, req, c.send)
	}
	if err != nil || req.AnyResultType || c.Sending == nil && len(c.ResultTypes) == 0 {
		return raw, err
	}
	// Middleware may have replaced the result.
	kind, ok := jsonrpc.Get(raw, "resultType")
	req.TaskCreated = ok && req.AcceptTask && jsonrpc.Unquote(kind) == mcp.ResultTypeTask
	if ok && !req.TaskCreated && jsonrpc.Unquote(kind) != mcp.ResultTypeComplete {
		return nil, unknownType(kind)
	}
	return raw, nil
}

func (c *Client) send(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
	result, err := c.rounds(ctx, req)
	if err == nil || req.Method != mcp.MethodDiscover { // any other request may have run
		return result, err
	}
	// Some servers reject a version once although they list it.
	if supported, ok := UnsupportedVersion(err); ok && slices.Contains(supported, string(mcp.V20260728)) {
		return c.rounds(ctx, req)
	}
	return nil, err
}

func (c *Client) once(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
	resp, err := c.Do(ctx, req)
	if err != nil {
		return nil, outbound.ClientError(err)
	}
	if resp.Err != nil {
		return nil, outbound.ClientError(resp.Err)
	}
	kind, ok := jsonrpc.Get(resp.Result, "resultType")
	switch jsonrpc.Unquote(kind) {
	case mcp.ResultTypeComplete:
		return resp.Result, nil
	case mcp.ResultTypeInputRequired:
		return nil, &inputRequired{resp.Result}
	}
	if !ok { // an older server omits it
		return resp.Result, nil
	}
	if req.AcceptTask && jsonrpc.Unquote(kind) == mcp.ResultTypeTask {
		req.TaskCreated = true
		return resp.Result, nil
	}
	if req.Method == mcp.MethodGetTask && jsonrpc.Unquote(kind) == mcp.ResultTypeTask {
		// The text of the tasks extension requires "complete" here, but two of its examples say "task".
		return jsonrpc.Without(resp.Result, "resultType"), nil
	}
	if slices.Contains(c.ResultTypes, jsonrpc.Unquote(kind)) {
		return resp.Result, nil
	}
	return nil, unknownType(kind)
}

func unknownType(kind []byte) error {
	return fmt.Errorf("%w: unknown resultType %.64s", call.ErrInvalidResponse, kind)
}

// Discover sends server/discover. See UnsupportedVersion for the error of a server that does not support this era.
func (c *Client) Discover(ctx context.Context, req *outbound.Request) (*mcp.DiscoverResult, *mcp.Implementation,
	error) {
	raw, err := c.Call(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	return DecodeDiscovery(raw, c.logger)
}

// DecodeDiscovery decodes the result of server/discover and the server's description in it.
// The description is for display only, so a malformed one is logged and ignored.
func DecodeDiscovery(raw json.RawMessage, logger *slog.Logger) (*mcp.DiscoverResult, *mcp.Implementation, error) {
	var result mcp.DiscoverResult
	_, faults, err := contain.Decode(raw, &result)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: server/discover: %w", call.ErrInvalidResponse, err)
	}
	faults.Log(logger, mcp.MethodDiscover)
	if len(result.SupportedVersions) == 0 { // some legacy servers answer unknown methods with {}
		return nil, nil, fmt.Errorf("%w: server/discover: supportedVersions must not be empty", call.ErrInvalidResponse)
	}
	var server mcp.Implementation
	if info := result.Meta[mcp.MetaServerInfo]; info != nil {
		if _, faults, err = contain.Decode(info, &server); err != nil {
			logger.Warn("ignoring malformed server info", "error", err)
		}
		faults.Log(logger, mcp.MethodDiscover, "in", mcp.MetaServerInfo)
	}
	return &result, &server, nil
}

// UnsupportedVersion reports whether err is a server's error for an unsupported protocol
// version, and returns the versions that the server supports.
func UnsupportedVersion(err error) (supported []string, ok bool) {
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != mcp.CodeUnsupportedVersion {
		return nil, false
	}
	var data mcp.UnsupportedVersionData
	if schema.Decode(e.Data, &data) != nil {
		return nil, true
	}
	return data.Supported, true
}

// IsModernError reports whether only a server of this era can report err.
func IsModernError(err error) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e) && revision.IsModernError(e.Code)
}

// Receive implements outbound.Receiver.
func (c *Client) Receive(m *jsonrpc.Message) { c.ReceiveFor(jsonrpc.ID{}, m) }

// ReceiveFor implements outbound.CallReceiver.
func (c *Client) ReceiveFor(id jsonrpc.ID, m *jsonrpc.Message) {
	if c.Sending != nil && !c.Requests.Filter(id, m) {
		return
	}
	if c.Requests.Receive(m) {
		return
	}
	switch m.Kind {
	case jsonrpc.Notification:
		if handle := c.Notifications[m.Method]; handle != nil {
			origin := c.OriginOf(id, func(r *outbound.Request) bool {
				return rpc.MayRequestInput(r.Method) || revision.LeavesToExtensions(r.Method, mcp.V20260728)
			})
			handle(origin.Context(context.Background()), m.Raw)
		} else if m.Method == mcp.NotificationMessage {
			c.receiveLog(id, m)
		} else {
			c.ReceiveSubscription(m)
		}
	case jsonrpc.Request: // servers of this era send no requests (basic/transports/stdio, Receiving Messages)
		c.ignored.Log(context.Background(), c.logger, slog.LevelWarn, "request from the server ignored",
			slog.String("method", m.Method))
	case jsonrpc.Response:
		outbound.LogUnmatched(context.Background(), &c.ignored, c.logger, m)
	}
}

// ReceiveInvalid implements outbound.Receiver.
func (c *Client) ReceiveInvalid(m *jsonrpc.Message, err error) {
	if !c.Requests.ReceiveInvalid(m, err) {
		c.ignored.Log(context.Background(), c.logger, slog.LevelWarn, "malformed message from the server ignored",
			slog.Any("error", err))
	}
}

// Lost implements outbound.Receiver.
func (c *Client) Lost(err error) {
	c.Fail(err)
	c.ignored.Flush(context.Background(), c.logger)
}

// declared is what the client declares about itself in each request. A request on behalf of a caller
// declares only the input requests that the caller can answer.
type declared struct {
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	encoded      [rpc.AllInputKinds + 1]atomic.Pointer[[]byte] // encoded _meta by the kinds of input requests
}

// meta returns the content of _meta for a request, without braces.
func (d *declared) meta(kinds rpc.InputKinds) ([]byte, error) {
	kinds &= rpc.AllInputKinds
	if known := d.encoded[kinds].Load(); known != nil {
		return *known, nil
	}
	info, err := json.Marshal(d.info)
	if err != nil {
		return nil, fmt.Errorf("client info: %w", err)
	}
	capabilities, err := json.Marshal(limited(d.capabilities, kinds))
	if err != nil {
		return nil, fmt.Errorf("client capabilities: %w", err)
	}
	meta := fmt.Appendf(nil, `"%s":"%s","%s":%s,"%s":%s`,
		mcp.MetaProtocolVersion, mcp.V20260728, mcp.MetaClientInfo, info, mcp.MetaClientCapabilities, capabilities)
	d.encoded[kinds].Store(&meta)
	return meta, nil
}

// limited returns the capabilities without those for input requests of other kinds.
func limited(c mcp.ClientCapabilities, kinds rpc.InputKinds) mcp.ClientCapabilities {
	if form, url := c.Elicitation.SupportsForm(), c.Elicitation.SupportsURL(); form && kinds&rpc.FormInput == 0 ||
		url &&
			kinds&rpc.URLInput == 0 {
		c.Elicitation = elicitation(form && kinds&rpc.FormInput != 0, url && kinds&rpc.URLInput != 0)
	}
	switch {
	case kinds&rpc.SamplingInput == 0:
		c.Sampling = nil
	case c.Sampling != nil && kinds&rpc.SamplingToolsInput == 0:
		without := *c.Sampling
		without.Tools = nil
		c.Sampling = &without
	}
	if kinds&rpc.RootsInput == 0 {
		c.Roots = nil
	}
	return c
}

func elicitation(form, url bool) *mcp.ElicitationCapability {
	if !form && !url {
		return nil
	}
	c := new(mcp.ElicitationCapability)
	if form {
		c.Form = &mcp.Supported{}
	}
	if url {
		c.URL = &mcp.Supported{}
	}
	return c
}

// receiveLog passes a log message to OnLog, with the context of its request if it is known. Over
// byte streams, the message does not name the request.
func (c *Client) receiveLog(stream jsonrpc.ID, m *jsonrpc.Message) {
	if c.OnLog == nil {
		return
	}
	if params, ok := revision.LogOf(m); ok {
		origin := c.OriginOf(stream, func(r *outbound.Request) bool { return r.Meta[mcp.MetaLogLevel] != nil })
		c.OnLog(origin.Context(context.Background()), params)
	}
}
