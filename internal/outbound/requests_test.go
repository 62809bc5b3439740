package outbound_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// wire is a Wire that records what is sent.
type wire struct {
	t    *testing.T
	sent chan jsonrpc.Message
	send func(ctx context.Context, out *outbound.Outgoing) error // nil: Send only records the message
}

func newWire(t *testing.T) *wire { return &wire{t: t, sent: make(chan jsonrpc.Message, 10_000)} }

func (w *wire) Send(ctx context.Context, out *outbound.Outgoing) error {
	m, err := jsonrpc.Parse(bytes.Clone(out.Message), jsonrpc.Limits{})
	must.CheckThat(w.t, err == nil && !bytes.ContainsAny(out.Message, "\r\n"), "sent %q: %v", out.Message, err)
	must.CheckEqual(w.t, m.ID, out.ID, out.Message)
	must.CheckEqual(w.t, m.Method, out.Method, out.Message)
	if w.send != nil {
		return w.send(ctx, out)
	}
	w.sent <- m
	return nil
}

func (w *wire) SetRevision(mcp.Revision) {}
func (w *wire) Close() error             { return nil }

// none fails if anything was sent.
func (w *wire) none() {
	w.t.Helper()
	select {
	case m := <-w.sent:
		w.t.Errorf("sent %s %s %s", m.Method, m.ID, m.Raw)
	default:
	}
}

func message(t *testing.T, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(text), jsonrpc.Limits{})
	must.Do(t, err, text)
	return &m
}

func result(t *testing.T, id jsonrpc.ID, text string) *jsonrpc.Message {
	t.Helper()
	return message(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"text":%q}}`, id, text))
}

func progress(t *testing.T, token jsonrpc.ID, done int) *jsonrpc.Message {
	t.Helper()
	return message(t,
		fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`,
			token, done))
}

// outcome is what Do returned.
type outcome struct {
	resp outbound.Response
	err  error
}

// do runs Do in a goroutine.
func do(ctx context.Context, o *outbound.Requests, req *outbound.Request) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		resp, err := o.Do(ctx, req)
		got <- outcome{resp, err}
	}()
	return got
}

// Rules J2, J3: responses in any order reach their requests.
func TestResponsesReachTheirRequestsInAnyOrder(t *testing.T) {
	w := newWire(t)
	o := &outbound.Requests{Wire: w}
	const n = 500
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			want := fmt.Sprintf(`{"nonce":%d}`, i)
			resp, err := o.Do(t.Context(), &outbound.Request{Method: "echo", Params: []byte(want),
				Timeout: time.Minute})
			must.CheckThat(t, err == nil && string(resp.Result) == want,
				"response to %s: %s, %v", want, resp.Result, err)
		})
	}
	all := make([]jsonrpc.Message, n)
	ids := make(map[jsonrpc.ID]bool)
	for i := range all {
		all[i] = <-w.sent
		must.CheckThat(t, !ids[all[i].ID], "id %s is used twice", all[i].ID)
		ids[all[i].ID] = true
	}
	rand.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	var answering sync.WaitGroup
	for worker := range 4 {
		answering.Go(func() {
			for i := worker; i < n; i += 4 {
				reply := message(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, all[i].ID, all[i].Raw))
				if !o.Receive(reply) {
					t.Errorf("%s: no request in flight", all[i].ID)
				}
			}
		})
	}
	answering.Wait()
	wg.Wait()
	must.CheckEqual(t, o.Pending(), 0)
}

// Rule J3: a response with an unknown id, or with an id of another type, does not complete a request.
func TestResponsesToUnknownIDsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		got := do(t.Context(), o, &outbound.Request{Method: "a"})
		id := (<-w.sent).ID
		for _, other := range []jsonrpc.ID{jsonrpc.IntID(999), jsonrpc.StringID(id.String())} {
			must.CheckThat(t, !o.Receive(result(t, other, "wrong")), "a response to %s was taken", other)
		}
		withoutID := message(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"unreadable"}}`)
		must.CheckThat(t, !o.Receive(withoutID), "an error without an id was taken")
		synctest.Wait()
		select {
		case r := <-got:
			t.Fatalf("completed: %+v", r)
		default:
		}
		o.Receive(result(t, id, "right"))
		if r := <-got; r.err != nil || string(r.resp.Result) != `{"text":"right"}` {
			t.Errorf("got %s, %v", r.resp.Result, r.err)
		}
		must.CheckThat(t, !o.Receive(result(t, id, "late")), "a late response was taken")
	})
}

func TestSecondResponseIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		w.send = func(_ context.Context, out *outbound.Outgoing) error {
			o.Receive(result(t, out.ID, "first"))
			o.Receive(message(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"second"}}`,
				out.ID)))
			return errors.New("cannot send")
		}
		for _, onProgress := range []func(outbound.Progress){nil, func(outbound.Progress) {}} {
			resp, err := o.Do(t.Context(), &outbound.Request{Method: "a", OnProgress: onProgress})
			must.CheckThat(t, err == nil && string(resp.Result) == `{"text":"first"}` && resp.Err == nil,
				"got %s, %v, %v", resp.Result, resp.Err, err)
		}
	})
}

func TestErrorOfThePeerIsPartOfTheResponse(t *testing.T) {
	w := newWire(t)
	o := &outbound.Requests{Wire: w}
	w.send = func(_ context.Context, out *outbound.Outgoing) error {
		o.Receive(message(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-7,"message":"no","data":[1]}}`,
			out.ID)))
		return nil
	}
	resp, err := o.Do(t.Context(), &outbound.Request{Method: "a"})
	must.CheckThat(t, err == nil && resp.Err != nil && resp.Err.Code == -7 && string(resp.Err.Data) == "[1]",
		"got %+v, %v", resp, err)
}

// Rule J4: a request ends when its response is invalid.
func TestInvalidResponseEndsItsRequest(t *testing.T) {
	w := newWire(t)
	o := &outbound.Requests{Wire: w}
	w.send = func(_ context.Context, out *outbound.Outgoing) error {
		for _, bad := range []string{
			`{"jsonrpc":"2.0","id":999,"result":[]}`,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":""}}`, out.ID),
		} {
			m, err := jsonrpc.Parse([]byte(bad), jsonrpc.Limits{})
			must.CheckThat(t, err != nil, "%s is valid", bad)
			o.ReceiveInvalid(&m, err)
		}
		return nil
	}
	_, err := o.Do(t.Context(), &outbound.Request{Method: "a"})
	var invalid *jsonrpc.InvalidMessageError
	must.CheckThat(t, errors.Is(err, call.ErrInvalidResponse) && errors.As(err, &invalid), "got %v", err)
}

func TestSendErrorEndsTheRequest(t *testing.T) {
	w := newWire(t)
	broken := errors.New("broken")
	w.send = func(context.Context, *outbound.Outgoing) error { return broken }
	o := &outbound.Requests{Wire: w, NotifyCancelled: true}
	for _, onProgress := range []func(outbound.Progress){nil, func(outbound.Progress) {}} {
		must.CheckIs(t, must.Err(o.Do(t.Context(), &outbound.Request{Method: "a", OnProgress: onProgress})), broken)
	}
	must.CheckEqual(t, o.Pending(), 0)
}

func TestRequestsAreEncoded(t *testing.T) {
	for _, test := range []struct {
		name string
		meta string // _meta of every request
		req  outbound.Request
		want string
	}{
		{"no params", "", outbound.Request{}, `{"jsonrpc":"2.0","id":1,"method":"m"}`},
		{"empty params", "", outbound.Request{Params: []byte("{}")},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`},
		{"params", "", outbound.Request{Params: []byte(`{"a":1}`)},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`},
		{"params with line breaks", "", outbound.Request{Params: []byte(" {\n \"a\": 1,\r\n\"b\":\"\\n\" } ")},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": 1,  "b":"\n"}}`},
		{"empty params with a space, and _meta", `"a":1`, outbound.Request{Params: []byte("{ }")},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1}}}`},
		{"_meta without params", `"a":1`, outbound.Request{},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1}}}`},
		{"everything", `"a":1`, outbound.Request{
			Params: []byte(`{"x":{}}`), OnProgress: func(outbound.Progress) {},
			Meta: map[string]json.RawMessage{"c": []byte("[\n3]"), "b\"": []byte("2")},
		}, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":{},"_meta":{"a":1,"progressToken":1,"b\"":2,"c":[ ` +
			`3]}}}`},
		{"only a progress token", "", outbound.Request{OnProgress: func(outbound.Progress) {}},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWire(t)
			o, req := &outbound.Requests{Wire: w, Meta: []byte(test.meta)}, test.req
			req.Method = "m"
			w.send = func(_ context.Context, out *outbound.Outgoing) error {
				must.CheckEqual(t, string(out.Message), test.want)
				o.Receive(result(t, out.ID, ""))
				return nil
			}
			must.Check(t, must.Err(o.Do(t.Context(), &req)))
		})
	}
}

func TestOutboundsWithSharedIDsDoNotReuseIDs(t *testing.T) {
	w := newWire(t)
	ids := new(atomic.Int64)
	a, b := outbound.Requests{IDs: ids}, outbound.Requests{IDs: ids}
	seen := make(map[jsonrpc.ID]bool)
	for _, o := range []*outbound.Requests{&a, &b, &a, &b} {
		o.Wire = w
		w.send = func(_ context.Context, out *outbound.Outgoing) error {
			must.CheckThat(t, !seen[out.ID], "id %s is used twice", out.ID)
			seen[out.ID] = true
			o.Receive(result(t, out.ID, ""))
			return nil
		}
		must.Check(t, must.Err(o.Do(t.Context(), &outbound.Request{Method: "a"})))
	}
}

// Rule S5: a lost connection ends each request once, with the reason. The caller may repeat a request that was
// not sent, even if the connection failed before Send returned.
func TestARequestThatWasNotSentHasThatError(t *testing.T) {
	for _, progress := range []func(outbound.Progress){nil, func(outbound.Progress) {}} {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		w.send = func(context.Context, *outbound.Outgoing) error {
			o.Fail(call.ErrConnectionLost)
			return fmt.Errorf("%w: rejected", call.ErrNotSent)
		}
		must.CheckIs(t, must.Err(o.Do(t.Context(), &outbound.Request{Method: "a", OnProgress: progress})),
			call.ErrNotSent, progress != nil)
	}
}

func TestLostConnectionEndsAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w, NotifyCancelled: true}
		var all []<-chan outcome
		for i := range 20 {
			req := &outbound.Request{Method: "a", Timeout: time.Minute}
			if i%2 == 0 {
				req.OnProgress = func(outbound.Progress) {}
			}
			all = append(all, do(t.Context(), o, req))
		}
		for range all {
			<-w.sent
		}
		must.Check(t, o.Failed())
		o.Fail(fmt.Errorf("%w: broken pipe", call.ErrConnectionLost))
		o.Fail(call.ErrClosed)
		for _, got := range all {
			if r := <-got; !errors.Is(r.err, call.ErrConnectionLost) || errors.Is(r.err, call.ErrClosed) {
				t.Errorf("got %v", r.err)
			}
		}
		w.none() // the peer cannot receive a cancellation
		must.CheckIs(t, o.Failed(), call.ErrConnectionLost)
		_, err := o.Do(t.Context(), &outbound.Request{Method: "a"})
		must.CheckIs(t, err, call.ErrConnectionLost)
		must.CheckIs(t, err, call.ErrNotSent)
		w.none()
	})
}

// Fail ends Send, which over HTTP waits for the response.
func TestFailEndsSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		w.send = func(ctx context.Context, _ *outbound.Outgoing) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		o := &outbound.Requests{Wire: w}
		for _, onProgress := range []func(outbound.Progress){nil, func(outbound.Progress) {}} {
			got := do(t.Context(), o, &outbound.Request{Method: "a", OnProgress: onProgress})
			synctest.Wait()
			o.Fail(call.ErrClosed)
			must.CheckIs(t, (<-got).err, call.ErrClosed)
			o = &outbound.Requests{Wire: w}
		}
	})
}

// Do waits for Send.
func TestDoReturnsAfterSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		returned := false
		w.send = func(ctx context.Context, out *outbound.Outgoing) error {
			o.Receive(result(t, out.ID, ""))
			time.Sleep(time.Second) // the response arrives before the end of the stream
			returned = true
			return ctx.Err()
		}
		if _, err := o.Do(t.Context(), &outbound.Request{Method: "a",
			OnProgress: func(outbound.Progress) {}}); err != nil || !returned {
			t.Errorf("Send has returned: %v, error %v", returned, err)
		}
	})
}

func goroutineID() string {
	buf := make([]byte, 64)
	id, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "[")
	return id
}

func TestOnProgressRunsInTheGoroutineOfDo(t *testing.T) {
	w := newWire(t)
	o := &outbound.Requests{Wire: w}
	w.send = func(_ context.Context, out *outbound.Outgoing) error {
		for i := range 3 {
			o.Receive(progress(t, out.ID, i))
		}
		o.Receive(result(t, out.ID, ""))
		o.Receive(progress(t, out.ID, 99)) // Rule J17: after completion
		return nil
	}
	caller := goroutineID()
	var reports []float64
	returned := false
	_, err := o.Do(t.Context(), &outbound.Request{Method: "a", OnProgress: func(p outbound.Progress) {
		id := goroutineID()
		must.CheckThat(t, id == caller && !returned, "reported in %s, not %s, returned %v", id, caller, returned)
		reports = append(reports, p.Done)
	}})
	returned = true
	must.Do(t, err)
	must.CheckEqual(t, fmt.Sprint(reports), "[0 1 2]", reports)
}

// Rule J17: progress for unknown tokens is ignored.
func TestProgressForUnknownTokensIsIgnored(t *testing.T) {
	w := newWire(t)
	o := &outbound.Requests{Wire: w}
	w.send = func(_ context.Context, out *outbound.Outgoing) error {
		for _, params := range []string{
			``, `,"params":{}`, `,"params":{"progressToken":null,"progress":1}`,
			`,"params":{"progressToken":999,"progress":1}`,
			fmt.Sprintf(`,"params":{"progressToken":"%s","progress":1}`, out.ID),
			fmt.Sprintf(`,"params":{"progressToken":%s,"progress":"1"}`, out.ID),
			fmt.Sprintf(`,"params":{"progressToken":%s.5,"progress":1}`, out.ID),
		} {
			must.CheckThat(t, o.Receive(message(t, `{"jsonrpc":"2.0","method":"notifications/progress"`+params+`}`)),
				"Receive reports false for progress with %s", params)
		}
		o.Receive(result(t, out.ID, ""))
		return nil
	}
	must.Check(t, must.Err(o.Do(t.Context(), &outbound.Request{Method: "a", OnProgress: func(p outbound.Progress) {
		t.Errorf("reported %+v", p)
	}})))
	must.CheckThat(t, !o.Receive(message(t, `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)),
		"another notification was taken")
	must.CheckThat(t, !o.Receive(message(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)), "a request was taken")
}

// The queue of progress reports is limited, and keeps the last one.
func TestSlowOnProgressReceivesTheLastReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		slow := make(chan struct{})
		var reports []float64
		got := do(t.Context(), o, &outbound.Request{Method: "a", OnProgress: func(p outbound.Progress) {
			if len(reports) == 0 {
				<-slow
			}
			reports = append(reports, p.Done)
		}})
		id := (<-w.sent).ID
		o.Receive(progress(t, id, 0))
		synctest.Wait() // OnProgress blocks
		for i := range 1000 {
			o.Receive(progress(t, id, i+1))
		}
		o.Receive(result(t, id, ""))
		close(slow)
		must.Do(t, (<-got).err)
		if n := len(reports); n != 257 || reports[255] != 255 || reports[256] != 1000 {
			t.Errorf("%d reports, the last are %v", n, reports[max(n-3, 0):])
		}
	})
}

// Progress for tokens that are not yet in use has no effect.
func TestProgressForFutureTokensIsIgnored(t *testing.T) {
	w := newWire(t)
	o := &outbound.Requests{Wire: w}
	w.send = func(_ context.Context, out *outbound.Outgoing) error {
		o.Receive(result(t, out.ID, ""))
		return nil
	}
	stop, flooding := make(chan struct{}), make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				o.Report(jsonrpc.IntID(int64(i%300)), outbound.Progress{Done: 1})
			}
			if i == 0 {
				close(flooding)
			}
		}
	})
	<-flooding
	for range 300 {
		if _, err := o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: time.Minute, MaxTimeout: time.Hour,
			OnProgress: func(outbound.Progress) {}}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	flood.Wait()
}

// For the race detector: responses, progress, cancellations and a failure at the same time.
func TestOutboundIsSafeForConcurrentUse(t *testing.T) {
	for range 20 {
		w := newWire(t)
		o := &outbound.Requests{Wire: w, NotifyCancelled: true}
		w.send = func(_ context.Context, out *outbound.Outgoing) error {
			if out.ID.IsZero() {
				return nil
			}
			go func() {
				o.Report(out.ID, outbound.Progress{Done: 1})
				if n, _ := out.ID.Int(); n%3 > 0 {
					o.Receive(result(t, out.ID, "x"))
				}
			}()
			return nil
		}
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%5 == 0 {
					go cancel()
				}
				req := &outbound.Request{Method: "a", Timeout: time.Minute}
				if i%2 == 0 {
					req.OnProgress = func(outbound.Progress) {}
				}
				resp, err := o.Do(ctx, req)
				must.CheckThat(t, (err == nil) != (resp.Result == nil), "got %s, %v", resp.Result, err)
			})
		}
		for o.Pending() > 20 {
			runtime.Gosched()
		}
		o.Fail(call.ErrConnectionLost)
		wg.Wait()
		must.CheckEqual(t, o.Pending(), 0)
	}
}

func TestResponsesOfARejectedBatchAreIdentified(t *testing.T) {
	response := func(id any, result string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result)
	}
	var members []string
	for i := range 10_001 {
		members = append(members, fmt.Sprintf(`"%d":0`, i))
	}
	wide := "{" + strings.Join(members, ",") + "}"
	var long []string
	var all []jsonrpc.ID
	for i := range 101 {
		long = append(long, response(i, "{}"))
		all = append(all, jsonrpc.IntID(int64(i)))
	}
	for name, c := range map[string]struct {
		batch string
		want  []jsonrpc.ID
		limit string
	}{
		"too long": {"[" + strings.Join(long, ",") + "]", all, "MaxBatch"},
		"too wide": {"[" + response(1, wide) + " , " + response(2, "{}") + "]",
			[]jsonrpc.ID{jsonrpc.IntID(1), jsonrpc.IntID(2)}, "MaxMembers"},
		"requests too": {`[{"jsonrpc":"2.0","id":1,"method":"m"},` + response(`"a"`, wide) + "]",
			[]jsonrpc.ID{jsonrpc.StringID("a")}, "MaxMembers"},
		"incomplete": {"[" + response(1, "{}") + "," + `{"jsonrpc":"2.0","id":2`, []jsonrpc.ID{jsonrpc.IntID(1)}, ""},
		"empty":      {"[]", nil, ""},
		"numbers":    {"[1,2", nil, ""},
		"no batch":   {response(1, "{}"), nil, ""},
	} {
		_, err := jsonrpc.SplitBatch([]byte(c.batch), jsonrpc.Limits{})
		var limit *jsonrpc.LimitError
		must.CheckThat(t, err != nil && errors.As(err, &limit) == (c.limit != "") &&
			(limit == nil || limit.Name == c.limit), "%s: %v", name, err)
		got := slices.Collect(outbound.Responses([]byte(c.batch)))
		must.CheckThat(t, slices.Equal(got, c.want), "%s: got %v, want %v", name, got, c.want)
	}
}
