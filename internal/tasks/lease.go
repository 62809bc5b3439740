package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// A replica holds one lease for all tasks that it runs: an entry that it renews. When the entry has
// expired, another replica takes over the tasks. It runs their handlers again, or ends them.
//
// The set of replicas names those that may run tasks, and the set of a replica names its tasks.

const (
	leaseTTL   = 15 * time.Second
	leaseRenew = leaseTTL / 3

	replicasSet = "replicas/tasks"
)

// errTaken means that the task has another replica already.
var errTaken = errors.New("another replica has taken over the task")

func leaseKey(replica string) string { return "replica/" + replica }
func tasksSet(replica string) string { return "replica/" + replica + "/tasks" }

// takeLease takes the lease of this replica, which is renewed until the runner has no task.
func (r *Runner) takeLease(ctx context.Context) error {
	if !r.Shared {
		return nil
	}
	r.leaseMu.Lock()
	defer r.leaseMu.Unlock()
	if r.leased {
		return nil
	}
	if err := r.renew(ctx); err != nil {
		return fmt.Errorf("cannot take the lease of this replica: %w", err)
	}
	if err := r.Store.KV.Add(ctx, replicasSet, r.replica, store.AddOptions{TTL: maxTTL, Max: maxReplicas}); err != nil {
		return fmt.Errorf("cannot register this replica: %w", err)
	}
	r.leased = true
	r.background.Go(r.keep)
	return nil
}

const (
	maxTTL      = 8 * 24 * time.Hour // more than that of any task
	maxReplicas = 10_000
)

func (r *Runner) renew(ctx context.Context) error {
	_, err := r.Store.KV.Put(ctx, leaseKey(r.replica), []byte{1}, store.PutOptions{TTL: leaseTTL})
	return err
}

// keep renews the lease, and takes over the tasks of replicas whose leases have ended.
func (r *Runner) keep() {
	ticker := time.NewTicker(leaseRenew)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-r.life.Done():
			return
		case <-ticker.C:
		}
		if r.giveUp() {
			return
		}
		if err := r.renew(r.life); err != nil && r.life.Err() == nil {
			r.Logger.Error("cannot renew the lease of this replica", "error", err)
		}
		if n%3 == 0 {
			if err := r.sweep(r.life); err != nil && r.life.Err() == nil {
				r.Logger.Error("cannot take over the tasks of other replicas", "error", err)
			}
		}
	}
}

// giveUp gives up the lease if the runner has no task and was not started.
func (r *Runner) giveUp() bool {
	r.leaseMu.Lock()
	defer r.leaseMu.Unlock()
	r.mu.Lock()
	unused := r.n == 0
	r.mu.Unlock()
	if unused && !r.started {
		r.leased = false
	}
	return !r.leased
}

// Start lets this replica take over the tasks of replicas that have ended, also while it has no task
// of its own. It has no effect unless the store is shared.
func (r *Runner) Start() {
	r.ready()
	r.leaseMu.Lock()
	defer r.leaseMu.Unlock()
	if !r.Shared || r.started {
		return
	}
	r.started = true
	r.background.Go(func() {
		for {
			err := r.takeLease(r.life)
			if err == nil {
				err = r.sweep(r.life)
			}
			if err == nil {
				return
			}
			if r.life.Err() == nil {
				r.Logger.Error("cannot take over the tasks of other replicas", "error", err)
			}
			timer := time.NewTimer(leaseRenew)
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
			if alive, err := r.alive(ctx, id); err != nil {
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

// alive reports whether a replica has its lease.
func (r *Runner) alive(ctx context.Context, replica string) (bool, error) {
	if replica == r.replica || !r.Shared {
		return true, nil
	}
	_, err := r.Store.KV.Get(ctx, leaseKey(replica))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
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
				r.Logger.Error("cannot take over a task", "task", id, "error", err)
				return err // the next sweep tries again
			}
			if err := r.Store.KV.Remove(ctx, tasksSet(replica), name); err != nil {
				return err
			}
		}
	}
}

// Check returns t, or what has become of it if its replica has ended.
func (r *Runner) Check(ctx context.Context, t *Task) (*Task, error) {
	r.ready()
	if t.Status.Terminal() || t.External {
		return t, nil
	}
	alive, err := r.alive(ctx, t.Replica)
	if err != nil || alive {
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
			now.Replica, now.Message = r.replica, ""
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
