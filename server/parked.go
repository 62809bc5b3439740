package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// parkedTime is the time for all rounds of a parked call.
const parkedTime = time.Hour

// Parked lets the handler of a tool wait in [Ask] in 2026-07-28, as it does in a session, instead of
// running again from its beginning with the answers. Use it for handlers that cannot run twice, such
// as one that has a connection to another server. Other revisions and tasks are not affected.
//
// While the client gets the answers, the handler keeps its goroutine in this process, for at most an
// hour in all. Its context ends when the client cancels a request of the call, when the hour has passed,
// or when the server stops. The client's next request may reach another replica if the replicas share
// [Server.Store] and [Server.Keys]. If the process has ended, that request fails. Parked calls
// count in Limits.Tasks and Limits.TasksPerPrincipal. In a tool with [TaskOptions.AtDetach],
// Detach makes a parked call a task.
func Parked() Option { return ofTool("Parked", func(e *toolEntry) { e.parked = true }) }

// errNotParked is the response to a request whose call has ended.
var errNotParked = jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
	"invalid requestState: the call has ended or expired: send the request again without it")

// mayPark reports whether a call is parked, or the handler can ask for something, so that it may be.
func mayPark(c *rpc.Call, parker rpc.Parker, entry *toolEntry) bool {
	id, _ := parker.Parked()
	return id != "" || c.InputKinds() != 0 || canDetach(c, entry)
}

// callParked serves one request of a call that can be parked.
func (s *Server) callParked(
	ctx context.Context, c *rpc.Call, parker rpc.Parker, entry *toolEntry, arguments json.RawMessage,
) (any, error) {
	id, answers := parker.Parked()
	if id == "" {
		h := s.newParkable(ctx, c, entry)
		go h.run(arguments)
		select {
		case a := <-h.returned:
			return a.result, a.err
		case run := <-h.parked:
			id = run.ID()
			defer s.tasks.attach(id, c)()
			select { // before this, the stored call is not worth a look
			case <-run.Asked():
			case <-h.moved:
			case <-ctx.Done():
			}
		}
	} else {
		defer s.tasks.attach(id, c)()
	}
	result, err := s.parkedRound(ctx, c, parker, id, answers)
	if ctx.Err() != nil { // the client has cancelled the request
		s.cancelAbandoned(ctx, c.Principal(), id)
		return nil, context.Cause(ctx)
	}
	if errors.Is(taskError(err), errUnknownTask) {
		err = errNotParked
	}
	return result, err
}

// parkedRound waits for the next questions or the outcome of a parked call.
func (s *Server) parkedRound(
	ctx context.Context, c *rpc.Call, parker rpc.Parker, id string, answers map[string]json.RawMessage,
) (any, error) {
	store, owner := &s.tasks.store, c.Principal()
	changes, err := store.Watch(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	defer changes.Close()
	if len(answers) > 0 {
		if _, err := store.Update(ctx, owner, id, func(t *tasks.Task) error { return t.Answer(answers) }); err != nil {
			return nil, err
		}
	}
	var result any
	ended := s.followTask(ctx, c, changes, func(t *tasks.Task, failure error) (done bool) {
		switch {
		case failure != nil:
			err = failure
		case !t.Parked: // see Detach
			result = createdTask(c, t)
		case t.Status == mcp.TaskInputRequired:
			parker.Park(id, t.Open())
		case t.Status.Terminal():
			outcome, failed := s.outcomeOfTask(ctx, t)
			store.Remove(context.WithoutCancel(ctx), t)
			if err = failed; err == nil {
				result = outcome
			}
		default:
			return false
		}
		return true
	})
	if ended != nil {
		return nil, ended
	}
	return result, err
}

// parkable runs the handler of a call that can be parked. The handler has a goroutine and a call of its
// own, because it may outlive the request. The call is stored only when the handler asks a question, as
// a task that its client does not see: the questions and answers reach every replica.
type parkable struct {
	server   *Server
	entry    *toolEntry
	request  *rpc.Call // the first request
	call     *rpc.Call // of the handler
	cancel   context.CancelCauseFunc
	detach   func() bool // stops the end of the request from ending call
	isTask   atomic.Bool // see becomeTask
	returned chan parkableResult
	parked   chan *tasks.Run // receives the parked call
	moved    chan struct{}   // closed when the parked call has become a task, or has ended
	moving   sync.Once
	claim    *taskClaim // of the parked call
}

type parkableResult struct {
	result any
	err    error
}

func (s *Server) newParkable(ctx context.Context, c *rpc.Call, entry *toolEntry) *parkable {
	h := &parkable{server: s, entry: entry, request: c, returned: make(chan parkableResult, 1),
		parked: make(chan *tasks.Run, 1), moved: make(chan struct{}), claim: newTaskClaim()}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h.cancel, h.detach = cancel, context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	h.call = &rpc.Call{Call: c.Call, ProgressToken: c.ProgressToken, LogLevel: c.LogLevel, Stream: (*parkableStream)(h),
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

// canDetach reports whether the handler of a call can make it a task.
func canDetach(c *rpc.Call, entry *toolEntry) bool {
	if entry.task == nil || !entry.task.AtDetach || !c.Can(revision.TaskExtension) {
		return false
	}
	_, declared := c.Extension(mcp.ExtensionTasks)
	return declared
}

// run runs the handler to its end.
func (h *parkable) run(arguments json.RawMessage) {
	r := parkableResult{err: errFailedUnexpectedly}
	defer func() {
		h.call.Finish()
		h.cancel(nil)
		if exit := h.call.ExitResult; exit != nil { // of runtime.Goexit
			r = parkableResult{result: exit}
		}
		run := h.claim.end()
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
func (h *parkable) result(arguments json.RawMessage) parkableResult {
	s, entry := h.server, h.entry
	result, err := s.undecodedResult(h.call.Context(), h.call, entry, arguments)
	if required, ok := errors.AsType[*call.URLRequiredError](err); ok && h.call.CheckURLs(required) == nil {
		if _, err = h.park(h.call.Context(), false); err == nil {
			err = required
		}
	}
	run := h.claim.end()
	if err == nil && h.call.IsForwarded(result) {
		if run == nil {
			forwarded, err := s.forwarded(h.call.Revision(), h.call.Forwarded)
			return parkableResult{forwarded, err}
		}
		result, err = decodeForwarded(result)
	}
	if run != nil {
		result, err = s.afterURLs(run, entry, arguments, result, err)
	}
	if err != nil {
		return parkableResult{nil, err}
	}
	return parkableResult{result, nil}
}

// park parks the call, or makes it a task that its client sees. It does nothing if that is done.
func (h *parkable) park(ctx context.Context, visible bool) (*tasks.Run, error) {
	run, first, err := h.claim.begin(ctx, func() (run *tasks.Run, err error) {
		o := &TaskOptions{Timeout: parkedTime, PollInterval: time.Second, TTL: parkedTime,
			Replay: h.entry.task != nil && h.entry.task.Replay}
		if visible {
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
		run.Call.SetAsTask(rpc.AsTask{Progress: h.progress})
		return run, nil
	})
	if first {
		h.detach()
		context.AfterFunc(run.Call.Context(), func() { h.cancel(context.Cause(run.Call.Context())) })
		h.parked <- run
	}
	return run, err
}

// becomeTask makes the call a task. The handler continues with its context.
func (h *parkable) becomeTask(ctx context.Context) (context.Context, error) {
	run, err := h.park(ctx, true)
	if err == nil {
		err = run.Reveal(ctx)
	}
	if err != nil {
		return ctx, err
	}
	h.isTask.Store(true)
	h.move()
	return ctx, nil
}

// move wakes the first request of the parked call.
func (h *parkable) move() { h.moving.Do(func() { close(h.moved) }) }

// RequestInput implements rpc.InputRequester. It parks the call.
func (h *parkable) RequestInput(
	ctx context.Context, _ *rpc.Call, requests []rpc.InputRequest,
) ([]json.RawMessage, error) {
	run, err := h.park(ctx, false)
	if err != nil {
		return nil, err
	}
	return run.Call.InputRequester.RequestInput(ctx, run.Call, requests)
}

// Answered implements rpc.Replayer.
func (h *parkable) Answered(q rpc.InputRequest) bool {
	run := h.claim.current()
	return run != nil && run.Call.Answered(q)
}

// Finish implements rpc.InputRequester.
func (h *parkable) Finish(_ context.Context, result any, err error) (any, error) { return result, err }

// progress reports progress to the request that waits for the handler, if there is one, or in the status of
// the task.
func (h *parkable) progress(ctx context.Context, done, total float64, text string) error {
	if h.isTask.Load() {
		return h.claim.current().Progress(ctx, done, total, text)
	}
	if current := h.current(); current != nil {
		return current.Progress(ctx, done, total, text)
	}
	return nil
}

// current returns the request that waits for the handler, or nil.
func (h *parkable) current() *rpc.Call {
	run := h.claim.current()
	if run == nil {
		return h.request
	}
	return h.server.tasks.attached(run.ID())
}

// parkableStream sends the notifications of the handler on the stream of the request that waits for it.
type parkableStream parkable

// Write implements rpc.Stream. It drops messages while no request waits.
func (p *parkableStream) Write(ctx context.Context, msg []byte) error {
	current := (*parkable)(p).current()
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
func (p *parkableStream) Connected() bool {
	current := (*parkable)(p).current()
	return current != nil && current.Connected()
}
