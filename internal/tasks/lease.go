package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
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
	if err := r.Store.KV.Add(ctx, replicasSet, r.Lease.ID(), store.AddOptions{TTL: maxTTL, Max: maxReplicas}); err != nil {
		r.Lease.Release()
		return fmt.Errorf("cannot register this replica: %w", err)
	}
	r.registered = true
	r.background.Go(r.keep)
	return nil
}

const (
	maxTTL      = 8 * 24 * time.Hour // more than that of any task
	maxReplicas = 10_000
)

// keep takes over the tasks of replicas whose leases have ended.
func (r *Runner) keep() {
	defer r.Lease.Release()
	ticker := time.NewTicker(lease.Renew)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-r.life.Done():
			return
		case <-ticker.C:
		}
		if r.isIdle() {
			return
		}
		if n%3 > 0 {
			continue
		}
		if err := r.sweep(r.life); err != nil && r.life.Err() == nil {
			r.Logger.Error("cannot take over the tasks of other replicas", "error", err)
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
	if unused && !r.started {
		r.registered = false
	}
	return !r.registered
}

// Start lets this replica take over the tasks of replicas that have ended, also while it has no task
// of its own. It has no effect unless the store is shared.
func (r *Runner) Start() {
	r.ready()
	r.registerMu.Lock()
	defer r.registerMu.Unlock()
	if !r.Lease.Shared || r.started {
		return
	}
	r.started = true
	r.background.Go(func() {
		for {
			err := r.register(r.life)
			if err == nil {
				err = r.sweep(r.life)
			}
			if err == nil {
				return
			}
			if r.life.Err() == nil {
				r.Logger.Error("cannot take over the tasks of other replicas", "error", err)
			}
			timer := time.NewTimer(lease.Renew)
			select {
			case <-timer.C:
			case <-r.life.Done():
				timer.Stop()
				return
			}
		}
	})
}

// sweep takes over the tasks of all replicas whose leases have ended.
func (r *Runner) sweep(ctx context.Context) error {
	for after := ""; ; {
		replicas, err := r.Store.KV.List(ctx, replicasSet, after, store.MaxList)
		if err != nil || len(replicas) == 0 {
			return err
		}
		after = replicas[len(replicas)-1]
		for _, id := range replicas {
			if alive, err := r.Lease.Alive(ctx, id); err != nil {
				return err
			} else if alive {
				continue
			}
			if err := r.takeOver(ctx, id); err != nil {
				return err
			}
		}
	}
}

// takeOver takes over the tasks of a replica that has ended.
func (r *Runner) takeOver(ctx context.Context, replica string) error {
	for after := ""; ; {
		names, err := r.Store.KV.List(ctx, tasksSet(replica), after, store.MaxList)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return r.Store.KV.Remove(ctx, replicasSet, replica)
		}
		after = names[len(names)-1]
		for _, name := range names {
			owner, id, err := parseName(name)
			if err == nil {
				var t *Task
				if t, err = r.Store.Get(ctx, owner, id); err == nil && t.Replica == replica {
					err = r.recover(ctx, t)
				}
			}
			if err != nil && !errors.Is(err, ErrNotFound) {
				r.Logger.Error("cannot take over a task", LogID(id), "error", err)
				return err // the next sweep tries again
			}
			if err := r.Store.KV.Remove(ctx, tasksSet(replica), name); err != nil {
				return err
			}
		}
	}
}

// Check returns t, or what has become of it if its replica has ended or no longer runs it.
func (r *Runner) Check(ctx context.Context, t *Task) (*Task, error) {
	r.ready()
	if t.Status.Terminal() || t.External {
		return t, nil
	}
	alive, err := r.Lease.Alive(ctx, t.Replica)
	if err != nil || alive && !r.isLost(t) {
		return t, err
	}
	if err := r.recover(ctx, t); err != nil {
		return nil, err
	}
	return r.Store.Get(ctx, t.Request.Principal, t.ID)
}

// recover takes over a task whose replica has ended: it runs the handler again if that is allowed,
// and otherwise ends the task.
func (r *Runner) recover(ctx context.Context, t *Task) error {
	unchanged := func(now *Task) error {
		switch {
		case now.Status.Terminal():
			return ErrEnded
		case now.Replica != t.Replica || now.Runs != t.Runs:
			return errTaken
		}
		return nil
	}
	start := r.Again(t)
	if start == nil {
		_, err := r.Store.Update(ctx, t.Request.Principal, t.ID, func(now *Task) error {
			if err := unchanged(now); err != nil {
				return err
			}
			return now.Fail(jsonrpc.Errorf(jsonrpc.CodeInternalError, "the process that ran the task has ended"))
		})
		return ignoreTaken(err)
	}
	run, err := r.begin(ctx, t, nil, func() (*Task, error) {
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
	owner, err = principal.ParseKey(name[:end])
	return owner, name[end:], err
}
