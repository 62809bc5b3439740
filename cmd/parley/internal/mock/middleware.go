package mock

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// requestRule is the latency and fault of the requests of a method.
type requestRule struct {
	method  string // "*" means every method
	name    string // "" means every name
	times   int64  // 0 means without limit
	used    atomic.Int64
	latency *time.Duration
	outcome *outcome // nil means that of the server
}

// rule returns the first rule for a call that was not used as often as it may be, or nil.
func (m *Mock) rule(c *call.Call) *requestRule {
	for _, r := range m.requests {
		if r.method != "*" && r.method != c.Method() || r.name != "" && r.name != c.Name() {
			continue
		}
		if used := r.used.Add(1); r.times == 0 || used <= r.times {
			return r
		}
	}
	return nil
}

// middleware causes the latencies and faults of requests.
func (m *Mock) middleware(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		if c.Notification() {
			return next(ctx, c)
		}
		latency, played := m.latency, hasScript(c.Method())
		if played {
			latency = 0 // the response has it
		}
		r := m.rule(c)
		if r != nil && r.latency != nil {
			latency = *r.latency
		}
		if err := sleep(ctx, latency); err != nil {
			return nil, err
		}
		if r != nil && r.outcome != nil {
			return end(ctx, c, r.outcome)
		}
		if s := m.others[c.Method()]; s != nil {
			return m.other(ctx, c, s)
		}
		var ending ending
		result, err := next(context.WithValue(ctx, endingKey{}, &ending), c)
		if o := ending.outcome(); o != nil {
			return end(ctx, c, o)
		}
		return result, m.unknown(c, err)
	}
}

// unknown adds the known names to the error for an unknown tool, prompt or resource, and logs it.
func (m *Mock) unknown(c *call.Call, err error) error {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	known, isEntry := m.names[c.Method()]
	if !ok || !isEntry || slices.Contains(known, c.Name()) || wire.Code != jsonrpc.CodeInvalidParams && wire.Code != mcp.CodeResourceNotFound {
		return err
	}
	if c.Method() == mcp.MethodReadResource && m.templates > 0 && strings.HasPrefix(wire.Message, "mock: ") {
		return err // of a template
	}
	m.logger.Warn("a request names something unknown", "request", c.Method(), "name", c.Name())
	names := slices.Sorted(slices.Values(known))
	if len(names) > maxListed {
		names = append(names[:maxListed:maxListed], "…")
	}
	if names == nil {
		names = []string{"none"}
	}
	named := *wire
	named.Message += "; the mock has " + strings.Join(names, ", ")
	return &named
}

// other plays the response to a request that the server does not know.
func (m *Mock) other(ctx context.Context, c *call.Call, s *script) (any, error) {
	var ending ending
	params := c.Params().Raw()
	raw, err := m.play(context.WithValue(ctx, endingKey{}, &ending), s, withoutMeta(params), params)
	if o := ending.outcome(); o != nil {
		return end(ctx, c, o)
	}
	return raw, err
}

// hasScript reports whether the responses to a method are those of a tool, prompt or resource.
func hasScript(method string) bool {
	return method == mcp.MethodCallTool || method == mcp.MethodGetPrompt || method == mcp.MethodReadResource
}

// ending is how a handler ends a request in another way than with a result or an error. The middleware sees it.
type ending struct {
	mu sync.Mutex
	as *outcome
}

type endingKey struct{}

// outcome returns the outcome that the handler has set, or nil.
func (e *ending) outcome() *outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.as
}

func (e *ending) set(o *outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.as = o
}

// endAs makes the middleware end the request of a handler. A task has its own context, without a request to end: it
// fails with the error that endAs returns, or endAs waits until the task is cancelled.
func endAs(ctx context.Context, o *outcome) error {
	e, isRequest := ctx.Value(endingKey{}).(*ending)
	if isRequest {
		e.set(o)
	}
	switch {
	case o.err != nil:
		return o.err
	case isRequest:
		return errEnded
	case o.fault == noResponse:
		return silence(ctx)
	}
	return errTask
}

var (
	errEnded = jsonrpc.Errorf(jsonrpc.CodeInternalError, "mock: the request ends with a fault")
	errTask  = jsonrpc.Errorf(jsonrpc.CodeInternalError, "mock: a task can end with a result, an error or no response only")
)

// end ends a request.
func end(ctx context.Context, c *call.Call, o *outcome) (any, error) {
	switch {
	case o.err != nil:
		return nil, o.err
	case o.raw != nil:
		return o.raw, nil
	case o.fault == rateLimit:
		return nil, &call.OverloadError{Limit: "requests", RetryAfter: o.retryAfter}
	case o.fault == noResponse:
		return nil, silence(ctx)
	}
	w, _ := ctx.Value(wireKey{}).(wire)
	if w != nil {
		w.spoil(c.ID().String(), o)
	}
	if o.status != 0 {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", statusText(o.status))
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "mock: %s", o.fault)
}

// maxSilence is the longest time for which a request has no response, if the client does not cancel it and stays
// connected.
const maxSilence = 10 * time.Minute

// silence waits until the client cancels the request or disconnects.
func silence(ctx context.Context) error {
	if err := sleep(ctx, maxSilence); err != nil {
		return err
	}
	return errors.New("mock: the client has neither cancelled the request nor disconnected")
}

// withoutMeta returns the members of params except for _meta.
func withoutMeta(params json.RawMessage) map[string]json.RawMessage {
	members := argumentsOf(params)
	delete(members, "_meta")
	return members
}
