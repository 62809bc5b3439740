package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// payServer returns a server whose tool requires the user to open a URL until paid reports true. Runs
// counts the runs of its handler.
func payServer(paid func(run int64) bool, u call.RequiredURL, options ...server.ToolOption) (s *server.Server, runs *atomic.Int64) {
	s, runs = pollable(), new(atomic.Int64)
	u.URL, u.Message = "https://pay.example/1", "Pay"
	server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
		run := runs.Add(1)
		who, err := server.Elicit[nameForm](ctx, "Who?")
		if err != nil {
			return "", err
		}
		if !paid(run) {
			return "", &call.URLRequiredError{URLs: []call.RequiredURL{u}}
		}
		return "paid by " + who.Name, nil
	}, options...)
	return s, runs
}

// pollable returns a server that payTask polls without a pause.
func pollable() *server.Server {
	s := quiet()
	s.Limits.CallsPerSecond, s.Limits.CallBurst = 1e9, 1e9
	return s
}

// payTask starts the tool as a task, answers its questions, and returns the outcome and the number of
// forms and of URLs.
func payTask(p *taskPeer, action string) (outcome string, forms, urls int) {
	answer := func(params string) string {
		if strings.Contains(params, `"mode":"url"`) {
			urls++
			return fmt.Sprintf(`{"action":%q}`, action)
		}
		forms++
		return acceptName("Ada")
	}
	id := p.create("pay").TaskID
	if !p.revision.Modern() {
		p.answer = func(m *jsonrpc.Message) string { return answer(string(m.Params.Raw())) }
		return p.ask(mcp.MethodTaskResult, taskMembers(id)).raw, forms, urls
	}
	known := make(map[string]bool)
	for {
		s := p.get(id)
		for key, q := range s.InputRequests {
			if !known[key] {
				p.update(id, fmt.Sprintf(`{%q:%s}`, key, answer(string(q.Params))))
			}
			known[key] = true
		}
		if s.Status.Terminal() {
			return s.raw, forms, urls
		}
	}
}

// A handler that requires a URL runs again when the user has finished there. The task asks for it (both
// kinds of tasks: Input Required). 2026-07-28 has no error for it: -32042 is of 2025-11-25 only (basic,
// Error Codes), where a client would repeat the call, but cannot repeat a task.
func TestTaskAsksForTheURLsThatItsHandlerRequires(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		var polls atomic.Int64
		done := func(context.Context) (bool, error) { return polls.Add(1) >= 2, nil }
		s, runs := payServer(func(int64) bool { return polls.Load() >= 2 }, call.RequiredURL{Done: done}, server.AsTask(server.TaskOptions{}))
		outcome, forms, urls := payTask(w.connect(t, s), "accept")
		if !strings.Contains(outcome, "paid by Ada") || forms != 1 || urls != 1 || runs.Load() != 2 || polls.Load() != 2 {
			t.Errorf("%s: %d forms, %d URLs, %d runs, %d polls", outcome, forms, urls, runs.Load(), polls.Load())
		}
	})
}

func TestRequiredURLsOfATaskAreBounded(t *testing.T) {
	never := func(int64) bool { return false }
	for name, tc := range map[string]struct {
		url          call.RequiredURL
		action, want string
		urls         int
		runs         int64
	}{
		"the user is never done": {call.RequiredURL{}, "accept", "https://pay.example/1", 5, 6},
		"the user declines":      {call.RequiredURL{}, "decline", "the user declined to open https://pay.example/1", 1, 1},
		"the user dismisses it":  {call.RequiredURL{}, "cancel", "the user declined to open https://pay.example/1", 1, 1},
		"Done fails":             {call.RequiredURL{Done: func(context.Context) (bool, error) { return false, errors.New("hunter2") }}, "accept", "https://pay.example/1", 5, 6},
		"Done panics":            {call.RequiredURL{Done: func(context.Context) (bool, error) { panic("hunter2") }}, "accept", "https://pay.example/1", 5, 6},
	} {
		t.Run(name, func(t *testing.T) {
			onTaskWires(t, func(t *testing.T, w taskWire) {
				s, runs := payServer(never, tc.url, server.AsTask(server.TaskOptions{}))
				outcome, _, urls := payTask(w.connect(t, s), tc.action)
				if !strings.Contains(outcome, tc.want) || strings.Contains(outcome, "hunter2") || urls != tc.urls || runs.Load() != tc.runs {
					t.Errorf("%s: %d URLs, %d runs", outcome, urls, runs.Load())
				}
			})
		})
	}
	t.Run("the client cannot open URLs", func(t *testing.T) {
		onTaskWires(t, func(t *testing.T, w taskWire) {
			w.declared = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
			s, runs := payServer(never, call.RequiredURL{}, server.AsTask(server.TaskOptions{}))
			if outcome, _, urls := payTask(w.connect(t, s), "accept"); !strings.Contains(outcome, `"code":-32`) || urls != 0 || runs.Load() != 1 {
				t.Errorf("%s: %d URLs, %d runs", outcome, urls, runs.Load())
			}
		})
	})
}

// A handler that has called Detach runs again in its task.
func TestDetachedHandlerMayRequireAURL(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		for _, exit := range []bool{false, true} {
			s := pollable()
			var runs atomic.Int64
			server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
				run := runs.Add(1)
				if _, err := server.Detach(ctx); err != nil {
					return "", err
				}
				switch {
				case run == 1:
					return "", &call.URLRequiredError{URLs: []call.RequiredURL{{URL: "https://pay.example/1", Message: "Pay"}}}
				case exit:
					runtime.Goexit()
				}
				return "paid", nil
			}, server.AsTask(server.TaskOptions{AtDetach: true}))
			want := "paid"
			if exit {
				want = "failed unexpectedly"
			}
			if outcome, _, urls := payTask(w.connect(t, s), "accept"); !strings.Contains(outcome, want) || urls != 1 || runs.Load() != 2 {
				t.Errorf("%s: %d URLs, %d runs", outcome, urls, runs.Load())
			}
		}
	})
}

// The handler of a parked call runs again, too.
func TestParkedCallMayRequireAURL(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, runs := payServer(func(run int64) bool { return run == 3 }, call.RequiredURL{}, server.Parked())
		p := w.connect(t, s)
		state, responses := "", "{}"
		for range 10 {
			r := p.must(mcp.MethodCallTool, `"name":"pay","inputResponses":`+responses+state)
			if strings.Contains(string(r), "paid by Ada") {
				if runs.Load() != 3 {
					t.Errorf("%d runs", runs.Load())
				}
				return
			}
			var required struct {
				InputRequests map[string]mcp.InputRequest
				RequestState  json.RawMessage
			}
			if err := json.Unmarshal(r, &required); err != nil || len(required.InputRequests) != 1 {
				t.Fatalf("%s: %v", r, err)
			}
			state = `,"requestState":` + string(required.RequestState)
			for key, q := range required.InputRequests {
				answer := acceptName("Ada")
				if strings.Contains(string(q.Params), `"mode":"url"`) {
					answer = `{"action":"accept"}`
				}
				responses = fmt.Sprintf(`{%q:%s}`, key, answer)
			}
		}
		t.Error("the call has no result")
	})
}
