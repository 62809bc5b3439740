package legacy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// serveTask serves a request that is to run as a task, or that is about tasks. It reports false for
// other requests, among them those with params.task that the client does not run as tasks.
func (c *Client) serveTask(m *jsonrpc.Message, stream jsonrpc.ID) bool {
	task, augmented := m.Params.Get("task")
	switch {
	case augmented && c.tasks.accepts(m.Method):
		if err := c.beginTask(m, stream, task); err != nil {
			c.reply(jsonrpc.AppendError(nil, m.ID, errorOf(err), false))
		}
		return true
	case !c.tasks.enabled():
		return false
	}
	switch m.Method {
	case mcp.MethodGetTask:
		c.replyAboutTask(m, func(id string) (any, error) {
			state, err := c.tasks.get(id)
			return &mcp.LegacyGetTaskResult{LegacyTask: state}, err
		})
	case mcp.MethodCancelTask:
		c.replyAboutTask(m, func(id string) (any, error) {
			state, err := c.tasks.stop(id)
			return &mcp.LegacyGetTaskResult{LegacyTask: state}, err
		})
	case mcp.MethodListTasks:
		var params mcp.PaginatedParams
		if err := decodeTaskParams(m, &params); err != nil {
			c.replyTo(m, nil, err)
			return true
		}
		list, err := c.tasks.list(params.Cursor)
		c.replyTo(m, list, err)
	case mcp.MethodTaskResult:
		c.replyWithOutcome(m)
	default:
		return false
	}
	return true
}

// beginTask begins to run a request as a task.
func (c *Client) beginTask(m *jsonrpc.Message, stream jsonrpc.ID, task []byte) error {
	ttl, err := revision.RequestedTTL(task, clientTaskTTL)
	if err != nil {
		return err
	}
	origin, fault := c.originOf(m, stream)
	if fault != nil {
		return fault
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	t, err := c.tasks.add(ttl, cancel)
	if err != nil {
		cancel(err)
		return err
	}
	q := c.inputRequestOf(m, origin)
	if !c.run(func() { c.runTask(ctx, t, q) }) {
		q.end()
		c.tasks.discard(t)
	}
	return nil
}

// runTask sends the response that creates a task, gets the answer, and notifies the server. The
// time-outs of the requests that are in flight now are paused meanwhile, because one of them waits
// for the answer.
func (c *Client) runTask(ctx context.Context, t *clientTask, q *inputRequest) {
	defer q.end()
	defer t.cancel(nil)
	idle := q.pause.Freeze()
	created, _ := c.tasks.get(t.id)
	result := &mcp.LegacyCreateTaskResult{Task: created}
	raw, err := schema.Marshal(result)
	if err != nil || !c.sendReply(jsonrpc.AppendResult(nil, q.id, revision.WithRelatedTask(raw, t.id))) {
		c.tasks.discard(t) // the server does not know it
		return
	}
	answer, err := c.ask(ctx, q)
	status, failure := mcp.TaskCompleted, (*jsonrpc.Error)(nil)
	if ctx.Err() != nil {
		return // cancelled, expired, or the connection has ended
	} else if err != nil {
		status, answer, failure = mcp.TaskFailed, nil, c.reportedError(q, err)
	}
	state, ended := c.tasks.end(t, status, answer, failure)
	if !ended {
		return
	}
	c.notifyStatus(state)
	if q.elicitation != nil && err == nil && accepts(answer) {
		c.awaitElicitation(q.elicitation, idle)
	}
}

// notifyStatus sends notifications/tasks/status. The server does not rely on it.
func (c *Client) notifyStatus(state mcp.LegacyTask) {
	params, err := schema.Marshal(mcp.LegacyTaskStatusParams{LegacyTask: state})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
	defer cancel()
	_ = c.Notify(ctx, mcp.NotificationTaskStatus, params)
}

// replyAboutTask replies to a request about one task.
func (c *Client) replyAboutTask(m *jsonrpc.Message, handle func(id string) (any, error)) {
	var params mcp.TaskParams
	err := decodeTaskParams(m, &params)
	if err != nil {
		c.replyTo(m, nil, err)
		return
	}
	result, err := handle(params.TaskID)
	c.replyTo(m, result, err)
}

// replyWithOutcome serves tasks/result: it replies when the task has ended.
func (c *Client) replyWithOutcome(m *jsonrpc.Message) {
	var params mcp.TaskParams
	if err := decodeTaskParams(m, &params); err != nil {
		c.replyTo(m, nil, err)
		return
	}
	ctx, err := c.inFlight.Begin(c.ctx, m.ID)
	if err != nil {
		c.reply(jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s", err), false))
		return
	}
	id := m.ID
	waits := c.run(func() {
		raw, err := c.tasks.wait(ctx, params.TaskID)
		switch {
		case !c.inFlight.End(id): // the server has cancelled the request
		case err != nil:
			c.reply(jsonrpc.AppendError(nil, id, errorOf(err), false))
		default:
			c.reply(jsonrpc.AppendResult(nil, id, raw))
		}
	})
	if !waits {
		c.inFlight.End(id)
	}
}

// replyTo sends a result, or an error if err is not nil.
func (c *Client) replyTo(m *jsonrpc.Message, result any, err error) {
	var raw []byte
	if err == nil {
		raw, err = schema.Marshal(result)
	}
	if err != nil {
		c.reply(jsonrpc.AppendError(nil, m.ID, errorOf(err), false))
		return
	}
	c.reply(jsonrpc.AppendResult(nil, m.ID, raw))
}

func decodeTaskParams(m *jsonrpc.Message, into any) error {
	raw := m.Raw
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if err := schema.Decode(raw, into); err != nil {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
	}
	return nil
}

// errorOf returns the error of a request about tasks.
func errorOf(err error) *jsonrpc.Error {
	if reported, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return reported
	}
	return jsonrpc.Errorf(jsonrpc.CodeInternalError, "cannot serve the request")
}

// relateAnswer adds the task of a request to its answer (2025-11-25, basic/utilities/tasks, Related
// Task Metadata).
func relateAnswer(q *inputRequest, answer json.RawMessage) json.RawMessage {
	id := relatedTaskID(q.params)
	if answer == nil || id == "" {
		return answer
	}
	return revision.WithRelatedTask(answer, id)
}
