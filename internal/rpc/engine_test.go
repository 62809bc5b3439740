package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// log records log output.
type log struct{ syncbuffer.Buffer }

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// newCall returns a call of tools/call in the newest revision.
func newCall(id int64) *rpc.Call { return callOf(id, mcp.MethodCallTool, mcp.V20260728) }

// callOf returns a call of a method in a revision.
func callOf(id int64, method string, r mcp.Revision) *rpc.Call {
	return &rpc.Call{
		Call:          *call.New(call.Description{Method: method, ID: jsonrpc.IntID(id), Revision: r}),
		ProgressToken: jsonrpc.IntID(id),
	}
}

// serving returns an engine with a handler for tools/call.
func serving(l *log, h rpc.Handler, middleware ...call.Middleware) *rpc.Engine {
	return rpc.NewEngine(rpc.Handlers{mcp.MethodCallTool: h}, l.logger(), middleware...)
}

func done(text string) (any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}, nil
}

// A method is found in its revisions, if it has a handler.
func TestOtherMethodsAreNotFound(t *testing.T) {
	answer := func(context.Context, *rpc.Call) (any, error) { return done("") }
	e := rpc.NewEngine(rpc.Handlers{
		mcp.MethodCallTool: answer, mcp.MethodDiscover: answer, mcp.MethodSetLevel: answer, "com.example/extra": answer,
	}, new(log).logger())
	for _, test := range []struct {
		method   string
		revision mcp.Revision
		has      bool
	}{
		{mcp.MethodCallTool, mcp.V20241105, true},
		{mcp.MethodCallTool, mcp.V20260728, true},
		{mcp.MethodDiscover, mcp.V20260728, true},
		{mcp.MethodDiscover, mcp.V20251125, false},
		{mcp.MethodSetLevel, mcp.V20251125, true},
		{mcp.MethodSetLevel, mcp.V20260728, false},
		{"com.example/extra", mcp.V20241105, true},
		{"com.example/extra", mcp.V20260728, true},
		{mcp.MethodListTools, mcp.V20260728, false}, // without a handler
		{"tools/forget", mcp.V20260728, false},
	} {
		err := must.Err(e.Serve(t.Context(), callOf(1, test.method, test.revision)))
		if test.has {
			must.Check(t, err, test.method, test.revision)
		} else {
			must.CheckIs(t, err, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}, test.method, test.revision)
		}
	}
}

func TestFirstMiddlewareIsOutermost(t *testing.T) {
	var order []string
	layer := func(name string) call.Middleware {
		return func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				order = append(order, name)
				result, err := next(ctx, c)
				order = append(order, "/"+name)
				return result, err
			}
		}
	}
	e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		must.CheckEqual(t, rpc.From(ctx), c)
		order = append(order, "handler")
		return done("")
	}, layer("a"), layer("b"))
	e.Serve(t.Context(), newCall(1))
	want := []string{"a", "b", "handler", "/b", "/a"}
	must.CheckThat(t, slices.Equal(order, want), "order %v, want %v", order, want)
}

func TestMiddlewareSeesUnknownMethods(t *testing.T) {
	seen := ""
	e := serving(new(log), nil, func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			seen = c.Method()
			return next(ctx, c)
		}
	})
	c := callOf(1, "unknown/method", mcp.V20260728)
	_, err := e.Serve(t.Context(), c)
	must.CheckThat(t, seen == "unknown/method" && err != nil, "the middleware saw %q, the error is %v", seen, err)
}

// A panic ends only its call, and its value does not reach the peer.
func TestPanicBecomesInternalError(t *testing.T) {
	for name, value := range map[string]any{
		"text": "hunter2", "error": errors.New("hunter2"), "protocol error": jsonrpc.Errorf(1, "hunter2"), "nil": nil,
	} {
		t.Run(name, func(t *testing.T) {
			l := new(log)
			e := serving(l, func(context.Context, *rpc.Call) (any, error) { panic(value) })
			c := newCall(7)
			reply, reported := engineReply(t.Context(), nil, e, c)
			want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"internal error"}}`
			must.CheckThat(t, string(reply) == want && reported != nil, "got %s, want %s", reply, want)
			must.CheckContains(t, l.String(), "engine_test.go", l)
			must.CheckIs(t, c.Notify(t.Context(), "notifications/late", nil), call.ErrCallDone)
		})
	}
}

// A *jsonrpc.Error is for the peer. Other errors may contain anything, so they are logged only. A nil *jsonrpc.Error must
// not end the process. Rule S1: the response is valid JSON on one line, with any data of an error.
func TestErrorsOfHandlers(t *testing.T) {
	const internal, no = `{"code":-32603,"message":"internal error"}`, `{"code":-1,"message":"no"}`
	var missing *jsonrpc.Error
	data := func(raw string) *jsonrpc.Error { return &jsonrpc.Error{Code: -1, Message: "no", Data: []byte(raw)} }
	for _, test := range []struct {
		err          error
		want, logged string
	}{
		{fmt.Errorf("connect to db: %w", errors.New("hunter2")), internal, "hunter2"},
		{missing, internal, "nil *jsonrpc.Error"},
		{fmt.Errorf("wrapped: %w", error(missing)), internal, "nil *jsonrpc.Error"},
		{data(`{"a":1}`), `{"code":-1,"message":"no","data":{"a":1}}`, ""},
		{fmt.Errorf("wrapped: %w", data(`{"a":1}`)), `{"code":-1,"message":"no","data":{"a":1}}`, ""},
		{data("{\n  \"a\": \"b\\n\"\r\n}"), `{"code":-1,"message":"no","data":{   "a": "b\n"  }}`, ""},
		{data(`{"a":1,"a":2}`), no, "must be JSON"},
		{data("}\n{"), no, "must be JSON"},
		{data(""), no, ""},
	} {
		l := new(log)
		e := serving(l, func(context.Context, *rpc.Call) (any, error) { return nil, test.err })
		var shared *jsonrpc.Error
		before := ""
		if errors.As(test.err, &shared) && shared != nil {
			before = string(shared.Data)
		}
		reply, reported := engineReply(t.Context(), nil, e, newCall(1))
		must.CheckEqual(t, string(reply), `{"jsonrpc":"2.0","id":1,"error":`+test.want+`}`, test.err)
		must.CheckEqual(t, reported != nil, true, test.err)
		must.CheckContains(t, l.String(), test.logged)
		must.CheckEqual(t, l.String() != "", test.logged != "", test.err)
		if shared != nil {
			must.CheckEqual(t, string(shared.Data), before, "the data of the program")
		}
	}
}

// The store in memory does not log that it is full, so the call does. Other stores log their failures.
func TestAFullStoreIsLoggedOnce(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{{store.ErrFull, 1}, {&rpc.StoreError{Err: store.ErrFull}, 0}, {rpc.ErrStoreUnavailable, 0}} {
		l := new(log)
		e := serving(l, func(context.Context, *rpc.Call) (any, error) {
			return nil, fmt.Errorf("cannot write: %w", c.err)
		})
		reply, _ := engineReply(t.Context(), nil, e, newCall(1))
		n := strings.Count(l.String(), "the store is full")
		must.CheckThat(t, n == c.want && strings.Contains(string(reply), "try again later"),
			"%v: %d lines, %s", c.err, n, reply)
	}
}

func TestInvalidResultIsAnInternalError(t *testing.T) {
	for name, result := range map[string]any{
		"no result":        nil,
		"a nil pointer":    (*mcp.CallToolResult)(nil),
		"nil content":      &mcp.CallToolResult{Content: []mcp.Content{nil}},
		"nil content type": &mcp.CallToolResult{Content: []mcp.Content{(*mcp.AudioContent)(nil)}},
		"a channel":        make(chan int),
		"a panicking type": &explosive{},
	} {
		for _, r := range mcp.Revisions() {
			e := serving(new(log), func(context.Context, *rpc.Call) (any, error) { return result, nil })
			c := callOf(1, mcp.MethodCallTool, r)
			reply, reported := engineReply(t.Context(), []byte("kept"), e, c)
			want := `kept{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`
			must.CheckThat(t, string(reply) == want && reported != nil,
				"%s in %s: got %s, want %s", name, r, reply, want)
		}
	}
}

// Clients of older revisions receive structured content as text.
func TestInvalidStructuredContentDoesNotReachThePeer(t *testing.T) {
	e := serving(new(log), func(context.Context, *rpc.Call) (any, error) {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage("}\n{")}, nil
	})
	for _, r := range mcp.Revisions() {
		c := callOf(1, mcp.MethodCallTool, r)
		reply, reported := engineReply(t.Context(), nil, e, c)
		must.CheckThat(t, jsonrpc.Check(reply, jsonrpc.Limits{}) == nil && !bytes.ContainsAny(reply, "\r\n"),
			"%s: %q", r, reply)
		must.CheckThat(t, !r.Modern() || reported != nil, "%s: no error: %s", r, reply)
	}
}

type explosive struct{}

func (*explosive) MarshalJSON() ([]byte, error) { panic("hunter2") }

// Rule S1: JSON of a handler is written on one line.
func TestResultsHaveNoLineBreaks(t *testing.T) {
	pretty := json.RawMessage("{\n\t\"a\": 1,\r\n\t\"b\": \"x\\ny\"\n}")
	e := serving(new(log), func(context.Context, *rpc.Call) (any, error) {
		return &mcp.CallToolResult{
			StructuredContent: pretty,
			ResultBase:        mcp.ResultBase{Meta: mcp.Meta{"com.example/a": pretty}},
		}, nil
	})
	for _, r := range mcp.Revisions() {
		c := callOf(1, mcp.MethodCallTool, r)
		reply, reported := engineReply(t.Context(), nil, e, c)
		must.CheckThat(t, reported == nil && !bytes.ContainsAny(reply, "\r\n") &&
			jsonrpc.Check(reply, jsonrpc.Limits{}) == nil, "%s: %q", r, reply)
	}
}

func TestHandlerThatCallsGoexitIsNotInFlight(t *testing.T) {
	e := serving(new(log), func(context.Context, *rpc.Call) (any, error) {
		runtime.Goexit()
		return done("")
	})
	var inflight rpc.Inflight
	c := newCall(1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		appendReply(t.Context(), nil, &inflight, e, c)
		t.Error("AppendReply returned")
	}()
	<-ended
	must.CheckEqual(t, inflight.Len(), 0)
	must.CheckIs(t, c.Progress(t.Context(), 1, 0, ""), call.ErrCallDone)
}

func TestMiddlewareMustPassOnItsCallAndContext(t *testing.T) {
	for name, next := range map[string]func(next call.Handler, ctx context.Context, c *call.Call) (any, error){
		"another call": func(next call.Handler, ctx context.Context, _ *call.Call) (any, error) {
			return next(ctx, call.New(call.Description{Method: mcp.MethodCallTool}))
		},
		"another context": func(next call.Handler, _ context.Context, c *call.Call) (any, error) {
			return next(context.Background(), c)
		},
	} {
		l := new(log)
		e := serving(l, func(context.Context, *rpc.Call) (any, error) { return done("") },
			func(handler call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) { return next(handler, ctx, c) }
			})
		_, err := e.Serve(t.Context(), newCall(1))
		must.CheckThat(t, err != nil && strings.Contains(l.String(), "middleware must pass on"),
			"%s: %v, logged %s", name, err, l)
	}
}

func TestCallOfContextIsThePublicCall(t *testing.T) {
	e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		must.CheckEqual(t, call.From(ctx), &c.Call)
		return done("")
	})
	must.Check(t, must.Err(e.Serve(t.Context(), newCall(1))))
	c := call.From(t.Context())
	must.CheckThat(t, c == nil, "a context without a call carries %v", c)
}

// entries is a feature whose calls name entries, which need the scopes with their names.
type entries struct {
	resolved int
	served   []string
}

func (f *entries) Handles(string) bool { return true }

func (f *entries) Resolve(_ context.Context, c *rpc.Call) (rpc.Target, []string, error) {
	f.resolved++
	if c.Name() == "unknown" {
		return rpc.Target{}, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown")
	}
	needs := []string{c.Name()}
	if c.Name() == "open" {
		needs = nil
	}
	return rpc.Target{Serve: f.serve, Entry: fmt.Sprint(c.Name(), f.resolved)}, needs, nil
}

func (f *entries) serve(_ context.Context, c *rpc.Call) (any, error) {
	f.served = append(f.served, c.Target.Entry.(string))
	return &mcp.EmptyResult{}, nil
}

// The middleware sees the error of each call.
func TestCallIsResolvedAndAuthorizedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		method, name string
		ofEra        bool   // the era serves the method
		missing      string // scopes
		unknown      bool
	}{
		"granted":                        {method: mcp.MethodCallTool, name: "read"},
		"no scopes needed":               {method: mcp.MethodCallTool, name: "open"},
		"unknown":                        {method: mcp.MethodCallTool, name: "unknown", unknown: true},
		"the scope of the entry missing": {method: mcp.MethodCallTool, name: "write", missing: "read write"},
		"both missing":                   {method: mcp.MethodListTools, name: "write", missing: "read list write"},
		"missing and unknown":            {method: mcp.MethodListTools, name: "unknown", missing: "read list"},
		"missing and no such method":     {method: mcp.MethodDiscover, name: "open", missing: "read discover"},
		"a method of the era":            {method: mcp.MethodPing, ofEra: true},
		"a method of the era, missing":   {method: mcp.MethodInitialize, ofEra: true, missing: "read start"},
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/in advance=%v", name, early), func(t *testing.T) {
				f := new(entries)
				var seen error
				e := rpc.NewEngine(f, new(log).logger(), func(next call.Handler) call.Handler {
					return func(ctx context.Context, c *call.Call) (any, error) {
						result, err := next(ctx, c)
						seen = err
						return result, err
					}
				})
				e.Auth = &auth.ProtectedResource{Scopes: []string{"read"}, MethodScopes: map[string][]string{
					mcp.MethodListTools: {"list"}, mcp.MethodInitialize: {"start"},
					mcp.MethodDiscover: {"discover"},
				}}
				c := callNamed(tt.method, tt.name)
				if tt.ofEra {
					c.Target = rpc.EraTarget(func(context.Context, *rpc.Call) (any, error) {
						f.served = append(f.served, "era")
						return &mcp.EmptyResult{}, nil
					})
				}
				ctx := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local,
					Scopes: []string{"read"}})
				if early {
					err := e.Authorize(ctx, c)
					must.CheckThat(t, (err != nil) == (tt.missing != ""), "Authorize: %v", err)
				}
				_, err := e.Serve(ctx, c)
				var missing *auth.ScopeError
				must.CheckThat(t, errors.As(seen, &missing) == (tt.missing != "") &&
					(missing == nil || strings.Join(missing.Needed, " ") == tt.missing), "the middleware sees %v", seen)
				if served := tt.missing == "" && !tt.unknown; (err == nil) != served || (len(f.served) == 1) != served {
					t.Errorf("%q served the call: %v", f.served, err)
				}
				if !tt.unknown && f.resolved > 1 {
					t.Errorf("resolved %d times", f.resolved)
				}
			})
		}
	}
}

// The calls of a batch are served together or not at all.
func TestCallsAreAuthorizedTogether(t *testing.T) {
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local, Scopes: []string{"a"}})
	f := new(entries)
	e := rpc.NewEngine(f, new(log).logger())
	a, b := callNamed(mcp.MethodCallTool, "a"), callNamed(mcp.MethodCallTool, "b")
	var missing *auth.ScopeError
	err := e.Authorize(ctx, a, b)
	must.That(t, errors.As(err, &missing) && slices.Equal(missing.Needed, []string{"a", "b"}), "got %v", err)
	if _, err := e.Serve(ctx, a); err == nil || f.served != nil {
		t.Error("a call was served although the scopes of another one are missing")
	}
}

// A target that was authorized serves one run: each further run is another decision.
func TestSecondRunOfACallIsAuthorizedAgain(t *testing.T) {
	f := new(entries)
	e := rpc.NewEngine(f, new(log).logger(), func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			_, _ = next(ctx, c)
			return next(ctx, c)
		}
	})
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: principal.Local, Scopes: []string{"a"}})
	c := callNamed(mcp.MethodCallTool, "a")
	must.Do(t, e.Authorize(ctx, c))
	must.Check(t, must.Err(e.Serve(ctx, c)))
	must.CheckThat(t, slices.Equal(f.served, []string{"a1", "a2"}), "served by %q", f.served)
}

func callNamed(method, name string) *rpc.Call {
	params := jsonrpc.AppendString([]byte(`{"name":`), name)
	return &rpc.Call{Call: *call.New(call.Description{
		Method: method, ID: jsonrpc.IntID(1), Revision: mcp.V20250326, Params: jsonrpc.MembersOf(append(params, '}')),
	})}
}

// echo answers each input request with its params.
type echo struct{}

func (echo) RequestInput(_ context.Context, _ *rpc.Call, requests []rpc.InputRequest) (answers []json.RawMessage,
	_ error) {
	for _, q := range requests {
		answers = append(answers, json.RawMessage(q.Params))
	}
	return answers, nil
}

func (echo) Finish(_ context.Context, result any, err error) (any, error) { return result, err }

func TestEachInputRequestOfAHandlerOfABatchHasItsOwnAnswer(t *testing.T) {
	c := &rpc.Call{Call: *call.New(call.Description{Revision: mcp.V20260728, Method: mcp.MethodCallTool}),
		InputRequester: echo{}}
	c.Bind(t.Context())
	ctx, end := rpc.NewInputBatch(1).Handler(t.Context(), "key")
	defer end()
	for _, params := range []string{`{"n":1}`, `{"n":2}`} {
		got := must.Get(c.ForwardInput(ctx, rpc.InputRequest{Method: mcp.MethodElicit, Params: []byte(params)}))(t)
		must.CheckEqual(t, string(got), params)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engineReply runs a call and appends its response to dst.
func engineReply(ctx context.Context, dst []byte, e *rpc.Engine, c *rpc.Call) ([]byte, *jsonrpc.Error) {
	c.Bind(ctx)
	reported := e.AppendReply(&dst, c)
	return dst, reported
}

// appendReply runs a call as a request in flight and appends its response to dst.
func appendReply(ctx context.Context, dst []byte, f *rpc.Inflight, e *rpc.Engine, c *rpc.Call) []byte {
	if err := f.Accept(ctx, e, c); err != nil {
		return jsonrpc.AppendError(dst, c.ID(), err, false)
	}
	e.AppendReply(&dst, c)
	return dst
}
