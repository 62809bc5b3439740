package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// takeOverTime is the time within which another replica takes over the tasks of a replica that has ended; see
// docs/program/scale.md.
const takeOverTime = 20 * time.Second

// The tasks of a replica that has ended are taken over by another within takeOverTime, without a request of
// the client. A handler that may run again finds the answers to its questions.
func TestAnotherReplicaTakesOverTheTasksOfAReplicaThatHasEnded(t *testing.T) {
	for phase := time.Duration(0); phase < 2*sweepInterval; phase += 500 * time.Millisecond {
		replay := phase%time.Second == 0
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			handler := func(run *Run) {
				first, err := ask(run, "first?")
				if err == nil {
					_, err = ask(run, "second?")
				}
				if err != nil {
					run.End(Outcome{Err: &jsonrpc.Error{Message: err.Error()}})
					return
				}
				run.End(Outcome{Result: first})
			}
			a := f.replica(nil)
			var b *Runner
			if replay {
				b = f.replica(handler)
			} else {
				b = f.replica(nil)
			}
			b.Start()
			time.Sleep(phase)
			go handler(begin(t, a, newTask("1")))
			synctest.Wait()
			answer(t, a, "1", `{"first":1}`)
			synctest.Wait()
			kill(a)
			synctest.Wait()
			if got := get(t, b, "1"); got.Status != mcp.TaskInputRequired || got.Runs != 1 {
				t.Fatalf("before the end of the lease: %+v", got)
			}
			time.Sleep(takeOverTime)
			synctest.Wait()
			got, err := b.Store.Get(t.Context(), ada, "1") // without Check: the sweep has done it
			must.Do(t, err)
			if !replay {
				must.CheckEqual(t, describe(got), "failed the process that ran the task has ended")
				return
			}
			must.That(t, got.Runs == 2 && len(got.Open()) == 1, "after the end of the lease: %+v", got)
			answer(t, b, "1", `{"second":2}`)
			synctest.Wait()
			must.CheckEqual(t, describe(get(t, b, "1")), `completed {"first":1}`)
		})
	}
}

// All replicas end while 500 tasks run, and others start. Every task ends within the lease, once, without
// a request of its client.
func TestTasksOutliveAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		f := newFleet(t)
		var mu sync.Mutex
		runs := make(map[string]int)
		handler := func(run *Run) {
			mu.Lock()
			runs[run.task.ID]++
			mu.Unlock()
			select {
			case <-time.After(10 * time.Second):
			case <-run.Call.Context().Done():
			}
			run.End(Outcome{Result: json.RawMessage(`{"id":"` + run.task.ID + `"}`)})
		}
		replica := func() *Runner {
			r := f.replica(handler)
			r.Store.PerOwner, r.Max = n, n
			r.Start()
			return r
		}
		old := []*Runner{replica(), replica(), replica()}
		for i := range n {
			go handler(begin(t, old[i%len(old)], newTask(fmt.Sprint(i))))
		}
		time.Sleep(5 * time.Second)
		for _, r := range old {
			kill(r)
		}
		synctest.Wait()
		young := []*Runner{replica(), replica(), replica()}
		time.Sleep(takeOverTime + 10*time.Second)
		synctest.Wait()
		for i := range n {
			id := fmt.Sprint(i)
			for _, r := range young {
				task, err := r.Store.Get(t.Context(), ada, id)
				must.That(t, err == nil && describe(task) == `completed {"id":"`+id+`"}` && task.Runs == 2 &&
					runs[id] == 2, "task %s: %v %v, %d runs", id, task, err, runs[id])
			}
		}
	})
}

// A replica that was only slow must not end a task that another has taken over.
// A fail-over of the store can undo the end of a task. The replica that ran it runs it again if that is
// allowed, and ends it otherwise; it would be working until its TTL.
func TestTaskWhoseEndIsUndoneEndsAgain(t *testing.T) {
	for _, replays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			var again func(*Run)
			want := "failed the process that ran the task has ended"
			if replays {
				again = func(run *Run) { run.End(Outcome{Result: json.RawMessage(`"again"`)}) }
				want = `completed "again"`
			}
			r, other := f.replica(again), f.replica(again)
			run := begin(t, r, newTask("t"))
			name := key(ada, "t")
			before := must.Get(f.memory.Get(t.Context(), name))(t)
			must.CheckEqual(t, describe(get(t, r, "t")), "working ")
			run.End(Outcome{Result: json.RawMessage(`"done"`)})
			must.Get(f.memory.Put(t.Context(), name, before.Value, store.PutOptions{TTL: time.Hour}))(t)
			must.CheckEqual(t, describe(get(t, other, "t")), "working ", "at another replica") // which cannot know
			get(t, r, "t")
			synctest.Wait()
			must.CheckEqual(t, describe(get(t, other, "t")), want)
		})
	}
}

func TestAReplicaThatLostATaskDoesNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var second *Run
		a, b := f.replica(nil), f.replica(func(run *Run) { second = run })
		first := begin(t, a, newTask("1"))
		f.expire(a, b)
		get(t, b, "1")
		synctest.Wait()
		must.CheckIs(t, context.Cause(first.Call.Context()), ErrLost)
		first.End(Outcome{Result: json.RawMessage(`{"first":1}`)})
		second.End(Outcome{Result: json.RawMessage(`{"second":2}`)})
		must.CheckEqual(t, describe(get(t, b, "1")), `completed {"second":2}`)
	})
}

// Without an announcement the first replica does not know that it has lost the task.
func TestOutcomeOfALostRunIsNotStored(t *testing.T) {
	for _, length := range []int{10, 2 * maxInline} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			var second *Run
			a, b := f.replica(nil), f.replica(func(run *Run) { second = run })
			b.Store.Bus = store.NewMemory()
			result := func(n int) json.RawMessage {
				return json.RawMessage(fmt.Sprintf(`{"run":%d,"text":"%s"}`, n, strings.Repeat("x", length)))
			}
			first := begin(t, a, newTask("1"))
			f.expire(a, b)
			get(t, b, "1")
			synctest.Wait()
			first.End(Outcome{Result: result(1)})
			must.CheckEqual(t, get(t, b, "1").Status, mcp.TaskWorking)
			second.End(Outcome{Result: result(2)})
			must.CheckEqual(t, string(must.Get(b.Store.Result(t.Context(), get(t, b, "1")))(t)), string(result(2)))
		})
	}
}

// A replica that lives stays one whose tasks others take over, whatever happens to its entry.
func TestAReplicaThatWasRemovedRegistersAgain(t *testing.T) {
	for name, remove := range map[string]func(f *fleet, a, b *Runner){
		"taken over by mistake": func(f *fleet, a, b *Runner) {
			f.expire(a, b)
			must.Check(t, b.sweep(t.Context()))
		},
		"data is lost": func(f *fleet, a, _ *Runner) {
			must.Check(t, f.memory.Remove(t.Context(), replicasSet, a.Lease.ID()))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			a, b := f.replica(nil), f.replica(nil)
			a.Start()
			b.Start()
			time.Sleep(lease.TTL)
			remove(f, a, b)
			beginIdle(t, a, newTask("1"))
			time.Sleep(sweepInterval)
			kill(a)
			time.Sleep(takeOverTime)
			got := must.Get(b.Store.Get(t.Context(), ada, "1"))(t)
			must.CheckEqual(t, got.Status, mcp.TaskFailed, name, got)
		})
	}
}

// While replicas are upgraded, some do not have the tool of a task. They leave it to those that have it, for a while.
func TestATaskIsLeftToTheReplicasWithItsTool(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			a, without := f.replica(nil), f.replica(nil)
			without.Again = func(*Task) (func(*Run), bool) { return nil, false }
			without.Start()
			replay, other := newTask("replay"), newTask("other")
			replay.Replay = true
			beginIdle(t, a, replay)
			beginIdle(t, a, other)
			kill(a)
			time.Sleep(takeOverTime)
			if got := get(t, without, "other"); got.Status != mcp.TaskFailed {
				t.Errorf("a task that must not run again: %s", describe(got))
			}
			time.Sleep(2 * time.Minute)
			if got := get(t, without, "replay"); got.Status != mcp.TaskWorking {
				t.Fatal(describe(got))
			}
			want := "failed the process that ran the task has ended"
			if arrives {
				with := f.replica(func(run *Run) { run.End(Outcome{Result: json.RawMessage(`"again"`)}) })
				with.Start()
				time.Sleep(takeOverTime)
				want = `completed "again"`
			} else {
				time.Sleep(leaveFor)
			}
			got := must.Get(without.Store.Get(t.Context(), ada, "replay"))(t)
			must.CheckEqual(t, describe(got), want, got)
		})
	}
}

// The clock of the replica that runs the task, or of another one, is set by an hour. The other replicas see the
// outcome for the rest of the task's life.
func TestClocksThatAreSetLoseNoOutcome(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		for _, stepped := range []string{"owner", "other", "owner at the end"} {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				a, b, right := f.replica(nil), f.replica(nil), f.replica(nil)
				clock := func() time.Time { return time.Now().Add(step) }
				switch stepped {
				case "owner":
					a.Store.Now = clock
				case "other":
					b.Store.Now = clock
				}
				run := begin(t, a, newTask("1"))
				if stepped == "owner at the end" {
					a.Store.Now = clock
				}
				must.Check(t, run.Progress(t.Context(), 1, 0, "half"))
				time.Sleep(10 * time.Second)
				if _, err := b.Store.Update(t.Context(), ada, "1",
					func(task *Task) error { return task.Describe("seen") }); err != nil {
					t.Errorf("%s %v: %v", stepped, step, err)
				}
				run.End(Outcome{Result: json.RawMessage(`{"text":"` + strings.Repeat("x", 2*maxInline) + `"}`)})
				for range 2 {
					for _, r := range []*Runner{a, b, right} {
						task, err := r.Store.Get(t.Context(), ada, "1")
						if err == nil {
							_, err = r.Store.Result(t.Context(), task)
						}
						must.Do(t, err)
						must.CheckEqual(t, task.Status, mcp.TaskCompleted, stepped, step, task)
					}
					time.Sleep(59 * time.Minute) // of one hour
				}
			})
		}
	}
}
