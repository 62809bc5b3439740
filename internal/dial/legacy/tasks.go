package legacy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Limits of the tasks of a client.
const (
	maxClientTasks = 64 // per server, including tasks that have ended
	clientTaskTTL  = 24 * time.Hour
	clientTaskPoll = time.Second // poll interval recommended to the server
	clientTaskPage = 25          // tasks in one result of tasks/list
)

// clientTasks contains the requests of the server that the client runs as tasks (2025-11-25,
// basic/utilities/tasks). They belong to the connection, and end with it.
type clientTasks struct {
	mu       sync.Mutex
	declared *mcp.TaskRequestsCapability // nil unless the client runs tasks
	last     uint64                      // number of the newest task
	all      []*clientTask               // in order of creation
}

// clientTask is a request of the server that runs as a task. Its fields below cancel are guarded by clientTasks.mu.
type clientTask struct {
	id      string
	number  uint64 // its position among all tasks of the connection
	created time.Time
	ttl     time.Duration
	cancel  context.CancelCauseFunc
	ended   chan struct{} // closed when the status is final or the task expires
	origin  outbound.Origin

	status  mcp.TaskStatus
	updated time.Time
	result  json.RawMessage // result of a completed task
	err     *jsonrpc.Error  // error of a task that has ended otherwise
	expiry  *time.Timer
}

// declare sets which requests of the server the client can run as tasks.
func (s *clientTasks) declare(tasks *mcp.TasksCapability) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tasks != nil {
		s.declared = tasks.Requests
	}
}

// enabled reports whether the client has declared tasks.
func (s *clientTasks) enabled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.declared != nil
}

// accepts reports whether the client has declared that it can run requests of a method as tasks.
func (s *clientTasks) accepts(method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return outbound.RunsAsTask(s.declared, method)
}

var (
	errTaskCancelled = errors.New("the server cancelled the task")
	errTaskExpired   = errors.New("the task expired")
	errUnknownTask   = jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "task not found: it never existed or has expired")
)

// add adds a task. If there are too many, it removes the oldest one that has ended, or ends and removes the oldest
// one that is abandoned, and returns that task's state. If there is neither, the error is a *call.OverloadError.
func (s *clientTasks) add(ttl time.Duration, cancel context.CancelCauseFunc, origin outbound.Origin) (
	_ *clientTask, displaced *mcp.LegacyTask, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxClientTasks {
		oldest := slices.IndexFunc(s.all, func(t *clientTask) bool { return t.status.Terminal() })
		if oldest < 0 {
			displaced = s.displace()
		} else {
			s.remove(s.all[oldest])
		}
		if oldest < 0 && displaced == nil {
			return nil, nil, &call.OverloadError{Limit: "tasks of the client", RetryAfter: time.Second}
		}
	}
	now := time.Now()
	s.last++
	t := &clientTask{
		id: rand.Text(), number: s.last, created: now, updated: now, ttl: ttl,
		cancel: cancel, ended: make(chan struct{}), status: mcp.TaskWorking, origin: origin,
	}
	s.all = append(s.all, t)
	t.expiry = time.AfterFunc(ttl, func() { s.discard(t) })
	return t, displaced, nil
}

// displace ends the oldest abandoned task and its call. It returns nil if there is none. mu must be held.
func (s *clientTasks) displace() *mcp.LegacyTask {
	t, found := rpc.Oldest(s.all, func(t *clientTask) bool { return t.origin.IsAbandoned() })
	if !found {
		return nil
	}
	t.status, t.updated, t.err = mcp.TaskFailed, time.Now(), rpc.DisplacedResponse
	t.cancel(rpc.ErrDisplaced)
	close(t.ended)
	s.remove(t)
	t.origin.Displace()
	state := t.state()
	return &state
}

// remove ends a task that is no longer known. mu must be held.
func (s *clientTasks) remove(t *clientTask) {
	t.expiry.Stop()
	t.cancel(errTaskExpired)
	if !t.status.Terminal() {
		close(t.ended)
	}
	s.all = slices.DeleteFunc(s.all, func(other *clientTask) bool { return other == t })
}

// discard removes a task that the server does not know about.
func (s *clientTasks) discard(t *clientTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(t.id) != nil {
		s.remove(t)
	}
}

// clear removes all tasks.
func (s *clientTasks) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range slices.Clone(s.all) {
		s.remove(t)
	}
}

// find returns a task, or nil. mu must be held.
func (s *clientTasks) find(id string) *clientTask {
	for _, t := range s.all {
		if t.id == id {
			return t
		}
	}
	return nil
}

// end ends a task with a result or an error, and returns its state. It reports false if the task has
// ended before or has expired.
func (s *clientTasks) end(t *clientTask, status mcp.TaskStatus, result json.RawMessage,
	err *jsonrpc.Error) (state mcp.LegacyTask, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.status.Terminal() || s.find(t.id) == nil {
		return t.state(), false
	}
	t.status, t.updated, t.result, t.err = status, time.Now(), result, err
	close(t.ended)
	return t.state(), true
}

// state returns the state for the server. mu must be held.
func (t *clientTask) state() mcp.LegacyTask {
	ttl := t.ttl.Milliseconds()
	state := mcp.LegacyTask{
		TaskID: t.id, Status: t.status, TTL: &ttl, PollInterval: clientTaskPoll.Milliseconds(),
		CreatedAt: t.created.UTC().Format(time.RFC3339Nano), LastUpdatedAt: t.updated.UTC().Format(time.RFC3339Nano),
	}
	if t.err != nil {
		state.StatusMessage = t.err.Message
	}
	return state
}

// get returns the state of the task that a request is about.
func (s *clientTasks) get(id string) (mcp.LegacyTask, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(id)
	if t == nil {
		return mcp.LegacyTask{}, errUnknownTask
	}
	return t.state(), nil
}

// stop cancels a task.
func (s *clientTasks) stop(id string) (mcp.LegacyTask, error) {
	s.mu.Lock()
	t := s.find(id)
	s.mu.Unlock()
	if t == nil {
		return mcp.LegacyTask{}, errUnknownTask
	}
	state, ok := s.end(t, mcp.TaskCancelled, nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "the task was cancelled"))
	t.cancel(errTaskCancelled)
	if !ok {
		return state, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "cannot cancel the task: its status is %s already",
			state.Status)
	}
	return state, nil
}

// wait waits for the end of a task and returns its outcome.
func (s *clientTasks) wait(ctx context.Context, id string) (json.RawMessage, error) {
	s.mu.Lock()
	t := s.find(id)
	s.mu.Unlock()
	if t == nil {
		return nil, errUnknownTask
	}
	select {
	case <-t.ended:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.err != nil:
		return nil, t.err
	case t.status != mcp.TaskCompleted:
		return nil, errUnknownTask
	}
	return revision.WithRelatedTask(t.result, t.id), nil
}

// list returns a page of tasks. The cursor is the number of the last task of the page before, or nil.
func (s *clientTasks) list(cursor *string) (*mcp.ListTasksResult, error) {
	after, err := uint64(0), error(nil)
	if cursor != nil {
		after, err = strconv.ParseUint(*cursor, 10, 64)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || after > s.last {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.cursor must be one of an earlier result")
	}
	result := &mcp.ListTasksResult{Tasks: []mcp.LegacyTask{}}
	for _, t := range s.all {
		switch {
		case t.number <= after:
			continue
		case len(result.Tasks) == clientTaskPage:
			next := strconv.FormatUint(after, 10)
			result.NextCursor = &next
			return result, nil
		}
		result.Tasks, after = append(result.Tasks, t.state()), max(after, t.number)
	}
	return result, nil
}

// serveTask serves a request that is to run as a task, or that is about tasks. It reports false for
// all other requests, including requests with params.task that the client does not run as tasks.
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
	origin := c.originOf(m, stream)
	ctx, cancel := context.WithCancelCause(c.ctx)
	t, displaced, err := c.tasks.add(ttl, cancel, origin)
	if err != nil {
		cancel(err)
		return err
	}
	if displaced != nil {
		c.run(func() { c.notifyStatus(*displaced) })
	}
	q := c.inputRequestOf(m, origin)
	if !c.run(func() { c.runTask(ctx, t, q) }) {
		q.end()
		c.tasks.discard(t)
	}
	return nil
}

// runTask sends the response that creates a task, gets the answer, and notifies the server. In the meantime, the
// time-outs of the requests that are in flight now are paused, because one of them waits for the answer.
func (c *Client) runTask(ctx context.Context, t *clientTask, q *inputRequest) {
	defer q.end()
	defer t.cancel(nil)
	idle := q.pause.Freeze()
	created, _ := c.tasks.get(t.id)
	result := &mcp.LegacyCreateTaskResult{Task: created}
	raw, err := schema.Marshal(result)
	if err != nil || !c.sendReply(jsonrpc.AppendResult(nil, q.id, revision.WithRelatedTask(raw, t.id))) {
		c.tasks.discard(t) // the server does not know about the task
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
	ctx, err := c.begin(m.ID)
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

// relateAnswer adds the task of a request to its answer (2025-11-25, basic/utilities/tasks, Related Task Metadata).
func relateAnswer(q *inputRequest, answer json.RawMessage) json.RawMessage {
	id := relatedTaskID(q.params)
	if answer == nil || id == "" {
		return answer
	}
	return revision.WithRelatedTask(answer, id)
}
