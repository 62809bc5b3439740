package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Causes of the end of a run's context, and the error of Close.
var (
	ErrCancelled = errors.New("the client cancelled the task")
	ErrTimeout   = errors.New("the handler of the task has not returned in time")
	// ErrStopped is the cause when the server stops. The task goes on elsewhere, or fails when the
	// lease of the replica ends.
	ErrStopped = errors.New("the server is stopping")
	// ErrLost is the cause when another replica has taken over the task.
	ErrLost = errors.New("another replica runs the task")
	// ErrHandlersRun is the error of Runner.Close if handlers have not returned.
	ErrHandlersRun = errors.New("cannot stop the handlers of tasks: they must return when their context ends")
)

// Runner runs the handlers of tasks. Set its fields before the first task. It is safe for concurrent
// use.
type Runner struct {
	Store *Store
	// Lease is the lease of this replica. If it is shared, other replicas use the store, too. They take over
	// the tasks of a replica that has ended.
	Lease *lease.Lease
	// Max is the maximum number of runs at a time.
	Max    int
	Logger *slog.Logger
	// Again returns the function that runs the handler of a task once more and ends the run, or nil
	// if the handler must not run twice. Known is false if this replica does not have the handler.
	Again func(t *Task) (start func(*Run), known bool)
	// IsAttended reports whether a request of its client waits for a task. It may be nil.
	IsAttended func(id string) bool

	init sync.Once
	life context.Context
	stop context.CancelCauseFunc
	// unanswerable is closed when no client can answer questions any more: see Close.
	unanswerable chan struct{}

	registerMu sync.Mutex
	registered bool                 // see register
	started    atomic.Bool          // see Start
	left       map[string]leftTasks // of replicas that have ended, by their ids; used by keep
	background sync.WaitGroup
	failed     loglimit.Limiter

	mu      sync.Mutex
	n       int            // without those that are displaced
	runs    []*Run         // from the oldest
	ids     map[string]int // the runs of each task, by the key of the task
	closed  bool
	running sync.WaitGroup // Add is called with mu held before closed is set
}

// Run is one run of a task's handler. The caller of [Runner.Begin] runs the handler in Context and
// then calls End.
type Run struct {
	// Call is the call of the handler, bound to the context of the run.
	Call *rpc.Call

	runner  *Runner
	task    *Task
	journal *journal
	changes *Changes // watch waits for them
	cancel  context.CancelCauseFunc
	// onChange is called by watch, and by End after watch; nil for none. notified is the state at the
	// last call.
	onChange func(*Task)
	notified [2]string
	begun    time.Time     // has the monotonic clock
	life     time.Duration // of the task, from begun on
	quiet    atomic.Bool   // see Quiet
	// displaced is guarded by Runner.mu.
	displaced bool
	progress  progress
	watched   chan struct{} // closed when the goroutine that watches the task has ended
}

func (r *Runner) ready() {
	r.init.Do(func() {
		r.life, r.stop = context.WithCancelCause(context.Background())
		r.unanswerable = make(chan struct{})
	})
}

// Begin creates a task and its first run. T has an ID, a Request, a TTL and a Timeout; Begin sets the
// rest. OnChange, if not nil, is called with the task after changes, until the run has ended. The context of
// the run has the values of ctx, but does not end with it. If there is no place, Begin takes that of the oldest
// abandoned run, see displaceFor. The error is a *call.OverloadError, or one of the store.
func (r *Runner) Begin(ctx context.Context, t *Task, onChange func(*Task)) (*Run, error) {
	r.ready()
	t.Status, t.Replica, t.Runs = mcp.TaskWorking, r.Lease.ID(), 1
	for {
		run, err := r.begin(ctx, context.WithoutCancel(ctx), t, onChange,
			func() (*Task, error) { return t, r.Store.Create(ctx, t) })
		if err == nil || !r.displaceFor(ctx, t.Request.Principal, err) {
			return run, err
		}
	}
}

// begin begins a run of a task. Its context has the values of the context values, which does not end. Write stores
// that this replica runs the task, and returns the stored task.
func (r *Runner) begin(ctx, values context.Context, t *Task, onChange func(*Task),
	write func() (*Task, error)) (_ *Run, err error) {
	owner, id := t.Request.Principal, t.ID
	c, err := t.Request.call(id)
	if err != nil {
		return nil, err
	}
	if err := r.reserve(key(owner, id)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.release(key(owner, id), nil)
		}
	}()
	if err := r.register(ctx); err != nil {
		return nil, err
	}
	// Before the task, so that it is found if this process ends.
	if err := r.remember(ctx, owner, id); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.forget(owner, id)
		}
	}()
	// Before the task is written, so that no change is missed.
	changes, err := r.Store.Watch(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			changes.Close()
		}
	}()
	if t, err = write(); err != nil {
		return nil, err
	}
	run := &Run{
		Call: c, runner: r, task: t, journal: newJournal(r.Store, t), changes: changes,
		onChange: onChange, notified: [2]string{string(t.Status), t.Message}, watched: make(chan struct{}),
		begun: time.Now(), life: r.Store.Remaining(t),
	}
	run.quiet.Store(true)
	c.InputRequester = run.journal
	c.SetAsTask(rpc.AsTask{Progress: run.Progress, Detach: run.Reveal})
	life, cancel := context.WithCancelCause(values)
	stop := context.AfterFunc(r.life, func() { cancel(context.Cause(r.life)) })
	run.cancel = func(cause error) {
		stop()
		cancel(cause)
	}
	run.journal.unanswerable, run.journal.cancel = r.unanswerable, run.cancel
	c.Bind(life)
	r.mu.Lock()
	r.runs = append(r.runs, run)
	r.mu.Unlock()
	deadline := min(time.Duration(t.Timeout)*time.Millisecond, run.life)
	go run.watch(life, deadline)
	return run, nil
}

// ID returns the id of the task.
func (run *Run) ID() string { return run.task.ID }

// SetCaller sets the caller of the request that has created the task. It must be called before the handler
// runs.
func (run *Run) SetCaller(caller rpc.Caller) {
	as := run.Call.AsTask()
	as.Caller = caller
	run.Call.SetAsTask(as)
}

// Reveal makes the task of a parked call one that its client sees.
func (run *Run) Reveal(ctx context.Context) error {
	if !run.task.Parked {
		return nil
	}
	_, err := run.runner.Store.Update(ctx, run.task.Request.Principal, run.task.ID, (*Task).reveal)
	return err
}

// Restart prepares the run for a handler that runs again from its beginning. The handler finds the
// answers to the questions that it has asked before.
func (run *Run) Restart() { run.journal.restart() }

// remember adds a task to the set of this replica.
func (r *Runner) remember(ctx context.Context, owner principal.Principal, id string) error {
	if !r.Lease.Shared {
		return nil
	}
	if err := r.Store.KV.Add(ctx, tasksSet(r.Lease.ID()), nameOf(owner, id), maxTTL, 2*r.Max); err != nil {
		return fmt.Errorf("cannot store the task: %w", err)
	}
	return nil
}

// forget removes a task from the set of this replica. If it fails, the member expires.
func (r *Runner) forget(owner principal.Principal, id string) {
	if !r.Lease.Shared {
		return
	}
	_ = r.Store.KV.Remove(context.WithoutCancel(r.life), tasksSet(r.Lease.ID()), nameOf(owner, id))
}

// isLost reports whether the store says that this replica runs a task that it does not run. The store has
// lost the end of the task, for instance because of a fail-over to a Redis server without the last writes.
func (r *Runner) isLost(t *Task) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.closed && t.Replica == r.Lease.ID() && r.ids[key(t.Request.Principal, t.ID)] == 0
}

// Close accepts no more tasks and waits until all runs have ended. When ctx ends it ends their
// contexts, waits for them up to grace, and returns the error of ctx. Unless other replicas can receive answers,
// Close ends the contexts of the runs that wait for one at once. The caller must serve no requests any more, and
// close Lease afterwards.
func (r *Runner) Close(ctx context.Context, grace time.Duration) error {
	r.ready()
	r.mu.Lock()
	if !r.closed && !r.Lease.Shared {
		close(r.unanswerable)
	}
	r.closed = true
	r.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		r.running.Wait()
		close(ended)
	}()
	defer r.background.Wait()
	select {
	case <-ended:
		r.stop(ErrStopped)
		return nil
	case <-ctx.Done():
	}
	r.stop(ErrStopped)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
		return ctx.Err()
	case <-timer.C:
		return ErrHandlersRun
	}
}

// rereadFailed is the time after which a task is read again that could not be read.
const rereadFailed = time.Second

// watch ends the run's context when the task ends, and passes answers on.
func (run *Run) watch(life context.Context, deadline time.Duration) {
	defer close(run.watched)
	defer run.changes.Close()
	begun := time.Now()
	for failed := false; ; {
		limit := deadline - time.Since(begun)
		if run.Quiet() {
			limit = min(limit, quietTime-time.Since(begun))
		}
		if wait, ok := run.progress.next(); ok {
			limit = min(limit, wait)
		}
		if failed {
			limit = min(limit, rereadFailed)
		}
		changed, err := run.changes.Wait(life, limit)
		if err != nil {
			return
		}
		if time.Since(begun) >= deadline {
			run.cancel(ErrTimeout)
			_ = run.store(func(t *Task) error {
				return t.Fail(jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s: the limit is %v", ErrTimeout,
					deadline.Round(time.Millisecond)))
			})
			run.changed()
			return
		}
		if run.Quiet() && time.Since(begun) >= quietTime {
			run.quiet.Store(false)
			run.changed()
		}
		run.describeLate(life)
		if !changed && !failed {
			continue
		}
		if err := run.read(life); life.Err() != nil {
			return
		} else if failed = err != nil; failed {
			run.runner.Logger.Error("cannot read a task", LogID(run.task.ID), "error", err)
		}
	}
}

// read reads the task, passes answers on, and ends the run's context if the task has ended.
func (run *Run) read(ctx context.Context) error {
	now, err := run.runner.Store.Get(ctx, run.task.Request.Principal, run.task.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		run.cancel(ErrCancelled)
	case err != nil:
		return err
	case now.Status.Terminal():
		run.cancel(ErrCancelled)
		run.notify(now)
	case now.Runs != run.task.Runs:
		run.cancel(ErrLost)
	default:
		run.journal.update(now)
		run.notify(now)
	}
	return nil
}

// Asked returns a channel that is closed when the first question of the run is stored.
func (run *Run) Asked() <-chan struct{} { return run.journal.asked }
