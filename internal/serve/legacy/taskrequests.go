package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

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
	if !c.Can(revision.CoreTasks) || declared == nil || declared.Tasks == nil {
		return nil
	}
	return declared.Tasks.Requests
}

// requestedTask is an input request that the client runs as a task (2025-11-25,
// basic/utilities/tasks). The client accepts it at once, so that no response takes long, and the
// answer is not lost with the stream of the call.
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
	_, created := jsonrpc.Get(raw, "task")
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
		return nil, fmt.Errorf("%w: %s: cannot read the task that the client has created: %w", call.ErrInvalidResponse, t.question.Method, err)
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
			err = errors.New("the result is of another task")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: tasks/get: cannot read the task of the client: %w", call.ErrInvalidResponse, err)
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
	return do(ctx, t.out, t.question.Method, &outbound.Request{Method: method, Params: params, Timeout: max(timeout, time.Millisecond)})
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
