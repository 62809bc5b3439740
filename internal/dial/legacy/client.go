package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Client is the client side of this era.
type Client struct {
	outbound.Requests
	// OnLog receives the server's log messages, in the goroutine that reads from the wire. It may be nil.
	OnLog func(context.Context, mcp.LoggingMessageParams)
	// ElicitationTimeout limits the wait after the user has accepted a URL elicitation,
	// because a server need not report its completion. 0 means no limit.
	ElicitationTimeout time.Duration

	// Sending is the middleware of requests. It may be nil.
	Sending *outbound.Chain
	// Notifications holds the handlers of extensions' notifications, by method. They run in
	// the goroutine that reads from the wire.
	Notifications map[string]func(ctx context.Context, params json.RawMessage)
	// TaskChanges contains the changes of tasks that the server reports.
	TaskChanges outbound.TaskChanges
	logger      *slog.Logger
	ignored     loglimit.Limiter // limits log lines about messages of the server

	revision mcp.Revision // the offered revision, then the agreed one; set before other requests

	ctx     context.Context // context of the replies to the server's requests
	cancel  context.CancelFunc
	replies chan struct{}

	mu      sync.Mutex
	running sync.WaitGroup // incremented under mu before ctx ends

	answerer     rpc.InputHandler
	answered     atomic.Bool  // the server has answered initialize, the first request
	inFlight     rpc.Inflight // pending requests of the server
	questions    questions    // the pending requests that are being answered
	elicitations urlElicitations
	tasks        clientTasks
	subscriber
}

var _ outbound.CallReceiver = (*Client)(nil)

// NewClient returns a client whose answerer answers the requests of the server. If answerer is nil, the client rejects
// them. Set its Wire before the first request, and Close it after use.
func NewClient(answerer rpc.InputHandler, logger *slog.Logger) *Client {
	c := &Client{logger: logger, replies: make(chan struct{}, maxReplies), answerer: outbound.LimitInput(answerer)}
	c.inFlight.Max = outbound.MaxInputRequests // the client rejects further requests
	c.subscriber.init()
	c.NotifyCancelled = true
	c.LateProgress = c.TaskChanges.ReceiveProgress
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close cancels the replies and tasks in progress and waits until they have ended.
func (c *Client) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	c.tasks.clear()
	c.elicitations.close()
}

// run runs f in a goroutine that Close waits for. It reports false after Close has begun.
func (c *Client) run(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.running.Go(f)
	return true
}

// Handshake offers a revision and accepts the server's answer, which must be a legacy revision.
func (c *Client) Handshake(ctx context.Context, offer mcp.Revision, info mcp.Implementation,
	capabilities mcp.ClientCapabilities, req *outbound.Request) (*mcp.InitializeResult, error) {
	capabilities = revision.DowngradeClientCapabilities(offer, capabilities)
	params, err := json.Marshal(mcp.InitializeParams{ProtocolVersion: offer, ClientInfo: info,
		Capabilities: capabilities})
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
	_, faults, err := contain.Decode(raw, &result)
	if err != nil {
		return nil, fmt.Errorf("%w: initialize: %w", call.ErrInvalidResponse, err)
	}
	faults.Log(c.logger, mcp.MethodInitialize)
	if r := result.ProtocolVersion; !r.Known() || r.Modern() {
		return nil,
			fmt.Errorf("%w: initialize: server answered with revision %.32q, which must be a supported revision "+
				"with sessions", call.ErrRevision, string(r))
	}
	c.revision = result.ProtocolVersion
	if revision.CoreTasks.In(result.ProtocolVersion) {
		c.tasks.declare(capabilities.Tasks)
	}
	c.Wire.SetRevision(result.ProtocolVersion)
	if err := c.Notify(ctx, mcp.NotificationInitialized, nil); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return &result, nil
}

// Call sends a request and returns its result. An error that the server reports is a *jsonrpc.Error. If the server
// requires URL elicitations first, Call completes them and sends the request once more.
func (c *Client) Call(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
	if c.Sending == nil {
		return c.send(ctx, req)
	}
	return c.Sending.Do(ctx, c.revision, req, c.send)
}

// send sends a request, and sends it again after the URL elicitations that the server requires.
func (c *Client) send(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
	result, err := c.exchange(ctx, req)
	if err == nil || req.Method == mcp.MethodInitialize {
		return result, err
	}
	switch completed, failure := c.completeRequired(ctx, err); {
	case failure != nil:
		return nil, fmt.Errorf("%w: %w", err, failure)
	case completed:
		return c.exchange(ctx, req)
	}
	return nil, err
}

func (c *Client) exchange(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
	resp, err := c.Do(ctx, req)
	if err != nil {
		return nil, outbound.ClientError(err)
	}
	if resp.Err != nil {
		return nil, outbound.ClientError(resp.Err)
	}
	return resp.Result, nil
}

// Receive implements outbound.Receiver.
func (c *Client) Receive(m *jsonrpc.Message) { c.ReceiveFor(jsonrpc.ID{}, m) }

// ReceiveFor implements outbound.CallReceiver.
func (c *Client) ReceiveFor(stream jsonrpc.ID, m *jsonrpc.Message) {
	if c.Sending != nil && !c.Requests.Filter(stream, m) {
		return
	}
	if c.Requests.Receive(m) {
		if m.Kind == jsonrpc.Response {
			c.answered.Store(true)
		}
		return
	}
	switch {
	case m.Kind == jsonrpc.Request:
		c.request(m, stream)
	case m.Method == mcp.NotificationCancelled:
		c.inFlight.Cancel(revision.CancelledID(m), call.ErrCancelled)
	case m.Method == mcp.NotificationElicitationComplete:
		c.completed(m)
	case m.Method == mcp.NotificationTaskStatus:
		c.TaskChanges.Receive(m)
	case m.Method == mcp.NotificationMessage:
		c.receiveLog(m, stream)
	case m.Kind == jsonrpc.Notification:
		if handle := c.Notifications[m.Method]; handle != nil {
			handle(c.OriginOf(stream, c.isNotified).Context(c.ctx), m.Raw)
		} else if change, ok := changes.Of(m); ok {
			c.Changes.Publish(change)
		}
	case m.Kind == jsonrpc.Response:
		outbound.LogUnmatched(c.ctx, &c.ignored, c.logger, m)
	}
}

// request begins to answer a request of the server. It does not block the reading goroutine.
func (c *Client) request(m *jsonrpc.Message, stream jsonrpc.ID) {
	id := m.ID
	switch row := revision.Lookup(m.Method); {
	case m.Method == mcp.MethodPing:
		c.reply(jsonrpc.AppendResult(nil, id, []byte("{}")))
	case row == nil || row.Sender&revision.Server == 0 || c.answerer == nil:
		c.reply(jsonrpc.AppendError(nil, id,
			jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q is not supported by this client", m.Method), false))
	case !c.answered.Load(): // basic/lifecycle, Initialization
		c.reply(jsonrpc.AppendError(nil, id,
			jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s must not be sent before the response to initialize",
				m.Method),
			false))
	case c.serveTask(m, stream):
	default:
		ctx, err := c.begin(id)
		if err != nil {
			c.reply(jsonrpc.AppendError(nil, id, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s", err), false))
			return
		}
		question := c.inputRequestOf(m, c.originOf(m, stream))
		ctx, question.cancel = context.WithCancelCause(ctx)
		c.questions.add(question)
		question.ofSession = m.Method == mcp.MethodListRoots && stream.IsZero()
		if !c.run(func() { c.answer(ctx, question) }) {
			c.questions.remove(question)
			question.cancel(nil)
			c.inFlight.End(id)
			question.end()
		}
	}
}

func (c *Client) inputRequestOf(m *jsonrpc.Message, origin outbound.Origin) *inputRequest {
	return &inputRequest{id: m.ID, method: m.Method, params: m.Raw, origin: origin, pause: c.PauseTimeouts(),
		elicitation: c.elicitationOf(m)}
}

// inputRequest is a request of the server that is being answered.
type inputRequest struct {
	id          jsonrpc.ID
	method      string
	params      json.RawMessage
	origin      outbound.Origin
	pause       *outbound.TimeoutPause  // pause of the time-outs of the client's requests
	elicitation *urlElicitation         // nil unless the request is a URL elicitation
	cancel      context.CancelCauseFunc // nil for a task
	ofSession   bool                    // the request may belong to no call, so it does not end with a call
}

func (q *inputRequest) end() {
	q.elicitation.end()
	q.pause.Resume()
}

// answer answers a request of the server.
func (c *Client) answer(ctx context.Context, q *inputRequest) {
	defer q.end()
	answer, err := c.ask(ctx, q)
	defer q.cancel(nil)
	if !c.questions.remove(q) || !c.inFlight.End(q.id) { // it was displaced, or the server has cancelled it
		return
	}
	c.reply(c.appendAnswer(q, relateAnswer(q, answer), err))
	if q.elicitation != nil && err == nil && accepts(answer) {
		c.awaitElicitation(q.elicitation, q.pause.Freeze())
	}
}

// appendAnswer encodes the answer to a request of the server.
func (c *Client) appendAnswer(q *inputRequest, answer json.RawMessage, err error) []byte {
	if err == nil {
		return jsonrpc.AppendResult(nil, q.id, answer)
	}
	return jsonrpc.AppendError(nil, q.id, c.reportedError(q, err), false)
}

// reportedError returns the error that the server receives. It logs a local error, whose text is
// private to this program.
func (c *Client) reportedError(q *inputRequest, err error) *jsonrpc.Error {
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) {
		c.logger.Warn("cannot answer a request of the server", "method", q.method, "error", err)
		reported = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "cannot answer the request"}
	}
	return reported
}

// ReceiveInvalid implements outbound.Receiver. A request with a readable id is answered with the
// error, because the server waits for a response.
func (c *Client) ReceiveInvalid(m *jsonrpc.Message, err error) {
	if c.Requests.ReceiveInvalid(m, err) {
		return
	}
	var invalid *jsonrpc.InvalidMessageError
	var tooLarge *outbound.TooLargeError
	switch {
	case m.Kind != jsonrpc.Request:
	case errors.As(err, &invalid):
		c.reply(jsonrpc.AppendError(nil, m.ID, invalid.Wire(), false))
	case errors.As(err, &tooLarge):
		c.reply(jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			"message too large: the limit of this client is %d bytes", tooLarge.Limit), false))
	}
	c.ignored.Log(c.ctx, c.logger, slog.LevelWarn, "malformed message from the server ignored", slog.Any("error", err))
}

// Lost implements outbound.Receiver.
func (c *Client) Lost(err error) {
	c.Fail(err)
	c.ignored.Flush(c.ctx, c.logger)
}

// maxReplies limits the concurrent replies to requests of the server. Above it, the client
// stops reading until a reply has been sent.
const maxReplies = 32

// replyTimeout is the time-out for sending one reply, with all attempts.
const replyTimeout = 30 * time.Second

// Pauses between the attempts to send a reply.
const (
	firstReplyPause = 100 * time.Millisecond
	maxReplyPause   = 5 * time.Second
)

// reply sends the response to a request of the server.
func (c *Client) reply(msg []byte) {
	select {
	case c.replies <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	sent := c.run(func() {
		defer func() { <-c.replies }()
		c.sendReply(msg)
	})
	if !sent {
		<-c.replies
	}
}

// sendReply sends the response to a request of the server, and reports whether it did.
func (c *Client) sendReply(msg []byte) bool {
	ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
	defer cancel()
	err := c.repeatReply(ctx, msg)
	// A program may close the client as soon as its call has ended. Nobody waits for the reply then.
	if err != nil && c.ctx.Err() == nil && c.Failed() == nil && !errors.Is(err, call.ErrClosed) {
		c.ignored.Log(c.ctx, c.logger, slog.LevelWarn, "cannot send a reply", slog.Any("error", err))
	}
	return err == nil
}

// repeatReply sends a reply and repeats it after failures that may be temporary, because the
// server's handler waits for it. A server ignores the second of two replies to one request.
func (c *Client) repeatReply(ctx context.Context, msg []byte) error {
	for pause := firstReplyPause; ; pause = min(2*pause, maxReplyPause) {
		err := c.Wire.Send(ctx, &outbound.Outgoing{Message: msg})
		if err == nil || !isTemporary(err) || c.Failed() != nil {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) // jitter, so that clients do not all return at once
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// isTemporary reports whether a message that could not be sent is worth another attempt: a
// server or a proxy does not serve it at the moment.
func isTemporary(err error) bool {
	if status, ok := errors.AsType[*call.StatusError](err); ok {
		return status.Status == 429 || status.Status >= 502 && status.Status <= 504
	}
	return errors.Is(err, call.ErrConnectionLost)
}
