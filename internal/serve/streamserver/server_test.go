package streamserver_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Each malformed line has its own response, and the next line is served.
func TestMalformedLineIsAnsweredAndTheNextIsServed(t *testing.T) {
	lines := map[string]struct {
		line string
		code int
	}{
		"not JSON":          {`{"jsonrpc":"2.0"`, -32700},
		"garbage":           {`hello`, -32700},
		"duplicate members": {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, -32700},
		"invalid UTF-8":     {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", -32700},
		"too deep":          {strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200), -32700},
		"batch":             {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600},
		"empty batch":       {`[]`, -32600},
		"not an object":     {`"ping"`, -32600},
		"id is null":        {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600},
		"id has a fraction": {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600},
		"id is an object":   {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600},
		"id is a boolean":   {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600},
		"id is too long":    {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`, -32600},
		"line is too long":  {`"` + strings.Repeat("x", 5000) + `"`, -32600},
	}
	for name, test := range lines {
		t.Run(name, func(t *testing.T) {
			for _, peer := range []struct {
				name  string
				begin func(p *peer)
				id    string // JSON-RPC requires null if the id is unknown; the schemas from 2025-11-25 forbid it
			}{
				{"before the handshake", func(*peer) {}, `"id":null,`},
				{"2025-06-18", func(p *peer) { p.handshake(mcp.V20250618) }, `"id":null,`},
				{"2025-11-25", func(p *peer) { p.handshake(mcp.V20251125) }, ``},
				{"2026-07-28", func(p *peer) {
					p.send(modernCall("0", "echo", "{}"))
					p.want(modernReply("0", "{}"))
				}, ``},
			} {
				t.Run(peer.name, func(t *testing.T) {
					p := connect(t, newServer(nil))
					peer.begin(p)
					p.send(test.line)
					p.want(fmt.Sprintf(`{"jsonrpc":"2.0",%s"error":{"code":%d,…`, peer.id, test.code))
					p.alive()
				})
			}
		})
	}
}

func TestMalformedRequestIsAnsweredWithItsID(t *testing.T) {
	p := connect(t, newServer(nil))
	p.send(`{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}`, `{"id":"b","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"c"}`,
		`{"jsonrpc":"2.0","id":"d","method":""}`, `{"jsonrpc":"2.0","id":"e","method":"ping","result":{}}`)
	p.want(`{"jsonrpc":"2.0","id":"a","error":{"code":-32602,…`, `{"jsonrpc":"2.0","id":"b","error":{"code":-32600,…`,
		`{"jsonrpc":"2.0","id":"c","error":{"code":-32600,…`, `{"jsonrpc":"2.0","id":"d","error":{"code":-32600,…`,
		`{"jsonrpc":"2.0","id":"e","error":{"code":-32600,…`)
	p.alive()
}

// Rule J1: ids are returned byte for byte.
func TestIDsAreReturnedUnchanged(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		p := connect(t, newServer(nil))
		e.begin(p)
		for _, id := range []string{"9007199254740993", "-1", "0", `"str"`, `""`, `"1"`, `"\u0041"`,
			"123456789012345678901234567890"} {
			p.send(e.call(id, "echo", `{"n":9007199254740993}`))
			p.want(e.reply(id, `{"n":9007199254740993}`))
		}
	})
}

// Rule J5: notifications and responses are not answered, even if they are malformed.
func TestNotificationsAndResponsesAreNeverAnswered(t *testing.T) {
	for _, e := range append(eras(), era{"before the handshake", func(*peer) {}, nil, nil}) {
		t.Run(e.name, func(t *testing.T) {
			p := connect(t, newServer(nil))
			e.begin(p)
			p.send(
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","method":"notifications/unknown","params":{}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":[]}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}`,
				`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}`,
				`{"jsonrpc":"2.0","method":"initialize","params":{}}`,
				`{"jsonrpc":"2.0","id":1,"result":{}}`,
				`{"jsonrpc":"2.0","id":1,"result":[]}`,
				`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`,
				`{"jsonrpc":"2.0","id":1,"error":{"code":"1"}}`,
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}`,
				`{"jsonrpc":"2.0","error":{"code":-32700,"message":"not JSON"}}`,
			)
			p.alive()
		})
	}
}

func TestTheHandshakeDecidesHowLaterMessagesAreRead(t *testing.T) {
	p := connect(t, newServer(nil))
	p.alive() // a ping is served before it
	p.send(legacyCall("1", "echo", "{}"))
	p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,…initialize…`)
	p.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}`)
	p.want(`{"jsonrpc":"2.0","id":"init","error":{"code":-32602,…`)
	p.handshake(mcp.V20241105)
	p.send(initialize(mcp.V20251125)) // a second one
	p.want(`{"jsonrpc":"2.0","id":"init","error":{"code":-32600,…`)
	p.send("x") // a peer of 2024-11-05 receives the id null
	p.want(`{"jsonrpc":"2.0","id":null,"error":{…`)
	p.send(legacyCall("1", "echo", "{}"))
	p.want(legacyReply("1", "{}"))
}

// Rules S8, J13: each message is classified on its own, whatever came before.
func TestBothErasShareAConnection(t *testing.T) {
	p := connect(t, newServer(nil))
	p.send(modernCall("1", "echo", "{}"))
	p.want(modernReply("1", "{}"))
	p.send(legacyCall("2", "echo", "{}")) // a modern request does not begin a session
	p.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,…`)
	p.handshake(mcp.V20250618)
	for i := range 3 {
		p.send(legacyCall("3", "echo", "{}"))
		p.want(legacyReply("3", "{}"))
		p.send(modernCall("4", "echo", "{}"))
		p.want(modernReply("4", "{}"))
		// without _meta it belongs to the session
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"server/discover"}`, i))
		p.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,…`, i))
		p.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call",` +
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01",` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`)
		p.want(`{"jsonrpc":"2.0","id":5,"error":{"code":-32022,…`)
	}
}

// blocking is a tool that waits until it is released or cancelled.
type blocking struct {
	started chan string // ids
	proceed chan struct{}
	ended   chan error // causes of the cancelled contexts
}

func newBlocking() *blocking {
	return &blocking{started: make(chan string, 100), proceed: make(chan struct{}), ended: make(chan error, 100)}
}

func (b *blocking) serve(ctx context.Context, c *rpc.Call) (any, error) {
	b.started <- c.ID().String()
	select {
	case <-b.proceed:
		return text("released")
	case <-ctx.Done():
		b.ended <- context.Cause(ctx)
		return text("cancelled")
	}
}

// Rule J2: the second request is rejected, and the first receives its response, even if they are of different eras.
func TestDuplicateIDInFlightIsRejected(t *testing.T) {
	for _, first := range eras() {
		for _, second := range eras() {
			t.Run(first.name+" then "+second.name, func(t *testing.T) {
				b := newBlocking()
				p := connect(t, newServer(handlers{"block": b.serve}))
				p.handshake(mcp.V20251125)
				p.send(first.call("1", "block", "{}"))
				<-b.started
				p.send(second.call("1", "echo", "{}"))
				p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,…`)
				close(b.proceed)
				p.want(first.reply("1", "released"))
				p.send(second.call("1", "echo", "{}"))
				p.want(second.reply("1", "{}"))
			})
		}
	}
}

// Rule J15: a cancelled request ends and has no response.
func TestCancelledRequestHasNoResponse(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		p := connect(t, newServer(handlers{"block": b.serve}))
		e.begin(p)
		p.send(e.call("1", "block", "{}"), e.call(`"1"`, "block", "{}"))
		<-b.started
		<-b.started
		p.send(cancellation("2"), cancellation("null"), cancellation("[1]"), cancellation(`"2"`),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`) // others than the two
		p.alive()
		p.send(cancellation("1"), cancellation("1"))
		must.CheckIs(t, <-b.ended, call.ErrCancelled)
		p.alive()
		close(b.proceed)
		p.want(e.reply(`"1"`, "released"))
		p.send(cancellation("1"), cancellation(`"1"`)) // both have ended
		p.alive()
		synctest.Wait()
		p.send(e.call("1", "echo", "{}")) // and their ids are free
		p.want(e.reply("1", "{}"))
	})
}

func TestCancellationAffectsItsConnectionOnly(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		s := newServer(handlers{"block": b.serve})
		p, other := connect(t, s), connect(t, s)
		e.begin(p)
		e.begin(other)
		p.send(e.call("1", "block", "{}"))
		<-b.started
		other.send(cancellation("1"))
		other.alive()
		close(b.proceed)
		p.want(e.reply("1", "released"))
	})
}

// writeSizes records the sizes of writes.
type writeSizes struct {
	halves
	sizes []int
}

func (w *writeSizes) Write(b []byte) (int, error) {
	w.sizes = append(w.sizes, len(b))
	return w.halves.Write(b)
}

func TestHandlerThatEndsItsGoroutineIsAnswered(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		p := connect(t, newServer(handlers{"exit": func(context.Context, *rpc.Call) (any, error) {
			runtime.Goexit()
			return text("")
		}}))
		e.begin(p)
		for range 20 { // more than the limit of requests in flight
			p.send(e.call("1", "exit", "{}"))
			p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`)
		}
		p.alive()
	})
}

// A client that sends many requests at once can process the first responses while the server serves the other requests.
func TestResponsesToManyRequestsAreSentInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirIn, in := io.Pipe()
		out, theirOut := io.Pipe()
		recorded := &writeSizes{halves: halves{theirIn, theirOut}}
		near := transport.Stream(halves{out, in}, transport.StreamOptions{})
		far := transport.Stream(recorded, transport.StreamOptions{})
		p := serve(t, newServer(nil), near, far)
		for range 10 { // from now on, the reader serves the tool
			p.send(modernCall("1", "echo", "{}"))
			p.want(modernReply("1", "{}"))
		}
		synctest.Wait()
		recorded.sizes = nil
		const requests = 200
		var all strings.Builder
		for id := range requests {
			all.WriteString(modernCall(fmt.Sprint(id), "echo", "{}") + "\n")
		}
		go io.WriteString(in, all.String())
		for id := range requests {
			p.want(modernReply(fmt.Sprint(id), "{}"))
		}
		synctest.Wait()
		sum := 0
		for _, size := range recorded.sizes {
			sum += size
			must.CheckThat(t, size <= 5<<10, "a write has %d bytes, want at most 5 KiB", size)
		}
		if limit := sum/(4<<10) + 1; len(recorded.sizes) > limit {
			t.Errorf("%d writes for %d bytes, want at most %d", len(recorded.sizes), sum, limit)
		}
	})
}

// Rule Y4: a client that sends messages that the server cannot use does not fill its log.
func TestUnusableMessagesDoNotFillTheLog(t *testing.T) {
	const lines = 5000
	for _, message := range []string{
		`{"jsonrpc":"2.0","method":"m","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"result":7}`,
		`{"jsonrpc":"2.0","method":"m","params":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + `}`,
	} {
		var log bytes.Buffer
		s := newServer(nil)
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p := connect(t, s)
		p.handshake(mcp.V20251125)
		for range lines {
			p.send(message)
		}
		p.alive()
		p.conn.Close()
		must.Check(t, p.ended())
		written := strings.Count(log.String(), "\n")
		if written == 0 || written > 100 || !strings.Contains(log.String(),
			fmt.Sprintf("not_logged=%d", lines-(written-1))) {
			t.Errorf("%.100s: the log has %d lines: %s", message, written, log.String()[max(0, log.Len()-300):])
		}
	}
}

// A ping whose middleware waits for another request must not keep the connection from reading that request.
func TestPingInMiddlewareDoesNotBlockTheConnection(t *testing.T) {
	s := newServer(nil)
	served := make(chan struct{})
	s.Legacy.Engine = rpc.NewEngine(rpc.Handlers{
		mcp.MethodCallTool: func(context.Context, *rpc.Call) (any, error) { close(served); return text("served") },
	}, s.Logger, func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodPing {
				<-served
			}
			return next(ctx, c)
		}
	})
	p := connect(t, s)
	p.handshake("2025-06-18")
	p.send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	p.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`)
	var both string
	for range 2 {
		both += p.receive()
	}
	must.CheckContains(t, both, `"id":"ping","result":{}`)
	must.CheckContains(t, both, `"served"`)
}

// A handler that ends its goroutine ends neither the reading nor the process.
func TestNotificationHandlerMayEndItsGoroutine(t *testing.T) {
	s := newServer(nil)
	told := make(chan struct{}, 1)
	s.Legacy.Engine = rpc.NewEngine(rpc.Handlers{
		mcp.NotificationRootsListChanged: func(context.Context, *rpc.Call) (any, error) {
			told <- struct{}{}
			runtime.Goexit()
			return nil, nil
		},
	}, s.Logger)
	p := connect(t, s)
	p.handshake(mcp.V20251125)
	p.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	<-told
	p.alive()
}

// While the handler of a notification runs, the server does not read, so it must not count
// the client as silent. The handler ends at the time of a tick.
func TestClientIsNotLostWhileItsNotificationIsHandled(t *testing.T) {
	for name, notification := range map[string]string{
		"alone":      `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		"in a batch": `[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(nil)
				s.KeepAlive = 5 * time.Second
				s.Legacy.Engine = rpc.NewEngine(rpc.Handlers{
					mcp.NotificationRootsListChanged: func(context.Context, *rpc.Call) (any, error) {
						time.Sleep(time.Minute)
						return nil, nil
					},
				}, s.Logger)
				p := connect(t, s)
				p.handshake(mcp.V20250326)
				p.send(notification)
				time.Sleep(time.Minute - time.Second)
				p.send(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`)
				p.want(`{"jsonrpc":"2.0","id":"alive","result":{}}`)
			})
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client must not wait for its time-out after it has sent a message that is too large, wherever the id is
// in the message.
func TestMessageThatIsTooLargeIsAnsweredByItsID(t *testing.T) {
	onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
		p := begin(newServer(handlers{"ask": asking}))
		large := `"` + strings.Repeat("y", 9000) + `"`
		first := e.call("41", "echo", large)
		last := strings.Replace(e.call(`0`, "echo", large), `"id":0,`, "", 1)
		last = strings.TrimSuffix(last, "}") + `,"id":"42"}`
		for id, line := range map[string]string{"41": first, `"42"`: last} {
			p.send(line)
			p.want(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32600,"message":"message too large: the limit is ` +
				`4096 bytes: …Limits.MaxMessage…`)
		}
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{"x":%s}}`, large))
		p.alive() // a notification is not answered
	})
}

// The call that waits for a response that is too large fails.
func TestResponseThatIsTooLargeFailsItsInputRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, newServer(handlers{"ask": asking}))
		withRoots(p)
		p.send(legacyCall("1", "ask", "{}"))
		question := p.receive()
		p.send(strings.Replace(p.answerTo(question), `[]`, `["`+strings.Repeat("y", 9000)+`"]`, 1))
		start := time.Now()
		p.want(`{"jsonrpc":"2.0","id":1,"error":{…`)
		must.CheckEqual(t, time.Since(start), 0)
	})
}
