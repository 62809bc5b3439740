//go:build integration && unix

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/mcp"
)

// lease is how long it takes at most until other replicas begin to take over the tasks of a replica that was
// killed.
const lease = 30 * time.Second

// taskTime limits the time for a task.
const taskTime = 3 * time.Minute

// All replicas are killed while tasks run, and then Redis as well. Afterwards, every replica knows every task. Tasks
// whose handlers may run again complete; the others fail. A task that has ended never changes.
func TestTasksOutliveReplicasAndRedis(t *testing.T) {
	f := newFleet(t, "--appendonly", "yes", "--appendfsync", "always")
	const half = 25 // half of the tasks of one user
	repeat(1, func(round int) {
		users := f.taskUsers(t) // new users, because the number of tasks of a principal is limited
		gate := fmt.Sprint("replicas-", round)
		forEach(t, users, func(u *taskUser) error { return u.begin(t.Context(), gate, half) })
		for i := range f.replicas {
			f.kill(i)
		}
		begun := f.starts()
		f.open(gate)
		for i := range f.replicas {
			f.start(i)
		}
		startedAgain := func(want int) func() error { // without a request about the tasks
			return func() error {
				if n := f.starts() - begun; n < want {
					return fmt.Errorf("%d handlers have started again, want %d", n, want)
				}
				return nil
			}
		}
		must(t, faulttest.Within(lease, startedAgain(1)))
		faulttest.Wait(t, "all handlers have started again", startedAgain(half*len(users))) // one after another
		forEach(t, users, func(u *taskUser) error { return u.connectAll(t) })
		forEach(t, users, func(u *taskUser) error { return u.complete(t.Context(), false) })

		gate = fmt.Sprint("redis-", round)
		forEach(t, users, func(u *taskUser) error { return u.begin(t.Context(), gate, half) })
		f.ledger.Fault()
		f.redis.kill()
		f.redis.start()
		forEach(t, users, func(u *taskUser) error { return u.resolve(t.Context(), false) })
		f.open(gate)
		forEach(t, users, func(u *taskUser) error { return u.complete(t.Context(), true) })
		forEach(t, users, (*taskUser).close)
	})
	f.finish(t)
}

// taskUsers connects new users in the two revisions that have tasks.
func (f *fleet) taskUsers(t *testing.T) (users []*taskUser) {
	t.Helper()
	for i := range 10 {
		users = append(users, &taskUser{user: f.dial(t, wires[len(wires)-1-i%2])})
	}
	return users
}

// forEach calls do with all users at the same time. The test ends if do fails.
func forEach(t *testing.T, users []*taskUser, do func(*taskUser) error) {
	t.Helper()
	var done sync.WaitGroup
	for _, u := range users {
		done.Go(func() {
			if err := do(u); err != nil {
				t.Errorf("%s, %s: %v", u.name, u.wire.name, err)
			}
		})
	}
	done.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// starts returns the number of handlers that have started.
func (f *fleet) starts() int {
	f.t.Helper()
	text, err := os.ReadFile(f.journal)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// taskUser is a user with tasks, and with a connection to each replica.
type taskUser struct {
	*user
	jobs   []*job
	direct [replicas]*client.Client
}

// job is a task and the call that created it.
type job struct {
	call     ledger.Call
	id       string
	replayed bool // its handler may run again
	ended    bool // its outcome is recorded
}

// begin starts n tasks of each kind, which wait for a gate. Their handlers run when it returns.
func (u *taskUser) begin(ctx context.Context, gate string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, taskTime)
	defer cancel()
	for i := range 2 * n {
		j := &job{call: u.issue(ctx), replayed: i%2 == 0}
		tool := "job"
		if j.replayed {
			tool = "job-replayed"
			j.call.MayRepeat()
		}
		task, err := u.StartTool(ctx, tool, arguments{Nonce: j.call.Nonce(), Name: gate})
		if err != nil {
			return err
		}
		j.id = task.ID()
		u.fleet.ledger.CreatedTask(u.name, j.id)
		u.jobs = append(u.jobs, j)
	}
	return nil
}

// connectAll connects to each replica.
func (u *taskUser) connectAll(t *testing.T) error {
	for i, r := range u.fleet.replicas {
		c, err := u.tryConnect("http://" + r.addr)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = c.Close() })
		u.direct[i] = c
	}
	return nil
}

// close closes all connections.
func (u *taskUser) close() error {
	for _, c := range append(u.direct[:], u.Client) {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// resolve checks that every replica knows every task, or every task that has not ended.
func (u *taskUser) resolve(ctx context.Context, ended bool) error {
	for _, j := range u.jobs {
		if j.ended && !ended {
			continue
		}
		for replica := range u.direct {
			if _, err := u.observe(ctx, replica, j.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete waits until all tasks have ended, and records their outcomes. A task that must not run again must have
// failed, unless its replica kept running.
func (u *taskUser) complete(ctx context.Context, running bool) error {
	for _, j := range u.jobs {
		if j.ended {
			continue
		}
		var end outcome
		err := faulttest.Within(lease, func() (err error) {
			if end, err = u.observe(ctx, 0, j.id); err == nil && !end.ended {
				err = fmt.Errorf("task %s has not ended", j.id)
			}
			return err
		})
		if err != nil {
			return err
		}
		j.ended = true
		if end.err != nil {
			j.call.Failed(end.err)
		} else {
			u.returned(j.call, end.text)
		}
		if completed := end.err == nil; completed != (running || j.replayed) {
			return fmt.Errorf("the outcome of task %s, with replay %v, is %q, %w", j.id, j.replayed, end.text, end.err)
		}
	}
	return u.resolve(ctx, true)
}

// outcome is what a replica reports about a task.
type outcome struct {
	ended bool
	text  string // text of the result
	err   error  // set instead of a result
}

// observe asks a replica for a task, and records its state. It repeats requests that fail while Redis or a replica
// starts.
func (u *taskUser) observe(ctx context.Context, replica int, id string) (o outcome, err error) {
	observer := u.fleet.replicas[replica].name
	err = faulttest.Within(lease, func() error {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		task, err := u.direct[replica].Task(id, client.WithSource())
		if err != nil {
			return err
		}
		state, err := task.Get(ctx)
		if errors.Is(err, client.ErrTaskNotFound) {
			u.fleet.ledger.LostTask(observer, id, err)
			return nil
		}
		if err != nil {
			return err
		}
		o = outcome{ended: state.Status.Terminal()}
		result := []byte(state.Result)
		switch {
		case o.ended && !modern(u.wire):
			var r *mcp.CallToolResult
			if r, o.err = task.Wait(ctx); o.err == nil {
				result = r.Source
			}
		case state.Error != nil:
			o.err = state.Error
		}
		if o.err != nil {
			result = []byte(o.err.Error())
		} else if o.ended {
			var r mcp.CallToolResult
			if err := json.Unmarshal(result, &r); err != nil {
				return err
			}
			o.text = r.Content[0].(*mcp.TextContent).Text
		}
		u.fleet.ledger.ObservedTask(u.name, observer, id, string(state.Status), o.ended, result)
		return nil
	})
	return o, err
}
