package outbound_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

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
	origin := o.OriginOf(jsonrpc.ID{}, func(*outbound.Request) bool { return true })
	if got := origin.Context(t.Context()).Value(key{}); len(origin) != 1 || got != "waits" {
		t.Errorf("the message belongs to %d requests, the first is the one that %v", len(origin), got)
	}
	stop()
	close(release)
	<-first
	<-second
}

// clientStream is the stream of a call whose client may be connected.
type clientStream struct {
	rpc.Stream
	connected bool
}

func (s clientStream) Connected() bool { return s.connected }

// A message that names no request belongs to the newest request whose client is connected and, on a connection that
// several people share, to no request.
func TestAMessageWithoutARequestBelongsToTheNewestOfOnePerson(t *testing.T) {
	for shared, want := range map[bool]string{false: "[new old left]", true: "[]"} {
		synctest.Test(t, func(t *testing.T) {
			o := &outbound.Requests{Wire: newWire(t), Shared: shared}
			var outcomes []<-chan outcome
			type key struct{}
			for _, name := range []string{"old", "new", "left"} {
				ctx := rpc.NewContext(context.WithValue(t.Context(), key{}, name),
					&rpc.Call{Stream: clientStream{connected: name != "left"}})
				outcomes = append(outcomes, do(ctx, o, &outbound.Request{Method: mcp.MethodCallTool, Name: name}))
				synctest.Wait()
			}
			names := []any{}
			origin := o.OriginOf(jsonrpc.ID{}, func(*outbound.Request) bool { return true })
			for i := range origin {
				names = append(names, origin[i:].Context(t.Context()).Value(key{}))
			}
			must.CheckEqual(t, fmt.Sprint(names), want, shared)
			exact := o.OriginOf(jsonrpc.IntID(1), func(*outbound.Request) bool { return false })
			must.CheckEqual(t, exact.Context(t.Context()).Value(key{}), any("old"))
			o.Fail(call.ErrClosed)
			for _, ended := range outcomes {
				<-ended
			}
		})
	}
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
			if parent := string(sent.Meta["traceparent"]); parent != `"middleware's"` { // names the last span
				t.Errorf("sent trace context: %s", parent)
			}
			return json.RawMessage(`{"content":[]}`), nil
		})
	must.Check(t, err)
	must.CheckEqual(t, len(req.Meta), 2, req.Meta)
	must.CheckEqual(t, string(req.Meta["traceparent"]), `"caller's"`, req.Meta)
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
	sending = outbound.NewChain(func(call.Handler) call.Handler { // sends nothing
		return func(context.Context, *call.Call) (any, error) { return &mcp.ListToolsResult{Tools: []mcp.Tool{}}, nil }
	})
	unsent := must.Get(sending.Do(t.Context(), mcp.V20251125, req, nil))(t)
	must.CheckEqual(t, string(unsent), `{"tools":[]}`)
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
	raw := must.Get(sending.Do(t.Context(), mcp.V20251125, req, answering(`{"tools":[]}`)))(t)
	must.CheckEqual(t, string(raw), added, raw)
}

// If middleware changes any field of a result, the encoding shows it; without a change, the bytes of the peer are
// used.
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

// A change in a value that a field of a result refers to is a change, too: a server's result is
// never shared between requests.
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

// Middleware cannot return JSON that would be invalid in a message.
func TestInvalidJSONOfOutgoingMiddlewareIsAnError(t *testing.T) {
	for _, invalid := range []string{``, `{`, `{"content":[],"content":[]}`, "{\"a\":\"\xff\"}", `{} {}`} {
		sending := outbound.NewChain(after(func(any) any { return json.RawMessage(invalid) }))
		got, err := sending.Do(t.Context(), mcp.V20251125, &outbound.Request{Method: mcp.MethodCallTool},
			answering(`{"content":[]}`))
		must.CheckThat(t, err != nil, "%q is returned as %s", invalid, got)
	}
}

// A request may have run unless each exchange proves the contrary. A response proves nothing, whatever its code.
func TestOnlyAProofShowsThatARequestHasNotRun(t *testing.T) {
	status := func(code int) error { return &call.StatusError{Status: code} }
	for name, test := range map[string]struct {
		err    error // error of the Wire
		code   int64 // error code of the response
		proven bool
	}{
		"nothing sent":                 {err: fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrConnectionLost), proven: true},
		"rejected before the dispatch": {err: &outbound.Rejected{Err: jsonrpc.Errorf(-32022, "x")}, proven: true},
		"no credentials":               {err: fmt.Errorf("x: %w", call.ErrUnauthorized), proven: true},
		"status 400":                   {err: status(400), proven: true},
		"status 429":                   {err: status(429), proven: true},
		"status 408, also of a proxy":  {err: status(408)},
		"status 502":                   {err: status(502)},
		"connection lost":              {err: call.ErrConnectionLost},
		"result":                       {},
		"error of an unknown revision": {code: mcp.CodeUnsupportedVersion},
		"error of headers":             {code: mcp.CodeHeaderMismatch},
		"error of an unknown method":   {code: jsonrpc.CodeMethodNotFound},
		"error of params":              {code: jsonrpc.CodeInvalidParams},
		"error of a message":           {code: jsonrpc.CodeInvalidRequest},
		"error of JSON":                {code: jsonrpc.CodeParseError},
	} {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		w.send = func(_ context.Context, out *outbound.Outgoing) error {
			switch {
			case test.err != nil:
				return test.err
			case test.code != 0:
				o.Receive(message(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"x"}}`, out.ID,
					test.code)))
			default:
				o.Receive(result(t, out.ID, "x"))
			}
			return nil
		}
		req := &outbound.Request{Method: mcp.MethodCallTool, Timeout: time.Minute}
		_, err := o.Do(t.Context(), req)
		must.CheckEqual(t, req.MayHaveRun, !test.proven, name)
		must.CheckIs(t, err, test.err, name)
		w.send = nil // a later exchange does not prove anything about an earlier one
		if !test.proven {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = o.Do(ctx, req)
			must.CheckEqual(t, req.MayHaveRun, true, name)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
