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
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/must"
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
	memory store.Store
	sealed store.Store // memory, with encryption
}

func newFleet(t *testing.T) *fleet {
	seals := must.Get(seal.New(make([]byte, seal.KeySize)))(t)
	memory := store.NewMemory()
	return &fleet{t: t, memory: memory, sealed: seals.Store(memory, slog.New(slog.DiscardHandler))}
}

// replica returns a runner whose tasks run again with again.
func (f *fleet) replica(again func(*Run)) *Runner {
	r := &Runner{
		Store: &Store{KV: f.sealed, Bus: f.sealed, PerOwner: 100, MaxAnonymous: 100},
		Lease: &lease.Lease{KV: f.memory, Shared: true, Logger: slog.New(slog.DiscardHandler)}, Max: 10,
		Logger: slog.New(slog.DiscardHandler),
		Again:  func(*Task) (func(*Run), bool) { return again, true },
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := r.Close(ctx, time.Second)
		must.CheckThat(f.t, err == nil || errors.Is(err, context.Canceled), "%v", err)
		must.Check(f.t, r.Lease.Close(context.Background()))
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
	must.Do(f.t, f.memory.Delete(f.t.Context(), lease.Key(r.Lease.ID())))
}

func newTask(id string) *Task {
	return &Task{
		ID: id, TTL: time.Hour.Milliseconds(), Timeout: time.Minute.Milliseconds(), Poll: 1000,
		Request: Request{Method: mcp.MethodCallTool, Params: json.RawMessage(`{"name":"job"}`), Principal: ada,
			Revision: mcp.V20260728, Key: "k"},
	}
}

func begin(t *testing.T, r *Runner, task *Task) *Run {
	t.Helper()
	run := must.Get(r.Begin(t.Context(), task, nil))(t)
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
	must.Do(t, err)
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
	answers, err := run.Call.RequestInput(run.Call.Context(),
		rpc.InputRequest{Method: mcp.MethodElicit, Params: params})
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
	must.Do(t, err)
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
			must.CheckEqual(t, describe(get(t, r, name)), "working ", name)
			run.End(c.outcome)
			task := get(t, r, name)
			if task.Status == mcp.TaskCompleted {
				var err error
				if task.Result, err = r.Store.Result(t.Context(), task); err != nil {
					t.Error(err)
				}
			}
			must.CheckEqual(t, describe(task), c.want, name)
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
			must.Check(t, must.Err(r.Store.Update(context.Background(), ada, "1", (*Task).Cancel)))
		}, ErrCancelled, "cancelled "},
		"timeout": {func(*Runner) {
			time.Sleep(time.Minute)
		}, ErrTimeout, "failed the handler of the task has not returned in time: the limit is 1m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t).replica(nil)
			run := begin(t, r, newTask("1"))
			c.end(r)
			<-run.Call.Context().Done()
			synctest.Wait()
			must.CheckIs(t, context.Cause(run.Call.Context()), c.cause, name)
			run.End(Outcome{Result: json.RawMessage(`{}`)})
			must.CheckEqual(t, describe(get(t, r, "1")), c.want, name)
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
		task := get(t, b, "1")
		must.That(t, task.Status == mcp.TaskInputRequired && len(task.Open()) == 1, "%+v", task)
		answer(t, b, "1", `{"action":"accept"}`)
		must.CheckEqual(t, <-answered, `{"action":"accept"}<nil>`)
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
		must.Do(t, err)
		answer(t, r, "1", `{"n":1}`)
		synctest.Wait()
		run.journal.update(older)
		answers := must.Get(run.Call.RequestInput(run.Call.Context(), question))(t)
		must.CheckEqual(t, string(answers[0]), `{"n":1}`, answers)
		run.End(Outcome{Result: json.RawMessage(`{}`)})
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
			must.CheckEqual(t, get(t, r, id).Status, c.want, id)
		}
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
		_, err := r.Begin(t.Context(), newTask("more"), nil)
		must.CheckThat(t, errors.As(err, &overload) && overload.Limit == "running tasks", "%v", err)
		for _, run := range runs {
			run.End(Outcome{Result: json.RawMessage(`{}`)})
		}
		for i := range 5 {
			begin(t, r, newTask(fmt.Sprint("second", i))).End(Outcome{Result: json.RawMessage(`{}`)})
		}
		_, err = r.Begin(t.Context(), newTask("more"), nil)
		must.CheckThat(t, errors.As(err, &overload) && overload.Limit == "tasks of one principal", "%v", err)
		time.Sleep(time.Hour)
		begin(t, r, newTask("later")).End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

func TestAFullPlaceTakesThatOfTheOldestAbandonedRun(t *testing.T) {
	for name, c := range map[string]struct {
		max, perOwner int
		want          string
	}{
		"of the process": {3, 100, "failed " + rpc.DisplacedResponse.Message},
		"of the owner":   {100, 3, ErrNotFound.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t).replica(nil)
			r.Max, r.Store.PerOwner = c.max, c.perOwner
			r.IsAttended = func(id string) bool { return id == "0" }
			var runs []*Run
			for i := range 3 {
				run := begin(t, r, newTask(fmt.Sprint(i)))
				runs = append(runs, run)
				go func() {
					ask(run, "?")
					run.End(Outcome{Result: json.RawMessage(`{}`)})
				}()
				synctest.Wait()
			}
			more := begin(t, r, newTask("more"))
			must.CheckIs(t, context.Cause(runs[1].Call.Context()), rpc.ErrDisplaced, name)
			must.CheckThat(t, runs[0].Call.Context().Err() == nil && runs[2].Call.Context().Err() == nil,
				"%s: another run was displaced", name)
			synctest.Wait()
			got := ""
			if task, err := r.Store.Get(t.Context(), ada, "1"); err != nil {
				got = err.Error()
			} else {
				got = describe(task)
			}
			must.CheckEqual(t, got, c.want, name)
			r.IsAttended = func(string) bool { return true }
			overload := new(call.OverloadError)
			_, err := r.Begin(t.Context(), newTask("rejected"), nil)
			must.CheckThat(t, errors.As(err, &overload), "%s: %v", name, err)
			more.End(Outcome{Result: json.RawMessage(`{}`)})
		})
	}
}

// A caller who has left takes a place of the process from the caller's own runs first. Handlers that do not return after
// they have lost their places are bounded.
func TestPlacesAreTakenFromTheirOwnerFirstAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		r.Max = 2
		var runs []*Run
		asks := func(id string, owner principal.Principal) {
			task := newTask(id)
			task.Request.Principal = owner
			run := begin(t, r, task)
			runs = append(runs, run)
			go func() { _, _ = ask(run, "?") }() // and does not return
			synctest.Wait()
		}
		asks("of another user", must.Get(principal.New("https://issuer.example", "bob", ""))(t))
		asks("of the owner", ada)
		asks("another of the owner", ada)
		must.Check(t, runs[0].Call.Context().Err())
		must.CheckIs(t, context.Cause(runs[1].Call.Context()), rpc.ErrDisplaced)
		asks("the last one", ada)
		overload := new(call.OverloadError)
		if _, err := r.Begin(t.Context(), newTask("rejected"), nil); !errors.As(err, &overload) {
			t.Errorf("%d handlers run at %d places: %v", len(runs), r.Max, err)
		}
		for _, run := range runs {
			run.End(Outcome{Result: json.RawMessage(`{}`)})
		}
		begin(t, r, newTask("more")).End(Outcome{Result: json.RawMessage(`{}`)})
	})
}

// A request that waits for the outcome finds it, even if the life of the task is almost over.
func TestAnOutcomeCanBeReadForSomeTime(t *testing.T) {
	for name, length := range map[string]int{"short": 1, "long": 2 * maxInline} {
		synctest.Test(t, func(t *testing.T) {
			r := newFleet(t).replica(nil)
			task := newTask("1")
			task.TTL = 10_000
			run := begin(t, r, task)
			time.Sleep(10*time.Second - time.Millisecond)
			result := `"` + strings.Repeat("x", length) + `"`
			run.End(Outcome{Result: json.RawMessage(result)})
			time.Sleep(15*time.Second - time.Millisecond) // as TaskOptions.TTL says
			must.CheckEqual(t, string(must.Get(r.Store.Result(t.Context(), get(t, r, "1")))(t)), result, name)
			time.Sleep(2 * time.Millisecond)
			must.CheckIs(t, must.Err(r.Store.Get(t.Context(), ada, "1")), ErrNotFound, name)
		})
	}
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
			must.CheckThat(t, err == nil && !strings.Contains(string(item.Value), "canary") &&
				!strings.Contains(string(item.Value), "status"), "%s: %.100s %v", key, item.Value, err)
		}
		check("task/1")
		answer(t, r, "1", `{"canary":"answer"}`)
		synctest.Wait()
		check("task/1")
		run.End(Outcome{Result: json.RawMessage(`{"canary":"` + strings.Repeat("x", maxInline) + `"}`)})
		check("task/1")
		check("task/1/result/1")
		for _, other := range []principal.Principal{principal.Anonymous, principal.Local} {
			must.CheckIs(t, must.Err(r.Store.Get(t.Context(), other, "1")), ErrNotFound, other)
			must.CheckIs(t, must.Err(r.Store.Update(t.Context(), other, "1", (*Task).Cancel)), ErrNotFound, other)
		}
		_, err := (&Store{KV: f.memory, Bus: f.memory}).Get(t.Context(), ada, "1")
		must.CheckThat(t, err != nil, "a replica without keys reads the task")
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
		if took := time.Since(started); took != 5*time.Second ||
			!errors.Is(context.Cause(run.Call.Context()), ErrStopped) {
			t.Errorf("ended after %v: %v", took, context.Cause(run.Call.Context()))
		}
		run.End(Outcome{Result: json.RawMessage(`{}`)})
		must.CheckIs(t, <-closed, context.DeadlineExceeded)
		_, err := r.Begin(t.Context(), newTask("2"), nil)
		must.CheckThat(t, err != nil, "a closed runner accepts a task")
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
					if took := time.Since(started); cause != nil || shared != (err == nil) ||
						!shared && (err != ErrStopped || took != work) {
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
				must.Check(t, err)
			default:
				t.Error("Close waits for runs that have ended")
			}
		})
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
				raw, err := run.Call.RequestInput(run.Call.Context(),
					rpc.InputRequest{Key: "k", Method: mcp.MethodElicit, Params: params})
				answers <- fmt.Sprint(string(bytes.Join(bytesOf(raw), nil)), err)
			}()
			synctest.Wait()
			keys := slices.Collect(maps.Keys(get(t, r, "1").Open()))
			answer(t, r, "1", `{"to":"`+message+`"}`)
			return strings.Join(append(keys, <-answers), " ")
		}
		first, second := asked("first"), asked("second")
		key, _, _ := strings.Cut(second, " ")
		must.CheckThat(t, first == `k {"to":"first"}<nil>` && key != "k" && second == key+` {"to":"second"}<nil>`,
			"%s, %s", first, second)
		for _, message := range []string{"first", "second"} { // known
			must.CheckEqual(t, asked(message), `{"to":"`+message+`"}<nil>`)
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

// A write to the store for each text would be too many. The last of texts that follow each other is stored all the
// same, because the handler may report nothing more for long.
func TestTheLastProgressBecomesTheStatusMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFleet(t).replica(nil)
		run := begin(t, r, newTask("1"))
		defer run.End(Outcome{Result: json.RawMessage(`{}`)})
		report := func(done, total float64, text string) string {
			must.Check(t, run.Progress(t.Context(), done, total, text))
			return get(t, r, "1").Message
		}
		for i, want := range []string{"mixing", "mixing", "mixing"} { // the others follow too soon
			must.CheckEqual(t, report(float64(i), 4, []string{"mixing", "kneading", "baking"}[i]), want)
		}
		time.Sleep(minProgress)
		synctest.Wait()
		must.CheckEqual(t, get(t, r, "1").Message, "baking")
		for want, total := range map[string]float64{"3 of 4": 4, "3": 0} {
			time.Sleep(minProgress)
			must.CheckEqual(t, report(3, total, ""), want)
		}
	})
}
