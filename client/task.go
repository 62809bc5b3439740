package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

// Task is a tool call that may continue after its response, even while the client is not connected (tasks extension of
// 2026-07-28; 2025-11-25, basic/utilities/tasks). [Client.StartTool] and [Client.Task] return one. It is safe for
// concurrent use.
type Task struct {
	c    *Client
	id   string
	tool string // "" if unknown
	o    callOptions

	progress *taskProgress

	mu       sync.Mutex
	result   json.RawMessage // result of the tool; nil until it is known
	due      time.Time       // when to poll next
	answered map[string]bool // keys of the input requests that are answered or being answered
}

// The errors of tasks, wrapped in a *[TaskError].
var (
	// ErrTaskNotFound means that the server does not know the task: its time to live has passed, or it belongs to
	// another user.
	ErrTaskNotFound = errors.New("the server does not have the task")
	// ErrTaskCancelled means that the task was cancelled.
	ErrTaskCancelled = errors.New("the task was cancelled")
)

// TaskError reports that the outcome of a task is not known, although the server had created the
// task. Unless Err is [ErrTaskNotFound] or [ErrTaskCancelled], a later [Client.Task] may find it.
type TaskError struct {
	ID  string // of the task; not part of the text, because it may be a secret
	Err error  // for instance ErrTaskNotFound, or the cause of the end of the context
}

// Error implements the error interface.
func (e *TaskError) Error() string { return "task: " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *TaskError) Unwrap() error { return e.Err }

// TaskStore remembers the tasks of a program, so that it finds them after it was restarted, with [Client.Task]. Its
// methods may be called concurrently. Without authentication, only its id protects a task, so a TaskStore must keep the
// ids secret.
type TaskStore interface {
	// SaveTask is called when the server has created a task. If it returns an error, the client
	// cancels the task and returns the error.
	SaveTask(ctx context.Context, r TaskRecord) error
	// DeleteTask is called when the program is about to receive the outcome of a task, or when
	// the task no longer exists. The client logs an error. It may be called for a task that was
	// not saved.
	DeleteTask(ctx context.Context, r TaskRecord) error
}

// TaskRecord identifies a task.
type TaskRecord struct {
	// Server is the target of the client, as its method String returns it.
	Server string `json:"server"`
	// ID is the id of the task. It is unique on the server.
	ID string `json:"id"`
	// Tool is the tool that runs. [TaskStore.DeleteTask] receives "" from [Client.Task].
	Tool string `json:"tool"`
}

// StartTool calls a tool like [Client.CallTool], but does not wait if the server runs the tool as
// a task. In 2026-07-28 the server decides that. In 2025-11-25 StartTool asks for a task if the
// tool supports tasks; it lists the tools if it does not know that. If the server runs the tool
// without a task, as in older revisions, StartTool returns after the tool has run; the ID of the
// Task is empty then, and Wait returns the result. When ctx ends, StartTool waits for up to one second
// for the response, whose task it cancels. The options apply to the later requests about
// the task, too.
func (c *Client) StartTool(ctx context.Context, name string, arguments any, options ...CallOption) (*Task, error) {
	o, err := optionsOf(options, toolRequest, c.dialer.Timeouts.Tool)
	if err != nil {
		return nil, fmt.Errorf("tools/call %s: %w", name, err)
	}
	raw, task, err := c.sendToolCall(ctx, name, arguments, o, true)
	switch {
	case err != nil:
		return nil, err
	case task == nil:
		task = &Task{c: c, tool: name, o: o, result: raw}
	}
	return task, nil
}

// Task returns the task with an id, which an earlier client may have started. It sends nothing.
// Wait does not validate the result against the output schema of the tool, which is not known.
func (c *Client) Task(id string, options ...CallOption) (*Task, error) {
	o, err := optionsOf(options, toolRequest, c.dialer.Timeouts.Tool)
	if err == nil {
		err = checkTaskID(id)
	}
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	return &Task{c: c, id: id, o: o, progress: c.newTaskProgress(o)}, nil
}

// maxTaskID limits the ids of tasks, in bytes: each request repeats the id in a header.
const maxTaskID = 4096

func checkTaskID(id string) error {
	if id == "" || len(id) > maxTaskID {
		return fmt.Errorf("the id of a task must have 1 to %d bytes, not %d", maxTaskID, len(id))
	}
	return nil
}

// ID returns the id of the task. It is empty if the server has run the tool without a task.
func (t *Task) ID() string { return t.id }

// Wait waits for the end of the task and returns the result of the tool. It polls as often as the server recommends,
// between 100 ms and 5 minutes, and when the server reports a change. The functions of the Dialer answer the task's
// questions. It reconnects and tries again when a request fails, until all have failed for Timeouts.Tool; see
// [WithTimeout]. Timeouts.Max does not limit Wait.
//
// The end of ctx ends the wait but does not cancel the task: Wait may be called again. It returns the errors of
// [Client.CallTool].
func (t *Task) Wait(ctx context.Context) (*mcp.CallToolResult, error) {
	raw, _, err := t.await(ctx)
	if err != nil {
		return nil, err
	}
	return t.c.toolResult(ctx, t.tool, raw, t.o)
}

// Get requests the status of the task. In 2026-07-28 it includes the result, the error or the
// input requests, which [Task.Answer] answers. In 2025-11-25 only Wait receives those.
func (t *Task) Get(ctx context.Context) (*mcp.DetailedTask, error) {
	if t.id == "" {
		return &mcp.DetailedTask{Task: mcp.Task{Status: mcp.TaskCompleted}, Result: t.result}, nil
	}
	state, _, err := t.get(ctx)
	if errors.Is(err, ErrTaskNotFound) {
		t.forget(ctx)
	}
	if err != nil {
		return nil, &TaskError{t.id, err}
	}
	return state, nil
}

// Answer sends responses to input requests of the task, by their keys. The values are the JSON of
// results, such as an mcp.ElicitResult. The server ignores keys that it does not wait for. Wait
// does not answer these requests again. In 2025-11-25, where only Wait can answer, the error is
// errors.ErrUnsupported.
func (t *Task) Answer(ctx context.Context, responses mcp.InputResponses) error {
	if t.id == "" {
		return errors.New("tasks/update: the tool has already run, without a task")
	}
	if r := t.c.Revision(); !revision.TaskExtension.In(r) {
		return fmt.Errorf("tasks/update: %w in %s: use Wait", errors.ErrUnsupported, r)
	}
	if err := t.update(ctx, responses); err != nil {
		return &TaskError{t.id, err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range responses {
		t.markAnswered(key)
	}
	return nil
}

// Cancel asks the server to cancel the task. The server may complete the task all the same. It is
// not an error if the task has ended already. If a server of 2025-11-25 cannot cancel tasks, the
// error is errors.ErrUnsupported.
func (t *Task) Cancel(ctx context.Context) error {
	if t.id == "" {
		return nil
	}
	err := t.cancel(ctx)
	if err == nil || errors.Is(err, ErrTaskNotFound) {
		t.forget(ctx)
	}
	if err != nil {
		return &TaskError{t.id, err}
	}
	return nil
}

// createdTask returns the task in the result of tools/call.
func (c *Client) createdTask(ctx context.Context, tool string, raw json.RawMessage, r mcp.Revision,
	o callOptions) (*Task, error) {
	created, err := decodeCreated(raw, r)
	if err == nil {
		err = checkState(created)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: tools/call %s: %w", call.ErrInvalidResponse, tool, err)
	}
	t := &Task{c: c, id: created.TaskID, tool: tool, o: o}
	if created.Status == mcp.TaskWorking { // in any other status, there is something to get at once
		t.received(created)
	}
	if store := c.dialer.Tasks; store != nil {
		if err := store.SaveTask(ctx, t.record()); err != nil {
			t.abandon(ctx)
			return nil, fmt.Errorf("tools/call %s: %w", tool,
				&TaskError{t.id, fmt.Errorf("cannot save the task: %w", err)})
		}
	}
	return t, nil
}

func (t *Task) record() TaskRecord {
	return TaskRecord{Server: t.c.target.String(), ID: t.id, Tool: t.tool}
}

// forget deletes a task from the store of the program.
func (t *Task) forget(ctx context.Context) {
	if store := t.c.dialer.Tasks; store != nil {
		if err := store.DeleteTask(ctx, t.record()); err != nil {
			t.c.dialer.Logger.Warn("cannot delete the record of a task", "server", t.c.target.String(), "error", err)
		}
	}
}

// abandonTimeout limits the time for cancelling a task when its call gives up.
const abandonTimeout = time.Second

// abandon cancels a task whose outcome nobody will receive.
func (t *Task) abandon(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer stop()
	if err := t.Cancel(ctx); err != nil && !errors.Is(err, call.ErrClosed) {
		t.c.dialer.Logger.Warn("cannot cancel a task", "server", t.c.target.String(), "tool", t.tool, "error", err)
	}
}

// awaitCall waits for the task of CallTool, and cancels it if it gives up.
func (t *Task) awaitCall(ctx context.Context) (json.RawMessage, error) {
	waiting := ctx
	if limit := t.c.dialer.Timeouts.Max; limit > 0 {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeoutCause(ctx, limit, maxExceeded(limit))
		defer stop()
	}
	raw, ended, err := t.await(waiting)
	if err != nil && !ended {
		t.abandon(ctx)
	}
	return raw, err
}

// ask lets the functions of the Dialer answer input requests, within the limits of the connection.
func (t *Task) ask(ctx context.Context, questions mcp.InputRequests) (mcp.InputResponses, error) {
	l, err := t.c.connected(ctx)
	if err != nil {
		return nil, err
	}
	t.c.release(l, false) // the connection is free while a user answers
	if l.answer == nil {
		return nil, fmt.Errorf("%w: input requests of a task in %s", call.ErrInvalidResponse, l.revision)
	}
	return l.answer(ctx, questions)
}

// maxTaskInputRequests limits the input requests of one task in all.
const maxTaskInputRequests = 10 * outbound.MaxInputRequests

// claim returns the new input requests and marks them as answered, so that each is answered
// once.
func (t *Task) claim(questions mcp.InputRequests) (mcp.InputRequests, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	claimed := make(mcp.InputRequests)
	for key, q := range questions {
		if !t.answered[key] {
			claimed[key] = q
		}
	}
	if len(questions) > outbound.MaxInputRequests || len(t.answered)+len(claimed) > maxTaskInputRequests {
		return nil, fmt.Errorf("%w: the task has too many input requests: the limit is %d at once and %d in all",
			call.ErrInvalidResponse, outbound.MaxInputRequests, maxTaskInputRequests)
	}
	for key := range claimed {
		t.markAnswered(key)
	}
	return claimed, nil
}

// markAnswered marks an input request as answered. mu must be held.
func (t *Task) markAnswered(key string) {
	if t.answered == nil {
		t.answered = make(map[string]bool)
	}
	t.answered[key] = true
}

// unclaim gives claimed input requests back.
func (t *Task) unclaim(questions mcp.InputRequests) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range questions {
		delete(t.answered, key)
	}
}
