package streamserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/transport"
)

// A full queue stops the reading and drops nothing (back-pressure).
func TestFullQueueStopsReadingAndDropsNothing(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		s := newServer(handlers{"block": b.serve})
		s.MaxInflight = 3
		p := connect(t, s)
		e.begin(p)
		for id := range 20 {
			p.send(e.call(fmt.Sprint(id), "block", "{}"))
		}
		synctest.Wait()
		must.CheckEqual(t, len(b.started), 3)
		close(b.proceed)
		answered := make(map[string]bool)
		for range 20 {
			answered[p.receive()] = true
		}
		for id := range 20 {
			must.CheckThat(t, answered[e.reply(fmt.Sprint(id), "released")], "call %d was dropped", id)
		}
	})
}

// stdio serves a byte stream whose directions end separately.
func stdio(t *testing.T, s *streamserver.Server) (in *io.PipeWriter, out *syncbuffer.Buffer, served <-chan error) {
	t.Helper()
	return stdioOf(t, s, new(reading))
}

// stdioOf is stdio through conn.
func stdioOf(t *testing.T, s *streamserver.Server, conn *reading) (in *io.PipeWriter, out *syncbuffer.Buffer,
	served <-chan error) {
	theirIn, in := io.Pipe()
	theirOut, ourOut := io.Pipe()
	out = new(syncbuffer.Buffer)
	go io.Copy(out, theirOut)
	done := make(chan error, 1)
	conn.Conn = transport.Stream(halves{theirIn, ourOut}, transport.StreamOptions{})
	go func() { done <- s.Serve(t.Context(), context.Background(), conn, principal.Local) }()
	return in, out, done
}

func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

// Rule S4.
func TestEndOfInputEndsServe(t *testing.T) {
	for input, want := range map[string]error{
		"": streamserver.ErrNoMessage, "\n\n": streamserver.ErrNoMessage, "[]\n": nil,
		strings.Repeat("x", transport.DefaultServerMaxMessage+1) + "\n": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			in, _, served := stdio(t, newServer(nil))
			start := time.Now()
			io.WriteString(in, input)
			in.Close()
			must.CheckEqual(t, <-served, want, input)
			d := time.Since(start)
			must.CheckThat(t, d <= 0, "Serve took %v", d)
		})
	}
}

// A client that dies while it writes a message has no use for an answer to it. The calls before it end as usual.
func TestServeReportsAnEndWithinAMessage(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		in, out, served := stdio(t, newServer(handlers{"echo": func(context.Context, *rpc.Call) (any, error) {
			return text("here")
		}}))
		io.WriteString(in, lines(initialize("2025-06-18"), e.call("1", "echo", "{}"))+e.call("2", "echo", "{}")[:40])
		in.Close()
		must.CheckIs(t, <-served, io.ErrUnexpectedEOF)
		synctest.Wait()
		got := out.String()
		must.CheckThat(t, strings.Count(got, "\n") == 2 && !strings.Contains(got, "error"), "%s", got)
	})
}

// With `printf … | server`, requests before the end of input receive responses.
func TestEndOfInputDoesNotCancelCalls(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		slow := func(ctx context.Context, c *rpc.Call) (any, error) {
			select {
			case <-time.After(grace - time.Millisecond):
				return text("in time")
			case <-ctx.Done():
				return text("cut short")
			}
		}
		in, out, served := stdio(t, newServer(handlers{"slow": slow}))
		io.WriteString(in, lines(initialize("2025-06-18"), e.call("1", "slow", "{}"), e.call("2", "slow", "{}")))
		in.Close()
		must.Check(t, <-served)
		synctest.Wait()
		for _, id := range []string{"1", "2"} {
			must.CheckContains(t, out.String(), e.reply(id, "in time")+"\n", id, out)
		}
	})
}

func TestCallsAreCancelledAfterTheGraceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocking()
		in, out, served := stdio(t, newServer(handlers{"block": b.serve}))
		start := time.Now()
		io.WriteString(in, lines(modernCall("1", "block", "{}")))
		in.Close()
		must.Check(t, <-served)
		must.CheckEqual(t, time.Since(start), grace)
		<-b.ended
		must.CheckEqual(t, out.String(), modernReply("1", "cancelled")+"\n")
	})
}

// As with `printf … | server`: the input ends at once, and the requests take as long as they need.
func TestRequestsThatArePipedHaveNoLimit(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		s := newServer(handlers{
			"slow": func(context.Context, *rpc.Call) (any, error) {
				time.Sleep(time.Hour)
				return text("at last")
			},
			"ask": asking, // cannot end, because nobody answers
		})
		s.Piped, s.MaxInflight = true, 1
		p := &reading{reads: true}
		in, out, served := stdioOf(t, s, p)
		begin := strings.Replace(initialize("2025-06-18"), `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)
		io.WriteString(in, lines(begin, e.call("1", "slow", "{}"), e.call("2", "slow", "{}"), legacyCall("3", "ask", "{}")))
		in.Close()
		must.Check(t, <-served)
		synctest.Wait()
		for _, want := range []string{e.reply("1", "at last"), e.reply("2", "at last"),
			`{"jsonrpc":"2.0","id":3,"error":{"code":`} {
			must.CheckContains(t, out.String(), want, out)
		}
	})
}

// Nobody can answer a question after the end of the input.
func TestQuestionsOfPipedRequestsFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(handlers{"ask": asking})
		s.Piped = true
		in, out, served := stdioOf(t, s, &reading{reads: true})
		begin := strings.Replace(initialize("2025-06-18"), `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)
		start := time.Now()
		io.WriteString(in, lines(begin, legacyCall("1", "ask", "{}")))
		in.Close()
		must.Check(t, <-served)
		must.CheckEqual(t, time.Since(start), 0)
		synctest.Wait()
		must.CheckContains(t, out.String(), `{"jsonrpc":"2.0","id":1,"error":{"code":`)
	})
}

// A client that has died reads nothing, so its requests are cancelled as usual.
func TestPipedRequestsEndWithTheirReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocking()
		s := newServer(handlers{"block": b.serve})
		s.Piped = true
		p := &reading{reads: true}
		in, _, served := stdioOf(t, s, p)
		io.WriteString(in, lines(modernCall("1", "block", "{}")))
		in.Close()
		time.Sleep(time.Minute)
		must.CheckEqual(t, len(served), 0)
		p.die()
		time.Sleep(2 * grace)
		must.CheckEqual(t, len(served), 1)
		<-b.ended
	})
}

// reading is a connection whose peer reads or has died.
type reading struct {
	transport.Conn
	mu    sync.Mutex
	reads bool
}

func (r *reading) PeerReads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

func (r *reading) die() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads = false
}

func TestHandlerThatIgnoresCancellationDoesNotBlockServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(p *peer){
			"client closes": func(p *peer) { p.conn.Close() },
			"context ends":  func(p *peer) { p.cancel(nil) },
		} {
			release := make(chan struct{})
			p := connect(t, newServer(handlers{"stuck": func(context.Context, *rpc.Call) (any, error) {
				<-release
				return text("")
			}}))
			p.send(modernCall("1", "stuck", "{}"))
			synctest.Wait()
			start := time.Now()
			end(p)
			must.CheckFails(t, p.ended(), "still running", name)
			d := time.Since(start)
			must.CheckThat(t, d <= 2*grace, "%s: Serve took %v", name, d)
			close(release)
		}
	})
}

// A shutdown waits for requests in flight and rejects new ones.
func TestDrainFinishesRequestsInFlight(t *testing.T) {
	inBubblesOfBothEras(t, func(t *testing.T, e era) {
		b := newBlocking()
		p := connect(t, newServer(handlers{"block": b.serve}))
		e.begin(p)
		p.send(e.call("1", "block", "{}"))
		<-b.started
		p.drain()
		time.Sleep(10 * grace)
		select {
		case err := <-p.served:
			t.Fatalf("Serve: %v", err)
		default:
		}
		close(b.proceed)
		p.want(e.reply("1", "released"))
		must.Check(t, p.ended())
		must.CheckIs(t, must.Err(p.conn.Read(t.Context())), io.EOF, "after the shutdown")
	})
}

func TestEndOfContextCancelsRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocking()
		p := connect(t, newServer(handlers{"block": b.serve}))
		p.send(modernCall("1", "block", "{}"))
		<-b.started
		p.drain()
		reason := errors.New("time limit reached")
		p.cancel(reason)
		must.CheckIs(t, <-b.ended, reason)
		p.ended()
	})
}

func TestServeReturnsTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, newServer(nil))
		reason := errors.New("enough")
		p.cancel(reason)
		must.CheckIs(t, p.ended(), reason)
	})
}

// Requests are not served if the output is closed: their responses would be lost.
func TestClosedOutputEndsServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirIn, in := io.Pipe()
		theirOut, ourOut := io.Pipe()
		calls := 0
		s := newServer(handlers{"count": func(context.Context, *rpc.Call) (any, error) {
			calls++
			return text("")
		}})
		done := make(chan error, 1)
		go func() {
			done <- s.Serve(t.Context(), context.Background(),
				transport.Stream(halves{theirIn, ourOut}, transport.StreamOptions{}), principal.Local)
		}()
		theirOut.Close()
		for range 5 { // the first responses may be in the pipe's buffer
			io.WriteString(in, lines(modernCall("1", "count", "{}")))
			synctest.Wait()
		}
		err := <-done
		var broken *transport.WriteError
		must.CheckThat(t, errors.As(err, &broken), "got %v", err)
		must.CheckThat(t, calls <= 2, "%d calls were served", calls)
	})
}

// A client that does not read its responses blocks neither other clients nor the end of
// Serve.
func TestClientThatDoesNotReadDoesNotBlockServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("x", 600<<10)
		p := connect(t, newServer(handlers{"big": func(context.Context, *rpc.Call) (any, error) { return text(big) }}))
		for id := range 8 {
			p.send(modernCall(fmt.Sprint(id), "big", "{}"))
		}
		synctest.Wait()
		start := time.Now()
		p.cancel(errors.New("enough"))
		p.ended()
		d := time.Since(start)
		must.CheckThat(t, d <= 0, "Serve took %v", d)
	})
}
