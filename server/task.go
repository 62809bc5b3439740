package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/task"
)

// TaskOptions sets how the calls of a tool run as tasks; see [AsTask].
type TaskOptions struct {
	// Support is [mcp.TaskOptional], [mcp.TaskRequired] or [mcp.TaskForbidden]; empty means optional.
	// If it is required, clients that do not support tasks cannot call the tool. If it is forbidden,
	// the tool does not run as a task, as without AsTask.
	Support mcp.TaskSupport
	// TTL is how long a task and its result exist, counted from its creation: 1 hour by default, and at most 7 days. A
	// client of 2025-11-25 may ask for less. An outcome can be read for at least 15 seconds.
	TTL time.Duration
	// Timeout limits one run of the handler, including the time it waits for its user: 10 minutes by default, and at
	// most TTL. Then its context ends, and the task fails.
	Timeout time.Duration
	// PollInterval is the recommended time between two polls of a client, 1 second by default.
	PollInterval time.Duration
	// Replay allows another replica to run the handler again when the process that ran it has ended. The new run finds
	// the answers to the questions that were asked before, in the same order. Its context contains the call, but no
	// values that wrappers and middleware added to the request's context. Code may run more than once, so put effects
	// into [Once]. Without Replay such a task fails.
	Replay bool
	// Driver runs the tasks in another engine. The handler of the tool then serves only clients that
	// wait for the tool, and Timeout and Replay must not be set.
	Driver task.Driver
}

// Limits of TaskOptions.
const (
	defaultTaskTTL     = time.Hour
	maxTaskTTL         = 7 * 24 * time.Hour
	defaultTaskTimeout = 10 * time.Minute
	defaultTaskPoll    = time.Second
)

// AsTask lets a tool run as a task: the call returns at once, and the client asks for the outcome
// later (2025-11-25, basic/utilities/tasks; tasks extension of 2026-07-28). Use it for work that takes
// longer than a client waits for a response. Clients without support for tasks wait for the tool
// unless o.Support requires a task. [AddTool] panics if a field of o is invalid, and
// [Catalog.RegisterTool] returns an error.
//
// With [Parked], the handler decides in 2026-07-28 whether and when the call becomes a task, by calling [Detach].
// Questions before that are part of the call.
//
// The handler is the same as without AsTask. Its context contains the values of the request's context, except when
// another replica runs the handler again (see [TaskOptions.Replay]). It does not end with the request, but when the
// client cancels the task, when o.Timeout has passed, or when the server stops. [Ask] changes the status of the task to
// input_required and waits for the answers. [Progress] sets the status message, to its text or, without one, its
// numbers, at most twice a second. In 2025-11-25 it also sends progress notifications in the session, which 2026-07-28
// forbids for tasks. Log messages are not sent.
//
// When the process ends, a task ends with it, unless [Server.Store] is set. Then another replica that has
// the tool takes over the task within 20 seconds, see [TaskOptions.Replay].
//
// Tasks are kept in [Server.Store], encrypted if there are [Server.Keys]. Only the principal of the call can
// read, answer or cancel its tasks. Without authentication, everyone who knows the id of a task
// can; it has 128 random bits.
func AsTask(o TaskOptions) Option {
	return ofTool("AsTask", func(e *toolEntry) {
		own := o // addTool sets the defaults
		e.task = &own
	})
}

// check sets the defaults of the options and returns an error for invalid ones.
func (o *TaskOptions) check() error {
	if o.Support == "" {
		o.Support = mcp.TaskOptional
	}
	switch {
	case o.Support != mcp.TaskOptional && o.Support != mcp.TaskRequired && o.Support != mcp.TaskForbidden:
		return fmt.Errorf("AsTask: Support must be %q, %q or %q, not %q", mcp.TaskOptional, mcp.TaskRequired,
			mcp.TaskForbidden, o.Support)
	case o.TTL < 0 || o.Timeout < 0 || o.PollInterval < 0:
		return errors.New("AsTask: TTL, Timeout and PollInterval must not be negative")
	case o.TTL > maxTaskTTL:
		return fmt.Errorf("AsTask: TTL must be at most %v, not %v", maxTaskTTL, o.TTL)
	}
	if o.Driver != nil && (o.Timeout != 0 || o.Replay) {
		return errors.New("AsTask: Timeout and Replay must not be set with a Driver")
	}
	o.TTL = orDefault(o.TTL, defaultTaskTTL)
	o.Timeout = orDefault(o.Timeout, min(defaultTaskTimeout, o.TTL))
	o.PollInterval = orDefault(o.PollInterval, defaultTaskPoll)
	if o.Timeout > o.TTL {
		return fmt.Errorf("AsTask: Timeout must be at most TTL, %v, not %v", o.TTL, o.Timeout)
	}
	return nil
}

// Detach makes the running call of a tool with [AsTask] and [Parked] a task: the client receives the
// response, a new task, and the handler goes on. The context of the handler then no longer ends with
// the request. The task exists in the store when Detach returns.
//
// If the client does not support tasks, Detach returns errors.ErrUnsupported; the handler can ignore
// the error and go on in the call. In a call that is a task already, Detach does nothing. Other errors
// are call.ErrNoCall, and those of the store.
func Detach(ctx context.Context) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	detach := c.AsTask().Detach
	if detach == nil {
		return rpc.ErrUnsupported
	}
	return detach(ctx)
}

// CanDetach reports whether the call can become a task with [Detach], or already is one.
func CanDetach(ctx context.Context) bool {
	c := rpc.From(ctx)
	return c != nil && c.AsTask().Detach != nil
}

// taskFeature is the part of a server that runs tasks.
type taskFeature struct {
	asking sync.Map // the questions of tasks/result requests, a set of taskQuestion
	parked sync.Map // the current requests of parked calls, *rpc.Call by id
	// followers counts the requests that wait for each task, by id.
	followersMu sync.Mutex
	followers   map[string]int
	store       tasks.Store
	runner      tasks.Runner
}

// attach makes c the request on which the handler of a parked call reports its progress, until the
// returned function is called.
func (f *taskFeature) attach(id string, c *rpc.Call) (detach func()) {
	f.parked.Store(id, c)
	return func() { f.parked.CompareAndDelete(id, c) }
}

func (f *taskFeature) attached(id string) *rpc.Call {
	c, _ := f.parked.Load(id)
	current, _ := c.(*rpc.Call)
	return current
}

// follow records that a request waits for a task until the returned function is called.
func (f *taskFeature) follow(id string) (end func()) {
	add := func(n int) {
		f.followersMu.Lock()
		defer f.followersMu.Unlock()
		if f.followers == nil {
			f.followers = make(map[string]int)
		}
		if f.followers[id] += n; f.followers[id] == 0 {
			delete(f.followers, id)
		}
	}
	add(1)
	return func() { add(-1) }
}

// isAttended reports whether a request waits for a task or a parked call.
func (f *taskFeature) isAttended(id string) bool {
	f.followersMu.Lock()
	defer f.followersMu.Unlock()
	return f.followers[id] > 0 || f.attached(id) != nil
}

// maxAnonymousTasks is the maximum number of tasks of all anonymous callers.
const maxAnonymousTasks = 10_000

// buildTasks sets up the store and the runner of tasks.
func (s *Server) buildTasks(stored store.Store) {
	f := &s.tasks
	f.store = tasks.Store{KV: stored, Bus: stored, PerOwner: orDefault(s.Limits.TasksPerPrincipal, 1000),
		MaxAnonymous: maxAnonymousTasks}
	r := &f.runner
	f.store.Logger = s.logger()
	r.Store, r.Logger, r.Lease = &f.store, s.logger(), &s.core.lease
	r.Max, r.Again = orDefault(s.Limits.Tasks, 1000), s.runAgain
	r.IsAttended = f.isAttended
}

// toolOf returns the tool of a stored task that has not ended, and its arguments.
func (s *Server) toolOf(t *tasks.Task) (entry *toolEntry, arguments json.RawMessage, ok bool) {
	params := jsonrpc.MembersOf(t.Request.Params)
	raw, _ := params.Get("name")
	ctx := subscriberContext(context.Background(), t.Request.Principal)
	entry, ok, err := findFor(ctx, s, &toolKind, t.Request.Principal, jsonrpc.Unquote(raw))
	if err != nil {
		s.logger().Warn("cannot find the tool of a task", tasks.LogID(t.ID), "error", err)
	}
	if !ok {
		return nil, nil, false
	}
	arguments, err = argumentsOf(params)
	return entry, arguments, err == nil
}

// runAgain returns the function that runs a stored task again, or nil if its tool must not. Known is false if the
// server does not have the tool.
func (s *Server) runAgain(t *tasks.Task) (start func(*tasks.Run), known bool) {
	entry, arguments, ok := s.toolOf(t)
	if !ok || entry.task == nil || !entry.task.Replay {
		return nil, ok
	}
	return func(run *tasks.Run) {
		run.Call.Store = s.core.engine.Store
		s.runTask(run, entry, arguments)
	}, true
}

// startDriven starts a task in the engine of the tool's driver. The task is stored first, so that no
// task of the engine is without one of the client.
func (s *Server) startDriven(ctx context.Context, c *rpc.Call, entry *toolEntry, arguments json.RawMessage,
	ttl time.Duration) (any, error) {
	if err := entry.input.Validate(arguments); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", invalidArguments(err))
	}
	t, err := storedTask(c, entry.task, ttl)
	if err != nil {
		return nil, err
	}
	t.Status, t.External = mcp.TaskWorking, true
	if err := s.tasks.store.Create(ctx, t); err != nil {
		return nil, err
	}
	start := task.Start{
		ID: t.ID, Tool: entry.tool.Name, Arguments: slices.Clone(arguments), Principal: c.Principal(),
		Expires: t.Expires(),
	}
	if declared := c.Peer().Capabilities; declared != nil {
		start.Client = *declared
	}
	if err := entry.task.Driver.Start(ctx, start); err != nil {
		s.abandon(context.WithoutCancel(ctx), entry.task.Driver, t)
		return nil, fmt.Errorf("tool %q: cannot start the task: %w", entry.tool.Name, err)
	}
	if ctx.Err() != nil { // the client does not receive the id
		s.abandon(context.WithoutCancel(ctx), entry.task.Driver, t)
		return nil, context.Cause(ctx)
	}
	return createdTask(c, t), nil
}

// abandon removes a task whose start has failed. The engine may have started it nevertheless, for
// instance if the response was lost.
func (s *Server) abandon(ctx context.Context, driver task.Driver, t *tasks.Task) {
	s.tasks.store.Remove(ctx, t)
	ctx, cancel := context.WithTimeout(ctx, rpc.StoreTimeout)
	defer cancel()
	if err := driver.Cancel(ctx, t.ID); err != nil {
		s.logger().WarnContext(ctx, "cannot cancel a task that failed to start", tasks.LogID(t.ID), "error", err)
	}
}

// driverOf returns the driver of a stored task.
func (s *Server) driverOf(t *tasks.Task) (task.Driver, error) {
	entry, _, ok := s.toolOf(t)
	if !ok || entry.task == nil || entry.task.Driver == nil {
		return nil, errors.New("the tool of the task no longer has a driver")
	}
	return entry.task.Driver, nil
}

// observe asks the engine for the state of a task that has not ended, and stores it.
func (s *Server) observe(ctx context.Context, t *tasks.Task) (*tasks.Task, error) {
	driver, err := s.driverOf(t)
	if err != nil {
		return nil, err
	}
	state, err := driver.Get(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("task driver: %w", err)
	}
	owner, store := t.Request.Principal, &s.tasks.store
	update := func(change func(*tasks.Task) error) error {
		_, err := store.Update(ctx, owner, t.ID, change)
		return err
	}
	switch state.Status {
	case mcp.TaskCompleted:
		if state.Result == nil {
			return nil, errors.New("task driver: Get returned a completed task without a result")
		}
		o := outcomeOf(state.Result)
		if o.Err != nil {
			err = update(func(t *tasks.Task) error { return t.Fail(o.Err) })
			break
		}
		var inline json.RawMessage
		if inline, err = store.SaveResult(ctx, t, store.Remaining(t), o.Result); err == nil {
			err = update(func(t *tasks.Task) error { return t.Complete(inline, o.Failed) })
		}
	case mcp.TaskFailed:
		failure := state.Error
		if failure == nil {
			failure = jsonrpc.Errorf(jsonrpc.CodeInternalError, "the task failed")
		}
		err = update(func(t *tasks.Task) error { return t.Fail(failure) })
	case mcp.TaskCancelled:
		err = update((*tasks.Task).Cancel)
	case mcp.TaskInputRequired:
		err = update(func(t *tasks.Task) error { return t.Observe(state.Status, state.Message, state.InputRequests) })
	case mcp.TaskWorking, "":
		err = update(func(t *tasks.Task) error { return t.Observe(mcp.TaskWorking, state.Message, nil) })
	default:
		return nil, fmt.Errorf("task driver: Get returned the unknown status %q", state.Status)
	}
	if err != nil && !errors.Is(err, tasks.ErrEnded) { // another request may have stored the end
		return nil, err
	}
	return store.Get(ctx, owner, t.ID)
}

// answerTask passes answers to the task or to its engine.
func (s *Server) answerTask(ctx context.Context, t *tasks.Task, answers map[string]json.RawMessage) error {
	if !t.External {
		_, err := s.tasks.store.Update(ctx, t.Request.Principal, t.ID,
			func(t *tasks.Task) error { return t.Answer(answers) })
		return err
	}
	if t.Status.Terminal() {
		return nil
	}
	driver, err := s.driverOf(t)
	if err == nil {
		err = driver.Update(ctx, t.ID, answers)
	}
	if err != nil {
		return fmt.Errorf("task driver: %w", err)
	}
	s.tasks.store.Announce(ctx, t.Request.Principal, t.ID)
	return nil
}

// stopDriven asks the engine to cancel a task.
func (s *Server) stopDriven(ctx context.Context, t *tasks.Task) error {
	if !t.External || t.Status.Terminal() {
		return nil
	}
	driver, err := s.driverOf(t)
	if err == nil {
		err = driver.Cancel(ctx, t.ID)
	}
	if err != nil {
		return fmt.Errorf("task driver: %w", err)
	}
	return nil
}
