package outbound_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A message without a stream belongs to a request whose caller still waits, not to one that is being cancelled.
func TestMessagesDoNotBelongToRequestsWhoseCallerHasLeft(t *testing.T) {
	w := newWire(t)
	sending, release := make(chan struct{}, 2), make(chan struct{})
	w.send = func(context.Context, *outbound.Outgoing) error {
		sending <- struct{}{}
		<-release
		return nil
	}
	o := &outbound.Requests{Wire: w}
	type key struct{}
	left, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "left"))
	first := do(left, o, &outbound.Request{Method: "a"})
	waits, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "waits"))
	second := do(waits, o, &outbound.Request{Method: "a"})
	for range 2 {
		<-sending
	}
	leave()
	origin, err := o.OriginOf(jsonrpc.ID{}, func(*outbound.Request) bool { return true })
	if err != nil {
		t.Error(err)
	} else if got := origin.Context(t.Context()).Value(key{}); len(origin) != 1 || got != "waits" {
		t.Errorf("the message belongs to %d requests, the first is the one that %v", len(origin), got)
	}
	stop()
	close(release)
	<-first
	<-second
}

// peerOf is an Requests in a bubble whose requests wait until the test answers them.
type peerOf struct {
	*testing.T
	outbound.Requests
	wire *wire
}

func newPeer(t *testing.T) *peerOf {
	p := &peerOf{T: t, wire: newWire(t)}
	p.Wire = p.wire
	return p
}

// clientStream is the stream of a call whose client may be connected.
type clientStream struct {
	rpc.Stream
	connected bool
}

func (s clientStream) Connected() bool { return s.connected }

// call calls a tool for a caller, whose user may be nil, and waits until the request is sent or is in the queue.
func (p *peerOf) call(caller string, user any, connected bool, tool string) <-chan outcome {
	ctx := rpc.NewContext(p.Context(), &rpc.Call{Stream: clientStream{connected: connected}})
	got := do(rpc.WithCaller(ctx, rpc.Caller{Key: caller, User: user}), &p.Requests,
		&outbound.Request{Method: mcp.MethodCallTool, Name: tool})
	synctest.Wait()
	return got
}

// sent returns the number of requests that were sent, and answers the first n of them.
func (p *peerOf) answer(n int) (sent int) {
	synctest.Wait()
	sent = len(p.wire.sent)
	for range n {
		m := <-p.wire.sent
		p.Receive(result(p.T, m.ID, ""))
	}
	synctest.Wait()
	return sent
}

// question returns the callers that a question may belong to, the likeliest first.
func (p *peerOf) question() (origin outbound.Origin, callers string) {
	origin, err := p.QuestionOf(jsonrpc.ID{}, func(*outbound.Request) bool { return true })
	if err != nil {
		return nil, err.Error()
	}
	for i := range origin {
		callers += rpc.CallerOf(origin[i:].Context(p.Context())).Key.(string) + " "
	}
	return origin, callers
}

func TestQuestionsOfOneUserReachTheLikeliestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		p.call("asked", "ada", true, "a")
		asked, _ := p.question()
		p.AddQuestions(asked, 1)
		p.call("old", "ada", true, "b")
		p.call("new", "ada", true, "c")
		p.call("left", "ada", false, "d")
		if _, got := p.question(); got != "new old asked left " {
			t.Errorf("the question is for %s", got)
		}
		p.AddQuestions(asked, -1) // the peer has asked for the tools a and c
		if _, got := p.question(); got != "new asked old left " {
			t.Errorf("the question is for %s", got)
		}
		p.answer(4)
	})
}

// A question is never attributed to one of several users. Afterwards, their calls take turns, and so do the calls of
// one user for which the peer asks.
func TestCallsForWhichThePeerAsksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		ada, bob := p.call("ada", nil, true, "ask"), p.call("bob", nil, true, "ask")
		if _, got := p.question(); !strings.Contains(got, "several callers") ||
			!strings.Contains(got, `"sharing": "perCaller"`) {
			t.Errorf("the question is for %s", got)
		}
		p.answer(2)
		<-ada
		<-bob
		ada, bob = p.call("ada", nil, true, "ask"), p.call("bob", nil, true, "ask")
		more := p.call("ada", nil, true, "ask") // waits longer than bob's, so it comes later
		eve := p.call("eve", nil, true, "other")
		for _, caller := range []string{"ada ", "bob ", "ada ", "eve "} {
			if _, got := p.question(); got != caller {
				t.Errorf("the question is for %s, want %s", got, caller)
			}
			must.CheckEqual(t, p.answer(1), 1)
		}
		for _, done := range []<-chan outcome{ada, bob, more, eve} {
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}

		one := p.call("one", "user", true, "ask")
		two := p.call("two", "user", true, "ask")
		p.call("three", "user", true, "fast")
		must.CheckEqual(t, len(p.wire.sent), 2)
		asked, _ := p.question()
		p.AddQuestions(asked, 1)
		synctest.Wait()
		if _, got := p.question(); got != "two three one " {
			t.Errorf("the second question is for %s", got)
		}
		p.call("left", "user", false, "ask")
		must.CheckEqual(t, p.answer(3), 3)
		<-one
		<-two
		if last := p.call("last", "user", true, "ask"); p.answer(2) != 2 {
			t.Error("a call waits for one whose client has left")
		} else {
			<-last
		}
	})
}

// The first calls of a tool show whether the peer asks for it: callers that call it at the same time are asked one
// after the other, and others wait once, for two seconds.
func TestPeersAreExpectedToAskUntilTheyDoNot(t *testing.T) {
	for _, user := range []any{"user", nil} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t)
			p.OneStream = true
			p.call("a", user, true, "ask")
			p.call("b", user, true, "ask")
			p.call("a", user, true, "ask")
			for _, caller := range []string{"a ", "b ", "a "} {
				origin, got := p.question()
				must.CheckEqual(t, got, caller)
				p.AddQuestions(origin, 1)
				if n := p.answer(1); n != 1 && user == nil {
					t.Errorf("%d calls of several users are in flight", n)
				}
			}
			begun := time.Now()
			for _, caller := range []string{"a", "b", "c"} {
				p.call(caller, user, true, "slow")
			}
			for len(p.wire.sent) < 3 {
				time.Sleep(100 * time.Millisecond)
			}
			if waited := time.Since(begun); waited < 2*time.Second || waited > 3*time.Second {
				t.Errorf("calls of a tool that does not ask wait for %v", waited)
			}
			p.answer(3)
			p.call("a", user, true, "slow")
			p.call("b", user, true, "slow")
			must.CheckEqual(t, p.answer(2), 2)
		})
	}
}

// Many targets for which the peer does not ask do not keep it from asking for another one.
func TestTurnsAreTakenAfterManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		p.OneStream = true
		for i := range 2000 {
			done := p.call("ada", nil, true, fmt.Sprint("fast ", i))
			p.answer(1)
			<-done
		}
		for _, sent := range []int{2, 1} { // the first question shows that the peer asks
			p.call("ada", nil, true, "ask")
			p.call("bob", nil, true, "ask")
			p.question()
			must.CheckEqual(t, p.answer(sent), sent)
		}
		p.answer(1)
	})
}

// A request of the program itself may be asked about for as long as others.
func TestCallersWaitBrieflyForARequestWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		p.OneStream = true
		do(p.Context(), &p.Requests, &outbound.Request{Method: mcp.MethodCallTool, Name: "slow"})
		synctest.Wait()
		p.call("ada", nil, true, "slow")
		time.Sleep(3 * time.Second)
		must.CheckEqual(t, p.answer(2), 2)
	})
}

// The time-outs and the deadline of a call apply while it waits, and it is not sent after them.
func TestDeadlinesHoldInTheQueueForTurns(t *testing.T) {
	const limit = 100 * time.Millisecond
	for name, req := range map[string]outbound.Request{
		"time-out": {Timeout: limit}, "maximum": {MaxTimeout: limit}, "both": {Timeout: time.Hour, MaxTimeout: limit},
		"context": {},
	} {
		for _, freed := range []time.Duration{0, limit, 10 * time.Second} { // when the turn comes; 0 for never
			t.Run(fmt.Sprint(name, " ", freed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPeer(t)
					p.NotifyCancelled = true
					p.call("ada", nil, true, "ask")
					p.question()
					ctx := rpc.NewContext(p.Context(), &rpc.Call{Stream: clientStream{connected: true}})
					if name == "context" {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, limit)
						defer cancel()
					}
					begun := time.Now()
					req.Method, req.Name = mcp.MethodCallTool, "ask"
					got := do(rpc.WithCaller(ctx, rpc.Caller{Key: "bob"}), &p.Requests, &req)
					if freed > 0 {
						time.Sleep(freed)
						p.answer(1) // ada's call ends
					}
					o := <-got
					if freed != limit { // otherwise it may be sent just in time
						must.CheckIs(t, o.err, call.ErrNotSent)
						must.CheckEqual(t, len(p.wire.sent), max(0, 1-int(freed)))
					}
					must.CheckIs(t, o.err, context.DeadlineExceeded)
					if took := time.Since(begun); freed != 10*time.Second && took > 2*limit {
						t.Errorf("the call returns after %v", took)
					}
					p.answer(len(p.wire.sent))
				})
			})
		}
	}
}

func TestTheQueueForTurnsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		p.call("ada", nil, true, "ask")
		p.question()
		bob := p.call("bob", nil, true, "ask")
		for range 63 {
			p.call("bob", nil, true, "ask")
		}
		overload := new(call.OverloadError)
		if got := <-p.call("eve", nil, true, "ask"); !errors.As(got.err, &overload) {
			t.Errorf("the call after 64 that wait: %v", got.err)
		}
		begun := time.Now()
		if got := <-bob; !errors.As(got.err, &overload) || time.Since(begun) != time.Minute ||
			!strings.Contains(got.err.Error(), `"sharing": "perCaller"`) {
			t.Errorf("after %v: %v", time.Since(begun), got.err)
		}
		must.CheckEqual(t, p.answer(1), 1)
	})
}

// silent is an input requester whose client does not answer.
type silent struct{ rpc.InputRequester }

func (silent) RequestInput(ctx context.Context, _ *rpc.Call, _ []rpc.InputRequest) ([]json.RawMessage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestACallOfAnotherUserWaitsTenSecondsForOneWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		served := &rpc.Call{Call: *call.New(call.Description{Method: mcp.MethodCallTool}), InputRequester: silent{}}
		served.Bind(p.Context())
		left := do(rpc.WithCaller(served.Context(), rpc.Caller{Key: "ada"}), &p.Requests,
			&outbound.Request{Method: mcp.MethodCallTool, Name: "ask"})
		synctest.Wait()
		p.question()
		go served.RequestInput(served.Context(), rpc.InputRequest{})
		begun := time.Now()
		next := p.call("bob", nil, true, "ask")
		if got := <-left; !errors.Is(got.err, rpc.ErrDisplaced) || time.Since(begun) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), got.err)
		}
		p.answer(2)
		if got := <-next; got.err != nil {
			t.Error(got.err)
		}
	})
}

// answering returns a send function for a peer that answers with raw.
func answering(raw string) func(context.Context, *outbound.Request) (json.RawMessage, error) {
	return func(context.Context, *outbound.Request) (json.RawMessage, error) { return json.RawMessage(raw), nil }
}

// after returns middleware that applies change to each result.
func after(change func(result any) any) call.Middleware {
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if err != nil {
				return nil, err
			}
			return change(result), nil
		}
	}
}

func TestMetaOfTheCallerWinsOverMetaOfMiddleware(t *testing.T) {
	sending := outbound.NewChain(func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			for key, value := range map[string]string{"com.example/a": "middleware's", "com.example/b": "middleware's",
				"traceparent": "middleware's"} {
				must.Check(t, c.SetMeta(key, value))
			}
			return next(ctx, c)
		}
	})
	req := &outbound.Request{Method: "tools/call",
		Meta: map[string]json.RawMessage{"com.example/a": json.RawMessage(`"caller's"`),
			"traceparent": json.RawMessage(`"caller's"`)}}
	_, err := sending.Do(t.Context(), mcp.V20260728, req,
		func(_ context.Context, sent *outbound.Request) (json.RawMessage, error) {
			if a, b := string(sent.Meta["com.example/a"]), string(sent.Meta["com.example/b"]); a != `"caller's"` ||
				b != `"middleware's"` {
				t.Errorf("sent a: %s, b: %s", a, b)
			}
			if parent := string(sent.Meta["traceparent"]); parent != `"middleware's"` { // of the last span
				t.Errorf("sent trace context: %s", parent)
			}
			return json.RawMessage(`{"content":[]}`), nil
		})
	must.Check(t, err)
	if len(req.Meta) != 2 || string(req.Meta["traceparent"]) != `"caller's"` {
		t.Errorf("the caller's map was changed to %s", req.Meta)
	}
}

func TestOutgoingMiddlewareReceivesTypedResults(t *testing.T) {
	for _, tt := range []struct {
		method, raw string
		extension   bool
		want        any
	}{
		{mcp.MethodCallTool, `{"content":[]}`, false, &mcp.CallToolResult{}},
		{mcp.MethodCallTool,
			`{"resultType":"task","taskId":"1","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":null}`,
			false, &mcp.CreateTaskResult{}},
		{mcp.MethodCallTool, `{"resultType":"com.example/other"}`, false, json.RawMessage{}},
		{mcp.MethodListTools, `{"tools":[]}`, false, &mcp.ListToolsResult{}},
		{mcp.MethodPing, `{}`, false, &mcp.EmptyResult{}},
		{"com.example/run", `{"ran":true}`, true, json.RawMessage{}},
	} {
		var got any
		sending := outbound.NewChain(after(func(result any) any { got = result; return result }))
		req := &outbound.Request{Method: tt.method, AnyResultType: tt.extension}
		raw := must.Get(sending.Do(t.Context(), mcp.V20260728, req, answering(tt.raw)))(t)
		must.CheckEqual(t, string(raw), tt.raw, tt.method)
		must.CheckEqual(t, reflect.TypeOf(got), reflect.TypeOf(tt.want), tt.method, got, tt.want)
	}
}

func TestAnInvalidResponseIsAnErrorForOutgoingMiddleware(t *testing.T) {
	sending := outbound.NewChain(after(func(result any) any { return result }))
	_, err := sending.Do(t.Context(), mcp.V20260728, &outbound.Request{Method: mcp.MethodListTools},
		answering(`{"tools":"none"}`))
	must.CheckIs(t, err, call.ErrInvalidResponse)
}

func TestAnotherResultOfOutgoingMiddlewareIsEncoded(t *testing.T) {
	req := &outbound.Request{Method: mcp.MethodListTools}
	sending := outbound.NewChain(after(func(any) any { return &mcp.ListToolsResult{Tools: []mcp.Tool{}} }))
	if raw, err := sending.Do(t.Context(), mcp.V20251125, req,
		answering(`{"tools":[],"nextCursor":"x"}`)); err != nil ||
		string(raw) != `{"tools":[]}` {
		t.Errorf("%s, %v", raw, err)
	}
	sending = outbound.NewChain(after(func(any) any { return nil }))
	if raw, err := sending.Do(t.Context(), mcp.V20251125, req, answering(`{"tools":[]}`)); err == nil {
		t.Errorf("no result, but no error: %s", raw)
	}
	sending = outbound.NewChain(after(func(result any) any {
		list := result.(*mcp.ListToolsResult)
		list.Tools = append(list.Tools, mcp.Tool{Name: "added"})
		return list
	}))
	const added = `{"tools":[{"name":"added","inputSchema":{"type":"object"}}]}`
	if raw, err := sending.Do(t.Context(), mcp.V20251125, req, answering(`{"tools":[]}`)); err != nil ||
		string(raw) != added {
		t.Errorf("%s, %v, want %s", raw, err, added)
	}
}

// Every field of a result that middleware changes is in the encoding; without a change the bytes of the peer are used.
func TestChangesOfOutgoingMiddlewareAreFound(t *testing.T) {
	const raw = `{"tools":[], "nextCursor":"x", "unknown":1, "ttlMs":5, "_meta":{"a/b":1}}`
	next := "y"
	for name, change := range map[string]func(*mcp.ListToolsResult){
		"cursor":      func(r *mcp.ListToolsResult) { r.NextCursor = &next },
		"no cursor":   func(r *mcp.ListToolsResult) { r.NextCursor = nil },
		"meta":        func(r *mcp.ListToolsResult) { r.Meta = mcp.Meta{} },
		"result type": func(r *mcp.ListToolsResult) { r.ResultType = "com.example/other" },
		"nil list":    func(r *mcp.ListToolsResult) { r.Tools = nil },
		"nothing":     func(*mcp.ListToolsResult) {},
	} {
		sending := outbound.NewChain(after(func(result any) any {
			change(result.(*mcp.ListToolsResult))
			return result
		}))
		got, err := sending.Do(t.Context(), mcp.V20251125, &outbound.Request{Method: mcp.MethodListTools},
			answering(raw))
		must.Do(t, err)
		must.CheckEqual(t, (string(got) == raw), (name == "nothing"), name, got)
	}
}

// A change of what the fields of a result refer to is a change, too: a server's result is never
// shared between requests.
func TestDeepChangesOfOutgoingMiddlewareAreFound(t *testing.T) {
	const raw = `{"content":[{"type":"text","text":"secret","annotations":{"audience":["user"]}}, {"type":"image",` +
		`"data":"AAAA","mimeType":"image/png"}],` +
		`"structuredContent":{"n":1},"_meta":{"a/b":{"c":1}},"unknown":1}`
	for name, change := range map[string]func(*mcp.CallToolResult){
		"nothing": func(*mcp.CallToolResult) {},
		"text":    func(r *mcp.CallToolResult) { r.Content[0].(*mcp.TextContent).Text = "hidden" },
		"annotations": func(r *mcp.CallToolResult) {
			r.Content[0].(*mcp.TextContent).Annotations.Audience[0] = "assistant"
		},
		"bytes":              func(r *mcp.CallToolResult) { r.Content[1].(*mcp.ImageContent).Data[2] = 1 },
		"block":              func(r *mcp.CallToolResult) { r.Content[1] = mcp.Text("x") },
		"structured content": func(r *mcp.CallToolResult) { r.StructuredContent[5] = '2' },
		"a key of meta":      func(r *mcp.CallToolResult) { delete(r.Meta, "a/b") },
		"a value of meta":    func(r *mcp.CallToolResult) { r.Meta["a/b"][5] = '2' },
	} {
		sending := outbound.NewChain(after(func(result any) any {
			change(result.(*mcp.CallToolResult))
			return result
		}))
		got, err := sending.Do(t.Context(), mcp.V20251125, &outbound.Request{Method: mcp.MethodCallTool},
			answering(raw))
		must.Do(t, err)
		must.CheckEqual(t, (string(got) == raw), (name == "nothing"), name, got)
	}
}

// Middleware cannot return JSON that the server could not send.
func TestInvalidJSONOfOutgoingMiddlewareIsAnError(t *testing.T) {
	for _, invalid := range []string{``, `{`, `{"content":[],"content":[]}`, "{\"a\":\"\xff\"}", `{} {}`} {
		sending := outbound.NewChain(after(func(any) any { return json.RawMessage(invalid) }))
		got, err := sending.Do(t.Context(), mcp.V20251125, &outbound.Request{Method: mcp.MethodCallTool},
			answering(`{"content":[]}`))
		if err == nil {
			t.Errorf("%q is returned as %s", invalid, got)
		}
	}
}
