package host

import (
	"context"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
)

// withCaller returns the context of a request to the server, which has the caller of the request that a
// handler serves.
func (s *supervisor) withCaller(ctx context.Context) context.Context {
	c := rpc.From(ctx)
	if !s.host.Forward || c == nil {
		return ctx
	}
	caller := rpc.CallerOf(ctx)
	if caller.Key == nil {
		caller = c.Caller()
	}
	caller.Input, caller.Limited = c.InputKinds()|s.local, true
	ctx = rpc.WithCaller(ctx, caller)
	if caller.Input&rpc.URLInput != 0 {
		ctx = context.WithValue(ctx, completionsKey{}, new(completions))
	}
	return ctx
}

type completionsKey struct{}

// completions are those of the URL elicitations of a request to a server. A nil completions keeps none.
type completions struct {
	mu  sync.Mutex
	all []*rpc.Completion
}

func completionsOf(ctx context.Context) *completions {
	c, _ := ctx.Value(completionsKey{}).(*completions)
	return c
}

func (c *completions) add(one *rpc.Completion) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

// report reports the elicitations that have ended, before the result of the request.
func (c *completions) report() {
	if c == nil {
		return
	}
	c.mu.Lock()
	all := c.all
	c.mu.Unlock()
	for _, one := range all {
		one.Report()
	}
}
