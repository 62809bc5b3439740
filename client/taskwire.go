package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// The requests about a task. The two kinds of tasks share the names of the methods.

// send sends a request about the task. It may be repeated.
func (t *Task) send(ctx context.Context, method string, params any,
	timeout time.Duration) (raw json.RawMessage, r mcp.Revision, _ error) {
	if r := t.c.Revision(); !revision.CoreTasks.In(r) && !revision.TaskExtension.In(r) {
		return nil, r, fmt.Errorf("%s: %w in %s, which has no tasks", method, errors.ErrUnsupported, r)
	}
	encoded, err := schema.Marshal(params)
	if err != nil {
		return nil, r, fmt.Errorf("%s: cannot encode the params: %w", method, err)
	}
	raw, err = t.c.request(ctx, func(l *link) *outbound.Request {
		r = l.revision
		return &outbound.Request{Method: method, Params: encoded, Name: t.id, Meta: t.o.meta,
			Capabilities: t.o.capabilities, Timeout: timeout,
			MaxTimeout: t.c.dialer.Timeouts.Max}
	}, true)
	return raw, r, err
}

// get requests the state of the task. If the server does not know it, the error is
// ErrTaskNotFound.
func (t *Task) get(ctx context.Context) (*mcp.DetailedTask, mcp.Revision, error) {
	raw, r, err := t.send(ctx, mcp.MethodGetTask, mcp.TaskParams{TaskID: t.id}, t.c.dialer.Timeouts.Read)
	if err != nil {
		return nil, r, notFound(err)
	}
	state, err := decodeState(raw, r)
	if err == nil {
		err = checkState(state)
	}
	if err == nil && state.TaskID != t.id {
		err = errors.New("the server returned a different task than requested")
	}
	if err != nil {
		return nil, r, fmt.Errorf("%w: tasks/get: %w", call.ErrInvalidResponse, err)
	}
	t.received(state)
	return state, r, nil
}

// finalResult requests the result of a task of 2025-11-25. Meanwhile the server sends the input
// requests of the task.
func (t *Task) finalResult(ctx context.Context) (json.RawMessage, error) {
	raw, _, err := t.send(ctx, mcp.MethodTaskResult, mcp.TaskParams{TaskID: t.id}, t.o.timeout)
	return raw, err
}

// update sends the responses to input requests.
func (t *Task) update(ctx context.Context, responses mcp.InputResponses) error {
	_, _, err := t.send(ctx, mcp.MethodUpdateTask, mcp.UpdateTaskParams{TaskID: t.id, InputResponses: responses},
		t.c.dialer.Timeouts.Read)
	return err
}

// cancel sends tasks/cancel. A server of 2025-11-25 rejects it if the task has ended.
func (t *Task) cancel(ctx context.Context) error {
	if declared := t.c.Server().Capabilities.Tasks; revision.CoreTasks.In(t.c.Revision()) &&
		(declared == nil || declared.Cancel == nil) {
		return fmt.Errorf("tasks/cancel: %w by the server", errors.ErrUnsupported)
	}
	_, r, err := t.send(ctx, mcp.MethodCancelTask, mcp.TaskParams{TaskID: t.id}, t.c.dialer.Timeouts.Read)
	if isInvalidParams(err) && revision.CoreTasks.In(r) {
		if state, _, getErr := t.get(ctx); getErr == nil && state.Status.Terminal() {
			return nil
		}
	}
	return notFound(err)
}

// notFound adds ErrTaskNotFound to the error of a server that does not know the task.
func notFound(err error) error {
	if isInvalidParams(err) {
		return fmt.Errorf("%w: %w", ErrTaskNotFound, err)
	}
	return err
}

// decodeCreated decodes the result of a tools/call that runs as a task.
func decodeCreated(raw json.RawMessage, r mcp.Revision) (*mcp.DetailedTask, error) {
	if !r.Modern() {
		var result mcp.LegacyCreateTaskResult
		err := schema.Decode(raw, &result)
		return stateOf(&result.Task), err
	}
	var result mcp.CreateTaskResult
	err := schema.Decode(raw, &result)
	return &mcp.DetailedTask{Task: result.Task}, err
}

// decodeState decodes the result of tasks/get.
func decodeState(raw json.RawMessage, r mcp.Revision) (*mcp.DetailedTask, error) {
	if !r.Modern() {
		var result mcp.LegacyGetTaskResult
		err := schema.Decode(raw, &result)
		return stateOf(&result.LegacyTask), err
	}
	var result mcp.GetTaskResult
	err := schema.Decode(raw, &result)
	if err == nil {
		err = checkDetails(&result.DetailedTask)
	}
	return &result.DetailedTask, err
}

func stateOf(t *mcp.LegacyTask) *mcp.DetailedTask {
	return &mcp.DetailedTask{Task: mcp.Task{
		TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt,
		LastUpdatedAt: t.LastUpdatedAt,
		TTLMs:         t.TTL, PollIntervalMs: t.PollInterval,
	}}
}

func checkState(state *mcp.DetailedTask) error {
	if err := checkTaskID(state.TaskID); err != nil {
		return err
	}
	if s := state.Status; s != mcp.TaskWorking && s != mcp.TaskInputRequired && !s.Terminal() {
		return fmt.Errorf("the task has the unknown status %.64q", string(s))
	}
	return nil
}

// checkDetails returns an error if a task of the extension lacks the data that its status requires.
func checkDetails(state *mcp.DetailedTask) error {
	switch {
	case state.Status == mcp.TaskCompleted && (len(state.Result) == 0 || state.Result[0] != '{'):
		return errors.New("a completed task must have a result, a JSON object")
	case state.Status == mcp.TaskFailed && state.Error == nil:
		return errors.New("a failed task must have an error")
	}
	return nil
}

// A server may report the changes of a task: to subscribers in 2026-07-28 (tasks extension, Task Status
// Notifications), and in the session in 2025-11-25 (basic/utilities/tasks, Task Status Notification). The
// client then polls at once. It also polls as often as without notifications, because they may be lost
// with their stream, and servers need not send them.

// taskChanges subscribes to the changes of a task during one wait. The zero value has no
// subscription.
type taskChanges struct {
	changed chan struct{}          // signals a change; capacity 1
	reports chan outbound.Progress // in a session: the progress of the task
	done    chan struct{}          // closed when the subscription has ended; nil before the first one
	began   time.Time              // start of the last subscription
}

// follow subscribes, unless a subscription exists or the last one ended too soon. The
// subscription ends with ctx.
func (s *taskChanges) follow(ctx context.Context, t *Task) {
	if s.changed == nil {
		s.changed, s.reports = make(chan struct{}, 1), make(chan outbound.Progress, maxTaskReports)
	}
	if s.done != nil {
		select {
		case <-s.done:
		default:
			return
		}
		if time.Since(s.began) < stableAfter {
			return
		}
	}
	done := make(chan struct{})
	s.done, s.began = done, time.Now()
	go func() {
		defer close(done)
		t.listen(ctx, s)
	}()
}

// wait waits until the subscription has ended. Its context must have ended.
func (s *taskChanges) wait() {
	if s.done != nil {
		<-s.done
	}
}

// maxTaskReports limits the progress reports that wait for a slow program.
const maxTaskReports = 64

// errNoTaskChanges ends a subscription that the server does not accept for tasks.
var errNoTaskChanges = errors.New("the server does not report changes of tasks")

// watch passes on the changes and the progress that the server reports in a session until the connection or ctx ends.
func (t *Task) watch(ctx context.Context, l *link, s *taskChanges) {
	reported, stop := l.tasks.Watch(t.id)
	defer stop()
	if t.progress != nil && t.progress.link == l { // the token belongs to a request on this connection
		defer l.tasks.Follow(t.progress.token, s.report)()
	}
	for {
		select {
		case <-reported:
			s.wake()
		case <-l.dropped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// wake makes the wait poll.
func (s *taskChanges) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// report passes progress to the wait. It does not block: it drops the oldest progress of a wait that is too slow.
func (s *taskChanges) report(p outbound.Progress) {
	for {
		select {
		case s.reports <- p:
			return
		default:
		}
		select {
		case <-s.reports:
		default:
		}
	}
}

// listen subscribes to the changes of the task until the connection or ctx ends.
func (t *Task) listen(ctx context.Context, s *taskChanges) {
	params, err := schema.Marshal(mcp.ListenParams{Notifications: mcp.SubscriptionFilter{TaskIDs: []string{t.id}}})
	if err != nil {
		return
	}
	l, err := t.c.connected(ctx)
	if err != nil {
		return
	}
	defer func() { t.c.release(l, l.failed() != nil) }()
	switch {
	case l.tasks != nil:
		t.watch(ctx, l, s)
		return
	case l.pollsTasks.Load():
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.dropped:
			cancel(call.ErrConnectionLost)
		case <-ctx.Done():
		}
	}()
	defer func() { <-ended }()
	defer cancel(nil)
	_, err = l.call(ctx, &outbound.Request{Method: mcp.MethodListen, Params: params, Meta: t.o.meta,
		Capabilities: t.o.capabilities,
		OnNotification: func(m *jsonrpc.Message) {
			switch m.Method {
			case mcp.NotificationSubscriptionsAcknowledged:
				var accepted mcp.SubscriptionsAcknowledgedParams
				if schema.Decode(m.Raw, &accepted) != nil || !slices.Contains(accepted.Notifications.TaskIDs, t.id) {
					cancel(errNoTaskChanges)
				}
			case mcp.NotificationTasks:
				s.wake()
			}
		}})
	var rejected *jsonrpc.Error
	if context.Cause(ctx) == errNoTaskChanges || ctx.Err() == nil && errors.As(err, &rejected) {
		l.pollsTasks.Store(true)
	}
}
