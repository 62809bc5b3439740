package streamserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/mcp"
)

// wantCause fails the test unless a handler's context ends with a cancellation by the client.
func (b *blocking) wantCause(t *testing.T) {
	t.Helper()
	select {
	case cause := <-b.ended:
		if !errors.Is(cause, call.ErrCancelled) {
			t.Errorf("the handler's context ended with %v", cause)
		}
	case <-time.After(patience):
		t.Fatal("the call was not cancelled")
	}
}

// A cancellation that follows its call at once finds it: requests are accepted in the order in
// which they are read.
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

// Both eras share one space of ids.
func TestIDInUseIsRejectedInTheOtherEra(t *testing.T) {
	b := newBlocking()
	p := connect(t, newServer(handlers{"block": b.serve}))
	p.handshake(mcp.V20250618)
	p.send(modernCall("1", "block", "{}"), legacyCall("1", "echo", "{}"))
	p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,…`)
	p.send(legacyCall("2", "block", "{}"), modernCall("2", "echo", "{}"))
	p.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,…`)
	close(b.proceed)
	p.wantBoth(modernReply("1", "released"), legacyReply("2", "released"))
}

// The requests of a batch are accepted before the next message is read, and in the order of the
// batch.
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
