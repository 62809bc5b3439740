package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Rule J2: the second request is rejected, and the first is served.
func TestDuplicateIDIsRejected(t *testing.T) {
	var inflight rpc.Inflight
	served := 0
	var e *rpc.Engine
	e = serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		served++
		second := string(appendReply(t.Context(), nil, &inflight, e, newCall(1)))
		must.CheckContains(t, second, `"id":1,"error":{"code":-32600`)
		must.Check(t, ctx.Err(), "the first request was cancelled")
		return done("first")
	})
	must.CheckContains(t, string(appendReply(t.Context(), nil, &inflight, e, newCall(1))), `"first"`)
	must.CheckEqual(t, served, 1)
	must.CheckContains(t, string(appendReply(t.Context(), nil, &inflight,
		serving(new(log), func(context.Context, *rpc.Call) (any, error) {
			return done("again")
		}), newCall(1))), `"again"`, "response to a request that uses the id again")
}

// The id of a request is kept as it was written, for the response. Programs that have only floating-point numbers may
// spell it in another way later.
func TestIDsAreEqualInEverySpelling(t *testing.T) {
	var inflight rpc.Inflight
	ids := make([]jsonrpc.ID, 0, 4)
	for _, spelling := range []string{"10.0", "10", "1e1", "1E+1"} {
		m := must.Get(jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"m"}`, spelling),
			jsonrpc.Limits{}))(t)
		must.CheckEqual(t, m.ID.String(), spelling)
		ids = append(ids, m.ID)
	}
	for i, id := range ids {
		ctx := must.Get(inflight.Begin(t.Context(), id))(t)
		for _, other := range ids {
			must.CheckIs(t, must.Err(inflight.Begin(t.Context(), other)), rpc.ErrDuplicateID, id, other)
		}
		other := ids[(i+1)%len(ids)]
		must.CheckThat(t, inflight.Cancel(other, call.ErrCancelled) && ctx.Err() != nil,
			"%s does not cancel %s", other, id)
		inflight.End(other)
		must.CheckEqual(t, inflight.Len(), 0, id)
	}
}

func TestIDsOfDifferentTypesDiffer(t *testing.T) {
	var inflight rpc.Inflight
	for _, id := range []jsonrpc.ID{jsonrpc.IntID(1), jsonrpc.StringID("1"), jsonrpc.IntID(9007199254740993),
		jsonrpc.IntID(9007199254740992)} {
		must.Check(t, must.Err(inflight.Begin(t.Context(), id)), id)
		defer inflight.End(id)
	}
	must.CheckEqual(t, inflight.Len(), 4)
}

func TestMaxLimitsRequestsInFlight(t *testing.T) {
	inflight := rpc.Inflight{Max: 2}
	for i := range int64(2) {
		must.Get(inflight.Begin(t.Context(), jsonrpc.IntID(i)))(t)
	}
	must.CheckIs(t, must.Err(inflight.Begin(t.Context(), jsonrpc.IntID(3))), rpc.ErrTooManyInFlight)
	inflight.Cancel(jsonrpc.IntID(0), call.ErrCancelled)
	must.CheckIs(t, must.Err(inflight.Begin(t.Context(), jsonrpc.IntID(3))), rpc.ErrTooManyInFlight)
	inflight.End(jsonrpc.IntID(0))
	must.Check(t, must.Err(inflight.Begin(t.Context(), jsonrpc.IntID(3))))
	inflight.End(jsonrpc.IntID(1))
	inflight.End(jsonrpc.IntID(3))
}

// Rule J15: cancellations of unknown, finished and cancelled requests are ignored.
func TestCancelIgnoresRequestsNotInFlight(t *testing.T) {
	var inflight rpc.Inflight
	inflight.Cancel(jsonrpc.IntID(1), call.ErrCancelled) // before the first request
	inflight.Cancel(jsonrpc.ID{}, call.ErrCancelled)
	ctx := must.Get(inflight.Begin(t.Context(), jsonrpc.IntID(1)))(t)
	inflight.Cancel(jsonrpc.StringID("1"), call.ErrCancelled)
	inflight.Cancel(jsonrpc.IntID(2), call.ErrCancelled)
	must.Check(t, ctx.Err(), "the cancellation of another id ended the request")
	inflight.Cancel(jsonrpc.IntID(1), call.ErrCancelled)
	inflight.Cancel(jsonrpc.IntID(1), errors.New("twice"))
	must.CheckIs(t, context.Cause(ctx), call.ErrCancelled)
	must.CheckThat(t, !inflight.End(jsonrpc.IntID(1)), "End reports true for a cancelled request")
	inflight.Cancel(jsonrpc.IntID(1), call.ErrCancelled)
	must.CheckThat(t, !inflight.End(jsonrpc.IntID(1)), "End reports true for an unknown request")
}

// Rule J15: when a cancellation and a response race, the response is complete or not sent.
func TestCancellationAndResponseRaceSafely(t *testing.T) {
	var inflight rpc.Inflight
	e := serving(new(log), func(context.Context, *rpc.Call) (any, error) { return done("x") })
	for i := range int64(1000) {
		var wg sync.WaitGroup
		var reply []byte
		c := newCall(i)
		wg.Go(func() { inflight.Cancel(c.ID(), call.ErrCancelled) })
		wg.Go(func() { reply = appendReply(t.Context(), nil, &inflight, e, c) })
		wg.Wait()
		must.That(t, len(reply) == 0 || jsonrpc.Check(reply, jsonrpc.Limits{}) == nil &&
			strings.HasSuffix(string(reply), "}}"), "incomplete response: %s", reply)
		must.Equal(t, inflight.Len(), 0)
	}
}

func TestCancelAllEndsEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inflight rpc.Inflight
		lost := errors.New("connection lost")
		e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
			<-ctx.Done()
			must.CheckIs(t, context.Cause(ctx), lost)
			return done("late")
		})
		var wg sync.WaitGroup
		for i := range int64(10) {
			wg.Go(func() {
				must.CheckEqual(t, string(appendReply(t.Context(), []byte("x"), &inflight, e, newCall(i))), "x")
			})
		}
		synctest.Wait()
		inflight.CancelAll(lost)
		wg.Wait()
		inflight.CancelAll(lost)
		must.CheckEqual(t, inflight.Len(), 0)
	})
}

func TestSubscriptionsHaveTheirOwnLimit(t *testing.T) {
	f := &rpc.Inflight{Max: 1}
	served := make(chan struct{})
	listening := rpc.NewEngine(rpc.Handlers{mcp.MethodListen: func(ctx context.Context, c *rpc.Call) (any, error) {
		served <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}, nil)
	var wg sync.WaitGroup
	listen := func(i int) {
		wg.Go(func() {
			c := callOf(int64(i), mcp.MethodListen, mcp.V20260728)
			out := appendReply(t.Context(), nil, f, listening, c)
			must.CheckThat(t, len(out) == 0, "response to a cancelled subscription: %s", out)
		})
		<-served
	}
	for i := range rpc.MaxSubscriptions {
		listen(i)
	}
	must.CheckEqual(t, f.Len(), 0)
	must.Check(t, must.Err(f.Begin(t.Context(), jsonrpc.StringID("call"))), "the first request")
	must.CheckIs(t, must.Err(f.Begin(t.Context(), jsonrpc.StringID("another"))), rpc.ErrTooManyInFlight)
	beyond := callOf(1<<20, mcp.MethodListen, mcp.V20260728)
	out := appendReply(t.Context(), nil, f, listening, beyond)
	must.CheckContains(t, string(out), rpc.ErrTooManySubscriptions.Error(), "a subscription above the limit", out)
	f.Cancel(jsonrpc.IntID(3), call.ErrCancelled)
	listen(rpc.MaxSubscriptions) // may begin before the cancelled handler returns
	f.CancelAll(call.ErrCancelled)
	wg.Wait()
	for i := range 2 { // the count is correct afterwards
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for i := range rpc.MaxSubscriptions {
				listen(i)
			}
			f.CancelAll(call.ErrCancelled)
			wg.Wait()
		})
	}
}

func TestPeerCacheIsLimited(t *testing.T) {
	var peers rpc.PeerCache
	for i := range 1000 {
		info := fmt.Appendf(nil, `{"name":"n%d","version":"1"}`, i)
		capabilities := fmt.Appendf(nil, `{"experimental":{"n%d":{}}}`, i)
		p := must.Get(peers.Decode(info, capabilities))(t)
		must.Equal(t, p.Info.Name, fmt.Sprintf("n%d", i), p)
		infos, caps := peers.Cached()
		must.That(t, infos <= 128 && caps <= 128, "%d infos and %d capabilities are cached", infos, caps)
	}
	before, _ := peers.Cached()
	long := fmt.Appendf(nil, `{"name":"%s","version":"1"}`, strings.Repeat("n", 5000))
	must.Get(peers.Decode(long, []byte("{}")))(t)
	infos, _ := peers.Cached()
	must.CheckEqual(t, infos, before, "an info of 5 kB is cached")
}

func TestPeerCacheDecodesEqualBytesOnce(t *testing.T) {
	var peers rpc.PeerCache
	info, capabilities := []byte(`{"name":"a","version":"1"}`), []byte(`{"roots":{}}`)
	first := must.Get(peers.Decode(info, capabilities))(t)
	info[9] = 'b' // the cache must not refer to the bytes of the caller
	info[9] = 'a'
	second := must.Get(peers.Decode(info, capabilities))(t)
	must.CheckEqual(t, first, second, first.Info, second.Info)
	unnamed, err := peers.Decode(nil, []byte("{}"))
	must.CheckThat(t, err == nil && unnamed.Info != nil && unnamed.Info.Name == "",
		"without info: %+v, %v", unnamed, err)
}

func TestPeerCacheRejectsInvalidPeers(t *testing.T) {
	var peers rpc.PeerCache
	for _, test := range [][2]string{
		{`{"name":1}`, `{}`}, {`{"name":"a","name":"b"}`, `{}`}, {`{}`, `{"roots":[]}`}, {`{}`, ``},
	} {
		if p, err := peers.Decode([]byte(test[0]), []byte(test[1])); err == nil {
			t.Errorf("%s %s: %+v", test[0], test[1], p)
		}
	}
	infos, caps := peers.Cached()
	must.CheckThat(t, infos <= 1 && caps <= 1, "%d infos and %d capabilities are cached", infos, caps)
}

func TestPeerCacheIsSafeForConcurrentUse(t *testing.T) {
	var peers rpc.PeerCache
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 300 {
				want := fmt.Sprintf("n%d", (i+j)%200)
				p, err := peers.Decode(fmt.Appendf(nil, `{"name":%q,"version":"1"}`, want), []byte(`{}`))
				must.CheckThat(t, err == nil && p.Info.Name == want, "%+v, %v", p, err)
			}
		})
	}
	wg.Wait()
}

const (
	forwardedHead = `{"jsonrpc":"2.0","id":1,"result":`
	forwardedText = `"content":[{"type":"text","text":"caf\u00e9"}],"isError":false`
)

// longMembers are long enough to be sent without a copy.
var longMembers = forwardedText + `,"x":"` + strings.Repeat("x", 16<<10) + `"`

// forwarded is a call with an undecoded result, and the memory that the response was read into.
type forwarded struct {
	*rpc.Call
	forwarding *rpc.Forwarding
	result     *mcp.CallToolResult
	memory     []byte
}

func (f *forwarded) append(dst []byte) []byte { return f.AppendForwarded(dst, f.result, nil) }

func received(t *testing.T, result string) *forwarded {
	t.Helper()
	c := &rpc.Call{Call: *call.New(call.Description{Revision: mcp.V20251125})}
	f := rpc.ForwardingOf(rpc.NewContext(t.Context(), c))
	response := forwardedHead + result + "}"
	reserved := f.Reserve(int64(len(response)))
	memory := append(reserved, response...)
	f.Received(memory)
	from := len(reserved) + len(forwardedHead)
	source := memory[from : from+len(result) : from+len(result)]
	return &forwarded{c, f, &mcp.CallToolResult{ResultBase: mcp.ResultBase{Source: source}}, memory}
}

func TestForwardedResultIsSentFromTheMemoryOfTheResponse(t *testing.T) {
	want := "head{" + longMembers + "}"
	for _, result := range []string{
		"{" + longMembers + "}", `{"resultType":"complete",` + longMembers + "}", "{" + longMembers + `,"_meta":{}}`,
		"{ \n" + longMembers + "\r\n}",
	} {
		f := received(t, result)
		got := f.append([]byte("head"))
		must.CheckEqual(t, strings.ReplaceAll(string(got), " ", ""), want, result, got)
		must.CheckThat(t, jsonscan.Offset(f.memory, got) >= 0 && f.result.Source == nil,
			"%s is copied, or its memory can still be used", result)
	}
}

func TestForwardedResultIsCopiedIfItHasNoSpaceInItsMemory(t *testing.T) {
	long := strings.Repeat("h", 5000)
	for _, test := range []struct{ head, result, want string }{
		{"head", `{"a":1,"_meta":{},` + longMembers + `}`, `head{"a":1,` + longMembers + `}`}, // not one slice
		{long, `{` + longMembers + `}`, long + `{` + longMembers + `}`},
		{"head", `{"content":[]}`, `head{"content":[]}`}, // a copy costs less than the part of the buffer that is lost
	} {
		f := received(t, test.result)
		if got := f.append([]byte(test.head)); string(got) != test.want || jsonscan.Offset(f.memory, got) >= 0 {
			t.Errorf("%s is sent as %s, want a copy %s", test.result, got, test.want)
		}
	}
}

// A request that is repeated has several responses. The results of earlier ones may still be in use.
func TestOnlyTheFirstResponseIsReadIntoABuffer(t *testing.T) {
	f := received(t, "{}")
	reserved := f.forwarding.Reserve(10)
	must.That(t, reserved == nil, "the second response gets %d bytes of a buffer", cap(reserved))
	f.result.Source = []byte("{" + forwardedText + "}") // of the second response
	want := string(f.memory)
	must.CheckEqual(t, string(f.append(nil)), "{"+forwardedText+"}")
	must.CheckEqual(t, string(f.memory), want)
}

func TestResponsesHaveMemoryOfTheirOwnUnlessTheyAreForwarded(t *testing.T) {
	f := rpc.ForwardingOf(t.Context())
	must.CheckThat(t, f.Reserve(1) == nil, "a response that is not forwarded is read into a buffer")
}
