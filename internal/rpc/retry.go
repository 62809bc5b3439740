package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Retry says how a client repeats requests that have failed. The zero Retry works.
type Retry struct {
	Attempts int           // in all, the first included; default 3, at most 10
	Wait     time.Duration // before the second attempt; it doubles from then on; default 200 ms
	MaxWait  time.Duration // the longest wait, also of those a server asks for; default 10 s
	// Tool reports whether a tool may be called twice. Tools say so of themselves, in
	// annotations (idempotentHint, readOnlyHint), and these are to be believed from
	// servers that are trusted only: see [mcp.ToolAnnotations]. Nil: no tool may.
	Tool func(name string) bool
}

// repeatable are the methods that change nothing at a server.
var repeatable = []string{
	mcp.MethodDiscover, mcp.MethodPing, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates,
	mcp.MethodReadResource, mcp.MethodGetPrompt, mcp.MethodComplete,
}

// RetryRequests is middleware for a client that sends again what is safe to send again,
// and has failed in a way that may pass: the connection was lost, there was no
// response in time, the server was overloaded or says when to try again (retryAfterMs in
// the data of its error, or Retry-After). Lists, reads, prompts, completions, pings and
// discovery are safe; tools are where Retry.Tool says so; nothing else is. Waits are
// random, between half of what is due and all of it, but no shorter than a server asks
// for. A server that asks for more than MaxWait is not asked again.
//
// The last error is returned. The wait ends with the request's context. On a server it
// does nothing.
func RetryRequests(r Retry) Middleware {
	if r.Attempts <= 0 {
		r.Attempts = 3
	}
	r.Attempts = min(r.Attempts, 10)
	if r.Wait <= 0 {
		r.Wait = 200 * time.Millisecond
	}
	if r.MaxWait <= 0 {
		r.MaxWait = 10 * time.Second
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, c *Call) Outcome {
			if c.outgoing == nil || !r.safe(c) {
				return next(ctx, c)
			}
			wait := min(r.Wait, r.MaxWait)
			for attempt := 1; ; attempt++ {
				out := next(ctx, c)
				asked, passing := passes(out.Err)
				if out.Err == nil || !passing || attempt == r.Attempts || asked > r.MaxWait || ctx.Err() != nil {
					return out
				}
				pause := max(wait/2+rand.N(wait/2+1), asked)
				timer := time.NewTimer(pause)
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
					return out
				}
				wait = min(2*wait, r.MaxWait)
			}
		}
	}
}

// safe reports whether a request may be sent twice.
func (r *Retry) safe(c *Call) bool {
	if c.Method == mcp.MethodCallTool && r.Tool != nil {
		name, _ := c.Params.Get("name")
		return r.Tool(jsonrpc.Unquote(name))
	}
	return slices.Contains(repeatable, c.Method)
}

// passes reports whether a failure may be another time's success, and how long the
// server wants to be left alone, at least.
func passes(err error) (wait time.Duration, passing bool) {
	var status *StatusError
	if errors.As(err, &status) {
		if seconds, err := strconv.Atoi(status.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			wait = time.Duration(min(seconds, 1<<20)) * time.Second
		}
		switch status.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return wait, true
		}
	}
	var reported *jsonrpc.Error
	if errors.As(err, &reported) && reported != nil {
		var data struct {
			RetryAfterMs *int64 `json:"retryAfterMs"`
		}
		if json.Unmarshal(reported.Data, &data) != nil || data.RetryAfterMs == nil || *data.RetryAfterMs < 0 {
			return 0, false
		}
		return time.Duration(min(*data.RetryAfterMs, 1<<40)) * time.Millisecond, true
	}
	var late *TimeoutError
	return 0, errors.Is(err, ErrConnectionLost) || errors.As(err, &late)
}
