package tasks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// errTooManyRuns is the error if no place is free for a run.
var errTooManyRuns = &call.OverloadError{Limit: "running tasks", RetryAfter: time.Second}

// reserve takes a place for a run.
func (r *Runner) reserve(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", ErrStopped)
	case r.n >= r.Max:
		return errTooManyRuns
	}
	r.n++
	if r.ids == nil {
		r.ids = make(map[string]int)
	}
	r.ids[name]++
	r.running.Add(1)
	return nil
}

// displaceFor makes place for a run of an owner that could not begin because of err. A place of the process is taken
// from the owner first, and then from others; a place of the owner in the store from the owner's runs in this process.
// It reports false if that does not help.
func (r *Runner) displaceFor(ctx context.Context, owner principal.Principal, err error) bool {
	isOwned := func(run *Run) bool { return run.task.Request.Principal == owner }
	switch {
	case errors.Is(err, errTooManyRuns):
		return r.displace(isOwned) != nil || r.displace(func(*Run) bool { return true }) != nil
	case errors.Is(err, errTooManyOwned):
		if run := r.displace(isOwned); run != nil {
			r.Store.Remove(ctx, run.task)
			return true
		}
	}
	return false
}

// displace displaces the oldest of some runs that is abandoned: it waits for an answer, and no request of its client
// waits for it. It returns nil if there is none.
func (r *Runner) displace(of func(*Run) bool) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) >= 2*r.Max { // the handlers of displaced runs still have to return
		return nil
	}
	run, found := rpc.Oldest(r.runs, func(run *Run) bool {
		return !run.displaced && of(run) && run.journal.waits() && (r.IsAttended == nil || !r.IsAttended(run.ID()))
	})
	if !found {
		return nil
	}
	run.displaced = true
	r.n--
	run.cancel(rpc.ErrDisplaced)
	return run
}

// release returns the place of a task whose run has ended, or is nil because it has not begun.
func (r *Runner) release(name string, run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run == nil || !run.displaced {
		r.n--
	}
	r.runs = slices.DeleteFunc(r.runs, func(other *Run) bool { return other == run })
	if r.ids[name]--; r.ids[name] == 0 {
		delete(r.ids, name)
	}
	r.running.Done()
}
