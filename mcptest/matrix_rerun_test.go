package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// failures are errors with which a tool can fail, for example one that forwards calls to another server, and which
// mean of a request that the server has not acted on it.
func failures() map[string]error {
	reported := func(code int64, data string) error {
		return &jsonrpc.Error{Code: code, Message: "x", Data: json.RawMessage(data)}
	}
	return map[string]error{
		"unsupported revision": reported(mcp.CodeUnsupportedVersion, `{"supported":["2026-07-28","2025-11-25"],`+
			`"requested":"2024-11-05"}`),
		"unsupported revision, older ones": reported(mcp.CodeUnsupportedVersion, `{"supported":["2025-11-25"],`+
			`"requested":"2026-07-28"}`),
		"header mismatch":  reported(mcp.CodeHeaderMismatch, ""),
		"method not found": reported(jsonrpc.CodeMethodNotFound, ""),
		"invalid request":  reported(jsonrpc.CodeInvalidRequest, ""),
		"parse error":      reported(jsonrpc.CodeParseError, ""),
		"session":          reported(-32000, `"session not found"`),
		"not sent":         fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrConnectionLost),
	}
}

// wireDial connects to a server.
type wireDial func(s *server.Server, configure ...func(*client.Dialer)) *client.Client

// eachWire runs f for clients of several revisions and transports.
func eachWire(t *testing.T, f func(t *testing.T, dial wireDial, r mcp.Revision)) {
	for name, dial := range map[string]func(testing.TB, *server.Server, ...func(*client.Dialer)) *client.Client{
		"memory": mcptest.Dial, "HTTP": mcptest.DialHTTP,
	} {
		for _, r := range mcp.Revisions() {
			t.Run(name+"/"+string(r), func(t *testing.T) {
				f(t, func(s *server.Server, configure ...func(*client.Dialer)) *client.Client {
					return dial(t, s, append(configure, mcptest.WithRevision(r))...)
				}, r)
			})
		}
	}
}

// A call is not sent again after its tool has run, whatever the error of the tool and although the tool has changed
// meanwhile.
func TestToolThatFailsRunsOnce(t *testing.T) {
	for name, failure := range failures() {
		t.Run(name, func(t *testing.T) {
			eachWire(t, func(t *testing.T, dial wireDial, r mcp.Revision) {
				var runs atomic.Int32
				s := &server.Server{}
				// A client of 2026-07-28 mirrors the parameter that the schema marks, and one of 2025-11-25 calls the
				// tool as a task if it must be one. Each definition differs from the one before in both.
				register := func(header string, options ...server.Option) {
					s.RemoveTool("pay")
					err := s.RegisterTool(mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object",` +
						`"properties":{"a":{"type":"string","x-mcp-header":"` + header + `"}}}`)},
						func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
							runs.Add(1)
							return nil, failure
						}, options...)
					must.Check(t, err)
				}
				register("Before")
				s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
					return func(ctx context.Context, c *call.Call) (any, error) {
						result, err := next(ctx, c)
						if c.Method() == mcp.MethodCallTool {
							register("After", server.AsTask(server.TaskOptions{Support: mcp.TaskRequired}))
						}
						return result, err
					}
				}}
				c := dial(s)
				for _, err := range c.Tools(t.Context()) {
					must.Do(t, err)
				}
				result, err := c.CallTool(t.Context(), "pay", map[string]string{"a": "b"})
				must.CheckThat(t, err != nil || result.IsError, "the call succeeds")
				must.CheckEqual(t, runs.Load(), 1, "the tool has run", err)
				must.CheckEqual(t, c.Revision(), r, "the revision")
			})
		})
	}
}

// The error of a handler of the client may be about a request of its own, which it has sent elsewhere. It is not taken
// for the error of the call whose tool has asked.
func TestErrorOfAnAnswerIsNotThatOfTheCall(t *testing.T) {
	eachWire(t, func(t *testing.T, dial wireDial, r mcp.Revision) {
		var runs atomic.Int32
		s := &server.Server{}
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
			runs.Add(1)
			_, err := server.Elicit[struct{ Name string }](ctx, "Who?")
			return "", err
		})
		mine := errors.New("of this program")
		c := dial(s, func(d *client.Dialer) {
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return nil, errors.Join(mine, call.ErrNotSent, call.ErrConnectionLost, httpclient.ErrSessionGone)
			}
		})
		_, err := c.CallTool(t.Context(), "ask", nil)
		for _, of := range []error{call.ErrNotSent, call.ErrConnectionLost, httpclient.ErrSessionGone} {
			must.CheckThat(t, !errors.Is(err, of), "the error of the call is %v", of)
		}
		must.CheckThat(t, r.Modern() == errors.Is(err, mine), "got %v", err) // in a session the error is for the server
		must.CheckEqual(t, runs.Load(), 1, "the tool has run", err)
	})
}
