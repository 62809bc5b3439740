package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// toolRun runs the handler of a tool in a goroutine of its own, because it may outlive the request: as a task from its
// beginning, or in a call that becomes a task when the handler calls Detach, or that is parked when it asks a question.
// A parked call is stored as a task that its client does not see: its questions and answers reach every replica.
type toolRun struct {
	server *Server
	entry  *toolEntry
	call   *rpc.Call  // of the handler
	claim  *taskClaim // of the task

	// Of a call that is no task from its beginning:
	request  *rpc.Call // the first request
	cancel   context.CancelCauseFunc
	detach   func() bool // stops the end of the request from ending call
	isTask   atomic.Bool // see becomeTask
	returned chan toolOutcome
	parked   chan *tasks.Run // receives the parked call
	moved    chan struct{}   // closed when the parked call has become a task, or has ended
	moving   sync.Once
}

type toolOutcome struct {
	result any
	err    error
}

// runTask runs the handler of a task to its end.
func (s *Server) runTask(run *tasks.Run, entry *toolEntry, arguments json.RawMessage) {
	claim := newTaskClaim()
	claim.run = run
	h := &toolRun{server: s, entry: entry, call: run.Call, claim: claim, cancel: func(error) {},
		moved: make(chan struct{})}
	h.run(arguments)
}

// newToolRun prepares the handler of a call that can be parked or become a task.
func (s *Server) newToolRun(ctx context.Context, c *rpc.Call, entry *toolEntry) *toolRun {
	h := &toolRun{server: s, entry: entry, request: c, returned: make(chan toolOutcome, 1),
		parked: make(chan *tasks.Run, 1), moved: make(chan struct{}), claim: newTaskClaim()}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h.cancel, h.detach = cancel, context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	h.call = &rpc.Call{Call: c.Call, ProgressToken: c.ProgressToken, LogLevel: c.LogLevel, Stream: (*requestStream)(h),
		InputRequester: h, Store: s.core.engine.Store}
	h.call.RestoreKey(c.Key())
	as := rpc.AsTask{Progress: h.progress, Caller: c.Caller()}
	if canDetach(c, entry) {
		as.Detach = h.becomeTask
	}
	h.call.SetAsTask(as)
	h.call.Bind(life)
	return h
}

// run runs the handler to its end.
func (h *toolRun) run(arguments json.RawMessage) {
	r := toolOutcome{err: errFailedUnexpectedly}
	defer func() {
		h.call.Finish()
		h.cancel(nil)
		run, exit := h.claim.end(), h.call.ExitResult
		if run != nil {
			exit = cmp.Or(run.Call.ExitResult, exit)
		}
		if exit != nil { // of runtime.Goexit
			r = toolOutcome{result: exit}
		}
		if run == nil {
			h.returned <- r
			return
		}
		result, _ := r.result.(*mcp.CallToolResult)
		run.End(h.server.outcome(run, result, r.err))
		h.move()
	}()
	r = h.result(arguments)
}

// result runs the handler and returns the outcome of the call. If the call is parked, its result is an
// *mcp.CallToolResult.
func (h *toolRun) result(arguments json.RawMessage) toolOutcome {
	s, entry := h.server, h.entry
	result, err := s.undecodedResult(h.call.Context(), h.call, entry, arguments)
	if required, ok := errors.AsType[*call.URLRequiredError](err); ok && h.call.CheckURLs(required) == nil {
		if _, err = h.park(h.call.Context(), false); err == nil {
			err = required
		}
	}
	run := h.claim.end()
	if err == nil && isUndecoded(result) {
		if run == nil {
			forwarded, err := s.forwarded(h.call, result)
			return toolOutcome{forwarded, err}
		}
		result, err = decodeForwarded(result)
	}
	if run != nil {
		result, err = s.afterURLs(run, entry, arguments, result, err)
	}
	if err != nil {
		return toolOutcome{nil, err}
	}
	return toolOutcome{result, nil}
}

// park parks the call, or makes it a task that its client sees. It does nothing if that is done.
func (h *toolRun) park(ctx context.Context, visible bool) (*tasks.Run, error) {
	run, first, err := h.claim.begin(ctx, func() (run *tasks.Run, err error) {
		o := &TaskOptions{Timeout: parkedTime, PollInterval: time.Second, TTL: parkedTime,
			Replay: h.entry.task != nil && h.entry.task.Replay}
		if canDetach(h.request, h.entry) { // before or after its first question
			o = h.entry.task
		}
		t, err := storedTask(h.request, o, o.TTL)
		if err != nil {
			return nil, err
		}
		t.Parked = !visible
		err = h.call.Retry(ctx, func() (err error) {
			run, err = h.server.tasks.runner.Begin(ctx, t, nil)
			return err
		})
		if err != nil {
			return nil, err
		}
		run.Call.Store = h.server.core.engine.Store
		run.Call.SetAsTask(h.call.AsTask()) // for a handler that runs again, see afterURLs
		return run, nil
	})
	if first {
		h.detach()
		context.AfterFunc(run.Call.Context(), func() { h.cancel(context.Cause(run.Call.Context())) })
		h.parked <- run
	}
	return run, err
}

// becomeTask makes the call a task.
func (h *toolRun) becomeTask(ctx context.Context) error {
	run, err := h.park(ctx, true)
	if err == nil {
		err = run.Reveal(ctx)
	}
	if err != nil {
		return err
	}
	h.isTask.Store(true)
	h.move()
	return nil
}

// move wakes the first request of the parked call.
func (h *toolRun) move() { h.moving.Do(func() { close(h.moved) }) }

// RequestInput implements rpc.InputRequester. It parks the call.
func (h *toolRun) RequestInput(
	ctx context.Context, _ *rpc.Call, requests []rpc.InputRequest,
) ([]json.RawMessage, error) {
	run, err := h.park(ctx, false)
	if err != nil {
		return nil, err
	}
	return run.Call.InputRequester.RequestInput(ctx, run.Call, requests)
}

// Answered implements rpc.Replayer.
func (h *toolRun) Answered(q rpc.InputRequest) bool {
	run := h.claim.current()
	return run != nil && run.Call.Answered(q)
}

// Finish implements rpc.InputRequester.
func (h *toolRun) Finish(_ context.Context, result any, err error) (any, error) { return result, err }

// progress reports progress to the request that waits for the handler, if there is one, or in the status of
// the task.
func (h *toolRun) progress(ctx context.Context, done, total float64, text string) error {
	if h.isTask.Load() {
		return h.claim.current().Progress(ctx, done, total, text)
	}
	if current := h.current(); current != nil {
		return current.Progress(ctx, done, total, text)
	}
	return nil
}

// current returns the request that waits for the handler, or nil.
func (h *toolRun) current() *rpc.Call {
	run := h.claim.current()
	if run == nil {
		return h.request
	}
	return h.server.tasks.attached(run.ID())
}

// requestStream sends the notifications of the handler on the stream of the request that waits for it.
type requestStream toolRun

// Write implements rpc.Stream. It drops messages while no request waits.
func (p *requestStream) Write(ctx context.Context, msg []byte) error {
	current := (*toolRun)(p).current()
	if current == nil {
		return nil
	}
	if err := current.Send(ctx, msg); err != nil && !errors.Is(err, call.ErrCallDone) &&
		!errors.Is(err, rpc.ErrCannotAsk) {
		return err
	}
	return nil
}

// Connected reports whether a request waits whose client can receive messages.
func (p *requestStream) Connected() bool {
	current := (*toolRun)(p).current()
	return current != nil && current.Connected()
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

// begin returns the run of the task. If there is none, it calls start, and first is true. It returns the error of
// start, the cause of the end of ctx, or call.ErrCallDone.
func (t *taskClaim) begin(ctx context.Context, start func() (*tasks.Run, error)) (run *tasks.Run, first bool,
	err error) {
	if run = t.current(); run != nil { // the context of the call may have ended with its response
		return run, false, nil
	}
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
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
			s.logger().WarnContext(ctx, "cannot check whether the user has finished on the web page: "+
				"RequiredURL.Done failed", "error", err)
		}
	}
	return nil
}
