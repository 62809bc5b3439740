package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// stream records the messages that are written to it. Write blocks until gate is closed, if gate is not nil.
type stream struct {
	gate chan struct{}

	mu    sync.Mutex
	lines []string
}

func (s *stream) Write(ctx context.Context, msg []byte) error {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(msg))
	return nil
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func TestNothingIsSentAfterTheCallHasEnded(t *testing.T) {
	s := new(stream)
	c := newCall(1)
	c.Stream = s
	var late func() error
	e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		late = func() error { return c.Notify(ctx, "notifications/late", nil) }
		return done("")
	})
	e.Serve(t.Context(), c)
	must.CheckIs(t, late(), call.ErrCallDone)
	must.CheckIs(t, c.Progress(t.Context(), 1, 2, ""), call.ErrCallDone)
	must.CheckEqual(t, s.String(), "", s)
}

// 2026-07-28, basic/transports/stdio, Cancellation: after the peer has cancelled a request,
// nothing more is sent for it, with any context.
func TestNothingIsSentAfterTheCallIsCancelled(t *testing.T) {
	s := new(stream)
	var inflight rpc.Inflight
	e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		must.Check(t, c.Progress(ctx, 1, 0, ""))
		inflight.Cancel(c.ID(), call.ErrCancelled)
		for _, ctx := range []context.Context{ctx, context.Background()} {
			must.CheckIs(t, c.Progress(ctx, 2, 0, ""), call.ErrCallDone)
			must.CheckIs(t, c.Notify(ctx, "notifications/message", nil), call.ErrCallDone)
		}
		return done("")
	})
	c := newCall(1)
	c.Stream = s
	reply := appendReply(t.Context(), nil, &inflight, e, c)
	must.CheckThat(t, len(reply) == 0, "response to a cancelled request: %s", reply)
	must.CheckEqual(t, s.String(), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,`+
		`"progress":1}}`, s)
}

func TestNotifyWithoutStreamDoesNothing(t *testing.T) {
	c := newCall(1)
	must.Check(t, errors.Join(c.Notify(t.Context(), "notifications/message", nil), c.Progress(t.Context(), 1, 0, "")))
}

func TestFromWithoutCallReturnsNil(t *testing.T) {
	c := rpc.From(t.Context())
	must.CheckThat(t, c == nil, "got %v", c)
}

// Rule S1.
func TestNotificationsHaveNoLineBreaks(t *testing.T) {
	s := new(stream)
	c := newCall(1)
	c.Stream = s
	must.Do(t, c.Notify(t.Context(), "notifications/message", []byte("{\n\"data\": \"a\\nb\"\r\n}")))
	want := `{"jsonrpc":"2.0","method":"notifications/message","params":{ "data": "a\nb"  }}`
	must.CheckEqual(t, s.String(), want, s)
}

// Rule J17: progress increases strictly, and is sent only to peers that asked for it.
func TestProgressIncreasesStrictly(t *testing.T) {
	for _, test := range []struct {
		name     string
		token    jsonrpc.ID
		revision mcp.Revision
		report   func(c *rpc.Call) error
		want     string
	}{
		{"values that do not increase are dropped", jsonrpc.StringID("t"), mcp.V20260728, func(c *rpc.Call) error {
			return errors.Join(
				c.Progress(context.Background(), 0, 0, ""), c.Progress(context.Background(), 0, 0, ""),
				c.Progress(context.Background(), -1, 0, ""), c.Progress(context.Background(), 0.5, 0, ""),
			)
		}, `{"progressToken":"t","progress":0}` + "\n" + `{"progressToken":"t","progress":0.5}`},
		{"the first value may be negative", jsonrpc.IntID(1), mcp.V20260728, func(c *rpc.Call) error {
			return c.Progress(context.Background(), -3, 0, "")
		}, `{"progressToken":1,"progress":-3}`},
		{"total and text", jsonrpc.IntID(1), mcp.V20250326, func(c *rpc.Call) error {
			return c.Progress(context.Background(), 1e21, 1e22, "a\nb")
		}, `{"progressToken":1,"progress":1e+21,"total":1e+22,"message":"a\nb"}`},
		{"no text in 2024-11-05", jsonrpc.IntID(1), mcp.V20241105, func(c *rpc.Call) error {
			return c.Progress(context.Background(), 1, 2, "text")
		}, `{"progressToken":1,"progress":1,"total":2}`},
		{"invalid totals are dropped", jsonrpc.IntID(1), mcp.V20260728, func(c *rpc.Call) error {
			return errors.Join(
				c.Progress(context.Background(), 1, -1, ""), c.Progress(context.Background(), 2, math.NaN(), ""),
				c.Progress(context.Background(), 3, math.Inf(1), ""),
			)
		}, `{"progressToken":1,"progress":1}` + "\n" + `{"progressToken":1,"progress":2}` + "\n" +
			`{"progressToken":1,"progress":3}`},
		{"no progress token", jsonrpc.ID{}, mcp.V20260728, func(c *rpc.Call) error {
			return c.Progress(context.Background(), 1, 2, "")
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := new(stream)
			c := callOf(1, mcp.MethodCallTool, test.revision)
			c.Stream, c.ProgressToken = s, test.token
			must.Check(t, test.report(c))
			var want []string
			if test.want != "" {
				for params := range strings.SplitSeq(test.want, "\n") {
					want = append(want, `{"jsonrpc":"2.0","method":"notifications/progress","params":`+params+`}`)
				}
			}
			must.CheckEqual(t, s.String(), strings.Join(want, "\n"), s)
		})
	}
}

func TestProgressMustBeFinite(t *testing.T) {
	s := new(stream)
	c := newCall(1)
	c.Stream = s
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		err := c.Progress(t.Context(), f, 0, "")
		must.CheckThat(t, err != nil, "%v was sent", f)
	}
	must.CheckEqual(t, s.String(), "", s)
}

func TestConcurrentProgressArrivesInOrder(t *testing.T) {
	s := new(stream)
	c := newCall(1)
	c.Stream = s
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				must.Check(t, c.Progress(t.Context(), float64(16*j+i), 0, ""))
			}
		})
	}
	wg.Wait()
	last := -1
	for _, line := range s.lines {
		var n int
		must.Do(t, must.Err(fmt.Sscanf(line,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`,
			&n)), line)
		must.That(t, n > last, "%d came after %d", n, last)
		last = n
	}
	must.CheckEqual(t, last, 16*49+15)
}

// The response follows all notifications of the call (2026-07-28, basic/patterns/progress).
func TestServeWaitsForNotificationsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{gate: make(chan struct{})}
		c := newCall(1)
		c.Stream = s
		results := make(chan error, 2)
		proceed := make(chan struct{})
		e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
			go func() { results <- c.Notify(ctx, "notifications/a", nil) }()
			<-proceed
			go func() { results <- c.Notify(ctx, "notifications/b", nil) }()
			<-proceed
			return done("")
		})
		served := make(chan struct{})
		go func() {
			defer close(served)
			_, _ = e.Serve(t.Context(), c)
		}()
		for range 2 { // the first is being written, and the second waits for it
			synctest.Wait()
			proceed <- struct{}{}
		}
		synctest.Wait()
		select {
		case <-served:
			t.Fatal("Serve returned while a notification was being written")
		default:
		}
		close(s.gate)
		<-served
		errs := []error{<-results, <-results}
		want := `{"jsonrpc":"2.0","method":"notifications/a"}`
		must.CheckThat(t, strings.HasPrefix(s.String(), want), "sent %s", s)
		// The second may have been sent after the end of the call.
		sent := strings.Count(s.String(), "\n") + 1
		must.CheckThat(t, sent != 1 || errors.Is(errors.Join(errs...), call.ErrCallDone),
			"one notification was sent, but the errors are %v", errs)
	})
}

func TestNotifyReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{gate: make(chan struct{})}
		c := newCall(1)
		c.Stream = s
		first := make(chan error, 1)
		go func() { first <- c.Notify(context.Background(), "notifications/a", nil) }()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		second := make(chan error, 1)
		go func() { second <- c.Notify(ctx, "notifications/b", nil) }()
		synctest.Wait()
		why := errors.New("no longer needed")
		cancel(why)
		must.CheckIs(t, <-second, why)
		close(s.gate)
		must.Check(t, <-first)
		c.Finish()
	})
}

type valueKey struct{}

// handlerContext runs use in a handler that is served under parent, and returns the context of the handler.
func handlerContext(t *testing.T, parent context.Context, use func(ctx context.Context, c *rpc.Call)) context.Context {
	t.Helper()
	var used context.Context
	e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		used = ctx
		use(ctx, c)
		return done("x")
	})
	must.Get(e.Serve(parent, newCall(1)))(t)
	return used
}

func TestContextOfHandlerEndsWithTheHandler(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, c *rpc.Call){
		"unused":         func(context.Context, *rpc.Call) {},
		"Err is called":  func(ctx context.Context, _ *rpc.Call) { _ = ctx.Err() },
		"Done is called": func(ctx context.Context, _ *rpc.Call) { _ = ctx.Done() },
		"cancelled":      func(_ context.Context, c *rpc.Call) { c.Cancel(nil) },
	} {
		parent := context.WithValue(t.Context(), valueKey{}, "kept")
		ctx := handlerContext(t, parent, use)
		if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled {
			t.Fatalf("%s: %v, %v", name, ctx.Err(), context.Cause(ctx))
		}
		<-ctx.Done()
		must.CheckThat(t, ctx.Value(valueKey{}) == "kept" && rpc.From(ctx) != nil,
			"%s: the context has lost its values", name)
		rpc.From(ctx).Cancel(errors.New("late"))
		must.CheckEqual(t, context.Cause(ctx), context.Canceled, name)
	}
}

func TestContextOfHandlerHasTheCauseOfItsEnd(t *testing.T) {
	why := errors.New("why")
	for name, waits := range map[string]bool{"before Done": false, "after Done": true} {
		// ended by Cancel
		handlerContext(t, t.Context(), func(ctx context.Context, c *rpc.Call) {
			must.CheckThat(t, ctx.Err() == nil && context.Cause(ctx) == nil,
				"%s: the context has ended at the beginning", name)
			derived, stop := context.WithCancel(context.WithValue(ctx, valueKey{}, 1))
			defer stop()
			if waits {
				go func() { <-ctx.Done() }()
			}
			c.Cancel(why)
			<-ctx.Done()
			<-derived.Done()
			if ctx.Err() != context.Canceled || context.Cause(ctx) != why || context.Cause(derived) != why {
				t.Errorf("%s: %v, %v, %v", name, ctx.Err(), context.Cause(ctx), context.Cause(derived))
			}
		})
		// ended by its parent
		parent, cancel := context.WithCancelCause(t.Context())
		handlerContext(t, parent, func(ctx context.Context, _ *rpc.Call) {
			if waits {
				_ = ctx.Done()
			}
			cancel(why)
			<-ctx.Done()
			if ctx.Err() != context.Canceled || context.Cause(ctx) != why {
				t.Errorf("%s: %v, %v", name, ctx.Err(), context.Cause(ctx))
			}
		})
	}
}

func TestContextOfHandlerIsSafeForConcurrentUse(t *testing.T) {
	why := errors.New("why")
	for range 200 {
		handlerContext(t, t.Context(), func(ctx context.Context, c *rpc.Call) {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					<-ctx.Done()
					must.CheckEqual(t, context.Cause(ctx), why)
				})
			}
			wg.Go(func() { c.Cancel(why) })
			wg.Wait()
		})
	}
}

// lines is a stream that records the messages written to it.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(_ context.Context, msg []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(msg))
	return nil
}

// Rule Y4.
func TestLogMessagesAreLimitedPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		c := &rpc.Call{LogLevel: mcp.LevelInfo, Stream: &out}
		log := func(n int) {
			t.Helper()
			for i := range n {
				must.Do(t, c.Log(t.Context(), mcp.LevelInfo, "", fmt.Append(nil, i)))
			}
		}
		log(300)
		must.Equal(t, len(out.all), 256)
		time.Sleep(time.Second)
		log(1)
		if len(out.all) != 258 || !strings.Contains(out.all[256], `"level":"warning"`) ||
			!strings.Contains(out.all[256], `"count":44`) {
			t.Fatalf("after a second: %s", out.all[256:])
		}
		must.CheckEqual(t, out.all[257], `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info",`+
			`"data":0}}`)
	})
}

func TestDroppedLogMessagesAreReportedBeforeTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		e := rpc.NewEngine(rpc.Handlers{"x/log": func(ctx context.Context, c *rpc.Call) (any, error) {
			for range 257 {
				_ = c.Log(ctx, mcp.LevelAlert, "", []byte("1"))
			}
			return &mcp.EmptyResult{}, nil
		}}, nil)
		c := callOf(1, "x/log", mcp.V20251125)
		c.LogLevel, c.Stream = mcp.LevelAlert, &out
		e.Serve(t.Context(), c)
		if len(out.all) != 257 || !strings.Contains(out.all[256], `"level":"alert"`) ||
			!strings.Contains(out.all[256], `"count":1`) {
			t.Errorf("%d messages, the last %s", len(out.all), out.all[len(out.all)-1])
		}
		must.CheckEqual(t, c.Log(t.Context(), mcp.LevelAlert, "", []byte("1")), call.ErrCallDone)
	})
}

func TestLogMessagesHaveNoLineBreaks(t *testing.T) {
	var out lines
	c := &rpc.Call{LogLevel: mcp.LevelDebug, Stream: &out}
	err := c.Log(t.Context(), mcp.LevelDebug, "a\nb", []byte("{\n}"))
	must.CheckThat(t, err == nil && !strings.ContainsAny(out.all[0], "\r\n"), "%q, %v", out.all, err)
}
