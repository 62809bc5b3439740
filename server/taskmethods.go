package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// declaresTasks resolves a request about tasks. In 2026-07-28 it is for clients that have declared the extension.
func declaresTasks(_ context.Context, c *rpc.Call) (any, []string, error) {
	if _, declared := c.Extension(mcp.ExtensionTasks); !declared && c.Can(revision.TaskExtension) {
		return nil, nil, requiresTasks
	}
	return nil, nil, nil
}

// taskID returns the id of the task that a request is about.
func taskID(c *rpc.Call) (string, error) {
	if err := checkNames(c.Params(), "taskId", "_meta", "inputResponses"); err != nil {
		return "", err
	}
	return textParam(c, "taskId", "id of a task")
}

// errUnknownTask is the response for an id that is not that of a task of the caller.
var errUnknownTask = jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", tasks.ErrNotFound)

// taskError returns the response for an error of the store of tasks.
func taskError(err error) error {
	if hasNoTask(err) {
		return errUnknownTask
	}
	return err
}

// hasNoTask reports whether err means that a task does not exist for this server.
func hasNoTask(err error) bool {
	return errors.Is(err, tasks.ErrNotFound) || errors.Is(err, tasks.ErrUnreadable)
}

// task returns a task of the caller. If the replica that ran it has ended, this one takes it over. If
// an engine runs it, the engine is asked for its state.
func (s *Server) task(ctx context.Context, c *rpc.Call, id string) (*tasks.Task, error) {
	t, err := s.tasks.store.Get(ctx, c.Principal(), id)
	if err == nil {
		t, err = s.tasks.runner.Check(ctx, t)
	}
	if err == nil && t.External && !t.Status.Terminal() {
		t, err = s.observe(ctx, t)
	}
	if err != nil {
		return nil, taskError(err)
	}
	return t, nil
}

// getTask serves tasks/get.
func (s *Server) getTask(ctx context.Context, c *rpc.Call) (any, error) {
	id, err := taskID(c)
	if err != nil {
		return nil, err
	}
	t, err := s.task(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if c.Can(revision.CoreTasks) {
		return &mcp.LegacyGetTaskResult{LegacyTask: legacyTaskOf(t)}, nil
	}
	d, err := s.detailedTask(ctx, t)
	if err != nil {
		return nil, taskError(err)
	}
	if t.Status.Terminal() {
		s.tasks.store.LogRetrieved(ctx, t)
	}
	return &mcp.GetTaskResult{DetailedTask: d}, nil
}

// updateTask serves tasks/update.
func (s *Server) updateTask(ctx context.Context, c *rpc.Call) (any, error) {
	id, err := taskID(c)
	if err != nil {
		return nil, err
	}
	raw, ok := c.Params().Get("inputResponses")
	if !ok || raw[0] != '{' {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
			"params.inputResponses must be an object with the answers by key")
	}
	responses := make(map[string]json.RawMessage)
	for key, value := range jsonrpc.All(raw) {
		responses[key] = value
	}
	t, err := s.tasks.store.Get(ctx, c.Principal(), id)
	if err == nil {
		err = s.answerTask(ctx, t, responses)
	}
	if err != nil {
		return nil, taskError(err)
	}
	return &mcp.EmptyResult{}, nil
}

// cancelTask serves tasks/cancel.
func (s *Server) cancelTask(ctx context.Context, c *rpc.Call) (any, error) {
	id, err := taskID(c)
	if err != nil {
		return nil, err
	}
	t, err := s.tasks.store.Get(ctx, c.Principal(), id)
	if err == nil {
		err = s.stopDriven(ctx, t)
	}
	if err == nil {
		t, err = s.tasks.store.Update(ctx, c.Principal(), id, (*tasks.Task).Cancel)
	}
	ended := errors.Is(err, tasks.ErrEnded)
	switch {
	case err != nil && !ended:
		return nil, taskError(err)
	case c.Can(revision.TaskExtension):
		return &mcp.EmptyResult{}, nil
	case ended:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "cannot cancel the task: its status is %s already",
			legacyTaskOf(t).Status)
	}
	return &mcp.LegacyGetTaskResult{LegacyTask: legacyTaskOf(t)}, nil
}

const taskPage = 50 // tasks in one result of tasks/list; each is read on its own

// listTasks serves tasks/list of 2025-11-25. Anonymous callers share a principal, so that a list
// would reveal the tasks of others.
func (s *Server) listTasks(ctx context.Context, c *rpc.Call) (any, error) {
	if c.Principal() == principal.Anonymous {
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q requires authentication", c.Method())
	}
	after, err := s.core.cursors.of(c)
	if err != nil {
		return nil, err
	}
	page, next, err := s.tasks.store.List(ctx, c.Principal(), after, taskPage)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListTasksResult{Tasks: make([]mcp.LegacyTask, len(page))}
	for i, t := range page {
		result.Tasks[i] = legacyTaskOf(t)
	}
	if next != "" {
		owner := c.Principal()
		cursor := s.core.cursors.after(c.Method(), next, &owner)
		result.NextCursor = &cursor
	}
	return result, nil
}

// taskResult serves tasks/result of 2025-11-25: it waits for the end of the task, and sends the
// questions of the task to the client meanwhile.
func (s *Server) taskResult(ctx context.Context, c *rpc.Call) (any, error) {
	id, err := taskID(c)
	if err != nil {
		return nil, err
	}
	changes, err := s.tasks.store.Watch(ctx, c.Principal(), id)
	if err != nil {
		return nil, taskError(err)
	}
	defer changes.Close()
	a := taskInputRequester{server: s, call: c, asked: make(map[string]bool)}
	defer a.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the open questions
	var result any
	ended := s.followTask(ctx, c, changes, func(t *tasks.Task, failure error) (done bool) {
		switch {
		case failure != nil:
			err = failure
			return true
		case t.Status.Terminal():
			result, err = s.finalResult(ctx, t)
			return true
		case t.Status == mcp.TaskInputRequired:
			a.ask(ctx, t)
		}
		return false
	})
	if ended != nil {
		return nil, ended
	}
	return result, err
}

// followTask calls observe with a task of the caller, or with the error of [Server.task], now and after each change,
// until observe returns true or ctx ends. It returns the cause of the end of ctx.
func (s *Server) followTask(ctx context.Context, c *rpc.Call, changes *tasks.Changes,
	observe func(*tasks.Task, error) (done bool)) error {
	defer s.tasks.follow(changes.ID())()
	for {
		t, err := s.task(ctx, c, changes.ID())
		if observe(t, err) {
			return nil
		}
		wait := retryTask
		switch {
		case err != nil:
		case t.External: // its engine announces nothing
			wait = min(s.tasks.store.Remaining(t), time.Duration(t.Poll)*time.Millisecond)
		default:
			wait = s.tasks.store.Remaining(t)
		}
		if _, err := changes.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// retryTask is the time after which a task that could not be read is read again.
const retryTask = 5 * time.Second

// finalResult returns what the request of an ended task would have returned.
func (s *Server) finalResult(ctx context.Context, t *tasks.Task) (any, error) {
	s.tasks.store.LogRetrieved(ctx, t)
	result, err := s.outcomeOfTask(ctx, t)
	if err != nil {
		return nil, taskError(err)
	}
	if result.Meta == nil {
		result.Meta = make(mcp.Meta)
	}
	result.Meta[mcp.MetaRelatedTask] = relatedTask(t.ID)
	return result, nil
}

// outcomeOfTask returns the result of an ended task, or its error.
func (s *Server) outcomeOfTask(ctx context.Context, t *tasks.Task) (*mcp.CallToolResult, error) {
	switch t.Status {
	case mcp.TaskFailed:
		return nil, t.Error
	case mcp.TaskCancelled:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "the task was cancelled")
	}
	raw, err := s.tasks.store.Result(ctx, t)
	if err != nil {
		return nil, err
	}
	result := new(mcp.CallToolResult)
	if err := schema.Decode(raw, result); err != nil {
		return nil, err
	}
	return result, nil
}

func relatedTask(id string) json.RawMessage {
	raw, _ := json.Marshal(mcp.RelatedTask{TaskID: id})
	return raw
}

// createdTask returns the response to a call that runs as a task.
func createdTask(c *rpc.Call, t *tasks.Task) any {
	if c.Can(revision.TaskExtension) {
		return &mcp.CreateTaskResult{ResultBase: mcp.ResultBase{ResultType: mcp.ResultTypeTask}, Task: taskOf(t)}
	}
	// All responses related to a task have the metadata, except for those of tasks/get, tasks/list and
	// tasks/cancel (2025-11-25, basic/utilities/tasks, Related Task Metadata).
	meta := mcp.Meta{mcp.MetaRelatedTask: relatedTask(t.ID)}
	return &mcp.LegacyCreateTaskResult{ResultBase: mcp.ResultBase{Meta: meta}, Task: legacyTaskOf(t)}
}

func taskOf(t *tasks.Task) mcp.Task {
	return mcp.Task{
		TaskID: t.ID, Status: t.Status, StatusMessage: t.Message,
		CreatedAt: t.Created.Format(time.RFC3339Nano), LastUpdatedAt: t.Updated.Format(time.RFC3339Nano),
		TTLMs: &t.TTL, PollIntervalMs: t.Poll,
	}
}

// legacyTaskOf returns the form of 2025-11-25, in which the task of a tool that failed has failed.
func legacyTaskOf(t *tasks.Task) mcp.LegacyTask {
	task := taskOf(t)
	if t.Failed {
		task.Status, task.StatusMessage = mcp.TaskFailed, "the tool failed: see the result"
	}
	return mcp.LegacyTask{
		TaskID: task.TaskID, Status: task.Status, StatusMessage: task.StatusMessage,
		CreatedAt: task.CreatedAt, LastUpdatedAt: task.LastUpdatedAt, TTL: task.TTLMs,
		PollInterval: task.PollIntervalMs,
	}
}

// detailedTask returns a task with the data of its status.
func (s *Server) detailedTask(ctx context.Context, t *tasks.Task) (mcp.DetailedTask, error) {
	d := mcp.DetailedTask{Task: taskOf(t)}
	switch t.Status {
	case mcp.TaskInputRequired:
		d.InputRequests = t.Open()
	case mcp.TaskFailed:
		d.Error = t.Error
	case mcp.TaskCompleted:
		raw, err := s.tasks.store.Result(ctx, t)
		if err != nil {
			return d, err
		}
		d.Result = revision.WithResultType(raw) // it has the structure of the result of the request
	}
	return d, nil
}

// statusNotification returns notifications/tasks/status of 2025-11-25.
func statusNotification(t *tasks.Task) []byte {
	params, _ := json.Marshal(mcp.LegacyTaskStatusParams{LegacyTask: legacyTaskOf(t)}) // has only strings and numbers
	return jsonrpc.AppendNotification(nil, mcp.NotificationTaskStatus, params)
}

// metaOf returns the _meta of a message that belongs to a task of 2025-11-25.
func metaOf(id string) json.RawMessage {
	raw, _ := json.Marshal(mcp.Meta{mcp.MetaRelatedTask: relatedTask(id)})
	return raw
}

// watchTasks is modern.Server.WatchTasks.
func (s *Server) watchTasks(ctx context.Context, c *rpc.Call,
	ids []string) (accepted []string, states <-chan json.RawMessage, stop func(), err error) {
	if !s.runsTasks.Load() {
		return nil, nil, func() {}, nil
	}
	if _, declared := c.Extension(mcp.ExtensionTasks); !declared {
		return nil, nil, nil, requiresTasks
	}
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan json.RawMessage)
	var watching sync.WaitGroup
	end := func() {
		cancel()
		watching.Wait()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		// before the first reading, so that no change is missed
		changes, err := s.tasks.store.Watch(ctx, c.Principal(), id)
		if errors.Is(err, tasks.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		if _, err := s.task(ctx, c, id); err != nil {
			changes.Close()
			if errors.Is(err, errUnknownTask) {
				continue
			}
			return nil, nil, nil, err
		}
		accepted = append(accepted, id)
		watching.Go(func() { s.sendStates(ctx, c, changes, out) })
	}
	return accepted, out, end, nil
}

// sendStates sends the state of a task, and again after each change, until the task or ctx has ended.
func (s *Server) sendStates(ctx context.Context, c *rpc.Call, changes *tasks.Changes, out chan<- json.RawMessage) {
	defer changes.Close()
	var last json.RawMessage
	_ = s.followTask(ctx, c, changes, func(t *tasks.Task, err error) (done bool) {
		var raw json.RawMessage
		if err == nil {
			raw, err = s.taskState(ctx, t)
		}
		switch {
		case ctx.Err() != nil, errors.Is(err, errUnknownTask):
			return true
		case err != nil:
			s.logger().ErrorContext(ctx, "cannot notify a client about a task", tasks.LogID(changes.ID()), "error", err)
			return false
		case !bytes.Equal(raw, last):
			select {
			case out <- raw:
			case <-ctx.Done():
				return true
			}
			last = raw
		}
		return t.Status.Terminal()
	})
}

// taskState returns the state of a task for notifications/tasks.
func (s *Server) taskState(ctx context.Context, t *tasks.Task) (json.RawMessage, error) {
	d, err := s.detailedTask(ctx, t)
	if err != nil {
		return nil, taskError(err)
	}
	return json.Marshal(d)
}
