package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxReplies bounds the replies to a server's requests that are on their way.
// Beyond it, nothing more is read until one has gone.
const maxReplies = 32

// Client is the calling half of this era.
type Client struct {
	call.Outbound
	logger *slog.Logger

	ctx     context.Context // of the replies to the server's requests
	cancel  context.CancelFunc
	replies chan struct{}
	running sync.WaitGroup
}

var _ call.Receiver = (*Client)(nil)

// NewClient makes a client. Its Wire is set before its first request. Close it.
func NewClient(logger *slog.Logger) *Client {
	c := &Client{logger: logger, replies: make(chan struct{}, maxReplies)}
	c.CancelNotice = true
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close waits for the replies that are on their way.
func (c *Client) Close() {
	c.cancel()
	c.running.Wait()
}

// Handshake offers a revision and takes the one the server answers with, which
// must be one of those with a handshake.
func (c *Client) Handshake(ctx context.Context, offer mcp.Revision, info mcp.Implementation, capabilities mcp.ClientCapabilities, req *call.Request) (*mcp.InitializeResult, error) {
	params, err := json.Marshal(mcp.InitializeParams{ProtocolVersion: offer, ClientInfo: info, Capabilities: capabilities})
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	req.Method, req.Params = mcp.MethodInitialize, params
	raw, err := c.Call(ctx, req)
	if err != nil {
		return nil, err
	}
	var result mcp.InitializeResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("%w: initialize: %w", call.ErrInvalidResponse, err)
	}
	if r := result.ProtocolVersion; !r.Known() || r.Modern() {
		return nil, fmt.Errorf("%w: initialize: the server answers with revision %.32q, which this client does not speak in sessions", call.ErrInvalidResponse, string(r))
	}
	c.Wire.Agreed(result.ProtocolVersion)
	if err := c.Notify(ctx, mcp.NotificationInitialized, nil); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return &result, nil
}

// Call sends a request and returns its result. What the server reports instead is
// a *jsonrpc.Error.
func (c *Client) Call(ctx context.Context, req *call.Request) (json.RawMessage, error) {
	resp, err := c.Do(ctx, req)
	if err != nil {
		var status *call.StatusError
		if errors.As(err, &status) && status.Err != nil && status.Status == http.StatusBadRequest {
			return nil, status.Err // some servers report what is wrong with a request so
		}
		return nil, err
	}
	if resp.Err != nil {
		return nil, resp.Err
	}
	return resp.Result, nil
}

// Receive implements call.Receiver.
func (c *Client) Receive(m *jsonrpc.Message) {
	if c.Outbound.Receive(m) {
		return
	}
	switch m.Kind {
	case jsonrpc.Request:
		c.answer(m)
	case jsonrpc.Response:
		c.logger.Debug("response ignored: nobody waits for it", "id", m.ID)
	}
}

// answer replies to a server's request, without keeping what else arrives waiting.
func (c *Client) answer(m *jsonrpc.Message) {
	var reply []byte
	switch m.Method {
	case mcp.MethodPing:
		reply = jsonrpc.AppendResult(nil, m.ID, []byte("{}"))
	default:
		reply = jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q: this client has not declared that it offers it", m.Method), false)
	}
	select {
	case c.replies <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer func() { <-c.replies }()
		if err := c.Wire.Send(c.ctx, &call.Outgoing{Message: reply}); err != nil && c.ctx.Err() == nil {
			c.logger.Warn("reply lost", "error", err)
		}
	}()
}

// Unusable implements call.Receiver.
func (c *Client) Unusable(m *jsonrpc.Message, err error) {
	if !c.Outbound.Unusable(m, err) {
		c.logger.Warn("message of the server ignored", "error", err)
	}
}

// Lost implements call.Receiver.
func (c *Client) Lost(err error) { c.Fail(err) }
