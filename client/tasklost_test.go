package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A task outlives connections.

func TestWaitSurvivesLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := taskServer(state("working", ""), state("working", ""), "!close")
		dead := &script{Answers: answers("server/discover", "!close"), Otherwise: "!close"}
		last := taskServer(state("working", ""), state("completed", outcome))
		c, out := dialTask(t, nil, first, dead, dead, dead, dead, last)
		wantCalled(t, c, "a")
		out.wants(t, "tools/call", 1)
	})
}

// The responses to input requests are sent again after a lost connection. The user is not asked again.
func TestAnswersSurviveLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := taskServer(needs("a"))
		first.Answers["tasks/update"] = []string{"!close"}
		asked := make(chan string, 100)
		c, out := dialTask(t, slowly(0, asked), first, taskServer(needs("a"), needs("a"), state("completed", outcome)))
		wantCalled(t, c, "x")
		got := questions(asked)
		must.CheckEqual(t, len(got), 1, "the user was asked", got)
		if got := out.of("tasks/update"); len(got) != 2 || got[0] != got[1] {
			t.Errorf("tasks/update %q", got)
		}
	})
}

func TestTemporaryErrorsDoNotEndTheWait(t *testing.T) {
	for name, temporary := range map[string]string{
		"internal error": `"error":{"code":-32603,"message":"the store is down"}`,
		"overload":       `"error":{"code":-32603,"message":"later","data":{"retryAfterMs":7000}}`,
		"no response":    ``,
	} {
		inBubble(t, name, func(t *testing.T) {
			c, _ := dialTask(t, nil, taskServer(temporary, temporary, state("working", ""), temporary,
				state("completed", outcome)))
			start := time.Now()
			text := must.Get(client.CallTool[string](t.Context(), c, "a", nil, client.WithTimeout(2*time.Minute)))(t)
			must.CheckEqual(t, text, "called")
			if took := time.Since(start); name == "overload" && took < 21*time.Second {
				t.Errorf("the client did not wait as the server asked: %v", took)
			}
		})
	}
}

func TestPermanentErrorsEndTheWait(t *testing.T) {
	for name, permanent := range map[string]string{
		"method not found":   methodNotFound,
		"missing capability": `"error":{"code":-32021,"message":"no"}`,
		"invalid":            `"result":{"resultType":"surprise"}`,
	} {
		inBubble(t, name, func(t *testing.T) {
			c, out := dialTask(t, nil, taskServer(permanent))
			var unknown *client.TaskError
			_, err := c.CallTool(t.Context(), "a", nil)
			must.CheckThat(t, errors.As(err, &unknown), "%v, want a TaskError", err)
			out.wants(t, "tasks/get", 1)
		})
	}
}

// A server that cannot be reached ends the wait after the time-out.
func TestWaitForUnreachableServerIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		options []client.CallOption
		limit   time.Duration
	}{
		"default":     {nil, time.Minute},
		"WithTimeout": {[]client.CallOption{client.WithTimeout(10 * time.Second)}, 10 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			dead := &script{Answers: answers("server/discover", "!close"), Otherwise: "!close"}
			c, _ := dialTask(t, nil, taskServer("!close"), dead)
			task := must.Get(c.StartTool(t.Context(), "a", nil, tc.options...))(t)
			start := time.Now()
			_, err := task.Wait(t.Context())
			var unknown *client.TaskError
			must.CheckThat(t, errors.Is(err, call.ErrConnectionLost) && errors.As(err, &unknown) && unknown.ID == "t",
				"%v", err)
			if took := time.Since(start); took < tc.limit/4 || took > tc.limit+2*time.Second {
				t.Errorf("the wait took %v, the limit is %v", took, tc.limit)
			}
		})
	}
}

// idOf returns the id of the request in the body.
func idOf(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.Parse(body, jsonrpc.Limits{})
	return m.ID.String()
}

// Over HTTP a proxy may answer for a server that is being replaced.
func TestWaitSurvivesErrorsOfProxies(t *testing.T) {
	var polls, broken atomic.Int32
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(members string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + idOf(r) + `,` + members + `}`))
		}
		switch method := r.Header.Get("Mcp-Method"); {
		case method == mcp.MethodDiscover:
			answer(discovered)
		case method == mcp.MethodCallTool:
			answer(created(working + `,"pollIntervalMs":1`))
		case strings.HasPrefix(method, "tasks/") && r.Header.Get("Mcp-Name") != "t":
			broken.Add(1)
		case method == mcp.MethodGetTask && polls.Add(1) == 1:
			w.WriteHeader(http.StatusBadGateway)
		case method == mcp.MethodGetTask:
			answer(state("completed", outcome))
		}
	}))
	defer endpoint.Close()
	d := quiet()
	c := must.Get(d.Dial(t.Context(), client.URL(endpoint.URL)))(t)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	must.CheckEqual(t, must.Get(client.CallTool[string](ctx, c, "a", nil))(t), "called")
	must.CheckEqual(t, polls.Load(), 2)
	must.CheckEqual(t, broken.Load(), 0)
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		rejecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
		}))
		d.Discovery = &client.Discovery{Target: rejecting.URL, Revision: mcp.V20260728}
		c := must.Get(d.Dial(t.Context(), client.URL(rejecting.URL)))(t)
		task := must.Get(c.Task("t"))(t)
		var rejected *call.StatusError
		_, err := task.Wait(ctx)
		must.CheckThat(t, errors.As(err, &rejected) && ctx.Err() == nil, "status %d: %v", status, err)
		_ = c.Close()
		rejecting.Close()
	}
}

// records is a TaskStore in memory.
type records struct {
	mu   sync.Mutex
	log  []string
	fail error
}

func (r *records) SaveTask(_ context.Context, record client.TaskRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, "save "+record.Server+" "+record.ID+" "+record.Tool)
	return r.fail
}

func (r *records) DeleteTask(_ context.Context, record client.TaskRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, "delete "+record.Server+" "+record.ID+" "+record.Tool)
	return r.fail
}

func (r *records) dialer(d *client.Dialer) { d.Tasks = r }

// A task whose outcome is unknown remains in the store.
func TestTasksAreSavedUntilTheyEnd(t *testing.T) {
	for name, last := range map[string]string{
		"completed": state("completed", outcome), "failed": state("failed", `"error":{"code":1,"message":"x"}`),
		"cancelled": state("cancelled", ""), "forgotten": forgotten, "the outcome is unknown": methodNotFound,
	} {
		inBubble(t, name, func(t *testing.T) {
			var r records
			c, _ := dialTask(t, r.dialer, taskServer(state("working", ""), last))
			task := must.Get(c.StartTool(t.Context(), "a", nil))(t)
			want := []string{"save memory t a"}
			must.CheckThat(t, slices.Equal(r.log, want), "%q, want %q", r.log, want)
			_, _ = task.Wait(t.Context())
			if last != methodNotFound {
				want = append(want, "delete memory t a")
			}
			must.CheckThat(t, slices.Equal(r.log, want), "%q, want %q", r.log, want)
		})
	}
}

func TestTaskThatCannotBeSavedIsCancelled(t *testing.T) {
	r := records{fail: errors.New("the disk is full")}
	c, out := dialTask(t, r.dialer, taskServer())
	_, err := c.StartTool(t.Context(), "a", nil)
	var unknown *client.TaskError
	must.CheckThat(t, errors.Is(err, r.fail) && errors.As(err, &unknown) && unknown.ID == "t", "%v", err)
	out.wants(t, "tasks/cancel", 1)
}

// The outcome matters more than an error of the store.
func TestOutcomeIsReturnedIfTheRecordCannotBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := records{fail: errors.New("the disk is full")}
		c, _ := dialTask(t, r.dialer, taskServer(state("completed", outcome)))
		task := must.Get(c.Task("t"))(t)
		must.Check(t, must.Err(task.Wait(t.Context())))
		want := []string{"delete memory t "}
		must.CheckThat(t, slices.Equal(r.log, want), "%q, want %q", r.log, want)
	})
}

// A program may learn from any request that a task no longer exists.
func TestTaskThatDoesNotExistIsDeleted(t *testing.T) {
	for name, request := range map[string]func(*client.Task, context.Context) error{
		"get":    func(task *client.Task, ctx context.Context) error { _, err := task.Get(ctx); return err },
		"cancel": (*client.Task).Cancel,
		"wait":   func(task *client.Task, ctx context.Context) error { _, err := task.Wait(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var r records
			s := taskServer(forgotten)
			s.Answers["tasks/cancel"] = []string{forgotten}
			c, _ := dialTask(t, r.dialer, s)
			task := must.Get(c.Task("t"))(t)
			must.CheckIs(t, request(task, t.Context()), client.ErrTaskNotFound)
			want := []string{"delete memory t "}
			must.CheckThat(t, slices.Equal(r.log, want), "%q, want %q", r.log, want)
		})
	}
}

func TestTaskThatServerCannotCancelRemainsSaved(t *testing.T) {
	var r records
	s := taskServer(state("working", ""))
	s.Answers["tasks/cancel"] = []string{methodNotFound}
	c, _ := dialTask(t, r.dialer, s)
	task := must.Get(c.Task("t"))(t)
	err := task.Cancel(t.Context())
	must.CheckThat(t, err != nil, "no error")
	must.Check(t, must.Err(task.Get(t.Context())))
	must.CheckThat(t, r.log == nil, "%q, want nothing", r.log)
}
