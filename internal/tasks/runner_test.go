package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

var ada = func() principal.Principal {
	p, err := principal.New("https://as.example", "ada", "")
	if err != nil {
		panic(err)
	}
	return p
}()

// fleet is replicas that share one store.
type fleet struct {
	t      *testing.T
	memory *store.Memory
	seals  *seal.Keys
}

func newFleet(t *testing.T) *fleet {
	seals, err := seal.New(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t: t, memory: store.NewMemory(store.MemoryOptions{}), seals: seals}
}

// replica returns a runner whose tasks run again with again.
func (f *fleet) replica(again func(*Run)) *Runner {
	r := &Runner{
		Store: &Store{KV: f.memory, Bus: f.memory, Seals: f.seals, PerOwner: 100, MaxAnonymous: 100},
		Lease: &lease.Lease{KV: f.memory, Shared: true, Logger: slog.New(slog.DiscardHandler)}, Max: 10, Logger: slog.New(slog.DiscardHandler),
		Again: func(*Task) (func(*Run), bool) { return again, true },
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := r.Close(ctx, time.Second); err != nil && !errors.Is(err, context.Canceled) {
			f.t.Error(err)
		}
		if err := r.Lease.Close(context.Background()); err != nil {
			f.t.Error(err)
		}
	})
	return r
}

// kill ends a replica without a trace of its end in the store.
func kill(r *Runner) {
	r.ready()
	r.stop(ErrStopped)
	r.background.Wait()
	r.Lease.Abandon()
}

// expire makes the lease of a replica expire for another one, although it lives.
func (f *fleet) expire(r, other *Runner) {
	other.Start()
	time.Sleep(lease.TTL + time.Millisecond) // the other one has its lease for so long
	if err := f.memory.Delete(f.t.Context(), lease.Key(r.Lease.ID())); err != nil {
		f.t.Fatal(err)
	}
}

func newTask(id string) *Task {
	return &Task{
		ID: id, TTL: time.Hour.Milliseconds(), Timeout: time.Minute.Milliseconds(), Poll: 1000,
		Request: Request{Method: mcp.MethodCallTool, Params: json.RawMessage(`{"name":"job"}`), Principal: ada, Revision: mcp.V20260728, Key: "k"},
	}
}

func begin(t *testing.T, r *Runner, task *Task) *Run {
	t.Helper()
	run, err := r.Begin(t.Context(), task, nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// beginIdle begins a run whose handler does nothing until its context ends.
func beginIdle(t *testing.T, r *Runner, task *Task) {
	t.Helper()
	run := begin(t, r, task)
	context.AfterFunc(run.Call.Context(), func() { run.End(Outcome{Result: json.RawMessage(`{}`)}) })
}

func get(t *testing.T, r *Runner, id string) *Task {
	t.Helper()
	task, err := r.Store.Get(context.Background(), ada, id)
	if err == nil {
		task, err = r.Check(context.Background(), task)
	}
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func describe(task *Task) string {
	text := string(task.Status) + " " + string(task.Result)
	if task.Error != nil {
		text += task.Error.Message
	}
	return text
}

func ask(run *Run, message string) (json.RawMessage, error) {
	params, _ := json.Marshal(map[string]string{"message": message})
	answers, err := run.Call.RequestInput(run.Call.Context(), rpc.InputRequest{Method: mcp.MethodElicit, Params: params})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

func answer(t *testing.T, r *Runner, id string, content string) {
	t.Helper()
	_, err := r.Store.Update(t.Context(), ada, id, func(task *Task) error {
		responses := make(map[string]json.RawMessage)
		for key := range task.Open() {
			responses[key] = json.RawMessage(content)
		}
		return task.Answer(responses)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOutcomeOfARunIsThatOfItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		large := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 2*maxInline) + `"}]}`)
		for name, c := range map[string]struct {
			outcome Outcome
			want    string
		}{
			"result": {Outcome{Result: json.RawMessage(`{"content":[]}`)}, `completed {"content":[]}`},
			"error":  {Outcome{Err: &jsonrpc.Error{Code: -1, Message: "no"}}, "failed no"},
			"large":  {Outcome{Result: large}, "completed " + string(large)},
		} {
			run := begin(t, r, newTask(name))
			if got := describe(get(t, r, name)); got != "working " {
				t.Errorf("%s: before the end: %s", name, got)
			}
			run.End(c.outcome)
			task := get(t, r, name)
			if task.Status == mcp.TaskCompleted {
				var err error
				if task.Result, err = r.Store.Result(t.Context(), task); err != nil {
					t.Error(err)
				}
			}
			if got := describe(task); got != c.want {
				t.Errorf("%s: %.100s", name, got)
			}
		}
	})
}

func TestATaskEndsWithItsCancellationOrTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(r *Runner)
		cause error
		want  string
	}{
		"cancel": {func(r *Runner) {
			if _, err := r.Store.Update(context.Background(), ada, "1", (*Task).Cancel); err != nil {
				t.Error(err)
			}
		}, ErrCancelled, "cancelled "},
		"timeout": {func(*Runner) { time.Sleep(time.Minute) }, ErrTimeout, "failed the handler of the task has not returned in time: the limit is 1m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t).replica(nil)
			run := begin(t, r, newTask("1"))
			c.end(r)
			<-run.Call.Context().Done()
			synctest.Wait()
			if cause := context.Cause(run.Call.Context()); !errors.Is(cause, c.cause) {
				t.Errorf("%s: the cause is %v", name, cause)
			}
			run.End(Outcome{Result: json.RawMessage(`{}`)})
			if got := describe(get(t, r, "1")); got != c.want {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
}

func TestQuestionsAreAnsweredOnAnyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		run := begin(t, a, newTask("1"))
		answered := make(chan string, 1)
		go func() {
			raw, err := ask(run, "name?")
			answered <- fmt.Sprint(string(raw), err)
		}()
		synctest.Wait()
		if task := get(t, b, "1"); task.Status != mcp.TaskInputRequired || len(task.Open()) != 1 {
			t.Fatalf("%+v", task)
		}
		answer(t, b, "1", `{"action":"accept"}`)
		if got := <-answered; got != `{"action":"accept"}<nil>` {
			t.Error(got)
		}
		run.End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

// An answer can arrive while the handler still writes its question.
func TestAnAnswerIsNotOverwrittenByAnOlderState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		run := begin(t, r, newTask("1"))
		question := rpc.InputRequest{Key: "k", Method: mcp.MethodElicit, Params: json.RawMessage(`{}`)}
		older, err := r.Store.Update(t.Context(), ada, "1", func(task *Task) error { return task.Ask("k", question) })
		if err != nil {
			t.Fatal(err)
		}
		answer(t, r, "1", `{"n":1}`)
		synctest.Wait()
		run.journal.update(older)
		answers, err := run.Call.RequestInput(run.Call.Context(), question)
		if err != nil || string(answers[0]) != `{"n":1}` {
			t.Errorf("%s %v", answers, err)
		}
		run.End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

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
			if err != nil {
				t.Fatal(err)
			}
			if !replay {
				if describe(got) != "failed the process that ran the task has ended" {
					t.Error(describe(got))
				}
				return
			}
			if got.Runs != 2 || len(got.Open()) != 1 {
				t.Fatalf("after the end of the lease: %+v", got)
			}
			answer(t, b, "1", `{"second":2}`)
			synctest.Wait()
			if got := describe(get(t, b, "1")); got != `completed {"first":1}` {
				t.Error(got)
			}
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
				if err != nil || describe(task) != `completed {"id":"`+id+`"}` || task.Runs != 2 || runs[id] != 2 {
					t.Fatalf("task %s: %v %v, %d runs", id, task, err, runs[id])
				}
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
			before, err := f.memory.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(get(t, r, "t")); got != "working " {
				t.Errorf("while it runs: %s", got)
			}
			run.End(Outcome{Result: json.RawMessage(`"done"`)})
			if _, err := f.memory.Put(t.Context(), name, before.Value, store.PutOptions{TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			if got := describe(get(t, other, "t")); got != "working " {
				t.Errorf("at another replica: %s", got) // which cannot know
			}
			get(t, r, "t")
			synctest.Wait()
			if got := describe(get(t, other, "t")); got != want {
				t.Errorf("%s, want %s", got, want)
			}
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
		if cause := context.Cause(first.Call.Context()); !errors.Is(cause, ErrLost) {
			t.Errorf("the cause is %v", cause)
		}
		first.End(Outcome{Result: json.RawMessage(`{"first":1}`)})
		second.End(Outcome{Result: json.RawMessage(`{"second":2}`)})
		if got := describe(get(t, b, "1")); got != `completed {"second":2}` {
			t.Error(got)
		}
	})
}

// Without an announcement the first replica does not know that it has lost the task.
func TestOutcomeOfALostRunIsNotStored(t *testing.T) {
	for _, length := range []int{10, 2 * maxInline} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			var second *Run
			a, b := f.replica(nil), f.replica(func(run *Run) { second = run })
			b.Store.Bus = store.NewMemory(store.MemoryOptions{})
			result := func(n int) json.RawMessage {
				return json.RawMessage(fmt.Sprintf(`{"run":%d,"text":"%s"}`, n, strings.Repeat("x", length)))
			}
			first := begin(t, a, newTask("1"))
			f.expire(a, b)
			get(t, b, "1")
			synctest.Wait()
			first.End(Outcome{Result: result(1)})
			if got := get(t, b, "1"); got.Status != mcp.TaskWorking {
				t.Errorf("after the end of the first run: %s", got.Status)
			}
			second.End(Outcome{Result: result(2)})
			if raw, err := b.Store.Result(t.Context(), get(t, b, "1")); err != nil || string(raw) != string(result(2)) {
				t.Errorf("%.40s %v", raw, err)
			}
		})
	}
}

// fullKV does not accept results in entries of their own.
type fullKV struct{ store.KV }

func (kv fullKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if strings.Contains(key, "/result/") {
		return 0, errors.New("no memory left")
	}
	return kv.KV.Put(ctx, key, value, opt)
}

// A replica that stops before it has stored the result leaves the task to another one.
func TestTaskWhoseResultCannotBeStoredIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		a.Store.KV = fullKV{f.memory}
		run := begin(t, a, newTask("1"))
		go run.End(Outcome{Result: json.RawMessage(`"` + strings.Repeat("x", 2*maxInline) + `"`)})
		time.Sleep(10 * time.Second)
		kill(a)
		b.Start()
		time.Sleep(time.Minute)
		task, err := b.Store.Get(t.Context(), ada, "1")
		if err != nil {
			t.Fatal(err)
		}
		if task.Status != mcp.TaskFailed {
			t.Errorf("status %s, want %s", task.Status, mcp.TaskFailed)
		}
	})
}

func TestResultsThatAreTooLongFailTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		for id, c := range map[string]struct {
			length int
			want   mcp.TaskStatus
		}{"fits": {maxResult, mcp.TaskCompleted}, "too long": {maxResult + 1, mcp.TaskFailed}} {
			run := begin(t, r, newTask(id))
			run.End(Completed(json.RawMessage(`"`+strings.Repeat("x", c.length-2)+`"`), false))
			if got := get(t, r, id); got.Status != c.want {
				t.Errorf("%s: %s", id, got.Status)
			}
		}
	})
}

// failingKV fails for as long as it is down.
type failingKV struct {
	store.KV
	down atomic.Bool
}

func (f *failingKV) check() error {
	if f.down.Load() {
		return &rpc.StoreError{Err: errors.New("dial tcp 192.0.2.1:6379: connection refused")}
	}
	return nil
}

func (f *failingKV) Get(ctx context.Context, key string) (store.Item, error) {
	if err := f.check(); err != nil {
		return store.Item{}, err
	}
	return f.KV.Get(ctx, key)
}

func (f *failingKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	return f.KV.Put(ctx, key, value, opt)
}

func (f *failingKV) Add(ctx context.Context, set, member string, opt store.AddOptions) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.KV.Add(ctx, set, member, opt)
}

func (f *failingKV) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.KV.List(ctx, set, after, limit)
}

func TestAnswersAreReadWhenTheStoreIsUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		kv := &failingKV{KV: f.memory}
		a.Store.KV = kv
		run := begin(t, a, newTask("1"))
		time.Sleep(time.Second)
		answered := make(chan error, 1)
		go func() {
			_, err := ask(run, "name?")
			answered <- err
		}()
		synctest.Wait()
		kv.down.Store(true)
		answer(t, b, "1", `{}`)
		time.Sleep(10 * time.Second)
		kv.down.Store(false)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		run.End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

func TestReplicasWithoutACommonBusPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		a.Store.Bus, a.Store.Polls = store.NewMemory(store.MemoryOptions{}), true
		run := begin(t, a, newTask("1"))
		answered := make(chan error, 1)
		go func() {
			_, err := ask(run, "name?")
			answered <- err
		}()
		synctest.Wait()
		answer(t, b, "1", `{}`)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if _, err := b.Store.Update(t.Context(), ada, "1", (*Task).Cancel); err != nil {
			t.Fatal(err)
		}
		<-run.Call.Context().Done()
		if cause := context.Cause(run.Call.Context()); !errors.Is(cause, ErrCancelled) {
			t.Error(cause)
		}
		run.End(Outcome{})
	})
}

func TestTasksAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		r := f.replica(nil)
		r.Store.PerOwner = 15
		var runs []*Run
		var overload *call.OverloadError
		for i := range 10 {
			runs = append(runs, begin(t, r, newTask(fmt.Sprint(i))))
		}
		if _, err := r.Begin(t.Context(), newTask("more"), nil); !errors.As(err, &overload) || overload.Limit != "running tasks" {
			t.Errorf("%v", err)
		}
		for _, run := range runs {
			run.End(Outcome{Result: json.RawMessage(`{}`)})
		}
		for i := range 5 {
			begin(t, r, newTask(fmt.Sprint("second", i))).End(Outcome{Result: json.RawMessage(`{}`)})
		}
		if _, err := r.Begin(t.Context(), newTask("more"), nil); !errors.As(err, &overload) || overload.Limit != "tasks of one principal" {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Hour)
		begin(t, r, newTask("later")).End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

func TestStoredTasksAreEncryptedAndBelongToTheirPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		r := f.replica(nil)
		task := newTask("1")
		task.Request.Params = json.RawMessage(`{"name":"job","arguments":{"canary":"canary-argument"}}`)
		run := begin(t, r, task)
		go ask(run, "canary-question")
		synctest.Wait()
		check := func(key string) {
			item, err := f.memory.Get(t.Context(), ada.Key()+key)
			if err != nil || strings.Contains(string(item.Value), "canary") || strings.Contains(string(item.Value), "status") {
				t.Errorf("%s: %.100s %v", key, item.Value, err)
			}
		}
		check("task/1")
		answer(t, r, "1", `{"canary":"answer"}`)
		synctest.Wait()
		check("task/1")
		run.End(Outcome{Result: json.RawMessage(`{"canary":"` + strings.Repeat("x", maxInline) + `"}`)})
		check("task/1")
		check("task/1/result/1")
		for _, other := range []principal.Principal{principal.Anonymous, principal.Local} {
			if _, err := r.Store.Get(t.Context(), other, "1"); !errors.Is(err, ErrNotFound) {
				t.Errorf("%v: %v", other, err)
			}
			if _, err := r.Store.Update(t.Context(), other, "1", (*Task).Cancel); !errors.Is(err, ErrNotFound) {
				t.Errorf("%v: %v", other, err)
			}
		}
		if _, err := (&Store{KV: f.memory, Bus: f.memory}).Get(t.Context(), ada, "1"); err == nil {
			t.Error("a replica without keys reads the task")
		}
	})
}

func TestCloseWaitsForRunsThenEndsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		run := begin(t, r, newTask("1"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		closed := make(chan error, 1)
		started := time.Now()
		go func() { closed <- r.Close(ctx, 2*time.Second) }()
		<-run.Call.Context().Done()
		if took := time.Since(started); took != 5*time.Second || !errors.Is(context.Cause(run.Call.Context()), ErrStopped) {
			t.Errorf("ended after %v: %v", took, context.Cause(run.Call.Context()))
		}
		run.End(Outcome{Result: json.RawMessage(`{}`)})
		if err := <-closed; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := r.Begin(t.Context(), newTask("2"), nil); err == nil {
			t.Error("a closed runner accepts a task")
		}
	})
}

// A run that works is not disturbed until it asks.
func TestCloseEndsRunsThatWaitForAnAnswerUnlessAnotherReplicaCanReceiveIt(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t).replica(nil)
			r.Lease.Shared = shared
			started := time.Now()
			for id, work := range map[string]time.Duration{"waits": 0, "works": 2 * time.Second} {
				run := begin(t, r, newTask(id))
				go func() {
					defer run.End(Outcome{Result: json.RawMessage(`{}`)})
					time.Sleep(work)
					cause := context.Cause(run.Call.Context())
					_, err := ask(run, "name?")
					if took := time.Since(started); cause != nil || shared != (err == nil) || !shared && (err != ErrStopped || took != work) {
						t.Errorf("shared %v, %s: %v %v after %v", shared, id, cause, err, took)
					}
				}()
			}
			synctest.Wait()
			closed := make(chan error, 1)
			go func() { closed <- r.Close(t.Context(), time.Second) }()
			time.Sleep(3 * time.Second)
			if shared {
				answer(t, r, "waits", `{}`)
				answer(t, r, "works", `{}`)
			}
			synctest.Wait()
			select {
			case err := <-closed:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("Close waits for runs that have ended")
			}
		})
	}
}

// A replica that lives stays one whose tasks others take over, whatever happens to its entry.
func TestAReplicaThatWasRemovedRegistersAgain(t *testing.T) {
	for name, remove := range map[string]func(f *fleet, a, b *Runner){
		"taken over by mistake": func(f *fleet, a, b *Runner) {
			f.expire(a, b)
			if err := b.sweep(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"data is lost": func(f *fleet, a, _ *Runner) {
			if err := f.memory.Remove(t.Context(), replicasSet, a.Lease.ID()); err != nil {
				t.Error(err)
			}
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
			if got, err := b.Store.Get(t.Context(), ada, "1"); err != nil || got.Status != mcp.TaskFailed {
				t.Errorf("%s: %+v %v", name, got, err)
			}
		})
	}
}

// The leases of all replicas expire while the store is away. Their handlers continue, and their outcomes are stored.
func TestAnOutageOfTheStoreEndsNoTask(t *testing.T) {
	for outage := time.Second; outage < time.Minute; outage += 7 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			kv := &failingKV{KV: f.memory}
			replica := func() *Runner {
				r := f.replica(func(*Run) { t.Error("the handler runs twice") })
				r.Store.KV, r.Lease.KV = kv, kv
				r.Start()
				return r
			}
			a, b := replica(), replica()
			task := newTask("1")
			task.Timeout = task.TTL
			run := begin(t, a, task)
			time.Sleep(time.Minute + outage/3)
			kv.down.Store(true)
			time.Sleep(outage)
			kv.down.Store(false)
			for range 60 { // clients ask as soon as the store is back
				for _, r := range []*Runner{a, b} {
					if got := get(t, r, "1"); got.Status != mcp.TaskWorking {
						t.Fatalf("after an outage of %v: %s", outage, describe(got))
					}
				}
				time.Sleep(time.Second / 2)
			}
			run.End(Outcome{Result: json.RawMessage(`{"n":1}`)})
			if got := describe(get(t, b, "1")); got != `completed {"n":1}` {
				t.Error(got)
			}
		})
	}
}

// What a replica cannot read does not concern the tasks that it can.
func TestUnreadableEntriesDoNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var log strings.Builder
		a, b := f.replica(nil), f.replica(nil)
		b.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b.Store.Logger = b.Logger
		b.Start()
		bad := map[string][]byte{"0": []byte("garbage"), "1": []byte("{}"), "2": nil, "3": f.seals.SealBytes(taskPurpose+key(ada, "3"), []byte(`{"id":7}`))}
		for i := range 6 {
			beginIdle(t, a, newTask(fmt.Sprint(i)))
		}
		for id, value := range bad {
			if _, err := f.memory.Put(t.Context(), key(ada, id), value, store.PutOptions{TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		add := func(set, member string) {
			if err := f.memory.Add(t.Context(), set, member, store.AddOptions{TTL: time.Hour, Max: 100}); err != nil {
				t.Fatal(err)
			}
		}
		add(tasksSet(a.Lease.ID()), "another program")
		add(replicasSet, strings.Repeat("0", store.MaxKey)) // no key of a lease
		kill(a)
		time.Sleep(takeOverTime)
		page, _, err := b.Store.List(t.Context(), ada, "", 10)
		if err != nil || len(page) != 2 || page[0].Status != mcp.TaskFailed || page[1].Status != mcp.TaskFailed {
			t.Errorf("%+v %v", page, err)
		}
		time.Sleep(time.Minute)
		if n := strings.Count(log.String(), "unreadable=5 without_tool=0"); n != 1 || !strings.Contains(log.String(), "tasks=4") {
			t.Errorf("%d lines: %s", n, log.String())
		}
		if _, err := b.Store.Get(t.Context(), ada, "0"); !errors.Is(err, ErrUnreadable) {
			t.Error(err)
		}
	})
}

// countingKV counts the reads of keys.
type countingKV struct {
	store.KV
	mu    sync.Mutex
	reads map[string]int
}

func (k *countingKV) Get(ctx context.Context, key string) (store.Item, error) {
	k.mu.Lock()
	k.reads[key]++
	k.mu.Unlock()
	return k.KV.Get(ctx, key)
}

// A task that a replica cannot read is read once, however long the task lives. If its replica returns and ends again,
// the others take over the tasks that it has then.
func TestUnreadableTasksAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.replica(nil), f.replica(nil)
		kv := &countingKV{KV: f.memory, reads: make(map[string]int)}
		b.Store.KV = kv
		a.Start()
		beginIdle(t, a, newTask("0"))
		if _, err := f.memory.Put(t.Context(), key(ada, "0"), []byte("garbage"), store.PutOptions{TTL: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		f.expire(a, b)
		time.Sleep(takeOverTime) // a renews its lease meanwhile
		beginIdle(t, a, newTask("1"))
		kill(a)
		time.Sleep(takeOverTime)
		if got, err := b.Store.Get(t.Context(), ada, "1"); err != nil || got.Status != mcp.TaskFailed {
			t.Errorf("%+v %v", got, err)
		}
		before := kv.reads[key(ada, "0")]
		time.Sleep(2 * time.Hour)
		if n := kv.reads[key(ada, "0")]; before == 0 || n != before {
			t.Errorf("%d reads at first, and %d in two hours", before, n-before)
		}
	})
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
			if got, err := without.Store.Get(t.Context(), ada, "replay"); err != nil || describe(got) != want {
				t.Errorf("%+v %v", got, err)
			}
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
				if err := run.Progress(t.Context(), 1, 0, "half"); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Second)
				if _, err := b.Store.Update(t.Context(), ada, "1", func(task *Task) error { return task.Describe("seen") }); err != nil {
					t.Errorf("%s %v: %v", stepped, step, err)
				}
				run.End(Outcome{Result: json.RawMessage(`{"text":"` + strings.Repeat("x", 2*maxInline) + `"}`)})
				for range 2 {
					for _, r := range []*Runner{a, b, right} {
						task, err := r.Store.Get(t.Context(), ada, "1")
						if err == nil {
							_, err = r.Store.Result(t.Context(), task)
						}
						if err != nil || task.Status != mcp.TaskCompleted {
							t.Errorf("%s %v: %+v %v", stepped, step, task, err)
						}
					}
					time.Sleep(59 * time.Minute) // of one hour
				}
			})
		}
	}
}

// A key means one question during the life of a task, also if the handler asks another one when it runs again
// (tasks extension, Input Requests).
func TestAKeyIsNotUsedAgainForAnotherQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		run := begin(t, r, newTask("1"))
		asked := func(message string) string {
			params, _ := json.Marshal(map[string]string{"message": message})
			answers := make(chan string, 1)
			run.Restart()
			go func() {
				raw, err := run.Call.RequestInput(run.Call.Context(), rpc.InputRequest{Key: "k", Method: mcp.MethodElicit, Params: params})
				answers <- fmt.Sprint(string(bytes.Join(bytesOf(raw), nil)), err)
			}()
			synctest.Wait()
			keys := slices.Collect(maps.Keys(get(t, r, "1").Open()))
			answer(t, r, "1", `{"to":"`+message+`"}`)
			return strings.Join(append(keys, <-answers), " ")
		}
		first, second := asked("first"), asked("second")
		key, _, _ := strings.Cut(second, " ")
		if first != `k {"to":"first"}<nil>` || key == "k" || second != key+` {"to":"second"}<nil>` {
			t.Errorf("%s, %s", first, second)
		}
		for _, message := range []string{"first", "second"} { // known
			if got := asked(message); got != `{"to":"`+message+`"}<nil>` {
				t.Error(got)
			}
		}
		run.End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

func bytesOf(raw []json.RawMessage) (all [][]byte) {
	for _, r := range raw {
		all = append(all, r)
	}
	return all
}

// A write to the store for each text would be too many. The last of texts that follow each other is stored all the same,
// because the handler may report nothing more for long.
func TestTheLastProgressBecomesTheStatusMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		run := begin(t, r, newTask("1"))
		defer run.End(Outcome{Result: json.RawMessage(`{}`)})
		report := func(done, total float64, text string) string {
			if err := run.Progress(t.Context(), done, total, text); err != nil {
				t.Error(err)
			}
			return get(t, r, "1").Message
		}
		for i, want := range []string{"mixing", "mixing", "mixing"} { // the others follow too soon
			if got := report(float64(i), 4, []string{"mixing", "kneading", "baking"}[i]); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		time.Sleep(minProgress)
		synctest.Wait()
		if got := get(t, r, "1").Message; got != "baking" {
			t.Errorf("%q, want the last text", got)
		}
		for want, total := range map[string]float64{"3 of 4": 4, "3": 0} {
			time.Sleep(minProgress)
			if got := report(3, total, ""); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}
