package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
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
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

const payHere = "https://pay.example/bill"

// till is the page where users pay after some time.
type till struct {
	mu       sync.Mutex
	asked    []mcp.ElicitParams
	paid     atomic.Bool
	runs     atomic.Int32 // of the handler
	complete []string     // ids in notifications/elicitation/complete
}

// ask answers for the user, who agrees at first, and pays after some time.
func (p *till) ask(after time.Duration) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.asked = append(p.asked, *params); len(p.asked) == 1 && after > 0 {
			time.AfterFunc(after, func() { p.paid.Store(true) })
		}
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
}

func (p *till) done(context.Context) (bool, error) { return p.paid.Load(), nil }

// trace records the notifications that the client receives.
func (p *till) trace(_ bool, raw []byte) {
	if m, err := jsonrpc.Parse(raw, jsonrpc.Limits{}); err == nil && m.Method == mcp.NotificationElicitationComplete {
		id, _ := m.Params.Get("elicitationId")
		p.mu.Lock()
		defer p.mu.Unlock()
		p.complete = append(p.complete, jsonrpc.Unquote(id))
	}
}

// serve returns a server with a tool that calls f and then reports progress.
func (p *till) serve(f func(context.Context) error) *server.Server {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddTool(s, mcp.Tool{Name: "buy"}, func(ctx context.Context, _ struct{}) (string, error) {
		p.runs.Add(1)
		if err := f(ctx); err != nil {
			return "", err
		}
		return "bought", server.Progress(ctx, 1, 1, "")
	})
	return s
}

// inBothWays runs f in the two revisions that have URL elicitation.
func inBothWays(t *testing.T, f func(t *testing.T, r mcp.Revision)) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		t.Run(string(r), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, r) }) })
	}
}

// buy calls the tool. A nil ask is a client without elicitation.
func (p *till) buy(t *testing.T, r mcp.Revision, s *server.Server,
	ask func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)) (string, error) {
	t.Helper()
	c := mcptest.Dial(t, s, mcptest.WithRevision(r), func(d *client.Dialer) { d.ElicitURL, d.Trace = ask, p.trace })
	reported := 0
	text, err := client.CallTool[string](t.Context(), c, "buy", nil,
		client.WithProgress(func(float64, float64, string) { reported++ }))
	must.CheckThat(t, err != nil || reported == 1, "progress was reported %d times", reported)
	return text, err
}

// The user takes longer at the URL than the client waits for a call.
func TestElicitURLWaitsUntilTheUserIsDone(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		var p till
		took, asks := 3*time.Minute, 1
		if r.Modern() {
			took, asks = 45*time.Second, 3 // the question is repeated every 20 seconds
		}
		s := p.serve(func(ctx context.Context) error { return server.ElicitURL(ctx, payHere, "Pay", p.done) })
		start := time.Now()
		text, err := p.buy(t, r, s, p.ask(took))
		must.CheckThat(t, err == nil && text == "bought" && len(p.asked) == asks,
			"%q, %v after %d asks", text, err, len(p.asked))
		waited := time.Since(start)
		must.CheckThat(t, waited >= took && waited <= took+6*time.Second, "it took %v", waited)
		if r.Modern() {
			must.CheckEqual(t, p.asked[0].ElicitationID, "", p.asked, p.complete)
			must.CheckEqual(t, len(p.complete), 0, p.asked, p.complete)
			return
		}
		if id := p.asked[0].ElicitationID; len(id) < 26 || len(p.complete) != 1 || p.complete[0] != id {
			t.Errorf("the client was notified of %q for %q", id, p.complete)
		}
	})
}

func TestElicitURLEndsWhenTheUserDoesNotFinish(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		for _, within := range []time.Duration{0, 2 * time.Second, 8 * time.Minute} {
			var p till
			s := p.serve(func(ctx context.Context) error {
				err := server.ElicitURL(ctx, payHere, "Pay", p.done, server.Within(within), server.Keyed("bill"))
				must.CheckThat(t, ctx.Err() != nil || errors.Is(err, server.ErrUnfinished), "it says %v", err)
				return err
			})
			c := mcptest.Dial(t, s, mcptest.WithRevision(r), func(d *client.Dialer) {
				d.ElicitURL, d.Timeouts.URLElicitation = p.ask(0), 10*time.Minute
			})
			start := time.Now()
			_, err := client.CallTool[string](t.Context(), c, "buy", nil)
			var failed *client.ToolError
			must.CheckThat(t, errors.As(err, &failed) && strings.Contains(err.Error(), server.ErrUnfinished.Error()),
				"got %v", err)
			want, asks := within, 1
			if within == 0 {
				want = 5 * time.Minute
			}
			if r.Modern() {
				want, asks = 5*min(want, 20*time.Second), 5
			}
			if took := time.Since(start); took < want || took > want+time.Second || len(p.asked) != asks {
				t.Errorf("within %v: it took %v and %d asks", within, took, len(p.asked))
			}
		}
	})
}

func TestABlockingDoneIsCalledOnce(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		var p till
		paid := make(chan struct{})
		var calls atomic.Int32
		s := p.serve(func(ctx context.Context) error {
			return server.ElicitURL(ctx, payHere, "Pay", func(ctx context.Context) (bool, error) {
				calls.Add(1)
				select {
				case <-paid:
					return true, nil
				case <-ctx.Done():
					return false, ctx.Err()
				}
			})
		})
		text, err := p.buy(t, r, s, func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			time.AfterFunc(10*time.Second, func() { close(paid) })
			return p.ask(0)(ctx, params)
		})
		must.CheckThat(t, err == nil && text == "bought" && len(p.asked) == 1 && calls.Load() == 2,
			"%q, %v after %d asks and %d calls of done", text, err, len(p.asked), calls.Load())
	})
}

func TestElicitURLDoesNotAskAUserWhoHasFinished(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		var p till
		p.paid.Store(true)
		s := p.serve(func(ctx context.Context) error {
			return server.ElicitURL(ctx, payHere, "Pay", p.done)
		})
		text, err := p.buy(t, r, s, p.ask(0))
		must.CheckThat(t, err == nil && text == "bought" && len(p.asked) == 0 && len(p.complete) == 0,
			"%q, %v after %d asks", text, err, len(p.asked))
	})
}

// Without a done function, ElicitURL returns when the user agrees.
func TestElicitURLWithoutDoneEndsWithConsent(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		var p till
		s := p.serve(func(ctx context.Context) error { return server.ElicitURL(ctx, payHere, "Pay", nil) })
		text, err := p.buy(t, r, s, p.ask(0))
		must.CheckThat(t, err == nil && text == "bought" && len(p.asked) == 1 && len(p.complete) == 0,
			"%q, %v after %d asks", text, err, len(p.asked))
	})
}

func TestUsersCanDeclineAURL(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		for action, want := range map[mcp.ElicitAction]error{mcp.ElicitDecline: server.ErrDeclined,
			mcp.ElicitCancel: server.ErrDismissed} {
			var p till
			s := p.serve(func(ctx context.Context) error { return server.ElicitURL(ctx, payHere, "Pay", p.done) })
			_, err := p.buy(t, r, s, func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				p.asked = append(p.asked, mcp.ElicitParams{})
				if r.Modern() && len(p.asked) == 1 { // the user declines the second time
					return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
				}
				return &mcp.ElicitResult{Action: action}, nil
			})
			must.CheckFails(t, err, want.Error())
		}
	})
}

func TestElicitURLReturnsTheErrorOfDone(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		var p till
		s := p.serve(func(ctx context.Context) error {
			return server.ElicitURL(ctx, payHere, "Pay", func(context.Context) (bool, error) {
				if len(p.asked) > 0 {
					return false, errors.New("the bank is closed")
				}
				return false, nil
			})
		})
		must.CheckFails(t, must.Err(p.buy(t, r, s, p.ask(0))), "the bank is closed")
	})
}

// Rule J10: the error URLElicitationRequired exists in 2025-11-25 only.
func TestCallsAreRejectedUntilTheUserHasOpenedAURL(t *testing.T) {
	for name, notifies := range map[string]bool{"notified": true, "not notified": false} {
		t.Run(name, func(t *testing.T) {
			inBothWays(t, func(t *testing.T, r mcp.Revision) {
				var p till
				var rejected atomic.Int32
				c := mcptest.Dial(t, p.serve(func(context.Context) error {
					if p.paid.Load() {
						return nil
					}
					bill := call.RequiredURL{URL: payHere, Message: "Pay"}
					if notifies {
						bill.Done = p.done
					}
					return fmt.Errorf("not yet: %w", &call.URLRequiredError{URLs: []call.RequiredURL{bill}})
				}), mcptest.WithRevision(r), func(d *client.Dialer) {
					d.ElicitURL = func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
						time.Sleep(600 * time.Millisecond) // the user takes a moment before agreeing
						return p.ask(time.Second)(ctx, params)
					}
					d.Timeouts.URLElicitation = time.Minute
					d.Trace = func(_ bool, raw []byte) {
						if m, err := jsonrpc.Parse(raw, jsonrpc.Limits{}); err == nil && m.Err != nil &&
							m.Err.Code == mcp.CodeURLElicitationRequired {
							rejected.Add(1)
						}
					}
				})
				must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "buy", nil))(t), "bought")
				must.CheckEqual(t, rejected.Load(), map[bool]int32{true: 0, false: 1}[r.Modern()])
			})
		})
	}
}

// A client without URL elicitation gets an error that names the URL or the missing capability.
func TestRequiredURLsOfClientsWithoutURLElicitation(t *testing.T) {
	var p till
	s := p.serve(func(context.Context) error {
		return &call.URLRequiredError{URLs: []call.RequiredURL{{URL: payHere, Message: "Pay"}}}
	})
	server.AddPrompt(s, mcp.Prompt{Name: "bill"}, func(context.Context, struct{}) (string, error) {
		return "", &call.URLRequiredError{URLs: []call.RequiredURL{{URL: payHere, Message: "Pay"}}}
	})
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		_, err := client.CallTool[string](t.Context(), c, "buy", nil)
		var reported *jsonrpc.Error
		var failed *client.ToolError
		switch {
		case r.Modern():
			must.CheckThat(t, errors.As(err, &reported) && reported.Code == mcp.CodeMissingCapability, "%s: %v", r, err)
		case r == mcp.V20251125:
			must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidRequest &&
				strings.Contains(err.Error(), `"url"`), "%s: %v", r, err)
		default:
			must.CheckThat(t, errors.As(err, &failed) && strings.Contains(err.Error(), payHere), "%s: %v", r, err)
			_, err := c.GetPrompt(t.Context(), "bill", nil)
			must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidRequest &&
				strings.Contains(err.Error(), payHere), "%s: %v", r, err)
		}
	}
}

// A user who declines the URL ends the call with the error of the server.
func TestADeclinedRequiredURLIsNotRetried(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		var p till
		s := p.serve(func(ctx context.Context) error {
			return &call.URLRequiredError{URLs: []call.RequiredURL{{URL: payHere, Message: "Pay"},
				{URL: payHere + "/2", Message: "Pay more", ID: "more"}}}
		})
		_, err := p.buy(t, r, s, func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			action := mcp.ElicitAccept
			if params.URL != payHere {
				action = mcp.ElicitDecline
			}
			return &mcp.ElicitResult{Action: action}, nil
		})
		var reported *jsonrpc.Error
		want := map[bool]int64{true: jsonrpc.CodeInvalidRequest, false: mcp.CodeURLElicitationRequired}[r.Modern()]
		must.That(t, errors.As(err, &reported) && reported.Code == want, "got %v", err)
		if r.Modern() {
			return
		}
		var data mcp.URLElicitationRequiredData
		if err := json.Unmarshal(reported.Data, &data); err != nil || len(data.Elicitations) != 2 ||
			data.Elicitations[1].ElicitationID != "more" || p.runs.Load() != 1 {
			t.Errorf("%s after %d runs, %v", reported.Data, p.runs.Load(), err)
		}
	})
}

// Rule Y5: unsafe URLs are rejected before the user sees them.
func TestUnsafeElicitationURLsAreRejected(t *testing.T) {
	inBothWays(t, func(t *testing.T, r mcp.Revision) {
		for _, address := range []string{"http://pay.example/", "https://user:secret@pay.example/",
			"javascript:alert(1)", "pay.example", ""} {
			var p till
			s := p.serve(func(ctx context.Context) error { return server.ElicitURL(ctx, address, "Pay", p.done) })
			_, err := p.buy(t, r, s, p.ask(0))
			must.CheckThat(t, err != nil && strings.Contains(err.Error(), "URL") && len(p.asked) == 0 &&
				!strings.Contains(err.Error(), "secret"), "%q: %v after %d asks", address, err, len(p.asked))
			s = p.serve(func(context.Context) error {
				return &call.URLRequiredError{URLs: []call.RequiredURL{{URL: address}}}
			})
			_, err = p.buy(t, r, s, p.ask(0))
			must.CheckThat(t, err != nil && len(p.asked) == 0 && !strings.Contains(err.Error(), "secret"),
				"%q: %v after %d asks", address, err, len(p.asked))
		}
	})
}

// payServer returns a server whose tool requires the user to open a URL until paid reports true. Runs
// counts the runs of its handler.
func payServer(paid func(run int64) bool, u call.RequiredURL,
	options ...server.Option) (s *server.Server, runs *atomic.Int64) {
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
	s.Limits.CallsPerSecond = 1e9
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
		s, runs := payServer(func(int64) bool {
			return polls.Load() >= 2
		}, call.RequiredURL{Done: done}, server.AsTask(server.TaskOptions{}))
		outcome, forms, urls := payTask(w.connect(t, s), "accept")
		if !strings.Contains(outcome, "paid by Ada") || forms != 1 || urls != 1 || runs.Load() != 2 ||
			polls.Load() != 2 {
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
		"the user declines": {call.RequiredURL{}, "decline", "the user declined to open https://pay.example/1", 1,
			1},
		"the user dismisses it": {call.RequiredURL{}, "cancel", "the user declined to open https://pay.example/1", 1,
			1},
		"Done fails": {call.RequiredURL{Done: func(context.Context) (bool, error) {
			return false, errors.New("hunter2")
		}}, "accept", "https://pay.example/1", 5, 6},
		"Done panics": {call.RequiredURL{Done: func(context.Context) (bool, error) {
			panic("hunter2")
		}}, "accept", "https://pay.example/1", 5, 6},
	} {
		t.Run(name, func(t *testing.T) {
			onTaskWires(t, func(t *testing.T, w taskWire) {
				s, runs := payServer(never, tc.url, server.AsTask(server.TaskOptions{}))
				outcome, _, urls := payTask(w.connect(t, s), tc.action)
				if !strings.Contains(outcome, tc.want) || strings.Contains(outcome, "hunter2") || urls != tc.urls ||
					runs.Load() != tc.runs {
					t.Errorf("%s: %d URLs, %d runs", outcome, urls, runs.Load())
				}
			})
		})
	}
	t.Run("the client cannot open URLs", func(t *testing.T) {
		onTaskWires(t, func(t *testing.T, w taskWire) {
			w.declared = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
			s, runs := payServer(never, call.RequiredURL{}, server.AsTask(server.TaskOptions{}))
			if outcome, _, urls := payTask(w.connect(t, s), "accept"); !strings.Contains(outcome, `"code":-32`) ||
				urls != 0 || runs.Load() != 1 {
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
				if err := server.Detach(ctx); err != nil {
					return "", err
				}
				switch {
				case run == 1:
					return "", &call.URLRequiredError{URLs: []call.RequiredURL{{URL: "https://pay.example/1",
						Message: "Pay"}}}
				case exit:
					runtime.Goexit()
				}
				return "paid", nil
			}, server.AsTask(server.TaskOptions{}), server.Parked())
			want := "paid"
			if exit {
				want = "failed unexpectedly"
			}
			outcome, _, urls := payTask(w.connect(t, s), "accept")
			must.CheckThat(t, strings.Contains(outcome, want) && urls == 1 && runs.Load() == 2,
				"%s: %d URLs, %d runs", outcome, urls, runs.Load())
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
				must.CheckEqual(t, runs.Load(), 3)
				return
			}
			var required struct {
				InputRequests map[string]mcp.InputRequest
				RequestState  json.RawMessage
			}
			err := json.Unmarshal(r, &required)
			must.That(t, err == nil && len(required.InputRequests) == 1, "%s: %v", r, err)
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
