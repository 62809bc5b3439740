package streamserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// readerServes reports whether the calling handler runs in the goroutine that reads.
func readerServes() bool {
	buf := make([]byte, 64<<10)
	return strings.Contains(string(buf[:runtime.Stack(buf, false)]), "(*turn).serve")
}

// unsteady is a tool that is quick until it is called with other arguments than {}.
func unsteady(other func(ctx context.Context, c *rpc.Call) (any, error)) func(context.Context, *rpc.Call) (any, error) {
	return func(ctx context.Context, c *rpc.Call) (any, error) {
		if arguments, _ := c.Params().Get("arguments"); string(arguments) == "{}" {
			return text("quick")
		}
		return other(ctx, c)
	}
}

// callUntilQuick calls a tool until the reader serves it.
func (p *peer) callUntilQuick(e era, tool string) {
	p.t.Helper()
	for range 10 {
		p.send(e.call(`"early"`, tool, "{}"))
		p.want(e.reply(`"early"`, "quick"))
	}
}

// withUnsteady tests a server whose reader serves the tool "unsteady", on every wire.
func withUnsteady(t *testing.T, f func(p *peer, e era, b *blocking)) {
	onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
		b := newBlocking()
		p := begin(newServer(handlers{"unsteady": unsteady(b.serve)}))
		p.callUntilQuick(e, "unsteady")
		f(p, e, b)
	})
}

// The first calls of a tool, and calls of a tool that was slow, have goroutines of their own.
func TestReaderServesQuickTools(t *testing.T) {
	for _, w := range wires()[:2] {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var byReader, pause bool
				near, far := w.ends(t)
				p := serve(t, newServer(handlers{"echo2": func(context.Context, *rpc.Call) (any, error) {
					byReader = readerServes()
					if pause {
						time.Sleep(10 * time.Millisecond)
					}
					return text("quick")
				}}), near, far)
				call := func(want bool) {
					t.Helper()
					p.send(modernCall("1", "echo2", "{}"))
					p.want(modernReply("1", "quick"))
					synctest.Wait()
					must.CheckEqual(t, byReader, want)
				}
				for range 4 {
					call(false)
				}
				call(true)
				pause = true
				call(true) // ends the turn
				pause = false
				for range 20 {
					call(false)
				}
				call(true)
			})
		})
	}
}

func TestPingOvertakesAHandlerOfTheReader(t *testing.T) {
	withUnsteady(t, func(p *peer, e era, b *blocking) {
		p.send(e.call("1", "echo", "{}"), e.call("2", "unsteady", `{"block":1}`))
		p.want(e.reply("1", "{}")) // a response in the buffer
		<-b.started
		p.alive()
		p.send(e.call("3", "echo", "{}"))
		p.want(e.reply("3", "{}"))
		close(b.proceed)
		p.want(e.reply("2", "released"))
	})
}

func TestCancellationOvertakesAHandlerOfTheReader(t *testing.T) {
	withUnsteady(t, func(p *peer, e era, b *blocking) {
		p.send(e.call("1", "unsteady", `{"block":1}`), e.call("1", "echo", "{}"), cancellation("1"))
		b.wantCause(p.t)
		p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,…`) // the second request
		p.alive()
	})
}

func TestSlowHandlersRunInParallelAfterQuickOnes(t *testing.T) {
	withUnsteady(t, func(p *peer, e era, b *blocking) {
		for id := range 16 {
			p.send(e.call(fmt.Sprint(id), "unsteady", `{"block":1}`))
		}
		for range 16 {
			must.Receive(p.t, b.started, "the start of a parallel handler")
		}
		close(b.proceed)
		for range 16 {
			p.want(`{"jsonrpc":"2.0","id":…"released"}]}}`)
		}
	})
}

// A handler of the reader can ask its client, which needs a reader.
func TestHandlerOfTheReaderCanAsk(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			near, far := w.ends(t)
			p := serve(t, newServer(handlers{"unsteady": unsteady(asking)}), near, far)
			withRoots(p)
			for range 3 {
				p.callUntilQuick(era{call: legacyCall, reply: legacyReply}, "unsteady")
				p.send(legacyCall("1", "unsteady", `{"ask":1}`))
				p.answer(p.receive())
				p.want(legacyReply("1", `{"roots":[]}`))
			}
		})
	}
}

func TestProgressOfAHandlerOfTheReaderIsSentAtOnce(t *testing.T) {
	onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
		proceed := make(chan struct{})
		p := begin(newServer(handlers{"unsteady": unsteady(func(ctx context.Context, c *rpc.Call) (any, error) {
			for i := range 3 {
				must.Check(t, c.Progress(ctx, float64(i+1), 0, ""))
				<-proceed
			}
			return text("done")
		})}))
		p.callUntilQuick(e, "unsteady")
		p.send(e.call("1", "unsteady", `{"count":3}`))
		for i := range 3 {
			p.want(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,`+
				`"progress":%d}}`, i+1))
			proceed <- struct{}{}
		}
		p.want(e.reply("1", "done"))
	})
}

// A handler that ends the goroutine of the reader, or panics in it, is answered, and the reading
// goes on.
func TestReadingSurvivesTheHandlersOfTheReader(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("hunter2") }, "runtime.Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
				proceed := make(chan struct{})
				p := begin(newServer(handlers{
					"now": unsteady(func(context.Context, *rpc.Call) (any, error) { end(); return nil, nil }),
					"later": unsteady(func(context.Context, *rpc.Call) (any, error) {
						<-proceed
						end()
						return nil, nil
					}),
				}))
				for _, tool := range []string{"now", "later"} {
					for range 3 {
						p.callUntilQuick(e, tool)
						p.send(e.call("1", tool, `{"end":1}`))
						if tool == "later" {
							p.alive() // the turn of the handler has ended
							proceed <- struct{}{}
						}
						p.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`)
						p.alive()
					}
				}
			})
		})
	}
}

// The end of the connection cancels a handler of the reader, whichever way it ends.
func TestConnectionEndsDuringAHandlerOfTheReader(t *testing.T) {
	withUnsteady(t, func(p *peer, e era, b *blocking) {
		p.send(e.call("1", "unsteady", `{"block":1}`))
		<-b.started
		p.conn.Close()
		must.Check(p.t, p.ended())
		<-b.ended
	})
	withUnsteady(t, func(p *peer, e era, b *blocking) {
		p.send(e.call("1", "unsteady", `{"block":1}`))
		<-b.started
		reason := errors.New("enough")
		p.cancel(reason)
		must.CheckIs(p.t, p.ended(), reason)
		<-b.ended
	})
	withUnsteady(t, func(p *peer, e era, b *blocking) {
		p.send(e.call("1", "unsteady", `{"block":1}`))
		<-b.started
		p.drain()
		close(b.proceed)
		p.want(e.reply("1", "released"))
		must.Check(p.t, p.ended())
	})
}

// With `printf … | server`, the buffered responses are sent.
func TestEndOfInputSendsBufferedResponses(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		in, out, served := stdio(t, newServer(handlers{"unsteady": unsteady(b.serve)}))
		all := []string{initialize(mcp.V20250618)}
		for id := range 30 {
			all = append(all, e.call(fmt.Sprint(id), "unsteady", "{}"))
		}
		io.WriteString(in, lines(all...))
		synctest.Wait()
		io.WriteString(in, lines(e.call("30", "unsteady", "{}"), e.call("31", "unsteady", `{"block":1}`),
			e.call("32", "echo", "{}")))
		in.Close()
		<-b.started
		close(b.proceed)
		must.Check(t, <-served)
		synctest.Wait()
		for id := range 31 {
			want := e.reply(fmt.Sprint(id), "quick")
			must.CheckEqual(t, strings.Count(out.String(), want+"\n"), 1, "no response", want)
		}
		for _, want := range []string{e.reply("31", "released"), e.reply("32", "{}")} {
			must.CheckContains(t, out.String(), want+"\n", want)
		}
	})
}

// A client that does not read stops neither its cancellations nor its notifications, and
// receives every response when it reads again.
func TestClientThatDoesNotReadCanCancel(t *testing.T) {
	onEveryWire(t, func(t *testing.T, e era, begin func(*streamserver.Server) *peer) {
		b := newBlocking()
		big := strings.Repeat("x", 300<<10)
		p := begin(newServer(handlers{
			"block":    b.serve,
			"unsteady": unsteady(func(context.Context, *rpc.Call) (any, error) { return text(big) }),
		}))
		p.callUntilQuick(e, "unsteady")
		for id := range 10 {
			p.send(e.call(fmt.Sprint(id), "unsteady", `{"big":1}`))
		}
		p.send(e.call("99", "block", "{}"), cancellation("99"))
		b.wantCause(t)
		received := make(map[string]bool)
		for range 10 {
			received[p.receive()] = true
		}
		for id := range 10 {
			must.CheckThat(t, received[e.reply(fmt.Sprint(id), big)], "no response to call %d", id)
		}
		p.alive()
	})
}

// Whatever handlers do and however turns end, each call that is not cancelled has one response,
// and one that is cancelled has at most one.
func TestEachCallHasOneOutcome(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				tool := func(ctx context.Context, c *rpc.Call) (any, error) {
					arguments, _ := c.Params().Get("arguments")
					switch string(arguments) {
					case `{"do":1}`:
						time.Sleep(time.Millisecond) // within the turn
					case `{"do":7}`:
						time.Sleep(10 * time.Millisecond) // longer than the turn
					case `{"do":2}`:
						_ = c.Progress(ctx, 1, 0, "")
					case `{"do":3}`:
						_, err := asking(ctx, c)
						must.CheckThat(t, err == nil || errors.Is(context.Cause(ctx), call.ErrCancelled), "%v", err)
					case `{"do":4}`:
						runtime.Goexit()
					case `{"do":5}`:
						panic("hunter2")
					case `{"do":6}`:
						<-ctx.Done()
					}
					return text("done")
				}
				w := wires()[random.IntN(2)]
				near, far := w.ends(t)
				p := serve(t, newServer(handlers{"a": tool, "b": tool}), near, far)
				withRoots(p)
				const calls = 300
				outcomes := make(map[string]int)
				cancelled := make(map[string]bool)
				var sending []string
				for id := range calls {
					what := 0
					if random.IntN(4) == 0 {
						what = random.IntN(8)
					}
					request := legacyCall
					if what != 3 && random.IntN(2) == 0 {
						request = modernCall
					}
					sending = append(sending, request(fmt.Sprint(id), string(rune('a'+random.IntN(2))),
						fmt.Sprintf(`{"do":%d}`, what)))
					if what == 6 || random.IntN(10) == 0 {
						cancelled[fmt.Sprint(id)] = true
						sending = append(sending, cancellation(fmt.Sprint(id)))
					}
				}
				answers := make(chan string, calls)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for len(sending) > 0 || answers != nil {
						select {
						case line, ok := <-answers:
							if !ok {
								return
							}
							p.send(line)
							continue
						default:
						}
						if len(sending) == 0 {
							line, ok := <-answers
							if !ok {
								return
							}
							p.send(line)
							continue
						}
						p.send(sending[0])
						sending = sending[1:]
					}
				}()
				for missing := calls - len(cancelled); missing > 0; {
					line := p.receive()
					m, err := jsonrpc.Parse([]byte(line), jsonrpc.Limits{})
					must.Do(t, err, line)
					switch m.Kind {
					case jsonrpc.Request:
						answers <- p.answerTo(line)
					case jsonrpc.Response:
						if id := m.ID.String(); !cancelled[id] {
							missing--
							outcomes[id]++
						}
					}
				}
				close(answers)
				<-sent
				p.alive()
				for id := range calls {
					n := outcomes[fmt.Sprint(id)]
					must.CheckThat(t, n == 1 || cancelled[fmt.Sprint(id)], "call %d has %d responses", id, n)
				}
			})
		})
	}
}
