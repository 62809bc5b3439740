package legacy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Time-outs for a client's response. They allow for the time that a user needs.
const (
	elicitTimeout = 10 * time.Minute
	sampleTimeout = 2 * time.Minute
	rootsTimeout  = 30 * time.Second
)

// inputRequests holds the requests that a session has sent to its client and that have no response yet. In this era, an
// input request is a request on the stream of the call (2025-11-25, basic/transports, Sending Messages to the Server).
type inputRequests struct {
	ids      atomic.Int64
	mu       sync.Mutex
	open     map[*outbound.Requests]struct{}
	awaiting chan struct{}        // closed while open is not empty; created on first use
	left     bool                 // the client sends no more messages
	tasks    outbound.TaskChanges // of tasks of the client
}

// seedIDs sets the first id. A session that is restored from its state must not reuse an id.
func (a *inputRequests) seedIDs() { a.ids.Store(time.Now().UnixMicro()) }

var _ rpc.InputRequester = (*inputRequests)(nil)

// RequestInput implements rpc.InputRequester.
func (a *inputRequests) RequestInput(ctx context.Context, c *rpc.Call, questions []rpc.InputRequest) ([]json.RawMessage,
	error) {
	out := &outbound.Requests{Wire: streamWire{c}, NotifyCancelled: true, IDs: &a.ids}
	a.add(out)
	defer a.remove(out)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]json.RawMessage, len(questions))
	var wg, leaving sync.WaitGroup
	if s, ok := c.Stream.(interface{ AwaitLeave(context.Context) bool }); ok {
		defer leaving.Wait()
		defer cancel(nil)
		leaving.Go(func() {
			if s.AwaitLeave(ctx) && c.Context().Err() == nil { // the connection also ends with the call
				cancel(rpc.ErrClientLeft)
			}
		})
	}
	for i, q := range questions {
		wg.Go(func() {
			var err error
			if q.Within > 0 && outbound.RunsAsTask(taskRequests(c), q.Method) {
				answers[i], err = a.requestTask(ctx, c, q)
			} else {
				answers[i], err = sendInputRequest(ctx, out, q)
			}
			if err != nil {
				cancel(err) // the other answers are useless without this one
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return answers, nil
}

// RequestInput implements rpc.SessionNotifier.
func (s *Session) RequestInput(ctx context.Context, r rpc.InputRequest) (json.RawMessage, error) {
	s, release := s.current()
	if s == nil {
		return nil, errSessionEnded
	}
	defer release()
	out := &outbound.Requests{Wire: sessionWire{s}, NotifyCancelled: true, IDs: &s.inputRequests.ids}
	s.inputRequests.add(out)
	defer s.inputRequests.remove(out)
	return sendInputRequest(ctx, out, r)
}

// sendInputRequest sends an input request and returns the result in its response.
func sendInputRequest(ctx context.Context, out *outbound.Requests, q rpc.InputRequest) (json.RawMessage, error) {
	return do(ctx, out, q.Method, &outbound.Request{Method: q.Method, Params: q.Params,
		Timeout: cmp.Or(q.Within, timeoutOf(q.Method))})
}

// do sends a request. An error that the client reports is a *call.AnswerError for a question, whose method is given.
func do(ctx context.Context, out *outbound.Requests, question string, req *outbound.Request) (json.RawMessage, error) {
	resp, err := out.Do(ctx, req)
	if err == nil && resp.Err != nil {
		err = &call.AnswerError{Method: question, Err: resp.Err}
	}
	return resp.Result, err
}

func (a *inputRequests) add(out *outbound.Requests) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = make(map[*outbound.Requests]struct{})
	}
	if len(a.open) == 0 && a.awaiting != nil {
		close(a.awaiting)
	}
	a.open[out] = struct{}{}
	if a.left {
		out.Fail(rpc.ErrClientLeft)
	}
}

// EndInput fails the input requests, and those that follow, because no more messages of the client arrive.
func (s *Session) EndInput() {
	a := &s.inputRequests
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
	for out := range a.open {
		out.Fail(rpc.ErrClientLeft)
	}
}

func (a *inputRequests) remove(out *outbound.Requests) {
	out.AwaitCancellations() // before the response to the call, after which its stream ends
	out.Release()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, out)
	if len(a.open) == 0 {
		a.awaiting = nil
	}
}

// waiting reports whether an input request has no response yet.
func (a *inputRequests) waiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open) > 0
}

// AwaitingInput returns a channel that is closed while an input request has no response. A
// transport that stops reading then would wait for ever.
func (s *Session) AwaitingInput() <-chan struct{} {
	a := &s.inputRequests
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaiting == nil {
		a.awaiting = make(chan struct{})
		if len(a.open) > 0 {
			close(a.awaiting)
		}
	}
	return a.awaiting
}

// Finish implements rpc.InputRequester.
func (a *inputRequests) Finish(_ context.Context, result any, err error) (any, error) {
	return result, err
}

// receive delivers a response of the client and reports whether an input request was waiting for it.
func (a *inputRequests) receive(m *jsonrpc.Message) bool {
	return a.deliver(func(out *outbound.Requests) bool { return out.Receive(m) })
}

// receiveInvalid delivers a malformed response. The input request that waits for it fails.
func (a *inputRequests) receiveInvalid(m *jsonrpc.Message, err error) bool {
	return a.deliver(func(out *outbound.Requests) bool { return out.ReceiveInvalid(m, err) })
}

func (a *inputRequests) deliver(accepts func(*outbound.Requests) bool) bool {
	a.mu.Lock()
	all := slices.Collect(maps.Keys(a.open))
	a.mu.Unlock()
	return slices.ContainsFunc(all, accepts)
}

func timeoutOf(method string) time.Duration {
	switch method {
	case mcp.MethodElicit:
		return elicitTimeout
	case mcp.MethodCreateMessage:
		return sampleTimeout
	}
	return rootsTimeout
}

// streamWire sends input requests on the stream of their call.
type streamWire struct{ call *rpc.Call }

func (w streamWire) Send(ctx context.Context, out *outbound.Outgoing) error {
	if err := w.call.Send(ctx, out.Message); err != nil {
		return err
	}
	// A stream may drop notifications after the client has disconnected. An input request
	// must fail instead, because it will not be answered.
	if s, ok := w.call.Stream.(interface{ Broken() error }); ok {
		if err := s.Broken(); err != nil {
			return fmt.Errorf("%w: %w", call.ErrNotSent, err)
		}
	}
	return nil
}
func (streamWire) SetRevision(mcp.Revision) {}
func (streamWire) Close() error             { return nil }

// sessionWire sends input requests that belong to no call on the stream of their session.
type sessionWire struct{ session *Session }

func (w sessionWire) Send(_ context.Context, out *outbound.Outgoing) error {
	w.session.Notify(out.Message)
	return nil
}
func (sessionWire) SetRevision(mcp.Revision) {}
func (sessionWire) Close() error             { return nil }

// Times of the requests about a task of the client.
const (
	taskRequestTimeout = 30 * time.Second
	defaultTaskPoll    = time.Second
	minTaskPoll        = 100 * time.Millisecond
	maxTaskPoll        = time.Minute
	// cancelTaskTimeout limits the wait for the response that creates a task, and for that of
	// tasks/cancel, after the handler has given up.
	cancelTaskTimeout = time.Second
)

// taskRequests returns which requests the client of a call can run as tasks.
func taskRequests(c *rpc.Call) *mcp.TaskRequestsCapability {
	declared := c.Peer().Capabilities
	if !c.Can(revision.CoreTasks) || declared.Tasks == nil {
		return nil
	}
	return declared.Tasks.Requests
}

// requestedTask is an input request that the client runs as a task (2025-11-25, basic/utilities/tasks). The client
// accepts it at once, so that no response takes long, and the answer is not lost with the stream of the call.
type requestedTask struct {
	out      *outbound.Requests
	call     *rpc.Call
	question rpc.InputRequest
	changed  <-chan struct{}
	deadline time.Time

	id     string
	status mcp.TaskStatus
	poll   time.Duration
	over   bool // the client has sent the outcome, or does not have the task
}

// requestTask sends an input request as a task, and waits for its result.
func (a *inputRequests) requestTask(ctx context.Context, c *rpc.Call, q rpc.InputRequest) (json.RawMessage, error) {
	out := &outbound.Requests{Wire: taskWire{c}, NotifyCancelled: true, IDs: &a.ids}
	a.add(out)
	defer a.remove(out)
	a.tasks.Begin()
	defer a.tasks.End()
	t := &requestedTask{out: out, call: c, question: q, deadline: time.Now().Add(q.Within)}
	answer, err := t.create(ctx)
	if err != nil || t.id == "" {
		return answer, err
	}
	changed, stop := a.tasks.Watch(t.id)
	defer stop()
	t.changed = changed
	if answer, err = t.await(ctx); !t.over {
		t.cancel(ctx)
	}
	return answer, err
}

// create sends the request. It returns the answer if the client has answered instead of creating a
// task. If ctx ends before, it cancels the task that the client may create.
func (t *requestedTask) create(ctx context.Context) (json.RawMessage, error) {
	params := revision.WithTask(t.question.Params, t.question.Within)
	// tasks/cancel must be used instead of notifications/cancelled (basic/utilities/cancellation).
	req := &outbound.Request{Method: t.question.Method, Params: params, Timeout: t.question.Within, Uncancellable: true}
	waiting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		timer := time.NewTimer(cancelTaskTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			stop()
		case <-waiting.Done():
		}
	})()
	raw, err := do(waiting, t.out, t.question.Method, req)
	_, created := jsonrpc.MembersOf(raw).Get("task")
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case !created:
		return raw, context.Cause(ctx)
	}
	var result mcp.LegacyCreateTaskResult
	err = schema.Decode(raw, &result)
	if err == nil && result.Task.TaskID == "" {
		err = errors.New("the task is without an id")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: cannot read the task that the client has created: %w", call.ErrInvalidResponse,
			t.question.Method, err)
	}
	t.id = result.Task.TaskID
	t.take(&result.Task)
	if ctx.Err() != nil {
		t.cancel(ctx)
		return nil, context.Cause(ctx)
	}
	return nil, nil
}

// take takes the state of the task.
func (t *requestedTask) take(state *mcp.LegacyTask) {
	t.status, t.poll = state.Status, defaultTaskPoll
	if ms := state.PollInterval; ms > 0 {
		t.poll = min(max(time.Duration(min(ms, maxTaskPoll.Milliseconds()))*time.Millisecond, minTaskPoll), maxTaskPoll)
	}
}

// await waits for the result of the task. It polls, because the client need not report changes. A
// request about the task that fails on this side is repeated after the next pause.
func (t *requestedTask) await(ctx context.Context) (json.RawMessage, error) {
	for {
		if t.status.Terminal() || t.status == mcp.TaskInputRequired {
			raw, err := t.send(ctx, mcp.MethodTaskResult, time.Until(t.deadline))
			if t.over = err == nil || errors.As(err, new(*call.AnswerError)); t.over {
				return raw, err
			}
		}
		if err := t.sleep(ctx); err != nil {
			return nil, err
		}
		raw, err := t.send(ctx, mcp.MethodGetTask, min(taskRequestTimeout, time.Until(t.deadline)))
		var state mcp.LegacyGetTaskResult
		switch {
		case errors.As(err, new(*call.AnswerError)):
			t.over = true // the client does not have it
			return nil, err
		case err != nil:
			continue
		}
		err = schema.Decode(raw, &state)
		if err == nil && state.TaskID != t.id {
			err = errors.New("the result belongs to another task")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: tasks/get: cannot read the task of the client: %w", call.ErrInvalidResponse,
				err)
		}
		t.take(&state.LegacyTask)
	}
}

// sleep waits until the next poll, a shorter time if the client reports a change.
func (t *requestedTask) sleep(ctx context.Context) error {
	left := time.Until(t.deadline)
	if left <= 0 {
		return &call.TimeoutError{Method: t.question.Method, After: t.question.Within}
	}
	timer := time.NewTimer(min(t.poll, left))
	defer timer.Stop()
	select {
	case <-t.changed:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// send sends a request about the task.
func (t *requestedTask) send(ctx context.Context, method string, timeout time.Duration) (json.RawMessage, error) {
	params := append(jsonrpc.AppendString([]byte(`{"taskId":`), t.id), '}')
	return do(ctx, t.out, t.question.Method,
		&outbound.Request{Method: method, Params: params, Timeout: max(timeout, time.Millisecond)})
}

// cancel asks the client to cancel the task, if it can.
func (t *requestedTask) cancel(ctx context.Context) {
	if t.call.Peer().Capabilities.Tasks.Cancel == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTaskTimeout)
	defer stop()
	_, _ = t.send(ctx, mcp.MethodCancelTask, cancelTaskTimeout) // the task expires otherwise
}

// taskWire sends an input request that runs as a task, and the requests about the task, on the stream
// of the call. When the client has left it or the call has ended, it sends the latter on the stream of
// the session (2025-11-25, basic/utilities/tasks, Input Required Status).
type taskWire struct{ call *rpc.Call }

func (w taskWire) Send(ctx context.Context, out *outbound.Outgoing) error {
	err := streamWire(w).Send(ctx, out)
	notifier := w.call.SessionNotifier
	if notifier != nil && out.Method != mcp.MethodElicit && out.Method != mcp.MethodCreateMessage &&
		(errors.Is(err, call.ErrCallDone) || errors.Is(err, call.ErrNotSent)) {
		notifier.Notify(out.Message)
		return nil
	}
	return err
}
func (taskWire) SetRevision(mcp.Revision) {}
func (taskWire) Close() error             { return nil }
