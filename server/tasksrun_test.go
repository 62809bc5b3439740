package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
		if result, _ := p.outcome(id, mcp.TaskCompleted); !strings.Contains(string(result), "well done") {
			t.Errorf("%s", result)
		}
		<-j.ctx.Done() // the end of the handler
	})
}

// Tasks extension, Task Creation: the server MUST NOT return CreateTaskResult until tasks/get resolves. The
// handler does not run before either.
func TestTaskIsStoredBeforeTheResponse(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			s, jobs := taskServer()
			slow := &slowStore{Memory: store.NewMemory(store.MemoryOptions{}), proceed: make(chan error)}
			s.KV, s.Log = slow, slow.Memory
			p := taskWire{revision: r}.connect(t, s)
			synctest.Wait()
			slow.holds.Store(true)
			created := p.start(mcp.MethodCallTool, p.taskCall("work", ""))
			synctest.Wait()
			if len(created) != 0 || len(jobs) != 0 {
				t.Errorf("%s: %d responses and %d handlers before the task is stored", r, len(created), len(jobs))
			}
			slow.holds.Store(false)
			slow.proceed <- nil
			p.get(p.created(p.await(created).result).TaskID)
			(<-jobs).finish <- ""

			slow.holds.Store(true)
			created = p.start(mcp.MethodCallTool, p.taskCall("work", ""))
			synctest.Wait()
			slow.holds.Store(false)
			slow.proceed <- errors.New("disk full")
			if reply := p.await(created); reply.err == nil || reply.err.Code != jsonrpc.CodeInternalError {
				t.Errorf("%s: %s", r, reply.raw)
			}
			synctest.Wait()
			if len(jobs) != 0 {
				t.Errorf("%s: a task that is not stored runs", r)
			}
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
			late := &lateStore{Memory: store.NewMemory(store.MemoryOptions{}), stored: make(chan struct{}), proceed: make(chan struct{})}
			s.KV, s.Log = late, late.Memory
			p := taskWire{revision: r}.connect(t, s)
			created := p.start(mcp.MethodCallTool, p.taskCall("work", ""))
			<-late.stored
			p.send(message(r, 0, mcp.NotificationCancelled, `"requestId":1`), "", "")
			synctest.Wait()
			close(late.proceed)
			synctest.Wait()
			select {
			case j := <-jobs:
				if j.ctx.Err() == nil {
					t.Errorf("%s: the task runs", r)
				}
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

// lateStore is a store whose first Put of a task returns late.
type lateStore struct {
	*store.Memory
	once            sync.Once
	stored, proceed chan struct{}
}

func (s *lateStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	version, err := s.Memory.Put(ctx, key, value, opt)
	if strings.Contains(key, "task/") {
		s.once.Do(func() {
			close(s.stored)
			<-s.proceed
		})
	}
	return version, err
}

// slowStore is a store whose Put waits while holds is set.
type slowStore struct {
	*store.Memory
	holds   atomic.Bool
	proceed chan error
}

func (s *slowStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if s.holds.Load() && strings.Contains(key, "task/") {
		select {
		case err := <-s.proceed:
			if err != nil {
				return 0, err
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return s.Memory.Put(ctx, key, value, opt)
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
			if !strings.Contains(task.raw, `"pollInterval`) || !strings.Contains(task.raw, `:3000`) || !strings.Contains(task.raw, `:3600000`) {
				t.Errorf("%s: %s", r, task.raw)
			}
			time.Sleep(time.Minute - time.Second)
			p.until(task.TaskID, mcp.TaskWorking)
			time.Sleep(2 * time.Second)
			if err := <-cause; err == nil || !strings.Contains(err.Error(), "in time") {
				t.Errorf("%s: %v", r, err)
			}
			_, err := p.outcome(task.TaskID, mcp.TaskFailed)
			if err == nil || err.Code != jsonrpc.CodeInternalError || !strings.Contains(err.Message, "1m0s") {
				t.Errorf("%s: %v", r, err)
			}
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
		if r := p.ask(mcp.MethodTaskResult, taskMembers(id)); r.err == nil {
			t.Errorf("%s", r.raw)
		}
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
			if !strings.Contains(raw, allowed) && !strings.Contains(raw, mcp.NotificationTaskStatus) && !strings.Contains(raw, "acknowledged") {
				t.Errorf("%s", raw)
			}
		}
	})
}

// The status message of a running task is the last text.
func TestStatusMessageOfARunningTask(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s := quiet()
		server.AddTool(s, mcp.Tool{Name: "report"}, func(ctx context.Context, _ struct{}) (string, error) {
			err := server.Progress(ctx, 1, 2, "half of it")
			<-ctx.Done()
			return "", err
		}, server.AsTask(server.TaskOptions{}))
		p := w.connect(t, s)
		id := p.create("report").TaskID
		eventually(t, func() bool { return p.get(id).StatusMessage == "half of it" })
	})
}

// AsTask may be used for tools that are registered while the server serves.
func TestToolCanBecomeATaskWhileServing(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s := quiet()
		server.AddTool(s, newTool("plain"), nothing)
		p := w.connect(t, s)
		p.wantError(mcp.MethodGetTask, taskMembers("unknown"), jsonrpc.CodeMethodNotFound, "")
		server.AddTool(s, newTool("job"), nothing, server.AsTask(server.TaskOptions{}))
		id := p.create("job").TaskID
		p.outcome(id, mcp.TaskCompleted)
		s.RemoveTool("job")
		p.outcome(id, mcp.TaskCompleted)
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
		if got := panicOf(func() {
			server.AddTool(quiet(), newTool("job"), nothing, server.AsTask(o))
		}); !strings.Contains(got, text) {
			t.Errorf("%+v: %q, want %q", o, got, text)
		}
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
		if cause := context.Cause(second.ctx); !strings.Contains(fmt.Sprint(cause), "stopping") {
			t.Errorf("cause %v", cause)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// Protocol Errors of both kinds: internal errors are -32603.
func TestRequestsAboutTasksCanBeRepeatedWhenTheStoreHasFailed(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		broken := &brokenStore{Memory: store.NewMemory(store.MemoryOptions{})}
		s.KV, s.Log = broken, broken.Memory
		p := w.connect(t, s)
		id := p.create("work").TaskID
		broken.fails.Store(true)
		methods := []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult}
		if w.revision.Modern() {
			methods = []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodUpdateTask}
		}
		for _, method := range methods {
			r := p.ask(method, taskMembers(id)+`,"inputResponses":{}`)
			if r.err == nil || r.err.Code != jsonrpc.CodeInternalError || !strings.Contains(r.raw, `"retryAfterMs":2000`) || w.http && r.status != http.StatusServiceUnavailable || strings.Contains(r.raw, "disk") {
				t.Errorf("%s: %s", method, r.raw)
			}
		}
		broken.fails.Store(false)
		if s := p.get(id); s.Status != mcp.TaskWorking {
			t.Errorf("%s", s.raw)
		}
	})
}

// brokenStore is a store that cannot read tasks while fails is set.
type brokenStore struct {
	*store.Memory
	fails atomic.Bool
}

func (s *brokenStore) Get(ctx context.Context, key string) (store.Item, error) {
	if s.fails.Load() && strings.Contains(key, "task/") {
		return store.Item{}, errors.New("disk broken")
	}
	return s.Memory.Get(ctx, key)
}

func TestForbiddenToolsDoNotRunAsTasks(t *testing.T) {
	s := quiet()
	server.AddTool(s, newTool("job"), nothing, server.AsTask(server.TaskOptions{Support: mcp.TaskForbidden}))
	server.AddTool(s, newTool("other"), nothing, server.AsTask(server.TaskOptions{}))
	w := connect(t, s)
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
	if got := w.Receive(); !strings.Contains(got, `"resultType":"complete"`) {
		t.Error(got)
	}
	w = connect(t, s)
	w.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`)
	w.Receive()
	w.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if got := w.Receive(); !strings.Contains(got, `"taskSupport":"forbidden"`) {
		t.Error(got)
	}
	w.Send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`)
	if got := w.Receive(); !strings.Contains(got, `"code":-32601`) {
		t.Error(got)
	}
}

// An id of any length that is not that of a task is unknown, also if the store has no such keys.
func TestLongTaskIDsAreUnknown(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		methods := []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult}
		if w.revision.Modern() {
			methods = []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodUpdateTask}
		}
		for _, n := range []int{257, store.MaxKey, 3 * store.MaxKey} {
			for _, method := range methods {
				r := p.ask(method, taskMembers(strings.Repeat("x", n))+`,"inputResponses":{}`)
				if r.err == nil || r.err.Code != jsonrpc.CodeInvalidParams {
					t.Errorf("%s with %d bytes: %.200s", method, n, r.raw)
				}
			}
		}
	})
}
