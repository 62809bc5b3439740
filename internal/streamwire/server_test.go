package streamwire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// I12: each bad line has its own answer, and the next line is served.
func TestABadLineIsAnsweredAndTheNextIsServed(t *testing.T) {
	lines := map[string]struct {
		line string
		code int
	}{
		"no JSON":               {`{"jsonrpc":"2.0"`, -32700},
		"garbage":               {`hello`, -32700},
		"duplicate members":     {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, -32700},
		"invalid UTF-8":         {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", -32700},
		"too deep":              {strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200), -32700},
		"a batch":               {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600},
		"an empty batch":        {`[]`, -32600},
		"no object":             {`"ping"`, -32600},
		"an id of null":         {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600},
		"an id with a fraction": {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600},
		"an object as id":       {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600},
		"a boolean as id":       {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600},
		"a long id":             {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`, -32600},
		"too long a line":       {`"` + strings.Repeat("x", 5000) + `"`, -32600},
	}
	for name, test := range lines {
		t.Run(name, func(t *testing.T) {
			for _, peer := range []struct {
				name  string
				begin func(p *peer)
				id    string // JSON-RPC has null where no id could be read; the schemas from 2025-11-25 have none
			}{
				{"at first", func(*peer) {}, `"id":null,`},
				{"2025-06-18", func(p *peer) { p.shakeHands(mcp.V20250618) }, `"id":null,`},
				{"2025-11-25", func(p *peer) { p.shakeHands(mcp.V20251125) }, ``},
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

func TestAMalformedRequestIsAnsweredWithItsID(t *testing.T) {
	p := connect(t, newServer(nil))
	p.send(`{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}`, `{"id":"b","method":"ping"}`, `{"jsonrpc":"2.0","id":"c"}`,
		`{"jsonrpc":"2.0","id":"d","method":""}`, `{"jsonrpc":"2.0","id":"e","method":"ping","result":{}}`)
	p.want(`{"jsonrpc":"2.0","id":"a","error":{"code":-32602,…`, `{"jsonrpc":"2.0","id":"b","error":{"code":-32600,…`,
		`{"jsonrpc":"2.0","id":"c","error":{"code":-32600,…`, `{"jsonrpc":"2.0","id":"d","error":{"code":-32600,…`,
		`{"jsonrpc":"2.0","id":"e","error":{"code":-32600,…`)
	p.alive()
}

// J1: ids are echoed byte for byte.
func TestIDsAreEchoedAsTheyWere(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		p := connect(t, newServer(nil))
		e.begin(p)
		for _, id := range []string{"9007199254740993", "-1", "0", `"str"`, `""`, `"1"`, `"\u0041"`, "123456789012345678901234567890"} {
			p.send(e.call(id, "echo", `{"n":9007199254740993}`))
			p.want(e.reply(id, `{"n":9007199254740993}`))
		}
	})
}

// J5: neither notifications nor responses are answered, however wrong they are.
func TestNotificationsAndResponsesAreNeverAnswered(t *testing.T) {
	for _, e := range append(eras(), era{"before anything", func(*peer) {}, nil, nil}) {
		t.Run(e.name, func(t *testing.T) {
			p := connect(t, newServer(nil))
			e.begin(p)
			p.send(
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","method":"notifications/unheard-of","params":{}}`,
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

// 2025-11-25, basic/lifecycle: nothing but pings before the handshake.
func TestNothingButPingIsServedBeforeTheHandshake(t *testing.T) {
	p := connect(t, newServer(nil))
	p.alive()
	p.send(legacyCall("1", "echo", "{}"))
	p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,…initialize…`)
	p.shakeHands(mcp.V20241105)
	p.send(legacyCall("1", "echo", "{}"))
	p.want(legacyReply("1", "{}"))
}

func TestASecondHandshakeIsRefusedAndTheFirstStays(t *testing.T) {
	p := connect(t, newServer(nil))
	p.shakeHands(mcp.V20241105)
	p.send(initialize(mcp.V20251125))
	p.want(`{"jsonrpc":"2.0","id":"init","error":{"code":-32600,…`)
	p.send("x") // a peer of 2024-11-05 gets an id of null
	p.want(`{"jsonrpc":"2.0","id":null,"error":{…`)
	p.send(legacyCall("1", "echo", "{}"))
	p.want(legacyReply("1", "{}"))
}

func TestAFailedHandshakeCanBeRepeated(t *testing.T) {
	p := connect(t, newServer(nil))
	p.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}`)
	p.want(`{"jsonrpc":"2.0","id":"init","error":{"code":-32602,…`)
	p.shakeHands(mcp.V20251125)
}

// S8, J13: each message is judged by itself, whatever came before it.
func TestBothErasShareAConnection(t *testing.T) {
	p := connect(t, newServer(nil))
	p.send(modernCall("1", "echo", "{}"))
	p.want(modernReply("1", "{}"))
	p.send(legacyCall("2", "echo", "{}")) // a modern request is no handshake
	p.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32600,…`)
	p.shakeHands(mcp.V20250618)
	for i := range 3 {
		p.send(legacyCall("3", "echo", "{}"))
		p.want(legacyReply("3", "{}"))
		p.send(modernCall("4", "echo", "{}"))
		p.want(modernReply("4", "{}"))
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"server/discover"}`, i)) // no _meta: a handshake is none for it
		p.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,…`, i))
		p.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		p.want(`{"jsonrpc":"2.0","id":5,"error":{"code":-32022,…`)
	}
}

// blocking is a tool that waits until it may go on, or is cancelled.
type blocking struct {
	started chan string // ids
	proceed chan struct{}
	ended   chan error // why the context ended, of those that were cancelled
}

func newBlocking() *blocking {
	return &blocking{started: make(chan string, 100), proceed: make(chan struct{}), ended: make(chan error, 100)}
}

func (b *blocking) serve(ctx context.Context, c *rpc.Call) (any, error) {
	b.started <- c.ID().String()
	select {
	case <-b.proceed:
		return text("went on")
	case <-ctx.Done():
		b.ended <- context.Cause(ctx)
		return text("was cancelled")
	}
}

func TestConcurrentCallsAreAnsweredAsTheyFinish(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		p := connect(t, newServer(handlers{"block": b.serve}))
		e.begin(p)
		p.send(e.call("1", "block", "{}"), e.call("2", "echo", "{}"))
		p.want(e.reply("2", "{}"))
		close(b.proceed)
		p.want(e.reply("1", "went on"))
	})
}

// J2: refused, and the first still gets its answer; also when the eras meet.
func TestADuplicateIDInFlightIsRefused(t *testing.T) {
	for _, first := range eras() {
		for _, second := range eras() {
			t.Run(first.name+" then "+second.name, func(t *testing.T) {
				b := newBlocking()
				p := connect(t, newServer(handlers{"block": b.serve}))
				p.shakeHands(mcp.V20251125)
				p.send(first.call("1", "block", "{}"))
				<-b.started
				p.send(second.call("1", "echo", "{}"))
				p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,…`)
				close(b.proceed)
				p.want(first.reply("1", "went on"))
				p.send(second.call("1", "echo", "{}"))
				p.want(second.reply("1", "{}"))
			})
		}
	}
}

// J15: a cancelled request ends, and has no response.
func TestACancelledRequestHasNoResponse(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		synctest.Test(t, func(t *testing.T) {
			b := newBlocking()
			p := connect(t, newServer(handlers{"block": b.serve}))
			e.begin(p)
			p.send(e.call("1", "block", "{}"), e.call(`"1"`, "block", "{}"))
			<-b.started
			<-b.started
			p.send(cancellation("1"), cancellation("1"), cancellation("2"))
			if cause := <-b.ended; !errors.Is(cause, call.ErrCancelled) {
				t.Errorf("the cause is %v", cause)
			}
			p.alive()
			close(b.proceed)
			p.want(e.reply(`"1"`, "went on"))
			p.send(cancellation("1"), cancellation(`"1"`)) // both are over
			p.alive()
			synctest.Wait()
			p.send(e.call("1", "echo", "{}")) // and their ids are free
			p.want(e.reply("1", "{}"))
		})
	})
}

func TestCancellationStaysOnItsConnection(t *testing.T) {
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
		p.want(e.reply("1", "went on"))
	})
}

func TestAHandlerThatEndsItsGoroutineIsAnswered(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		p := connect(t, newServer(handlers{"exit": func(context.Context, *rpc.Call) (any, error) {
			runtime.Goexit()
			return text("")
		}}))
		e.begin(p)
		for range 20 { // more than may be in flight
			p.send(e.call("1", "exit", "{}"))
			p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`)
		}
		p.alive()
	})
}

func TestAPanicIsAnswered(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		p := connect(t, newServer(handlers{"panic": func(context.Context, *rpc.Call) (any, error) { panic("hunter2") }}))
		e.begin(p)
		p.send(e.call("1", "panic", "{}"))
		p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`)
		p.alive()
	})
}

// S1: whatever JSON a handler returns, it leaves on one line.
func TestPrettyJSONLeavesOnOneLine(t *testing.T) {
	pretty := json.RawMessage("{\n\t\"a\": 1\r\n}")
	inBothEras(t, func(t *testing.T, e era) {
		p := connect(t, newServer(handlers{
			"result": func(context.Context, *rpc.Call) (any, error) {
				return &mcp.CallToolResult{StructuredContent: pretty}, nil
			},
			"error": func(context.Context, *rpc.Call) (any, error) {
				return nil, &jsonrpc.Error{Code: -1, Message: "a\nb", Data: pretty}
			},
			"notification": func(ctx context.Context, c *rpc.Call) (any, error) {
				if err := c.Notify(ctx, "notifications/message", pretty); err != nil {
					t.Error(err)
				}
				return text("")
			},
		}))
		e.begin(p)
		p.send(e.call("1", "result", "{}"))
		p.want(`{"jsonrpc":"2.0","id":1,"result":{…"structuredContent":{"a":1}}}`)
		p.send(e.call("2", "error", "{}"))
		p.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"a\nb","data":{…"a": 1…}}}`)
		p.send(e.call("3", "notification", "{}"))
		p.want(`{"jsonrpc":"2.0","method":"notifications/message","params":{…}}`, e.reply("3", ""))
	})
}

// §11: reports of many calls at once are neither lost nor crossed, and come before
// the result.
func TestProgressComesBeforeItsResult(t *testing.T) {
	inBothEras(t, func(t *testing.T, e era) {
		p := connect(t, newServer(handlers{"count": func(ctx context.Context, c *rpc.Call) (any, error) {
			for i := range 20 {
				if err := c.Progress(ctx, float64(i), 0, ""); err != nil {
					t.Error(err)
				}
			}
			return text("counted")
		}}))
		e.begin(p)
		for id := range 16 {
			p.send(e.call(fmt.Sprint(id), "count", "{}"))
		}
		got := make(map[string][]string)
		for range 16 * 21 {
			line := p.receive()
			m, err := jsonrpc.Parse([]byte(line), jsonrpc.Limits{})
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if m.Kind == jsonrpc.Response {
				got[m.ID.String()] = append(got[m.ID.String()], "response")
				continue
			}
			token, _ := m.Params.Get("progressToken")
			done, _ := m.Params.Get("progress")
			got[string(token)] = append(got[string(token)], string(done))
		}
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
		}
		want = append(want, "response")
		for id := range 16 {
			if !slices.Equal(got[fmt.Sprint(id)], want) {
				t.Errorf("call %d: %v", id, got[fmt.Sprint(id)])
			}
		}
	})
}

// I12: what a handler does to its goroutine ends neither the reading nor the process.
func TestAHandlerOfANotificationThatEndsItsGoroutineHarmsNobody(t *testing.T) {
	s := newServer(nil)
	told := make(chan struct{}, 1)
	s.Legacy.Engine = rpc.NewEngine(map[string]rpc.Handler{
		mcp.NotificationRootsListChanged: func(context.Context, *rpc.Call) (any, error) {
			told <- struct{}{}
			runtime.Goexit()
			return nil, nil
		},
	}, s.Logger)
	p := connect(t, s)
	p.shakeHands(mcp.V20251125)
	p.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	<-told
	p.alive()
}

// While a handler of a notification runs, nothing is read: the client is not silent then.
func TestAClientIsNotLostWhileItsNotificationIsTaken(t *testing.T) {
	for name, notification := range map[string]string{
		"alone":      `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		"in a batch": `[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(nil)
				s.KeepAlive = 5 * time.Second
				s.Legacy.Engine = rpc.NewEngine(map[string]rpc.Handler{
					mcp.NotificationRootsListChanged: func(context.Context, *rpc.Call) (any, error) {
						time.Sleep(time.Minute)
						return nil, nil
					},
				}, s.Logger)
				p := connect(t, s)
				p.shakeHands(mcp.V20250326)
				p.send(notification)
				time.Sleep(time.Minute - time.Second)
				p.send(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`)
				p.want(`{"jsonrpc":"2.0","id":"alive","result":{}}`)
			})
		})
	}
}
