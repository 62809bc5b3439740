package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// The replicas have leases, see package lease. When the lease of a replica has ended, another replica takes
// over its tasks. It runs their handlers again, or ends them.
//
// The set of replicas names those that may run tasks, and the set of a replica names its tasks.

const replicasSet = "replicas/tasks"

// errTaken means that the task has another replica already.
var errTaken = errors.New("another replica has taken over the task")

func tasksSet(replica string) string { return lease.Key(replica) + "/tasks" }

// register takes the lease of this replica and adds it to those that may run tasks. Until the runner has no
// task, it takes over the tasks of replicas whose leases have ended.
func (r *Runner) register(ctx context.Context) error {
	if !r.Lease.Shared {
		return nil
	}
	r.registerMu.Lock()
	defer r.registerMu.Unlock()
	if r.registered {
		return nil
	}
	if err := r.Lease.Take(ctx); err != nil {
		return err
	}
	if err := r.enlist(ctx); err != nil {
		r.Lease.Release()
		return err
	}
	r.registered = true
	r.background.Go(r.keep)
	return nil
}

// enlist adds this replica to those that may run tasks.
func (r *Runner) enlist(ctx context.Context) error {
	if err := r.Store.KV.Add(ctx, replicasSet, r.Lease.ID(), maxTTL, maxReplicas); err != nil {
		return fmt.Errorf("cannot register this replica: %w", err)
	}
	return nil
}

const (
	maxTTL      = 8 * 24 * time.Hour // more than that of any task
	maxReplicas = 10_000
)

// sweepInterval is the time between two looks for replicas that have ended. Their tasks are taken over within lease.TTL
// and this interval.
const sweepInterval = 4 * time.Second

// leaveFor is how long a replica leaves tasks to others because it does not have their tools.
const leaveFor = 5 * time.Minute

// keep takes over the tasks of replicas whose leases have ended. It registers this replica again each time: another one
// may have removed it, and the store may have lost its data.
func (r *Runner) keep() {
	defer r.Lease.Release()
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-r.life.Done():
			return
		case <-ticker.C:
		}
		if r.isIdle() {
			return
		}
		if err := errors.Join(r.enlist(r.life), r.sweep(r.life)); err != nil && r.life.Err() == nil {
			r.failed.Log(r.life, r.Logger, slog.LevelError, "cannot take over the tasks of other replicas",
				slog.Any("error", err))
		}
	}
}

// isIdle reports whether the runner has no task and was not started. Then the next task registers the replica
// again.
func (r *Runner) isIdle() bool {
	r.registerMu.Lock()
	defer r.registerMu.Unlock()
	r.mu.Lock()
	unused := r.n == 0
	r.mu.Unlock()
	if unused && !r.started.Load() {
		r.registered = false
	}
	return !r.registered
}

// Start lets this replica take over the tasks of replicas that have ended, also while it has no task
// of its own. It has no effect unless the store is shared.
func (r *Runner) Start() {
	r.ready()
	if !r.Lease.Shared || !r.started.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.background.Go(func() {
		for r.register(r.life) != nil && r.life.Err() == nil { // the store logs its failures
			timer := time.NewTimer(lease.Renew)
			select {
			case <-timer.C:
			case <-r.life.Done():
				timer.Stop()
			}
		}
	})
}

// sweep takes over the tasks of all replicas that have ended. An error about one of them does not affect the others.
func (r *Runner) sweep(ctx context.Context) error {
	var failure error
	for after := ""; ; {
		replicas, err := r.Store.KV.List(ctx, replicasSet, after, storecheck.MaxList)
		if err != nil {
			return err
		}
		for _, id := range replicas {
			after = id
			ended, err := r.Lease.Ended(ctx, id)
			switch {
			case err == nil && ended:
				err = r.takeOver(ctx, id)
			case err == nil:
				delete(r.left, id)
			}
			if err != nil {
				failure = err
			}
		}
		if len(replicas) < storecheck.MaxList {
			return failure
		}
	}
}

// leftTasks are the tasks of a replica that has ended that are left to others.
type leftTasks struct {
	since      time.Time
	unreadable bool // this replica can read none of them, and tries no more
}

// takeOver takes over the tasks of a replica that has ended. Tasks that this replica cannot read, or whose tool it does
// not have, remain for other replicas.
func (r *Runner) takeOver(ctx context.Context, replica string) error {
	left, before := r.left[replica]
	if left.unreadable {
		return nil
	}
	leave := !before || time.Since(left.since) < leaveFor
	var failure error
	unreadable, foreign := 0, 0
	for after := ""; ; {
		names, err := r.Store.KV.List(ctx, tasksSet(replica), after, storecheck.MaxList)
		if err != nil {
			return err
		}
		for _, name := range names {
			after = name
			err := r.takeOverTask(ctx, replica, name, leave)
			switch {
			case err == nil, errors.Is(err, ErrNotFound):
				err = r.Store.KV.Remove(ctx, tasksSet(replica), name)
			case errors.Is(err, ErrUnreadable):
				unreadable++
				continue
			case errors.Is(err, errLeft):
				foreign++
				continue
			}
			if err != nil {
				failure = err // the next sweep tries again
			}
		}
		if len(names) < storecheck.MaxList {
			break
		}
	}
	switch {
	case failure != nil:
		return failure
	case unreadable+foreign == 0:
		delete(r.left, replica)
		return r.Store.KV.Remove(ctx, replicasSet, replica)
	case !before:
		if r.left == nil {
			r.left = make(map[string]leftTasks)
		}
		// Other replicas have removed these; their entries do not live for longer.
		maps.DeleteFunc(r.left, func(_ string, left leftTasks) bool { return time.Since(left.since) > maxTTL })
		left.since = time.Now()
		r.Logger.Warn("cannot take over the tasks of a replica that has ended: another replica may have the keys "+
			"or tools for them",
			"replica", replica, "unreadable", unreadable, "without_tool", foreign)
	}
	left.unreadable = foreign == 0
	r.left[replica] = left
	return nil
}

// takeOverTask takes over the task of a replica that has ended. The error is errLeft if this replica does not have its
// tool and leave is set.
func (r *Runner) takeOverTask(ctx context.Context, replica, name string, leave bool) error {
	owner, id, err := parseName(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	t, err := r.Store.Get(ctx, owner, id)
	if err != nil || t.Replica != replica {
		return err
	}
	return r.recover(ctx, t, leave)
}

// Check returns t, or what has become of it if its replica has ended or no longer runs it. From the first call on, this
// replica takes over the tasks of replicas that have ended, because its requests wait for them.
func (r *Runner) Check(ctx context.Context, t *Task) (*Task, error) {
	if t.Status.Terminal() || t.External {
		return t, nil
	}
	r.Start()
	ended, err := r.Lease.Ended(ctx, t.Replica)
	if err != nil || !ended && !r.isLost(t) {
		return t, err
	}
	switch err := r.recover(ctx, t, t.Replica != r.Lease.ID()); {
	case errors.Is(err, errLeft):
		return t, nil
	case err != nil:
		return nil, err
	}
	return r.Store.Get(ctx, t.Request.Principal, t.ID)
}

// errLeft means that another replica can run the task again.
var errLeft = errors.New("this replica does not offer the tool of the task")

// recover takes over a task whose replica has ended: it runs the handler again if that is allowed,
// and otherwise ends the task. If leave is set, it returns errLeft for a task that only other replicas can run again.
func (r *Runner) recover(ctx context.Context, t *Task, leave bool) error {
	unchanged := func(now *Task) error {
		switch {
		case now.Status.Terminal():
			return ErrEnded
		case now.Replica != t.Replica || now.Runs != t.Runs:
			return errTaken
		}
		return nil
	}
	start, known := r.Again(t)
	if start == nil && !known && t.Replay && leave {
		return errLeft
	}
	if start == nil {
		_, err := r.Store.Update(ctx, t.Request.Principal, t.ID, func(now *Task) error {
			if err := unchanged(now); err != nil {
				return err
			}
			return now.Fail(jsonrpc.Errorf(jsonrpc.CodeInternalError, "the process that ran the task has ended"))
		})
		return ignoreTaken(err)
	}
	// Not the values of ctx: the request of another caller may be the reason for a look at the task.
	run, err := r.begin(ctx, context.Background(), t, nil, func() (*Task, error) {
		return r.Store.Update(ctx, t.Request.Principal, t.ID, func(now *Task) error {
			if err := unchanged(now); err != nil {
				return err
			}
			now.Replica, now.Message = r.Lease.ID(), ""
			now.Runs++
			return nil
		})
	})
	if err != nil {
		return ignoreTaken(err)
	}
	go start(run)
	return nil
}

func ignoreTaken(err error) error {
	if errors.Is(err, errTaken) || errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}

// A name identifies a task in the set of its replica.
func nameOf(owner principal.Principal, id string) string { return owner.Key() + id }

func parseName(name string) (owner principal.Principal, id string, err error) {
	end := len(name)
	for end > 0 && name[end-1] != '/' {
		end--
	}
	err = owner.UnmarshalText([]byte(name[:end]))
	return owner, name[end:], err
}
