package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// Outcome is the outcome of a handler: a result, or an error.
type Outcome struct {
	Result json.RawMessage
	Failed bool // the result is that of a tool that failed
	Err    *jsonrpc.Error
}

// Completed returns the outcome of a handler that has returned a result: an error if the result is
// too long to be stored.
func Completed(result json.RawMessage, failed bool) Outcome {
	if len(result) > maxResult {
		return Outcome{Err: jsonrpc.Errorf(jsonrpc.CodeInternalError,
			"the result has %d bytes, the limit for a task is %d", len(result), maxResult)}
	}
	return Outcome{Result: result, Failed: failed}
}

// Pauses between attempts to store the outcome of a task.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// End ends the run and stores the outcome of the handler, if the task has not ended before.
func (run *Run) End(o Outcome) {
	r, t := run.runner, run.task
	defer r.release(key(t.Request.Principal, t.ID), run)
	run.Call.Finish()
	cause := context.Cause(run.Call.Context())
	run.cancel(nil)
	<-run.watched
	// If the runner stops, the task stays one of this replica, so that another takes it over.
	if errors.Is(cause, ErrStopped) {
		return
	}
	if errors.Is(cause, ErrLost) || errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrTimeout) {
		r.forget(t.Request.Principal, t.ID)
		return
	}
	if errors.Is(cause, rpc.ErrDisplaced) {
		o = Outcome{Err: rpc.DisplacedResponse}
	}
	end, err := run.ending(o)
	if err == nil {
		err = run.store(end)
	}
	if errors.Is(err, ErrStopped) {
		return
	}
	r.forget(t.Request.Principal, t.ID)
	run.changed()
}

// Discard ends the run and removes its task, of which its client does not know.
func (run *Run) Discard() {
	run.cancel(ErrCancelled)
	run.End(Outcome{})
	run.runner.Store.Remove(context.WithoutCancel(run.runner.life), run.task)
}

// ending stores the result, if there is one, and returns the transition that ends the task.
func (run *Run) ending(o Outcome) (end func(*Task) error, err error) {
	if o.Err != nil {
		return func(t *Task) error { return t.Fail(o.Err) }, nil
	}
	var inline json.RawMessage
	err = run.retry(func(ctx context.Context) (err error) {
		if inline, err = run.runner.Store.SaveResult(ctx, run.task, run.remaining(run.task), o.Result); err == nil {
			return nil
		}
		if ended := run.check(ctx); ended != nil {
			return ended
		}
		return err
	})
	if errors.Is(err, store.ErrInvalidArgument) {
		return func(t *Task) error {
			return t.Fail(jsonrpc.Errorf(jsonrpc.CodeInternalError, "the store of the server does not accept the "+
				"result of the task, which has %d bytes", len(o.Result)))
		}, nil
	}
	return func(t *Task) error { return t.Complete(inline, o.Failed) }, err
}

// check returns ErrEnded, ErrNotFound or ErrLost if the run can no longer end the task.
func (run *Run) check(ctx context.Context) error {
	now, err := run.runner.Store.Get(ctx, run.task.Request.Principal, run.task.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return err
	case err != nil:
		return nil // it is not known
	case now.Status.Terminal():
		return ErrEnded
	case now.Runs != run.task.Runs:
		return ErrLost
	}
	return nil
}

// store stores the end of the task, unless it has ended or another replica runs it. The errors are those
// of retry.
func (run *Run) store(end func(*Task) error) error {
	return run.retry(func(ctx context.Context) error {
		_, err := run.runner.Store.update(ctx, run.task.Request.Principal, run.task.ID, run.remaining,
			func(t *Task) error {
				if t.Runs != run.task.Runs {
					return ErrLost
				}
				return end(t)
			})
		return err
	})
}

// remaining returns how long the task still lives. Unlike Store.Remaining, it does not depend on the time of day, which
// can be set while the handler runs.
func (run *Run) remaining(*Task) time.Duration { return max(run.life-time.Since(run.begun), minLife) }

// minLife is the shortest life of an outcome, so that a request that waits for it finds it.
const minLife = lease.TTL

// retry repeats write until it succeeds. The error is ErrEnded, ErrNotFound or ErrLost if the run can no longer end the
// task, ErrStopped if the runner stops, and that of write if it can never succeed, or if the life of the task is over.
func (run *Run) retry(write func(context.Context) error) error {
	ctx := run.runner.life
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := write(ctx)
		switch {
		case err == nil, errors.Is(err, ErrEnded), errors.Is(err, ErrNotFound), errors.Is(err, ErrLost),
			errors.Is(err, store.ErrInvalidArgument):
			return err
		}
		rest := run.life - time.Since(run.begun)
		run.runner.Logger.Error("cannot store the outcome of a task", LogID(run.task.ID), "error", err,
			"lost", rest <= 0)
		if rest <= 0 {
			return err
		}
		timer := time.NewTimer(min(pause, rest))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ErrStopped
		}
	}
}
