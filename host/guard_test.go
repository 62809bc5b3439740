package host_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

type note struct {
	Text string `json:"text,omitempty"`
}

// counted is a server that counts what reaches its handlers.
type counted struct {
	*server.Server
	calls atomic.Int32
	last  atomic.Value // the text of the last call of write
}

func newCounted() *counted {
	c := &counted{Server: &server.Server{Name: "counted", Instructions: "Be careful."}}
	server.AddTool(c.Server, mcp.Tool{Name: "write", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, in note) (string, error) {
			c.calls.Add(1)
			c.last.Store(in.Text)
			return "wrote " + in.Text, nil
		})
	server.AddTool(c.Server, mcp.Tool{Name: "fail"}, func(context.Context, none) (string, error) {
		c.calls.Add(1)
		return "", errors.New("failed")
	})
	server.AddPrompt(c.Server, mcp.Prompt{Name: "hint"}, func(_ context.Context, in note) (string, error) {
		c.calls.Add(1)
		return "hint", nil
	})
	server.AddStatic(c.Server, mcp.Resource{URI: "lib://a", Name: "a"}, "a")
	return c
}

// log is an audit log in memory.
type log struct {
	mu      sync.Mutex
	records []string // each contains the event, the name that it is about, the approval, the outcome and the error
}

func (l *log) write(_ context.Context, r map[string]any) error {
	text := fmt.Sprint(r["event"], " ", cmp.Or(r["name"], ""))
	for _, key := range []string{"approval", "outcome", "error"} {
		if more := r[key]; more != nil {
			text += fmt.Sprint(", ", more)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, text)
	return nil
}

// handler returns the log for Host.Audit.
func (l *log) handler() gatewaytest.Audit { return l.write }

// take returns the records since the last call.
func (l *log) take() (events []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, l.records = l.records, nil
	return events
}

func (l *log) want(t *testing.T, events ...string) {
	t.Helper()
	if got := l.take(); !slices.Equal(got, events) {
		t.Errorf("the audit log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(events, "\n"))
	}
}

// await waits until the log contains these events, in any order, and removes them all.
func (l *log) await(t *testing.T, events ...string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var got []string
	for {
		got = append(got, l.take()...)
		if !slices.ContainsFunc(events, func(event string) bool { return !slices.Contains(got, event) }) {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("the audit log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(events, "\n"))
		}
	}
}

// policyFunc is a function that serves as Policy.
type policyFunc func(context.Context, *host.Request) (host.Decision, error)

func (f policyFunc) Decide(ctx context.Context, r *host.Request) (host.Decision, error) {
	return f(ctx, r)
}

// always returns a policy with one decision.
func always(a host.Action) host.Policy { return host.Rules{Default: a, Version: "1"} }

func wantDenied(t *testing.T, err error, reason string) {
	t.Helper()
	var denied *host.DeniedError
	must.CheckThat(t, errors.As(err, &denied) && strings.Contains(err.Error(), reason),
		"the error is %v, want a *DeniedError with %q", err, reason)
}

func TestDeniedRequestDoesNotReachTheServer(t *testing.T) {
	for name, policy := range map[string]host.Policy{
		"deny": always(host.Deny),
		"unknown action": policyFunc(func(context.Context, *host.Request) (host.Decision, error) {
			return host.Decision{Action: 7}, nil
		}),
		"error": policyFunc(func(context.Context, *host.Request) (host.Decision, error) {
			return host.Decision{Action: host.Allow}, errors.New("broken")
		}),
		"panic":            policyFunc(func(context.Context, *host.Request) (host.Decision, error) { panic("broken") }),
		"ask and no user":  always(host.Ask),
		"rules without it": host.Rules{Rules: []host.Rule{{Server: "other", Action: host.Allow}}},
	} {
		t.Run(name, func(t *testing.T) {
			up, audit := newCounted(), &log{}
			var messages atomic.Int32
			approve := func(context.Context, *host.Approval) (bool, error) { return true, nil } // must not be called
			if name == "ask and no user" {
				approve = nil
			}
			h := start(t, &host.Host{
				Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Policy: policy, Approve: approve,
				Audit: audit.handler(),
				Dialer: client.Dialer{Trace: func(sent bool, _ []byte) {
					if sent {
						messages.Add(1)
					}
				}},
			})
			await(t, h, "up", isReady)
			before := messages.Load()
			var errs [6]error
			_, errs[0] = h.Client("up").CallTool(t.Context(), "write", note{"x"})
			_, errs[1] = h.Call(t.Context(), "up__write", note{"x"})
			_, errs[2] = h.Client("up").GetPrompt(t.Context(), "hint", nil)
			_, errs[3] = h.Client("up").ReadResource(t.Context(), "lib://a")
			_, errs[4] = h.Client("up").Complete(t.Context(),
				mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: "hint"},
					Argument: mcp.CompleteArgument{Name: "text", Value: "a"}})
			subscribed, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			errs[5] = h.Client("up").Subscribe(subscribed, "lib://a", func() {})
			for _, err := range errs {
				wantDenied(t, err, "is denied: ")
			}
			if now := messages.Load(); up.calls.Load() != 0 || now != before {
				t.Errorf("%d calls and %d messages reached the server", up.calls.Load(), now-before)
			}
			events := audit.take()
			for i, want := range []string{"denied write", "denied write", "denied hint", "denied lib://a",
				"denied hint", "denied lib://a"} {
				if len(events) != 6 || !strings.HasPrefix(events[i], want+", ") {
					t.Fatalf("the audit log has\n%s", strings.Join(events, "\n"))
				}
			}
		})
	}
}

func TestPolicySeesNameDefinitionArgumentsAndCaller(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		up := newCounted()
		config := configOf(t, up.Server, "up")
		config.Trusted = trusted
		var seen []*host.Request
		h := start(t, &host.Host{Servers: []host.ServerConfig{config},
			Policy: policyFunc(func(_ context.Context, r *host.Request) (host.Decision, error) {
				seen = append(seen, r)
				return host.Decision{Action: host.Allow}, nil
			})})
		for _, arguments := range []any{note{"x"}, json.RawMessage(`{"text":"x"}`), map[string]any{"text": "x"}} {
			must.Get(h.Call(t.Context(), "up__write", arguments))(t)
		}
		for _, r := range seen {
			must.CheckThat(t, r.Method == mcp.MethodCallTool && r.Server == "up" && r.Kind == "tool" &&
				r.Name == "write" && string(r.Arguments) == `{"text":"x"}` && r.Caller.Principal == principal.Anonymous,
				"the policy sees %+v", r)
			must.CheckThat(t, r.Tool != nil && r.Tool.Name == "write" && (r.Tool.Annotations != nil) == trusted,
				"trusted is %v, the policy sees the tool %+v", trusted, r.Tool)
		}
		must.CheckEqual(t, len(seen), 3)
		must.CheckEqual(t, up.calls.Load(), 3)
	}
}

func TestApprovalIsForOneCall(t *testing.T) {
	up, audit := newCounted(), &log{}
	var asked []host.Approval
	approves, answer := true, error(nil)
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Policy: always(host.Ask), Audit: audit.handler(),
		Approve: func(_ context.Context, a *host.Approval) (bool, error) {
			asked = append(asked, *a)
			return approves, answer
		},
	})
	call := func(arguments string) error {
		_, err := h.Client("up").CallTool(t.Context(), "write", json.RawMessage(arguments))
		return err
	}
	must.Do(t, call(`{"text":"x"}`))
	audit.want(t, "allowed write, approved", "done write, approved, ok")
	approves = false
	for _, arguments := range []string{`{"text":"x"}`, `{"text":"y"}`} {
		wantDenied(t, call(arguments), "it was not approved")
		audit.want(t, "denied write, declined, error, it was not approved")
	}
	answer = errors.New("the terminal is closed")
	wantDenied(t, call(`{}`), "the terminal is closed")
	audit.want(t, "denied write, not asked, error, it needs an approval")
	wantDenied(t, call(`{"text":"x","all":[`+strings.Repeat(`"x",`, 20000)+`1]}`),
		"its arguments are too many to be shown")
	audit.want(t, "denied write, not asked, error, it needs an approval, and its arguments are too many to be shown")
	must.CheckEqual(t, len(asked), 4)
	must.CheckEqual(t, up.calls.Load(), 1)
	must.CheckThat(t, asked[0].Digest() == asked[1].Digest() && asked[0].Digest() != asked[2].Digest() &&
		strings.HasSuffix(asked[0].Question(), "}\n\nReason for the question: no rule of the policy matches"),
		"approvals: %+v", asked)
}

func TestDigestOfAnApprovalDependsOnMeaningOfArguments(t *testing.T) {
	up := newCounted()
	version, digests := "1", make(map[string]string)
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{configOf(t, up.Server, "up")},
		Policy: policyFunc(func(context.Context, *host.Request) (host.Decision, error) {
			return host.Decision{Action: host.Ask, Version: version}, nil
		}),
		Approve: func(_ context.Context, a *host.Approval) (bool, error) {
			digests[string(a.Request.Arguments)+version] = a.Digest()
			return false, nil
		},
	})
	ask := func(arguments string) string {
		_, _ = h.Client("up").CallTool(t.Context(), "write", json.RawMessage(arguments))
		return digests[arguments+version]
	}
	base := ask(`{"a":1,"b":"x"}`)
	for _, same := range []string{`{"b":"x","a":1}`, ` {"a" : 1, "b":"\u0078"}`[1:]} {
		must.CheckEqual(t, ask(same), base, same)
	}
	for _, other := range []string{`{"a":2,"b":"x"}`, `{"a":"1","b":"x"}`, `{"a":1}`, `{"a":1,"b":"x","c":null}`} {
		must.CheckThat(t, ask(other) != base, "%s has the same digest", other)
	}
	must.CheckThat(t, ask(`{"n":9007199254740993}`) != ask(`{"n":9007199254740992}`),
		"large numbers that differ have the same digest")
	version = "2"
	must.CheckThat(t, ask(`{"a":1,"b":"x"}`) != base, "another version of the policy has the same digest")
}

func TestUnansweredApprovalDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, approve := range map[string]func(context.Context, *host.Approval) (bool, error){
			"no answer": func(ctx context.Context, _ *host.Approval) (bool, error) {
				<-ctx.Done()
				return false, context.Cause(ctx)
			},
			"answer that is too late": func(context.Context, *host.Approval) (bool, error) {
				time.Sleep(5*time.Minute + time.Second)
				return true, nil
			},
		} {
			up, audit := newCounted(), &log{}
			h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")},
				Policy: always(host.Ask), Approve: approve, Audit: audit.handler()})
			begin := time.Now()
			_, err := h.Client("up").CallTool(t.Context(), "write", nil)
			wantDenied(t, err, "not approved in time")
			if took := time.Since(begin); took < 5*time.Minute || took > 5*time.Minute+time.Second ||
				up.calls.Load() != 0 {
				t.Errorf("%s: denied after %v, %d calls", name, took, up.calls.Load())
			}
			audit.want(t, "denied write, unanswered, error, it was not approved in time")
			h.Close()
		}
	})
}

func TestApprovalDoesNotCountAfterAChange(t *testing.T) {
	for name, change := range map[string]func(up *counted, version *atomic.Value){
		"of the policy": func(_ *counted, version *atomic.Value) { version.Store("2") },
		"of the tool": func(up *counted, _ *atomic.Value) {
			up.RemoveTool("write")
			server.AddTool(up.Server, mcp.Tool{Name: "write", Description: "Also deletes."},
				func(context.Context, note) (string, error) {
					up.calls.Add(1)
					return "", nil
				})
		},
	} {
		t.Run(name, func(t *testing.T) {
			up, audit := newCounted(), &log{}
			var version atomic.Value
			version.Store("1")
			var h *host.Host
			h = start(t, &host.Host{
				Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Audit: audit.handler(),
				Policy: policyFunc(func(context.Context, *host.Request) (host.Decision, error) {
					return host.Decision{Action: host.Ask, Version: version.Load().(string)}, nil
				}),
				Approve: func(context.Context, *host.Approval) (bool, error) {
					change(up, &version)
					if version.Load() == "1" {
						await(t, h, "up", func(s host.ServerStatus) bool {
							return slices.ContainsFunc(s.Tools,
								func(m host.Tool) bool { return m.Definition.Description != "" })
						})
					}
					return true, nil
				},
			})
			_, err := h.Client("up").CallTool(t.Context(), "write", nil)
			wantDenied(t, err, "changed since the approval was requested")
			must.CheckEqual(t, up.calls.Load(), 0)
			events := audit.take()
			must.CheckThat(t, len(events) == 1 && strings.HasPrefix(events[0], "denied write, approved, error, "),
				"the audit log has %q", events)
		})
	}
}

func TestHooksChangeAndReject(t *testing.T) {
	up, audit := newCounted(), &log{}
	reject := false
	var decided []string
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Audit: audit.handler(),
		Policy: policyFunc(func(_ context.Context, r *host.Request) (host.Decision, error) {
			decided = append(decided, string(r.Arguments))
			return host.Decision{Action: host.Allow}, nil
		}),
		OnRequest: func(_ context.Context, r *host.Request) error {
			if strings.Contains(string(r.Arguments), "secret") {
				return errors.New("secrets must not leave")
			}
			r.Arguments, r.Name = json.RawMessage(`{"text":"clean"}`), "fail"
			return nil
		},
		OnResult: func(_ context.Context, _ *host.Request, result json.RawMessage) (json.RawMessage, error) {
			if reject {
				panic("broken")
			}
			return json.RawMessage(strings.Replace(string(result), "wrote", "has written", 1)), nil
		},
	})
	result, err := h.Client("up").CallTool(t.Context(), "write", note{"dirty"})
	if err != nil || len(result.Content) != 1 || result.Content[0].(*mcp.TextContent).Text != "has written clean" ||
		up.last.Load() != "clean" {
		t.Errorf("result %+v, %v; the server has received %q", result, err, up.last.Load())
	}
	must.CheckThat(t, slices.Equal(decided, []string{`{"text":"clean"}`}), "the policy has seen %q", decided)
	audit.want(t, "allowed write", "done write, ok")
	_, err = h.Client("up").CallTool(t.Context(), "write", note{"secret"})
	wantDenied(t, err, "a hook rejects it: secrets must not leave")
	must.CheckEqual(t, up.calls.Load(), 1)
	audit.want(t, "denied write, error, a hook rejects it")
	reject = true
	_, err = h.Client("up").ReadResource(t.Context(), "lib://a")
	wantDenied(t, err, "a hook rejects the result: internal error")
	audit.want(t, "allowed lib://a", "done lib://a, error, a hook rejects the result")
}

// A hook must not modify the result. If one does so anyway to hide a part, the caller does not receive that
// part.
func TestHookThatModifiesTheResultChangesIt(t *testing.T) {
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{configOf(t, newCounted().Server, "up")},
		OnResult: func(_ context.Context, _ *host.Request, result json.RawMessage) (json.RawMessage, error) {
			copy(result[bytes.Index(result, []byte("secret")):], "hidden")
			return result, nil
		},
	})
	result, err := h.Client("up").CallTool(t.Context(), "write", note{"secret"})
	must.CheckThat(t, err == nil && len(result.Content) == 1 &&
		result.Content[0].(*mcp.TextContent).Text == "wrote hidden", "result %+v, %v", result, err)
}

func TestHookWithInvalidValuesRejects(t *testing.T) {
	for name, hook := range map[string]*host.Host{
		"arguments": {OnRequest: func(_ context.Context, r *host.Request) error {
			r.Arguments = json.RawMessage(`[1]`)
			return nil
		}},
		"missing argument": {OnRequest: func(_ context.Context, r *host.Request) error {
			r.Arguments = nil
			return nil
		}},
		"result": {OnResult: func(context.Context, *host.Request, json.RawMessage) (json.RawMessage, error) {
			return nil, nil
		}},
		"type of result": {OnResult: func(context.Context, *host.Request, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"content":7}`), nil
		}},
	} {
		h := start(t, &host.Host{
			Servers: []host.ServerConfig{configOf(t, newCounted().Server, "up")}, OnRequest: hook.OnRequest,
			OnResult: hook.OnResult,
		})
		_, err := h.Client("up").CallTool(t.Context(), "write", nil)
		if wantDenied(t, err, "hook"); t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestHooksChangeAndRejectCompletionsAndRejectSubscriptions(t *testing.T) {
	up := newCounted()
	var received []string
	up.RemovePrompt("hint")
	server.AddPrompt(up, mcp.Prompt{Name: "hint"}, func(context.Context, note) (string, error) { return "", nil },
		server.Complete("text", func(_ context.Context, value string, arguments map[string]string) ([]string, error) {
			received = append(received, value+" "+arguments["other"])
			return []string{"secret"}, nil
		}))
	var requests []string
	reject, changed := false, `{"text":"b","other":"d"}`
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{configOf(t, up.Server, "up")},
		OnRequest: func(_ context.Context, r *host.Request) error {
			requests = append(requests, r.Method+" "+r.Name+" "+string(r.Arguments))
			if reject {
				return errors.New("no")
			}
			if r.Method == mcp.MethodComplete {
				r.Arguments = json.RawMessage(changed)
			}
			return nil
		},
		OnResult: func(_ context.Context, r *host.Request, result json.RawMessage) (json.RawMessage, error) {
			requests = append(requests, string(result))
			return json.RawMessage(strings.ReplaceAll(string(result), "secret", "public")), nil
		},
	})
	await(t, h, "up", isReady)
	complete := func() (*mcp.Completion, error) {
		return h.Client("up").Complete(t.Context(), mcp.CompleteParams{
			Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "hint"},
			Argument: mcp.CompleteArgument{Name: "text", Value: "a"},
			Context:  &mcp.CompleteContext{Arguments: map[string]string{"other": "c"}},
		})
	}
	completion, err := complete()
	must.CheckThat(t, err == nil && slices.Equal(completion.Values, []string{"public"}) &&
		slices.Equal(received, []string{"b d"}), "%+v %v; the server has received %q", completion, err, received)
	want := []string{`completion/complete hint {"other":"c","text":"a"}`,
		`{"completion":{"values":["secret"],"total":1}}`}
	must.CheckThat(t, slices.Equal(requests, want), "the hook has received %q, want %q", requests, want)
	changed = `{"text":1}`
	_, err = complete()
	wantDenied(t, err, "the arguments of a hook are invalid")
	requests, reject = nil, true
	_, err = complete()
	wantDenied(t, err, "a hook rejects it: no")
	subscribed, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	wantDenied(t, h.Client("up").Subscribe(subscribed, "lib://a", func() {}), "a hook rejects it: no")
	if want := []string{`completion/complete hint {"other":"c","text":"a"}`,
		"resources/subscribe lib://a "}; !slices.Equal(requests, want) || len(received) != 1 {
		t.Errorf("the hook has received %q, want %q; the server %q", requests, want, received)
	}
}

func TestUsersAreNotAskedAboutCompletionsAndSubscriptions(t *testing.T) {
	up, audit := newCounted(), &log{}
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Policy: always(host.Ask), Audit: audit.handler(),
		Approve: func(_ context.Context, a *host.Approval) (bool, error) {
			t.Errorf("the user was asked about %v", a.Request)
			return true, nil
		},
	})
	await(t, h, "up", isReady)
	_, err := h.Client("up").Complete(t.Context(), mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt,
		Name: "hint"}, Argument: mcp.CompleteArgument{Name: "text", Value: "a"}})
	wantDenied(t, err, "users are not asked about it")
	subscribed, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	wantDenied(t, h.Client("up").Subscribe(subscribed, "lib://a", func() {}), "users are not asked about it")
	audit.want(t, "denied hint, error, users are not asked about it",
		"denied lib://a, error, users are not asked about it")
}
