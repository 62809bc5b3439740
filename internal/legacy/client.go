package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxReplies bounds the replies to a server's requests that are on their way.
// Beyond it, nothing more is read until one has gone.
const maxReplies = 32

// replyTimeout is how long a server may take to accept one.
const replyTimeout = 30 * time.Second

// Bounds on the server's questions: so many are being answered, and with those as many
// known here as a server has calls in flight, twice. What comes beyond that is refused.
const (
	maxAnswering     = 16
	maxInputRequests = 256
)

// Client is the calling half of this era.
type Client struct {
	rpc.Outbound
	// OnLog takes the server's log messages, in the goroutine that receives; nil: nobody.
	OnLog func(mcp.LoggingMessageParams)
	// VisitTimeout bounds the wait for a user who has agreed to visit a URL: a server
	// need not report that they are done. 0: no bound.
	ElicitationTimeout time.Duration

	// Sending is what requests pass through; nil: nothing.
	Sending *rpc.Sending
	// Notifications take those of extensions, by method, in the goroutine that receives.
	Notifications map[string]func(params json.RawMessage)
	logger        *slog.Logger

	revision mcp.Revision // offered, and then agreed on; set before there are other requests

	ctx     context.Context // of the replies to the server's requests
	cancel  context.CancelFunc
	replies chan struct{}

	mu      sync.Mutex
	running sync.WaitGroup // joined under mu before ctx ends

	answerer     rpc.Answerer
	inFlight     rpc.Inflight  // of the server's, that are answered or wait for that
	answering    chan struct{} // held while one is being answered
	elicitations urlElicitations
	subscriber
}

var _ rpc.Receiver = (*Client)(nil)

// NewClient makes a client, which has answerer answer the server's questions; nil
// if it answers none. Its Wire is set before its first request. Close it.
func NewClient(answerer rpc.Answerer, logger *slog.Logger) *Client {
	c := &Client{logger: logger, replies: make(chan struct{}, maxReplies), answerer: answerer}
	c.inFlight.Max, c.answering = maxInputRequests, make(chan struct{}, maxAnswering)
	c.subscriber.init()
	c.CancelNotice = true
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close waits for the replies that are on their way.
func (c *Client) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
}

// run runs f in a goroutine that Close waits for, and reports false if it waits
// already.
func (c *Client) run(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.running.Go(f)
	return true
}

// Handshake offers a revision and takes the one the server answers with, which
// must be one of those with a handshake.
func (c *Client) Handshake(ctx context.Context, offer mcp.Revision, info mcp.Implementation, capabilities mcp.ClientCapabilities, req *rpc.Request) (*mcp.InitializeResult, error) {
	params, err := json.Marshal(mcp.InitializeParams{ProtocolVersion: offer, ClientInfo: info, Capabilities: revision.DowngradeClientCapabilities(offer, capabilities)})
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	req.Method, req.Params = mcp.MethodInitialize, params
	c.revision = offer
	raw, err := c.Call(ctx, req)
	if err != nil {
		return nil, err
	}
	var result mcp.InitializeResult
	if err := jsonv2.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("%w: initialize: %w", call.ErrInvalidResponse, err)
	}
	if r := result.ProtocolVersion; !r.Known() || r.Modern() {
		return nil, fmt.Errorf("%w: initialize: the server answers with %.32q, which this client does not speak in sessions", call.ErrRevision, string(r))
	}
	c.revision = result.ProtocolVersion
	c.Wire.Agreed(result.ProtocolVersion)
	if err := c.Notify(ctx, mcp.NotificationInitialized, nil); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return &result, nil
}

// Call sends a request and returns its result. What the server reports instead is
// a *jsonrpc.Error. A request that is refused until the user has visited some URLs is
// sent once more when they have.
func (c *Client) Call(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
	if c.Sending == nil {
		return c.send(ctx, req)
	}
	return c.Sending.Do(ctx, c.revision, req, c.send)
}

// send sends a request, and once more if it was refused for want of a visit.
func (c *Client) send(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
	result, err := c.exchange(ctx, req)
	if err == nil || req.Method == mcp.MethodInitialize {
		return result, err
	}
	switch visited, refusal := c.completeRequired(ctx, err); {
	case refusal != nil:
		return nil, fmt.Errorf("%w: %w", err, refusal)
	case visited:
		return c.exchange(ctx, req)
	}
	return nil, err
}

func (c *Client) exchange(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
	resp, err := c.Do(ctx, req)
	if err != nil {
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
	switch {
	case m.Kind == jsonrpc.Request:
		c.request(m)
	case m.Method == mcp.NotificationCancelled:
		c.inFlight.Cancel(revision.CancelledID(m), call.ErrCancelled)
	case m.Method == mcp.NotificationElicitationComplete:
		c.completed(m)
	case m.Method == mcp.NotificationMessage:
		revision.DeliverLog(m, c.OnLog)
	case m.Kind == jsonrpc.Notification:
		if take := c.Notifications[m.Method]; take != nil {
			take(m.Raw)
		} else if change, ok := rpc.ChangeOf(m); ok {
			c.Changes.Publish(change)
		}
	case m.Kind == jsonrpc.Response:
		c.logger.Debug("response ignored: nobody waits for it", "id", m.ID)
	}
}

// request takes a request of the server's, without keeping what else arrives waiting.
func (c *Client) request(m *jsonrpc.Message) {
	id := m.ID
	switch row := revision.Lookup(m.Method); {
	case m.Method == mcp.MethodPing:
		c.reply(jsonrpc.AppendResult(nil, id, []byte("{}")))
	case row == nil || row.Sender&revision.Server == 0 || c.answerer == nil:
		c.reply(jsonrpc.AppendError(nil, id, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q: this client has not declared that it offers it", m.Method), false))
	default:
		ctx, err := c.inFlight.Begin(c.ctx, id)
		if err != nil {
			c.reply(jsonrpc.AppendError(nil, id, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s", err), false))
			return
		}
		question := &inputRequest{id: id, method: m.Method, params: m.Raw, hold: c.Hold(), elicitation: c.elicitationOf(m)}
		if !c.run(func() { c.answer(ctx, question) }) {
			c.inFlight.End(id)
			question.end()
		}
	}
}

// question is a request of the server's on its way to an answer.
type inputRequest struct {
	id          jsonrpc.ID
	method      string
	params      json.RawMessage
	hold        *rpc.Hold       // of our own requests meanwhile
	elicitation *urlElicitation // nil unless it sends the user to a URL
}

func (q *inputRequest) end() {
	q.elicitation.end()
	q.hold.Release()
}

// answer answers a question in its turn.
func (c *Client) answer(ctx context.Context, q *inputRequest) {
	defer q.end()
	select {
	case c.answering <- struct{}{}:
	case <-ctx.Done(): // the server wants no answer anymore, or nobody is there to give it
		c.inFlight.End(q.id)
		return
	}
	answer, err := c.answerer(ctx, q.method, q.params)
	<-c.answering
	if !c.inFlight.End(q.id) {
		return
	}
	c.reply(appendAnswer(q.id, answer, err))
	if q.elicitation != nil && err == nil && accepts(answer) {
		c.awaitElicitation(q.elicitation, q.hold.Narrow())
	}
}

// appendAnswer encodes the answer to a question. An error that is not for the
// server stays here.
func appendAnswer(id jsonrpc.ID, answer json.RawMessage, err error) []byte {
	if err == nil {
		return jsonrpc.AppendResult(nil, id, answer)
	}
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) {
		reported = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client cannot answer"}
	}
	return jsonrpc.AppendError(nil, id, reported, false)
}

// reply sends what answers a request of the server's.
func (c *Client) reply(msg []byte) {
	select {
	case c.replies <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	sent := c.run(func() {
		defer func() { <-c.replies }()
		ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
		defer cancel()
		if err := c.Wire.Send(ctx, &rpc.Outgoing{Message: msg}); err != nil && c.ctx.Err() == nil {
			c.logger.Warn("reply lost", "error", err)
		}
	})
	if !sent {
		<-c.replies
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
