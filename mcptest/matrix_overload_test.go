package mcptest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A caller gets the same error for a request that the server rejects because of a limit, on
// every wire, and the error of the response.
func TestOverloadIsOneErrorOfTheClient(t *testing.T) {
	limited := func() *server.Server {
		s := newServer()
		server.AddResource(s, mcp.Resource{URI: "test:busy", Name: "busy"}, func(context.Context) (string, error) {
			return "", &call.OverloadError{Limit: "printers in use", RetryAfter: 2500 * time.Millisecond}
		})
		return s
	}
	everywhere(t, limited, func(t *testing.T, c *client.Client) {
		_, err := c.ReadResource(t.Context(), "test:busy")
		var overload *call.OverloadError
		if !errors.As(err, &overload) || overload.Limit != "printers in use" || overload.RetryAfter != 2500*time.Millisecond {
			t.Errorf("got %v, %+v", err, overload)
		}
		var reported *jsonrpc.Error
		if !errors.As(err, &reported) || reported.Code != jsonrpc.CodeInternalError || string(reported.Data) != `{"limit":"printers in use","retryAfterMs":2500}` {
			t.Errorf("the error of the response is not there: %v, %+v", err, reported)
		}
		if got := err.Error(); strings.Count(got, "too many printers in use") != 1 {
			t.Errorf("the text is %q", got)
		}
	})
}

// The middleware of a client knows how long the server wants it to wait: it repeats a read if
// that is less than its longest wait.
func TestRetriesWaitUntilTheOverloadIsOver(t *testing.T) {
	for wait, want := range map[time.Duration]int{time.Millisecond: 2, time.Hour: 1} {
		t.Run(wait.String(), func(t *testing.T) {
			var attempts atomic.Int32
			limited := func() *server.Server {
				attempts.Store(0)
				s := newServer()
				server.AddResource(s, mcp.Resource{URI: "test:busy", Name: "busy"}, func(context.Context) (string, error) {
					if attempts.Add(1) == 1 {
						return "", &call.OverloadError{Limit: "printers in use", RetryAfter: wait}
					}
					return "free", nil
				})
				return s
			}
			everywhere(t, limited, func(t *testing.T, c *client.Client) {
				_, err := c.ReadResource(t.Context(), "test:busy")
				if n := int(attempts.Load()); n != want || (err == nil) != (want == 2) {
					t.Errorf("%d attempts, %v, want %d", n, err, want)
				}
			}, func(d *client.Dialer) {
				d.Middleware = append(d.Middleware, call.RetryRequests(call.Retry{Wait: time.Nanosecond}))
			})
		})
	}
}
