package rpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/internal/rpc"
)

type valueKey struct{}

// handlerContext runs use in a handler that is served under parent, and returns the context of
// the handler.
func handlerContext(t *testing.T, parent context.Context, use func(ctx context.Context, c *rpc.Call)) context.Context {
	t.Helper()
	var used context.Context
	e := serving(new(log), func(ctx context.Context, c *rpc.Call) (any, error) {
		used = ctx
		use(ctx, c)
		return done("x")
	})
	if _, err := e.Serve(parent, newCall(1)); err != nil {
		t.Fatal(err)
	}
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
		if ctx.Value(valueKey{}) != "kept" || rpc.From(ctx) == nil {
			t.Errorf("%s: the context has lost its values", name)
		}
		rpc.From(ctx).Cancel(errors.New("late"))
		if context.Cause(ctx) != context.Canceled {
			t.Errorf("%s: the cause changes to %v", name, context.Cause(ctx))
		}
	}
}

func TestContextOfHandlerHasTheCauseOfItsEnd(t *testing.T) {
	why := errors.New("why")
	for name, waits := range map[string]bool{"before Done": false, "after Done": true} {
		// ended by Cancel
		handlerContext(t, t.Context(), func(ctx context.Context, c *rpc.Call) {
			if ctx.Err() != nil || context.Cause(ctx) != nil {
				t.Errorf("%s: the context has ended at the beginning", name)
			}
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
					if context.Cause(ctx) != why {
						t.Errorf("%v", context.Cause(ctx))
					}
				})
			}
			wg.Go(func() { c.Cancel(why) })
			wg.Wait()
		})
	}
}
