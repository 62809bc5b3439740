package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// The context of a task survives the end of its request, and of the connection or session.
func TestTaskSurvivesItsConnection(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		p := w.connect(t, s)
		id := p.create("work").TaskID
		j := <-jobs
		p.close()
		p = w.connect(t, s)
		if s := p.get(id); s.Status != mcp.TaskWorking || j.ctx.Err() != nil {
			t.Errorf("after the end of the connection: %s, %v", s.raw, j.ctx.Err())
		}
		j.finish <- "well done"
		result, _ := p.outcome(id, mcp.TaskCompleted)
		must.CheckContains(t, string(result), "well done")
		<-j.ctx.Done() // the end of the handler
	})
}

// Tasks extension, Task Creation: the server MUST NOT return CreateTaskResult until tasks/get resolves. The
// handler does not run before either.
func TestTaskIsStoredBeforeTheResponse(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			s, jobs := taskServer()
			var holds atomic.Bool
			proceed := make(chan error)
			s.Store = newHookedStore(func(ctx context.Context, op, key string, _ []byte) error {
				if op != "put" || !strings.Contains(key, "task/") || !holds.Load() {
					return nil
				}
				select {
				case err := <-proceed:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			p := taskWire{revision: r}.connect(t, s)
			synctest.Wait()
			holds.Store(true)
			created := p.start(mcp.MethodCallTool, p.taskCall("work", ""))
			synctest.Wait()
			must.CheckEqual(t, len(created), 0, r)
			must.CheckEqual(t, len(jobs), 0, r)
			holds.Store(false)
			proceed <- nil
			p.get(p.created(p.await(created).result).TaskID)
			(<-jobs).finish <- ""

			holds.Store(true)
			created = p.start(mcp.MethodCallTool, p.taskCall("work", ""))
			synctest.Wait()
			holds.Store(false)
			proceed <- errors.New("disk full")
			reply := p.await(created)
			must.CheckThat(t, reply.err != nil && reply.err.Code == jsonrpc.CodeInternalError, "%s: %s", r, reply.raw)
			synctest.Wait()
			must.CheckEqual(t, len(jobs), 0, r)
			shutdownNow(t, s)
		})
	}
}

// A client that cancels its request does not receive the id of the task, so the task ends. 2025-11-25,
// basic/utilities/cancellation, and 2026-07-28, basic/patterns/cancellation: the work SHOULD stop.
func TestTaskOfACancelledRequestIsCancelled(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			s, jobs := taskServer()
			stored, proceed := make(chan struct{}), make(chan struct{})
			late := newHookedStore(nil)
			late.after = func(_ context.Context, op, key string, _ []byte) error {
				if op == "put" && strings.Contains(key, "task/") {
					select {
					case <-stored:
					default: // the first
						close(stored)
						<-proceed
					}
				}
				return nil
			}
			s.Store = late
			p := taskWire{revision: r}.connect(t, s)
			created := p.start(mcp.MethodCallTool, p.taskCall("work", ""))
			<-stored
			p.send(message(r, 0, mcp.NotificationCancelled, `"requestId":1`), "", "")
			synctest.Wait()
			close(proceed)
			synctest.Wait()
			select {
			case j := <-jobs:
				must.CheckThat(t, j.ctx.Err() != nil, "%s: the task runs", r)
			default:
				t.Errorf("%s: the task has not started", r)
			}
			if len(created) != 0 {
				t.Errorf("%s: a cancelled request has the response %s", r, (<-created).raw)
			}
			shutdownNow(t, s)
		})
	}
}

// TaskOptions.Timeout ends the context of the handler and fails the task. TaskOptions.TTL ends its life:
// afterwards it does not exist (2025-11-25, TTL and Resource Management).
func TestTaskHasATimeoutAndATTL(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			s := quiet()
			cause := make(chan error, 1)
			server.AddTool(s, mcp.Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return "too late", nil
			}, server.AsTask(server.TaskOptions{Timeout: time.Minute, TTL: time.Hour, PollInterval: 3 * time.Second}))
			p := taskWire{revision: r}.connect(t, s)
			task := p.create("slow")
			must.CheckThat(t, strings.Contains(task.raw, `"pollInterval`) && strings.Contains(task.raw, `:3000`) &&
				strings.Contains(task.raw, `:3600000`), "%s: %s", r, task.raw)
			time.Sleep(time.Minute - time.Second)
			p.until(task.TaskID, mcp.TaskWorking)
			time.Sleep(2 * time.Second)
			must.CheckFails(t, <-cause, "in time", r)
			_, err := p.outcome(task.TaskID, mcp.TaskFailed)
			must.CheckThat(t, err != nil && err.Code == jsonrpc.CodeInternalError &&
				strings.Contains(err.Message, "1m0s"), "%s: %v", r, err)
			if s := p.get(task.TaskID); s.StatusMessage == "" {
				t.Errorf("%s: %s", r, s.raw)
			}
			time.Sleep(time.Hour - time.Minute - 2*time.Second)
			p.get(task.TaskID)
			time.Sleep(2 * time.Second)
			p.wantError(mcp.MethodGetTask, taskMembers(task.TaskID), jsonrpc.CodeInvalidParams, "expired")
			p.wantError(mcp.MethodCancelTask, taskMembers(task.TaskID), jsonrpc.CodeInvalidParams, "expired")
			shutdownNow(t, s)
		})
	}
}

// 2025-11-25, TTL and Resource Management: tasks/result ends when the task expires.
func TestTaskResultEndsWhenTheTaskExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quiet()
		server.AddTool(s, mcp.Tool{Name: "late"}, func(context.Context, struct{}) (string, error) {
			time.Sleep(time.Hour) // ignores its context
			return "too late", nil
		}, server.AsTask(server.TaskOptions{}))
		p := taskWire{revision: mcp.V20251125}.connect(t, s)
		id := p.created(p.must(mcp.MethodCallTool, `"name":"late","task":{"ttl":5000}`)).TaskID
		r := p.ask(mcp.MethodTaskResult, taskMembers(id))
		must.CheckThat(t, r.err != nil, "%s", r.raw)
		time.Sleep(time.Hour)
		p.wantError(mcp.MethodTaskResult, taskMembers(id), jsonrpc.CodeInvalidParams, "expired")
		shutdownNow(t, s)
	})
}

// Progress with a text sets the status message. In 2026-07-28, notifications/progress and
// notifications/message MUST NOT be sent for a task (tasks extension, Task Status Notifications).
// In 2025-11-25 all notifications but the status MUST have the related task.
func TestProgressOfATaskIsItsStatusMessage(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s := quiet()
		proceed := make(chan struct{})
		server.AddTool(s, mcp.Tool{Name: "report"}, func(ctx context.Context, _ struct{}) (string, error) {
			select {
			case <-proceed:
			case <-ctx.Done():
			}
			server.Logger(ctx).Error("hunter2")
			return "", server.Progress(ctx, 1, 2, "half of it")
		}, server.AsTask(server.TaskOptions{}))
		p := w.connect(t, s)
		p.meta = `"progressToken":"p",`
		if w.revision.Modern() {
			p.meta += `"io.modelcontextprotocol/logLevel":"debug",`
		} else {
			p.must(mcp.MethodSetLevel, `"level":"debug"`)
		}
		id := p.create("report").TaskID
		if w.revision.Modern() {
			p.start(mcp.MethodListen, fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id))
			eventually(t, func() bool { return strings.Contains(p.notifications(), `"status":"working"`) })
		}
		close(proceed)
		p.outcome(id, mcp.TaskCompleted)
		allowed := mcp.NotificationTasks
		if w.revision.Modern() {
			eventually(t, func() bool { return strings.Contains(p.notifications(), `"status":"completed"`) })
		} else {
			allowed = mcp.MetaRelatedTask // of notifications/progress
		}
		for raw := range strings.Lines(p.notifications()) {
			must.CheckThat(t, strings.Contains(raw, allowed) || strings.Contains(raw, mcp.NotificationTaskStatus) ||
				strings.Contains(raw, "acknowledged"), "%s", raw)
		}
	})
}

func TestInvalidTaskOptionsAreRejected(t *testing.T) {
	for text, o := range map[string]server.TaskOptions{
		"Support must be":            {Support: "never"},
		"must not be negative":       {TTL: -1},
		"negative":                   {PollInterval: -1},
		"TTL must be at most":        {TTL: 8 * 24 * time.Hour},
		"Timeout must be at most":    {TTL: time.Second, Timeout: time.Minute},
		"Timeout must be at most TT": {Timeout: 2 * time.Hour},
	} {
		must.CheckContains(t, panicOf(func() {
			server.AddTool(quiet(), newTool("job"), nothing, server.AsTask(o))
		}), text, o)
	}
}

// Shutdown accepts no more tasks and waits for those that run. When its context ends it ends theirs.
func TestShutdownWaitsForTasks(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		p := w.connect(t, s)
		p.create("work")
		first := <-jobs
		p.create("work")
		second := <-jobs
		p.close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(ctx) }()
		first.finish <- "well done"
		<-first.ended
		select {
		case err := <-ended:
			t.Errorf("Shutdown returned while a task runs: %v", err)
		case <-second.ctx.Done():
			t.Error("Shutdown ended a task")
		default:
		}
		cancel()
		<-second.ctx.Done()
		cause := context.Cause(second.ctx)
		must.CheckThat(t, strings.Contains(fmt.Sprint(cause), "stopping"), "cause %v", cause)
		must.CheckIs(t, <-ended, context.Canceled)
	})
}

// Protocol Errors of both kinds: internal errors are -32603.
func TestRequestsAboutTasksCanBeRepeatedWhenTheStoreHasFailed(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		var fails atomic.Bool
		s.Store = unreadable(&fails)
		p := w.connect(t, s)
		id := p.create("work").TaskID
		fails.Store(true)
		for _, method := range w.methods() {
			r := p.ask(method, taskMembers(id)+`,"inputResponses":{}`)
			must.CheckThat(t, r.err != nil && r.err.Code == jsonrpc.CodeInternalError &&
				strings.Contains(r.raw, `"retryAfterMs":2000`) &&
				(!w.http || r.status == http.StatusServiceUnavailable) && !strings.Contains(r.raw, "disk"),
				"%s: %s", method, r.raw)
		}
		if w.revision.Modern() { // and subscriptions
			r := p.ask(mcp.MethodListen, fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id))
			must.CheckThat(t, r.err != nil && r.err.Code == jsonrpc.CodeInternalError &&
				string(r.err.Data) == `{"limit":"store","retryAfterMs":2000}`, "%s: %s", mcp.MethodListen, r.raw)
		}
		fails.Store(false)
		if s := p.get(id); s.Status != mcp.TaskWorking {
			t.Errorf("%s", s.raw)
		}
	})
}

// unreadable returns a store that cannot read tasks while fails is set.
func unreadable(fails *atomic.Bool) *hookedStore {
	return newHookedStore(func(_ context.Context, op, key string, _ []byte) error {
		if op == "get" && fails.Load() && strings.Contains(key, "task/") {
			return errors.New("disk broken")
		}
		return nil
	})
}

// handover starts a task on a replica, ends the replica when the task has asked a question, and returns a
// client of another replica with the same store. Both have the tool "job".
func handover(
	t *testing.T, w taskWire, o server.TaskOptions, job func(context.Context) (string, error), options ...server.Option,
) (p *taskPeer, id string) {
	t.Helper()
	return handoverOf(t, w, o, job, func(s *server.Server) server.Registrar { return s }, options...)
}

// handoverOf is handover for a tool of what to returns.
func handoverOf(
	t *testing.T, w taskWire, o server.TaskOptions, job func(context.Context) (string, error),
	to func(*server.Server) server.Registrar, options ...server.Option,
) (p *taskPeer, id string) {
	t.Helper()
	memory := store.NewMemory()
	replica := func() *server.Server {
		s := quiet()
		s.Store = memory
		s.Keys = [][]byte{make([]byte, 32)}
		server.AddTool(to(s), mcp.Tool{Name: "job"},
			func(ctx context.Context, _ struct{}) (string, error) { return job(ctx) },
			append(options, server.AsTask(o))...)
		return s
	}
	first := replica()
	p = w.connect(t, first)
	r := p.ask(mcp.MethodCallTool, p.taskCall("job", ""))
	for strings.Contains(r.raw, `"resultType":"input_required"`) {
		var round struct {
			InputRequests map[string]json.RawMessage
			RequestState  string
		}
		must.Do(t, json.Unmarshal(r.result, &round))
		answers := make(map[string]json.RawMessage)
		for key := range round.InputRequests {
			answers[key] = json.RawMessage(acceptName("Ada"))
		}
		raw, _ := json.Marshal(answers)
		r = p.ask(mcp.MethodCallTool, p.taskCall("job", "")+
			fmt.Sprintf(`,"inputResponses":%s,"requestState":%q`, raw, round.RequestState))
	}
	must.That(t, r.err == nil, "%s", r.raw)
	id = p.created(r.result).TaskID
	p.until(id, mcp.TaskInputRequired)
	p.close()
	shutdownNow(t, first)
	return w.connect(t, replica()), id
}

// finish answers the questions of a task until it ends, and returns its result.
func (p *taskPeer) finish(id, name string) string {
	p.t.Helper()
	if !p.revision.Modern() {
		p.answer = func(*jsonrpc.Message) string { return acceptName(name) }
		return string(p.must(mcp.MethodTaskResult, taskMembers(id)))
	}
	for {
		s := p.get(id)
		if s.Status.Terminal() {
			return s.raw
		}
		for key := range s.InputRequests {
			p.update(id, fmt.Sprintf(`{%q:%s}`, key, acceptName(name)))
		}
	}
}

// TaskOptions.Replay: the handler runs again on another replica, finds the answers to its questions, and
// does not repeat what is in Once.
func TestAnotherReplicaRunsTheHandlerAgain(t *testing.T) {
	own := func(s *server.Server) server.Registrar { return s }
	ofCatalogs := func(s *server.Server) server.Registrar {
		c := new(server.Catalog)
		s.Catalogs = func(context.Context) ([]*server.Catalog, error) { return []*server.Catalog{c}, nil }
		return c
	}
	for _, to := range []func(*server.Server) server.Registrar{own, ofCatalogs} {
		onTaskWires(t, func(t *testing.T, w taskWire) {
			var runs, effects atomic.Int64
			p, id := handoverOf(t, w, server.TaskOptions{Replay: true}, func(ctx context.Context) (string, error) {
				run := runs.Add(1)
				effect, err := server.Once(ctx, "effect", func(_ context.Context, key string) (string, error) {
					return fmt.Sprintf("%d, key %t", effects.Add(1), len(key) > 20), nil
				})
				if err != nil {
					return "", err
				}
				who, err := server.Elicit[nameForm](ctx, "Who?", server.Keyed("who"))
				return fmt.Sprintf("run %d effect %s %s", run, effect, who.Name), err
			}, to)
			must.CheckContains(t, p.finish(id, "Ada"), "run 2 effect 1, key true Ada")
			must.CheckEqual(t, effects.Load(), 1)
		})
	}
}

// Without TaskOptions.Replay the task fails, and its handler does not run again.
func TestTaskOfAnEndedReplicaFails(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		var runs atomic.Int64
		p, id := handover(t, w, server.TaskOptions{}, func(ctx context.Context) (string, error) {
			runs.Add(1)
			_, err := server.Elicit[nameForm](ctx, "Who?", server.Keyed("who"))
			return "", err
		})
		_, err := p.outcome(id, mcp.TaskFailed)
		must.CheckThat(t, err != nil && strings.Contains(err.Message, "has ended") && runs.Load() == 1,
			"%v after %d runs", err, runs.Load())
	})
}

// The answers to the questions before Detach are kept for another run, and are not mixed up with those of
// questions with the same content.
func TestAnotherRunFindsTheAnswersFromBeforeDetach(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		var runs atomic.Int64
		p, id := handover(t, w, server.TaskOptions{Replay: true},
			func(ctx context.Context) (string, error) {
				first, err := server.Elicit[nameForm](ctx, "Who?")
				if err != nil {
					return "", err
				}
				if err = server.Detach(ctx); err != nil {
					return "", err
				}
				run := runs.Add(1)
				second, err := server.Elicit[nameForm](ctx, "Who?")
				return fmt.Sprintf("run %d: %s, %s", run, first.Name, second.Name), err
			}, server.Parked())
		must.CheckContains(t, p.finish(id, "Bob"), "run 2: Ada, Bob")
	})
}

// Server.Keys: replicas get a new key, in the order that the documentation describes, while tasks have ended,
// wait for answers, and are taken over.
func TestRotatedKeysFailNoTask(t *testing.T) {
	oldKey, newKey := make([]byte, 32), []byte(strings.Repeat("k", 32))
	onTaskWires(t, func(t *testing.T, w taskWire) {
		memory := store.NewMemory()
		replica := func(keys ...[]byte) *server.Server {
			s := quiet()
			s.Store, s.Keys = memory, keys
			server.AddTool(s, mcp.Tool{Name: "quick"}, nothing, server.AsTask(server.TaskOptions{}))
			server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, in nameForm) (string, error) {
				first, err := server.Elicit[nameForm](ctx, "Who?")
				if err != nil {
					return "", err
				}
				second, err := server.Elicit[nameForm](ctx, "Who else?")
				return fmt.Sprint(in.Name, first.Name, second.Name, strings.Repeat(" and more", 5000)), err
			}, server.AsTask(server.TaskOptions{Replay: true}))
			return s
		}
		first := replica(oldKey, newKey)
		p := w.connect(t, first)
		ended := p.create("quick").TaskID
		p.until(ended, mcp.TaskCompleted)
		before := p.get(ended).raw
		create := func() string {
			id := p.created(p.must(mcp.MethodCallTool, p.taskCall("job", `"name":"Ada"`))).TaskID
			p.until(id, mcp.TaskInputRequired)
			return id
		}
		running, orphan := create(), create()

		second := replica(newKey, oldKey)
		q := w.connect(t, second)
		must.CheckEqual(t, q.get(ended).raw, before)
		if got := q.finish(running, "Bob"); !strings.Contains(got, "AdaBobBob") { // runs on the first
			t.Errorf("%.200s", got)
		}
		p.close()
		shutdownNow(t, first)
		must.CheckContains(t, q.finish(orphan, "Eve"), "AdaEveEve")
		got := q.get(running)
		must.CheckEqual(t, got.Status, mcp.TaskCompleted, got.raw)
		third := replica(newKey)
		if got := w.connect(t, third).get(orphan); got.Status != mcp.TaskCompleted {
			t.Errorf("with the new key only: %.200s", got.raw)
		}
	})
}
