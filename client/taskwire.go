package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// The requests about a task. The two kinds of tasks share the names of the methods.

// send sends a request about the task. It may be repeated.
func (t *Task) send(ctx context.Context, method string, params any, timeout time.Duration) (raw json.RawMessage, r mcp.Revision, _ error) {
	if r := t.c.Revision(); !revision.CoreTasks.In(r) && !revision.TaskExtension.In(r) {
		return nil, r, fmt.Errorf("%s: %w in %s, which has no tasks", method, errors.ErrUnsupported, r)
	}
	encoded, err := schema.Marshal(params)
	if err != nil {
		return nil, r, fmt.Errorf("%s: cannot encode the params: %w", method, err)
	}
	raw, err = t.c.request(ctx, func(l *link) *outbound.Request {
		r = l.revision
		return &outbound.Request{Method: method, Params: encoded, Name: t.id, Meta: t.o.meta, Timeout: timeout, MaxTimeout: t.c.dialer.Timeouts.Max}
	}, true)
	return raw, r, err
}

// get requests the state of the task. If the server does not have it, the error is
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
		err = errors.New("the task is another one than requested")
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
	_, _, err := t.send(ctx, mcp.MethodUpdateTask, mcp.UpdateTaskParams{TaskID: t.id, InputResponses: responses}, t.c.dialer.Timeouts.Read)
	return err
}

// cancel sends tasks/cancel. A server of 2025-11-25 rejects it if the task has ended.
func (t *Task) cancel(ctx context.Context) error {
	if declared := t.c.Server().Capabilities.Tasks; revision.CoreTasks.In(t.c.Revision()) && (declared == nil || declared.Cancel == nil) {
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

// notFound adds ErrTaskNotFound to the error of a server that does not have the task.
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
		TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt, LastUpdatedAt: t.LastUpdatedAt,
		TTLMs: t.TTL, PollIntervalMs: t.PollInterval,
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

// checkDetails returns an error if a task of the extension has no data of its status.
func checkDetails(state *mcp.DetailedTask) error {
	switch {
	case state.Status == mcp.TaskCompleted && (len(state.Result) == 0 || state.Result[0] != '{'):
		return errors.New("a completed task must have a result, a JSON object")
	case state.Status == mcp.TaskFailed && state.Error == nil:
		return errors.New("a failed task must have an error")
	}
	return nil
}

// Bounds of the time between two polls.
const (
	defaultPoll = time.Second
	minPoll     = 100 * time.Millisecond
	maxPoll     = 5 * time.Minute
)

// received records when to poll next.
func (t *Task) received(state *mcp.DetailedTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = time.Now()
	if !state.Status.Terminal() {
		t.due = t.due.Add(pollInterval(&state.Task))
	}
}

// pollInterval returns the time until the next poll: what the server recommends, and so short
// that the task does not expire meanwhile.
func pollInterval(t *mcp.Task) time.Duration {
	interval := defaultPoll
	if t.PollIntervalMs > 0 {
		interval = time.Duration(min(t.PollIntervalMs, maxPoll.Milliseconds())) * time.Millisecond
	}
	if ttl := t.TTLMs; ttl != nil && *ttl > 0 {
		interval = min(interval, time.Duration(min(*ttl, 2*maxPoll.Milliseconds()))*time.Millisecond/2)
	}
	interval = max(interval, minPoll)
	return interval + rand.N(interval/10) // jitter, so that clients do not poll all at once
}
