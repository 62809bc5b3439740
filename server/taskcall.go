package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
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
		case !declared, o.AtDetach && entry.parked: // see callParked
			return nil, nil, false
		case o.AtDetach:
			result, err = s.callDetachable(ctx, c, entry, arguments)
			return result, err, true
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

// newTask begins the first run of a task for a call. Attempt calls its argument, again if the store fails.
func (s *Server) newTask(ctx context.Context, c *rpc.Call, entry *toolEntry, ttl time.Duration,
	attempt func(context.Context, func() error) error) (*tasks.Task, *tasks.Run, error) {
	t, err := storedTask(c, entry.task, ttl)
	if err != nil {
		return nil, nil, err
	}
	var keys rpc.InputKeys
	if parker, ok := c.InputRequester.(rpc.Parker); ok {
		var received map[string]rpc.ReceivedAnswer
		received, keys = parker.Received()
		t.Questions = make(map[string]tasks.Question, len(received))
		for key, r := range received { // another run asks these questions again
			t.Questions[key] = tasks.Question{Digest: r.Digest, Answer: r.Answer}
		}
	}
	var onChange func(*tasks.Task)
	notifier := c.SessionNotifier
	if notifier != nil {
		onChange = func(t *tasks.Task) { notifier.Notify(statusNotification(t)) }
	}
	var run *tasks.Run
	err = attempt(ctx, func() (err error) {
		run, err = s.tasks.runner.Begin(ctx, t, onChange)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	run.Call.Store = s.core.engine.Store
	run.Continue(keys)
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
	return t, run, nil
}

func (s *Server) startTask(ctx context.Context, c *rpc.Call, entry *toolEntry, arguments json.RawMessage,
	ttl time.Duration) (any, error) {
	if entry.task.Driver != nil {
		return s.startDriven(ctx, c, entry, arguments, ttl)
	}
	t, run, err := s.newTask(ctx, c, entry, ttl, func(_ context.Context, begin func() error) error { return begin() })
	if err != nil {
		return nil, err
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
		s.logger().WarnContext(ctx, "cannot cancel a task whose request was cancelled: its handler goes on",
			tasks.LogID(id), "error", err)
	}
}

// runTask runs the handler of a task to its end.
func (s *Server) runTask(run *tasks.Run, entry *toolEntry, arguments json.RawMessage) {
	outcome := tasks.Outcome{Err: jsonrpc.Errorf(jsonrpc.CodeInternalError, "internal error")} // of runtime.Goexit
	defer func() {
		if exit := run.Call.ExitResult; exit != nil {
			outcome = outcomeOf(exit)
		}
		run.End(outcome)
	}()
	result, err := s.result(run.Call.Context(), run.Call, entry, arguments)
	result, err = s.afterURLs(run, entry, arguments, result, err)
	outcome = s.outcome(run, result, err)
}

// taskClaim lets a call become a task while its handler runs. At most one task begins, and none when the handler has
// returned, because nobody would end it: a goroutine of the handler may ask or detach at any time.
type taskClaim struct {
	turn chan struct{} // held while a task begins

	mu       sync.Mutex
	run      *tasks.Run // nil unless the call is a task
	returned bool
}

func newTaskClaim() *taskClaim { return &taskClaim{turn: make(chan struct{}, 1)} }

// begin returns the run of the task. If there is none, it calls start, and first is true. The error is that of start,
// the cause of the end of ctx, or call.ErrCallDone.
func (t *taskClaim) begin(ctx context.Context, start func() (*tasks.Run, error)) (run *tasks.Run, first bool,
	err error) {
	if run = t.current(); run != nil { // the context of the call may have ended with its response
		return run, false, nil
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	defer func() { <-t.turn }()
	t.mu.Lock()
	run, returned := t.run, t.returned
	t.mu.Unlock()
	switch {
	case run != nil:
		return run, false, nil
	case returned:
		return nil, false, call.ErrCallDone
	}
	if run, err = start(); err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	if returned = t.returned; !returned {
		t.run = run
	}
	t.mu.Unlock()
	if returned {
		run.Discard()
		return nil, false, call.ErrCallDone
	}
	return run, true, nil
}

// current returns the run of the task, or nil.
func (t *taskClaim) current() *tasks.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run
}

// end says that the handler has returned. It returns the run of the task, which the caller must end, or nil.
func (t *taskClaim) end() *tasks.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.returned = true
	return t.run
}

// callDetachable serves a call that becomes a task when its handler calls Detach.
func (s *Server) callDetachable(ctx context.Context, c *rpc.Call, entry *toolEntry,
	arguments json.RawMessage) (any, error) {
	type answer struct {
		result *mcp.CallToolResult
		err    error
	}
	returned, detached := make(chan answer, 1), make(chan *tasks.Task, 1)
	claim := newTaskClaim()
	c.SetAsTask(rpc.AsTask{Detach: func(handler context.Context) (context.Context, error) {
		if err := handler.Err(); err != nil && claim.current() == nil {
			return handler, context.Cause(handler)
		}
		var t *tasks.Task
		run, first, err := claim.begin(handler, func() (run *tasks.Run, err error) {
			t, run, err = s.newTask(handler, c, entry, entry.task.TTL, c.Retry)
			return run, err
		})
		if err != nil {
			return handler, err
		}
		if first {
			detached <- t
		}
		return run.Call.Context(), nil
	}})
	go func() {
		a := answer{err: errFailedUnexpectedly}
		defer func() {
			run, exit := claim.end(), c.ExitResult
			if run != nil {
				exit = cmp.Or(run.Call.ExitResult, exit)
			}
			if exit != nil { // of runtime.Goexit
				a = answer{result: exit}
			}
			if run == nil {
				returned <- a
				return
			}
			run.End(s.outcome(run, a.result, a.err))
		}()
		a.result, a.err = s.result(ctx, c, entry, arguments)
		if run := claim.end(); run != nil {
			a.result, a.err = s.afterURLs(run, entry, arguments, a.result, a.err)
		}
	}()
	select {
	case t := <-detached:
		s.cancelUnknown(ctx, t)
		return createdTask(c, t), nil
	case a := <-returned:
		if a.err != nil {
			return nil, a.err
		}
		return a.result, nil
	}
}

// outcome returns the outcome of a handler for its task.
func (s *Server) outcome(run *tasks.Run, result *mcp.CallToolResult, err error) tasks.Outcome {
	if err != nil {
		return tasks.Outcome{Err: s.core.engine.ErrorOf(run.Call.Context(), run.Call, err)}
	}
	return outcomeOf(result)
}

func outcomeOf(result *mcp.CallToolResult) tasks.Outcome {
	raw, err := json.Marshal(result)
	if err != nil {
		return tasks.Outcome{Err: jsonrpc.Errorf(jsonrpc.CodeInternalError, "cannot encode the result of the tool")}
	}
	return tasks.Completed(raw, result.IsError)
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
	declared := c.Peer().Capabilities
	switch q.Method {
	case mcp.MethodElicit:
		if mode, _ := jsonrpc.Get(q.Params, "mode"); jsonrpc.Unquote(mode) == mcp.ElicitModeURL {
			return declared.Elicitation.SupportsURL()
		}
		return declared.Elicitation.SupportsForm()
	case mcp.MethodCreateMessage:
		var params mcp.CreateMessageParams
		return declared.Sampling != nil && schema.Decode(q.Params, &params) == nil &&
			(declared.Sampling.Tools != nil || !params.UsesTools())
	case mcp.MethodListRoots:
		return declared.Roots != nil
	}
	return true
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
		a.server.logger().WarnContext(ctx, "a question of a task has no answer", tasks.LogID(t.ID), "error", err)
	}
}

// afterURLs returns the outcome of a handler that runs in a task or a parked call. If the handler
// returned a *call.URLRequiredError, the task asks for the URL elicitations, and the handler runs again
// when the user has finished, up to maxURLRounds times. Outside of a task the client would repeat the
// call: in 2025-11-25 because of the error, and in 2026-07-28 with the answers.
func (s *Server) afterURLs(
	run *tasks.Run, entry *toolEntry, arguments json.RawMessage, result *mcp.CallToolResult, err error,
) (*mcp.CallToolResult, error) {
	for range maxURLRounds {
		required, ok := errors.AsType[*call.URLRequiredError](err)
		if !ok || run.Call.CheckURLs(required) != nil {
			break
		}
		if err := s.elicitURLs(run.Call, required); err != nil {
			return nil, err
		}
		run.Restart()
		result, err = s.result(run.Call.Context(), run.Call, entry, arguments)
	}
	return result, err
}

// elicitURLs asks the user to open the URLs of e, and waits until the user has finished there.
func (s *Server) elicitURLs(c *rpc.Call, e *call.URLRequiredError) error {
	ctx := c.Context()
	for asked := false; !asked; { // the first iterations find the answers of earlier rounds
		requests := c.InputRequestsFor(e)
		for _, q := range requests {
			asked = asked || !c.Answered(q)
		}
		answers, err := c.RequestInput(ctx, requests...)
		if err != nil {
			return err
		}
		for i, raw := range answers {
			var answer mcp.ElicitResult
			if err := jsonv2.Unmarshal(raw, &answer); err != nil || answer.Action != mcp.ElicitAccept {
				return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
					"the user declined to open %s, which this call requires",
					e.URLs[i].URL)
			}
		}
	}
	for _, u := range e.URLs {
		if u.Done == nil {
			continue
		}
		limit := orDefault(u.Within, urlTime)
		if _, err := rpc.Poll(ctx, min(limit, rpc.MaxURLTime), rpc.RecoverPanics(u.Done)); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			// The handler decides whether the user has finished.
			s.logger().WarnContext(ctx, "cannot wait for the end of a URL elicitation: RequiredURL.Done failed",
				"error", err)
		}
	}
	return nil
}
