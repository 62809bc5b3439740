package modern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Client is the calling half of this era.
type Client struct {
	rpc.Outbound
	// OnLog takes the server's log messages, in the goroutine that receives; nil: nobody.
	OnLog func(mcp.LoggingMessageParams)
	// Sending is what requests pass through; nil: nothing.
	Sending *rpc.Sending
	// ResultTypes are those that the client's extensions add.
	ResultTypes []string
	// Notifications take those of extensions, by method, in the goroutine that receives.
	Notifications map[string]func(params json.RawMessage)
	answerer      rpc.Answerer // nil: answers no questions
	logger        *slog.Logger
}

var _ rpc.Receiver = (*Client)(nil)

// NewClient makes a client that says of itself what info and capabilities say. Its
// Wire is set before its first request. Cancelling tells whether a request is
// cancelled by a notification, as on byte streams, or by ending its response.
func NewClient(info mcp.Implementation, capabilities mcp.ClientCapabilities, answerer rpc.Answerer, cancelling bool, logger *slog.Logger) (*Client, error) {
	rawInfo, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("client info: %w", err)
	}
	rawCapabilities, err := json.Marshal(capabilities)
	if err != nil {
		return nil, fmt.Errorf("client capabilities: %w", err)
	}
	c := &Client{logger: logger, answerer: answerer}
	c.CancelNotice = cancelling
	c.Meta = fmt.Appendf(nil, `"%s":"%s","%s":%s,"%s":%s`,
		mcp.MetaProtocolVersion, mcp.V20260728, mcp.MetaClientInfo, rawInfo, mcp.MetaClientCapabilities, rawCapabilities)
	return c, nil
}

// Call sends a request and returns its result. What the server reports instead is
// a *jsonrpc.Error.
func (c *Client) Call(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
	var raw json.RawMessage
	var err error
	if c.Sending == nil {
		raw, err = c.send(ctx, req)
	} else {
		raw, err = c.Sending.Do(ctx, mcp.V20260728, req, c.send)
	}
	if err != nil || len(c.ResultTypes) == 0 || req.AnyResultType {
		return raw, err
	}
	// The middleware may have made a result of the core's of an extension's.
	if kind, ok := jsonrpc.Get(raw, "resultType"); ok && jsonrpc.Unquote(kind) != mcp.ResultTypeComplete {
		return nil, unknownType(kind)
	}
	return raw, nil
}

func (c *Client) send(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
	result, err := c.rounds(ctx, req)
	if err == nil {
		return result, nil
	}
	// A server that refuses our version while it lists it has refused before it
	// looked further: asking again is safe. Once is enough.
	if supported, ok := Refused(err); ok && slices.Contains(supported, string(mcp.V20260728)) {
		result, err = c.rounds(ctx, req)
	}
	return result, err
}

func (c *Client) once(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
	resp, err := c.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	if resp.Err != nil {
		return nil, resp.Err
	}
	kind, ok := jsonrpc.Get(resp.Result, "resultType")
	switch jsonrpc.Unquote(kind) {
	case mcp.ResultTypeComplete:
		return resp.Result, nil
	case mcp.ResultTypeInputRequired:
		return nil, &inputRequired{resp.Result}
	}
	if !ok { // absent: an older server's
		return resp.Result, nil
	}
	if slices.Contains(c.ResultTypes, jsonrpc.Unquote(kind)) {
		return resp.Result, nil
	}
	return nil, unknownType(kind)
}

func unknownType(kind []byte) error {
	return fmt.Errorf("%w: unknown resultType %.64s", call.ErrInvalidResponse, kind)
}

// Discover asks the server what it is. The error that refuses our version is
// returned as it is: see Refused.
func (c *Client) Discover(ctx context.Context, req *rpc.Request) (*mcp.DiscoverResult, *mcp.Implementation, error) {
	raw, err := c.Call(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	return DecodeDiscovery(raw, c.logger)
}

// DecodeDiscovery reads the result of server/discover, and in it what the server says it
// is. The latter is for display, so that a malformed one is only logged.
func DecodeDiscovery(raw json.RawMessage, logger *slog.Logger) (*mcp.DiscoverResult, *mcp.Implementation, error) {
	var result mcp.DiscoverResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, nil, fmt.Errorf("%w: server/discover: %w", call.ErrInvalidResponse, err)
	}
	if len(result.SupportedVersions) == 0 { // some legacy server answers whatever it does not know with {}
		return nil, nil, fmt.Errorf("%w: server/discover: no supported versions", call.ErrInvalidResponse)
	}
	var server mcp.Implementation
	if _, err := result.Meta.Get(mcp.MetaServerInfo, &server); err != nil {
		logger.Warn("the server's description of itself is ignored", "error", err)
	}
	return &result, &server, nil
}

// Rejected is the error of a request that the server has rejected without serving it.
// A wire returns it if it can tell so, for example by an HTTP status.
type Rejected struct{ Err *jsonrpc.Error }

// Error implements the error interface.
func (e *Rejected) Error() string { return e.Err.Error() }

// Unwrap returns what the server reports.
func (e *Rejected) Unwrap() error { return e.Err }

// Refused reports whether err is a server's refusal of the version we asked in,
// and which versions it would have taken.
func Refused(err error) (supported []string, ok bool) {
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != mcp.CodeUnsupportedVersion {
		return nil, false
	}
	var data mcp.UnsupportedVersionData
	if json.Unmarshal(e.Data, &data) != nil {
		return nil, true
	}
	return data.Supported, true
}

// Recognised reports whether err could only come from a server of this era.
func Recognised(err error) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e) && revision.IsModernError(e.Code)
}

// Receive implements call.Receiver.
func (c *Client) Receive(m *jsonrpc.Message) {
	if c.Outbound.Receive(m) {
		return
	}
	switch m.Kind {
	case jsonrpc.Notification:
		if take := c.Notifications[m.Method]; take != nil {
			take(m.Raw)
		} else if m.Method == mcp.NotificationMessage {
			revision.DeliverLog(m, c.OnLog)
		} else {
			c.Notice(m)
		}
	case jsonrpc.Request: // this era has none from servers (basic/transports/stdio, Receiving Messages)
		c.logger.Warn("request of a server ignored", "method", m.Method)
	case jsonrpc.Response:
		c.logger.Debug("response ignored: nobody waits for it", "id", m.ID)
	}
}

// Unusable implements call.Receiver.
func (c *Client) Unusable(m *jsonrpc.Message, err error) {
	if !c.Outbound.Unusable(m, err) {
		c.logger.Warn("message of the server ignored", "error", err)
	}
}

// Lost implements call.Receiver.
func (c *Client) Lost(err error) { c.Fail(err) }
