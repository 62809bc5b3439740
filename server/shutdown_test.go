package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// Requests in flight are answered before their streams end.
func TestShutdownFinishesRequestsInFlight(t *testing.T) {
	for _, era := range []string{"modern", "legacy", "pair"} {
		e := newEndpoint(t)
		stream, w := e.callOf(t.Context(), era)
		done := make(chan error)
		go func() { done <- e.server.Shutdown(context.Background()) }()
		eventually(t, func() bool { return e.do("POST", "/", pingBody).status == 503 })
		must.Check(t, w.ctx.Err(), era)
		select {
		case err := <-done:
			t.Errorf("%s: Shutdown did not wait: %v", era, err)
		default:
		}
		close(w.release)
		stream.Data() // the second report
		must.CheckContains(t, stream.Data(), `"text":"waited"`, era)
		stream.Ends(t)
		for _, err := range []error{<-done, e.server.Shutdown(context.Background())} {
			must.Check(t, err, era)
		}
		a := e.do("POST", "/", pingBody)
		must.CheckThat(t, a.status == 503 && a.header.Get("Retry-After") != "", "%s, after: %s", era, a)
	}
}

func TestShutdownEndsOpenStreams(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	standalone := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "",
		append(session, "Accept", "text/event-stream")...))
	p := e.pair("/")
	must.Check(t, e.server.Shutdown(t.Context()))
	standalone.Ends(t)
	p.Ends(t)
	a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream")...)
	must.CheckEqual(t, a.status, 503, a)
}

// A Shutdown whose context ends cancels the calls, and still sends their results.
func TestShutdownCancelsWhenItsContextEnds(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		e := newEndpoint(t)
		stream, w := e.callOf(t.Context(), era)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must.CheckIs(t, e.server.Shutdown(ctx), context.Canceled, era)
		<-w.ctx.Done()
		<-w.ended
		if rest := stream.Take(everything); len(rest) == 0 || !strings.Contains(rest[len(rest)-1].Data, `"id":1`) {
			t.Errorf("%s: then came %v", era, rest)
		}
		must.Check(t, e.server.Shutdown(t.Context()), era)
	}
}

// The answers to the questions of a pair cannot arrive during a shutdown, so it does not wait for them.
func TestAShutdownFailsTheQuestionsOfAPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 1, func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
				_, err := server.Roots(ctx)
				return "", err
			})
		})
		x, endpoint := openPair(t, f.servers[0])
		f.accept(0, endpoint, fmt.Sprintf(elicitingClient, "2024-11-05"), wiretest.Initialized,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots","arguments":{}}}`)
		got := x.messages()
		must.Contains(t, got[len(got)-1], `"method":"roots/list"`)
		begun := time.Now()
		must.Check(t, f.servers[0].Shutdown(t.Context()))
		if got := x.messages(); time.Since(begun) > 0 || !strings.Contains(got[len(got)-1], `"id":2,"result"`) {
			t.Errorf("after %v: %q", time.Since(begun), got)
		}
	})
}

// The calls in flight have almost all the time that the shutdown has, also if the store does not answer.
func TestShutdownDoesNotWaitForAStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := newSilentStore()
		f := newBubbleFleet(t, 1, withNote, func(s *server.Server) { s.Store = kv })
		session := f.session("2025-06-18")
		stream := f.listen(0, session) // takes the lease
		call := f.open(0, http.MethodPost, stepCall, session...)
		kv.silent = true
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = f.servers[0].Shutdown(ctx) // it cannot delete the lease
		}()
		time.Sleep(2 * time.Second)
		must.CheckThat(t, stream.ended(), "the standalone stream has not ended")
		time.Sleep(2 * time.Second)
		close(f.steps)
		synctest.Wait()
		if !call.ended() || !strings.Contains(call.body(), `"text":"done"`) {
			t.Errorf("the call: %d %s", call.status(), call.body())
		}
		<-ended
		kv.silent = false
	})
}

// Shutdown does not wait for clients that may reconnect.
func TestShutdownDoesNotWaitForDisconnectedClients(t *testing.T) {
	e := newStepping(t)
	session := e.session("2025-11-25")
	ctx, hangUp := context.WithCancel(t.Context())
	e.open(ctx, "GET", "/", "", append(session, "Accept", "text/event-stream", "X-Watched", "1")...)
	hangUp()
	<-(<-e.arrived).Done()
	e.begin(session, 1)
	ended := make(chan error)
	go func() { ended <- e.server.Shutdown(t.Context()) }()
	close(e.steps) // Shutdown waits for the call
	must.Check(t, <-ended)
}

// blocking returns a server with a tool that waits until it is released or cancelled.
func blocking() (s *server.Server, started, proceed chan struct{}) {
	s, started, proceed = new(server.Server), make(chan struct{}, 10), make(chan struct{})
	server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		started <- struct{}{}
		select {
		case <-proceed:
			return "went on", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	return s, started, proceed
}

func TestShutdownWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, started, proceed := blocking()
		l := connectLine(t, s)
		idle := connectLine(t, s)
		l.Send(request(1, mcp.MethodCallTool, `"name":"wait"`))
		<-started
		synctest.Wait()
		down := make(chan error, 2)
		for range 2 {
			go func() { down <- s.Shutdown(t.Context()) }()
		}
		must.Check(t, idle.Served())
		time.Sleep(time.Minute)
		select {
		case err := <-down:
			t.Fatalf("Shutdown returned %v", err)
		default:
		}
		_, far := transport.Pipe()
		must.CheckIs(t, s.ServeConn(t.Context(), far), server.ErrShutdown)
		close(proceed)
		must.CheckContains(t, l.Receive(), "went on")
		must.Check(t, l.Served())
		for range 2 {
			must.Check(t, <-down)
		}
		must.Check(t, s.Shutdown(t.Context()))
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, started, _ := blocking()
		l := connectLine(t, s)
		l.Send(request(1, mcp.MethodCallTool, `"name":"wait"`))
		<-started
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		must.CheckIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		must.CheckEqual(t, time.Since(start), time.Second)
		l.Served()
	})
}

// For the race detector: connections start while the server shuts down.
func TestConnectionsDuringShutdownAreRejected(t *testing.T) {
	for range 20 {
		s := new(server.Server)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				near, far := transport.Pipe()
				defer near.Close()
				err := s.ServeConn(t.Context(), far)
				must.CheckThat(t, err == nil || errors.Is(err, server.ErrShutdown), "%v", err)
			})
		}
		wg.Go(func() { must.Check(t, s.Shutdown(t.Context())) })
		wg.Wait()
	}
}

func TestTheLimitOfCallsInFlightIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, started, proceed := blocking()
		s.Limits.Inflight = 2
		l := connectLine(t, s)
		for id := range 5 {
			l.Send(request(id, mcp.MethodCallTool, `"name":"wait"`))
		}
		synctest.Wait()
		must.CheckEqual(t, len(started), 2)
		close(proceed)
		for range 5 {
			l.Receive()
		}
	})
}
