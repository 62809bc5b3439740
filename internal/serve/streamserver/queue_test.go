package streamserver_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// asking is a tool that requests the roots of the client.
func asking(ctx context.Context, c *rpc.Call) (any, error) {
	answers, err := c.RequestInput(ctx, rpc.InputRequest{Method: mcp.MethodListRoots})
	if err != nil {
		return nil, err
	}
	return text(string(answers[0]))
}

// withRoots begins a session of a client that has roots.
func withRoots(p *peer) {
	p.t.Helper()
	p.send(strings.Replace(initialize(mcp.V20250618), `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1))
	p.want(`{"jsonrpc":"2.0","id":"init","result":{…`)
}

// answer answers an input request of the server.
func (p *peer) answer(question string) { p.send(p.answerTo(question)) }

func (p *peer) answerTo(question string) string {
	p.t.Helper()
	m := must.Get(jsonrpc.Parse([]byte(question), jsonrpc.Limits{}))(p.t)
	must.Equal(p.t, m.Method, mcp.MethodListRoots, question)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, m.ID)
}

// If handlers that wait for responses use all slots, the responses are still read, even after further requests.
func TestResponsesAreReadWhileAllSlotsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(handlers{"ask": asking})
		s.MaxInflight = 2
		p := connect(t, s)
		withRoots(p)
		for id := range 4 {
			p.send(legacyCall(fmt.Sprint(id), "ask", "{}"))
		}
		answered := 0
		for range 8 { // two input requests first; each response frees the slot of another call
			line := p.receive()
			if matches(line,
				`{"jsonrpc":"2.0","id":…,"result":{"content":[{"type":"text","text":"{\"roots\":[]}"}]}}`) {
				answered++
				continue
			}
			p.answer(line)
		}
		must.CheckEqual(t, answered, 4)
	})
}

// If more calls than the queue can hold wait for input, the surplus is rejected at once,
// and the others receive their responses.
func TestSurplusCallsDoNotBlockResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(handlers{"ask": asking})
		s.MaxInflight, s.Legacy.MaxInflight = 128, 128
		p := connect(t, s)
		withRoots(p)
		const calls = 700
		write := func(line string) { must.Check(t, p.write(line)) }
		go func() {
			for id := range calls {
				write(legacyCall(fmt.Sprint(id), "ask", "{}"))
			}
		}()
		start := time.Now()
		answered, rejected := 0, 0
		for answered+rejected < calls {
			line := p.receive()
			switch {
			case matches(line,
				`{"jsonrpc":"2.0","id":…,"result":{"content":[{"type":"text","text":"{\"roots\":[]}"}]}}`):
				answered++
			case matches(line, `{"jsonrpc":"2.0","id":…,"error":{"code":-32603,"message":"too many queued requests…`):
				rejected++
			default:
				go write(p.answerTo(line))
			}
		}
		must.CheckThat(t, answered >= 2*s.MaxInflight && time.Since(start) == 0,
			"%d calls have results and %d are rejected, in %v", answered, rejected, time.Since(start))
	})
}

// The first input request may be sent after the reading has stopped.
func TestInputRequestResumesReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		s := newServer(handlers{"late": func(ctx context.Context, c *rpc.Call) (any, error) {
			<-proceed
			return asking(ctx, c)
		}})
		s.MaxInflight = 1
		p := connect(t, s)
		withRoots(p)
		go func() {
			for id := range 4 {
				p.send(legacyCall(fmt.Sprint(id), "late", "{}"))
			}
		}()
		synctest.Wait()
		close(proceed)
		answered := 0
		for range 4 + 2 {
			switch line := p.receive(); {
			case strings.Contains(line, `"result"`):
				answered++
			case !strings.Contains(line, `"error"`):
				p.answer(line)
			}
		}
		must.CheckEqual(t, answered, 2)
	})
}

// A batch without free slots is rejected. Responses in it still count.
func TestBatchIsRejectedIfResponsesWaitBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(handlers{"ask": asking})
		s.MaxInflight = 1
		p := connect(t, s)
		p.send(strings.Replace(initialize(mcp.V20250326), `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1))
		p.want(`{"jsonrpc":"2.0","id":"init","result":{…`)
		p.send(legacyCall("1", "ask", "{}"))
		question := must.Get(jsonrpc.Parse([]byte(p.receive()), jsonrpc.Limits{}))(t)
		p.send(fmt.Sprintf(`[%s,{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}]`, legacyCall("2", "ask", "{}"),
			question.ID))
		p.wantBoth(`[{"jsonrpc":"2.0","id":2,"error":{"code":-32603,…`, legacyReply("1", `{"roots":[]}`))
	})
}

// A queued request that is cancelled is not served and has no response.
func TestQueuedRequestCanBeCancelled(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		s := newServer(handlers{"block": b.serve})
		s.MaxInflight = 1
		p := connect(t, s)
		e.begin(p)
		p.send(e.call("1", "block", "{}"), e.call("2", "block", "{}"), cancellation("2"), cancellation("2"))
		synctest.Wait()
		p.send(cancellation("1"))
		synctest.Wait()
		must.CheckEqual(t, len(b.started), 1)
		p.send(e.call("3", "echo", "{}"), e.call("2", "echo", "{}"))
		p.want(e.reply("3", "{}"), e.reply("2", "{}"))
	})
}

// Rule J2: a queued request also reserves its id.
func TestDuplicateQueuedIDIsRejected(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		s := newServer(handlers{"block": b.serve})
		s.MaxInflight = 2
		p := connect(t, s)
		e.begin(p)
		p.send(e.call("0", "block", "{}"), e.call("1", "block", "{}"), e.call("2", "block", "{}"),
			e.call("2", "echo", "{}"))
		p.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,…`)
		close(b.proceed)
		for range 3 {
			p.want(`{"jsonrpc":"2.0","id":…"released"}]}}`)
		}
	})
}

// During a shutdown, calls in flight can receive responses to their input requests and can
// be cancelled. New requests are rejected.
func TestDrainReadsResponsesAndRejectsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocking()
		p := connect(t, newServer(handlers{"ask": asking, "block": b.serve}))
		withRoots(p)
		p.send(legacyCall("1", "ask", "{}"), legacyCall("2", "block", "{}"))
		question := p.receive()
		<-b.started
		p.drain()
		synctest.Wait()
		p.send(legacyCall("3", "echo", "{}"), modernCall("4", "echo", "{}"))
		for _, id := range []string{"3", "4"} {
			p.want(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"the server is shutting down…`)
		}
		p.alive()
		p.answer(question)
		p.want(legacyReply("1", `{"roots":[]}`))
		p.send(cancellation("2"))
		must.Check(t, p.ended())
		<-b.ended
	})
}

// Batches during a shutdown: each request is rejected by its id, and the responses and cancellations still count.
func TestDrainReadsResponsesInBatchesAndRejectsTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, newServer(handlers{"ask": asking}))
		p.send(strings.Replace(initialize(mcp.V20250326), `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1))
		p.want(`{"jsonrpc":"2.0","id":"init","result":{…`)
		p.send(legacyCall("1", "ask", "{}"))
		question := must.Get(jsonrpc.Parse([]byte(p.receive()), jsonrpc.Limits{}))(t)
		p.drain()
		synctest.Wait()
		p.send(fmt.Sprintf(`[%s,{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}},%s]`, legacyCall("2", "echo", "{}"),
			question.ID, legacyCall("3", "echo", "{}")))
		p.wantBoth(`[{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"the server is shutting down…},`+
			`{"jsonrpc":"2.0","id":3,"error":{…}]`, legacyReply("1", `{"roots":[]}`))
		must.Check(t, p.ended())
	})
}

// wantCause fails the test unless a handler's context ends with a cancellation by the client.
func (b *blocking) wantCause(t *testing.T) {
	t.Helper()
	must.CheckIs(t, must.Receive(t, b.ended, "the call"), call.ErrCancelled)
}

// A cancellation that follows its call at once finds it: requests are accepted in the order in which they are read.
func TestCancellationRightBehindItsCallCancelsIt(t *testing.T) {
	onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
		b := newBlocking()
		p := begin(newServer(handlers{"block": b.serve}))
		for id := range 40 {
			p.send(e.call(fmt.Sprint(id), "block", "{}"), cancellation(fmt.Sprint(id)))
			b.wantCause(t)
		}
		p.alive() // the cancelled calls have no responses
	})
}

// Rule J2: the second of two requests with one id is rejected, never the first.
func TestSecondRequestWithAnIDInUseIsRejected(t *testing.T) {
	onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
		b := newBlocking()
		p := begin(newServer(handlers{"block": b.serve}))
		for id := range 40 {
			p.send(e.call(fmt.Sprint(id), "block", "{}"), e.call(fmt.Sprint(id), "echo", `{"second":true}`))
			p.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32600,"message":"the id is in use…`, id))
			b.proceed <- struct{}{}
			p.want(e.reply(fmt.Sprint(id), "released"))
		}
	})
}

// The requests of a batch are accepted before the next message is read, and in the order of the batch.
func TestRequestsOfABatchAreAcceptedInOrder(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			b := newBlocking()
			near, far := w.ends(t)
			p := serve(t, newServer(handlers{"block": b.serve}), near, far)
			p.handshake(mcp.V20250326)
			for i := range 30 {
				one, two, three := fmt.Sprint(3*i), fmt.Sprint(3*i+1), fmt.Sprint(3*i+2)
				p.send(`[`+legacyCall(one, "block", "{}")+`]`, cancellation(one))
				b.wantCause(t)
				p.send(`[` + legacyCall(two, "block", "{}") + `,` + cancellation(two) + `]`)
				b.wantCause(t)
				p.send(`[`+legacyCall(three, "block", "{}")+`]`, legacyCall(three, "echo", "{}"))
				p.want(`{"jsonrpc":"2.0","id":` + three + `,"error":{"code":-32600,…`)
				p.send(`[` + legacyCall(three, "echo", "{}") + `]`)
				p.want(`[{"jsonrpc":"2.0","id":` + three + `,"error":{"code":-32600,…}]`)
				b.proceed <- struct{}{}
				p.want(`[` + legacyReply(three, "released") + `]`)
			}
			p.alive()
		})
	}
}

// The goroutines of calls that have ended do not wait for further calls.
func TestCancelledCallsLeaveNoGoroutines(t *testing.T) {
	onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
		ended := make(chan struct{})
		release := make(chan struct{})
		p := begin(newServer(handlers{"block": func(ctx context.Context, _ *rpc.Call) (any, error) {
			<-ctx.Done()
			ended <- struct{}{}
			<-release
			return text("")
		}}))
		for id := range 16 {
			p.send(e.call(fmt.Sprint(id), "block", "{}"), cancellation(fmt.Sprint(id)))
		}
		for range 16 {
			<-ended
		}
		close(release)
		eventually(t, func() error {
			if n := goroutinesIn("(*connection).serve") + goroutinesIn("(*connection).wait"); n > 0 {
				return fmt.Errorf("%d goroutines still serve cancelled calls", n)
			}
			return nil
		})
	})
}

// goroutineID returns the number of the calling goroutine.
func goroutineID() string {
	buf := make([]byte, 64)
	return strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1]
}

// countWorkers returns the number of goroutines that serve requests or wait for them.
func countWorkers() int { return goroutinesIn("(*connection).work") }

func TestIdleWorkersServeTheNextRequests(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		var served []string
		p := connect(t, newServer(handlers{"slow": func(context.Context, *rpc.Call) (any, error) {
			time.Sleep(10 * time.Millisecond)
			served = append(served, goroutineID())
			return text("slow")
		}}))
		e.begin(p)
		call := func() {
			p.send(e.call("1", "slow", "{}"))
			p.want(e.reply("1", "slow"))
			synctest.Wait()
		}
		call()
		call()
		must.CheckEqual(t, served[0], served[1])
		time.Sleep(2 * time.Second)
		synctest.Wait()
		must.CheckEqual(t, countWorkers(), 0)
		call()
	})
}

func TestWorkersEndWithTheirConnection(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		p := connect(t, newServer(handlers{"block": b.serve}))
		e.begin(p)
		p.send(e.call("1", "block", "{}"))
		<-b.started
		close(b.proceed)
		p.want(e.reply("1", "released"))
		synctest.Wait()
		begin := time.Now()
		p.conn.Close()
		must.Check(t, p.ended())
		d := time.Since(begin)
		must.CheckThat(t, d <= 0, "the end of the connection waits %v for idle workers", d)
		must.CheckEqual(t, countWorkers(), 0)
	})
}
