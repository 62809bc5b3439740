package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// requiresTasks is the error for a client that has not declared the tasks extension.
var requiresTasks = &call.CapabilityError{Required: mcp.ClientCapabilities{
	Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
}}

// callTask serves a call as a task. It reports false if the call is not one.
func (s *Server) callTask(ctx context.Context, c *rpc.Call, entry *toolEntry,
	arguments json.RawMessage) (result any, err error, done bool) {
	o := entry.task
	switch {
	case c.Can(revision.TaskExtension):
		_, declared := c.Extension(mcp.ExtensionTasks)
		switch {
		case o == nil:
			return nil, nil, false
		case !declared && o.Support == mcp.TaskRequired:
			return nil, requiresTasks, true
		case !declared, entry.detaches(): // see callParked
			return nil, nil, false
		}
		result, err = s.startTask(ctx, c, entry, arguments, o.TTL)
		return result, err, true
	case c.Can(revision.CoreTasks):
		raw, asked := c.Params().Get("task")
		switch {
		case asked && o == nil:
			return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound,
				"tool %q does not run as a task: call it without params.task", entry.tool.Name), true
		case asked:
			ttl, err := revision.RequestedTTL(raw, o.TTL)
			if err != nil {
				return nil, err, true
			}
			result, err = s.startTask(ctx, c, entry, arguments, ttl)
			return result, err, true
		}
	}
	if o != nil && o.Support == mcp.TaskRequired {
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound,
			"tool %q runs only as a task: call it with params.task in revision %s, or with the tasks extension in %s",
			entry.tool.Name, mcp.V20251125, mcp.V20260728), true
	}
	return nil, nil, false
}

// storedTask returns a new task for a call.
func storedTask(c *rpc.Call, o *TaskOptions, ttl time.Duration) (*tasks.Task, error) {
	request, err := tasks.RequestOf(c)
	return &tasks.Task{
		ID: rand.Text(), Request: request, TTL: ttl.Milliseconds(),
		Timeout: o.Timeout.Milliseconds(), Poll: o.PollInterval.Milliseconds(), Replay: o.Replay,
	}, err
}

// startTask runs the handler of a call as a task.
func (s *Server) startTask(ctx context.Context, c *rpc.Call, entry *toolEntry, arguments json.RawMessage,
	ttl time.Duration) (any, error) {
	if entry.task.Driver != nil {
		return s.startDriven(ctx, c, entry, arguments, ttl)
	}
	t, err := storedTask(c, entry.task, ttl)
	if err != nil {
		return nil, err
	}
	var onChange func(*tasks.Task)
	notifier := c.SessionNotifier
	if notifier != nil {
		onChange = func(t *tasks.Task) { notifier.Notify(statusNotification(t)) }
	}
	run, err := s.tasks.runner.Begin(ctx, t, onChange)
	if err != nil {
		return nil, err
	}
	run.Call.Store = s.core.engine.Store
	run.SetCaller(c.Caller())
	if token := c.ProgressToken; notifier != nil && !token.IsZero() {
		meta, as := metaOf(t.ID), run.Call.AsTask()
		as.Progress = func(ctx context.Context, done, total float64, text string) error {
			if !run.Quiet() {
				notifier.Notify(rpc.ProgressOfTask(token, done, total, text, meta))
			}
			return run.Progress(ctx, done, total, text)
		}
		run.Call.SetAsTask(as)
	}
	go s.runTask(run, entry, arguments)
	s.cancelUnknown(ctx, t)
	return createdTask(c, t), nil
}

// cancelUnknown cancels a new task if ctx, the context of its request, has ended: the client has
// cancelled the request, and does not receive the id of the task.
func (s *Server) cancelUnknown(ctx context.Context, t *tasks.Task) {
	if ctx.Err() != nil {
		s.cancelAbandoned(ctx, t.Request.Principal, t.ID)
	}
}

// cancelTime is how long cancelAbandoned tries to cancel a task while the store is out of reach.
const cancelTime = 20 * time.Second

// cancelAbandoned cancels a task whose client has gone, so that nobody else ends its handler. Ctx has ended already.
func (s *Server) cancelAbandoned(ctx context.Context, owner principal.Principal, id string) {
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	err := rpc.Retry(limited, func() error {
		_, err := s.tasks.store.Update(limited, owner, id, (*tasks.Task).Cancel)
		return err
	})
	if err != nil && !errors.Is(err, tasks.ErrEnded) && !hasNoTask(err) {
		s.logger().WarnContext(ctx, "cannot cancel the task of a cancelled request: its handler keeps running",
			tasks.LogID(id), "error", err)
	}
}

// taskInputRequester sends the questions of a task to the client of a tasks/result request, with the related
// task in their _meta (2025-11-25, basic/utilities/tasks, Input Required Status).
type taskInputRequester struct {
	server  *Server
	call    *rpc.Call
	asked   map[string]bool // keys; used by one goroutine
	running sync.WaitGroup
}

// taskQuestion identifies a question that is being asked.
type taskQuestion struct{ task, key string }

// ask sends the open questions that it has not sent yet.
func (a *taskInputRequester) ask(ctx context.Context, t *tasks.Task) {
	if a.call.InputRequester == nil {
		return // the client receives nothing before the response; it may ask again on another stream
	}
	for key, q := range t.Open() {
		if a.asked[key] || !canAnswer(a.call, q) {
			continue // another client of the principal may answer
		}
		id := taskQuestion{t.ID, key}
		if _, other := a.server.tasks.asking.LoadOrStore(id, true); other {
			continue // another tasks/result request asks it
		}
		a.asked[key] = true
		a.running.Go(func() {
			a.askOne(ctx, t, key, q)
			a.server.tasks.asking.Delete(id)
			if ctx.Err() != nil { // the other request can ask now
				a.server.tasks.store.Announce(context.WithoutCancel(ctx), a.call.Principal(), t.ID)
			}
		})
	}
}

// canAnswer reports whether the client of c has declared the capability for an input request: the server
// must not use others (2025-11-25, basic/lifecycle, Operation). The client that has created the task may
// have been another one.
func canAnswer(c *rpc.Call, q mcp.InputRequest) bool {
	return rpc.MissingInput(c.Peer().Capabilities, rpc.NeededInput(q.Method, q.Params)) == nil
}

func (a *taskInputRequester) askOne(ctx context.Context, t *tasks.Task, key string, q mcp.InputRequest) {
	params := revision.WithRelatedTask(q.Params, t.ID)
	answers, err := a.call.InputRequester.RequestInput(ctx, a.call, []rpc.InputRequest{{
		Method: q.Method, Params: params, Within: time.Duration(t.Questions[key].Within) * time.Millisecond,
	}})
	var rejected *call.AnswerError
	switch {
	case errors.As(err, &rejected):
		if t.External {
			break // the engine has no use for the error; the question stays open
		}
		_, err = a.server.tasks.store.Update(ctx, a.call.Principal(), t.ID,
			func(t *tasks.Task) error { return t.Reject(key, rejected.Err) })
	case err == nil:
		err = a.server.answerTask(ctx, t, map[string]json.RawMessage{key: answers[0]})
	}
	if err != nil && ctx.Err() == nil {
		a.server.logger().WarnContext(ctx, "cannot get the answer to a question of a task", tasks.LogID(t.ID),
			"error", err)
	}
}
