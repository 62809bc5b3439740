package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

const list = `{"jsonrpc":"2.0","id":%s,"method":"tools/list"}`

func request(id string) string { return fmt.Sprintf(list, id) }

// Rules J7, J8: 2025-03-26 has batches, other revisions have none.
func TestOnlyOneRevisionHasBatches(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		server, _ := newServer()
		s := newSession(t, server, version)
		_, err := s.Batch([]byte("["+request("1")+"]"), jsonrpc.Limits{})
		must.CheckThat(t, (err == nil) == (version == "2025-03-26") &&
			(err == nil || err.Code == jsonrpc.CodeInvalidRequest), "%s: %v", version, err)
	}
	server, _ := newServer()
	_, err := server.NewSession(principal.Anonymous).Batch([]byte("["+request("1")+"]"),
		jsonrpc.Limits{})
	must.CheckThat(t, err != nil, "a batch before the handshake is accepted")
}

// Rule J7.
func TestBatchIsAnsweredWithABatch(t *testing.T) {
	const (
		ok          = `{"jsonrpc":"2.0","id":%s,"result":{}}`
		notify      = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
		response    = `{"jsonrpc":"2.0","id":1,"result":{}}`
		badResponse = `{"jsonrpc":"2.0","id":1,"result":7}`
		badNotice   = `{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}`
	)
	answer := func(id string) string { return fmt.Sprintf(ok, id) }
	for _, tc := range []struct {
		name, batch, want string
		requests          bool
	}{
		{"one", "[" + request("1") + "]", "[" + answer("1") + "]", true},
		{"responses in the order of requests", "[" + request("2") + "," + request(`"b"`) + " ,\n" + request("1") + "]",
			"[" +
				answer("2") + "," + answer(`"b"`) + "," + answer("1") + "]", true},
		{"mixed", "[" + notify + "," + request("1") + "," + response + "]", "[" + answer("1") + "]", true},
		{"notifications only", "[" + notify + "," + response + "," + badResponse + "," + badNotice + "]", "", false},
		{"invalid elements", "[7," + request("1") + "]",
			`[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid message: message must be a JSON ` +
				`object"}},` +
				answer("1") + "]", true},
		{"nested batch", "[[" + request("1") + "]]",
			`[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid message: message must be a JSON ` +
				`object"}}]`,
			true},
		{"request with invalid params", `[{"jsonrpc":"2.0","id":5,"method":"tools/list","params":[1]}]`,
			`[{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"invalid message: params must be an object"}}]`,
			true},
		{"ids of two types", "[" + request("1") + "," + request(`"1"`) + "]",
			"[" + answer("1") + "," + answer(`"1"`) + "]",
			true},
		{"handler that ends its goroutine", `[{"jsonrpc":"2.0","id":1,"method":"resources/read"},` + request("2") + "]",
			`[{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}},` + answer("2") + "]", true},
	} {
		server, _ := newServer()
		s := newSession(t, server, "2025-03-26")
		b, err := s.Batch([]byte(tc.batch), jsonrpc.Limits{})
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		must.CheckEqual(t, b.HasRequests(), tc.requests, tc.name)
		if got := b.Serve(t.Context(), []byte("x"), nil); string(got) != "x"+tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, got[1:], tc.want)
		}
	}
}

// Rule J7.
func TestInvalidBatchIsRejectedAsAWhole(t *testing.T) {
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, request(fmt.Sprint(i)))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	server, calls := newServer()
	s := newSession(t, server, "2025-03-26")
	_, err := s.Batch([]byte(many(100)), jsonrpc.Limits{})
	must.CheckThat(t, err == nil, "at the limit: %v", err)
	for name, batch := range map[string]string{
		"empty":          "[]",
		"too many":       many(101),
		"duplicate id":   "[" + request("1") + "," + request("2") + "," + request("1") + "]",
		"initialize":     "[" + initialize("2025-03-26") + "]",
		"not an array":   request("1"),
		"trailing bytes": "[" + request("1") + "]]",
		"duplicate keys": `[{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}]`,
		"not UTF-8":      "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}]",
	} {
		_, err := s.Batch([]byte(batch), jsonrpc.Limits{})
		must.CheckThat(t, err != nil, "%s: accepted", name)
	}
	must.CheckEqual(t, len(calls), 0)
}

// The requests of a batch are served concurrently, up to the limit of the session.
func TestBatchIsServedConcurrently(t *testing.T) {
	server, calls := newServer() // its limit is three
	s := newSession(t, server, "2025-03-26")
	batchOf := func(ids ...int) *Batch {
		var all []string
		for _, id := range ids {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call"}`, id))
		}
		b, err := s.Batch([]byte("["+strings.Join(all, ",")+"]"), jsonrpc.Limits{})
		must.That(t, err == nil, "%v", err)
		return b
	}
	done := make(chan []byte)
	go func() { done <- batchOf(0, 1, 2).Serve(context.Background(), nil, nil) }()
	active := []handling{<-calls, <-calls, <-calls}
	want := `[{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"too many requests in flight: try again in ` +
		`1s","data":{"limit":"requests in flight","retryAfterMs":1000}}}]`
	must.CheckEqual(t, string(batchOf(3).Serve(t.Context(), nil, nil)), want)
	s.ReceiveNotification(parse(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	for _, h := range active {
		if h.call.ID() == jsonrpc.IntID(1) {
			<-h.ctx.Done()
		} else {
			close(h.release)
		}
	}
	out := <-done
	must.CheckEqual(t, string(out), `[{"jsonrpc":"2.0","id":0,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]`, out)
}

// askForRoots serves a call whose handler requests the roots of the client, and returns the
// session, the input request, and a channel for the response to the call. The handler passes the
// outcome of the input request to ended.
func askForRoots(t *testing.T, r mcp.Revision, ended func(answers []json.RawMessage, err error)) (*Session,
	*jsonrpc.Message, <-chan []byte) {
	t.Helper()
	server, _ := newServer()
	server.Engine = rpc.NewEngine(rpc.Handlers{
		mcp.MethodCallTool: func(ctx context.Context, c *rpc.Call) (any, error) {
			ended(c.RequestInput(ctx, rpc.InputRequest{Method: mcp.MethodListRoots}))
			return &mcp.EmptyResult{}, nil
		},
	}, server.Logger)
	s := newSession(t, server, string(r))
	asked, done := make(chan []byte, 1), make(chan []byte)
	request := parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	go func() { done <- serve(context.Background(), s, request, streamTo(asked)) }()
	return s, parse(t, string(<-asked)), done
}

// A response in a batch reaches its input request.
func TestBatchDeliversResponses(t *testing.T) {
	answered := make(chan error, 1)
	s, question, done := askForRoots(t, mcp.V20250326, func(answers []json.RawMessage, err error) {
		if err == nil && string(answers[0]) != `{"roots":[]}` {
			err = fmt.Errorf("answer %s", answers[0])
		}
		answered <- err
	})
	b, fault := s.Batch(fmt.Appendf(nil, `[{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}]`, question.ID),
		jsonrpc.Limits{})
	must.That(t, fault == nil, "%v", fault)
	b.Serve(t.Context(), nil, nil)
	must.Check(t, <-answered)
	<-done
}

// A response in a batch that is rejected ends its input request, which would otherwise wait
// until its time-out.
func TestRejectedBatchEndsInputRequests(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"m"}`
	for _, test := range []struct {
		revision mcp.Revision
		before   string // the messages before the response
		want     string // a part of the error
	}{
		{mcp.V20241105, note, "only sessions of revision 2025-03-26 have batches"},
		{mcp.V20250618, note, "only sessions of revision 2025-03-26 have batches"},
		{mcp.V20251125, note, "only sessions of revision 2025-03-26 have batches"},
		{mcp.V20251125, `{"a":1,"a":2}`, "duplicate"},
		{mcp.V20250326, strings.Repeat(note+",", 99) + note, "the limit is 100"},
		{mcp.V20250326, `{"a":1,"a":2}`, "duplicate"},
		{mcp.V20250326, request("7") + "," + request("7"), "unique"},
		{mcp.V20250326, `{"jsonrpc":"2.0","id":7,"method":"initialize"}`, "initialize"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			s, question, done := askForRoots(t, test.revision, func(_ []json.RawMessage, err error) {
				must.CheckThat(t, errors.Is(err, call.ErrInvalidResponse) && strings.Contains(err.Error(), test.want) &&
					time.Since(begin) <= 0, "%s, %.100s: after %v: %v", test.revision, test.before, time.Since(begin),
					err)
				limit := new(jsonrpc.LimitError)
				must.CheckEqual(t, errors.As(err, &limit), strings.Contains(test.want, "limit"), test.revision, limit)
			})
			batch := fmt.Sprintf(`[%s,{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}]`, test.before, question.ID)
			_, fault := s.Batch([]byte(batch), jsonrpc.Limits{})
			must.CheckThat(t, fault != nil && strings.Contains(fault.Message, test.want),
				"%s, %.100s: the response is %v", test.revision, test.before, fault)
			<-done
		})
	}
}

// streamTo is a stream that sends messages to a channel.
type streamTo chan []byte

func (s streamTo) Write(_ context.Context, msg []byte) error {
	s <- append([]byte(nil), msg...)
	return nil
}

// brokenStream drops messages and reports that it is broken.
type brokenStream struct{ err error }

func (brokenStream) Write(context.Context, []byte) error { return nil }
func (b brokenStream) Broken() error                     { return b.err }

// Rule T21: a disconnect is not a cancellation, so the handler continues. An input request that
// cannot be sent fails at once.
func TestInputRequestFailsOnABrokenStream(t *testing.T) {
	server, _ := newServer()
	asked := make(chan error, 1)
	server.Engine = rpc.NewEngine(rpc.Handlers{
		mcp.MethodCallTool: func(ctx context.Context, c *rpc.Call) (any, error) {
			_, err := c.RequestInput(ctx, rpc.InputRequest{Method: mcp.MethodListRoots})
			asked <- err
			return &mcp.EmptyResult{}, nil
		},
	}, server.Logger)
	s := newSession(t, server, "2025-11-25")
	reset := errors.New("connection reset")
	serve(t.Context(), s, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), brokenStream{reset})
	must.CheckIs(t, <-asked, reset)
}
