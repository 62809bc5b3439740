package legacy

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// serverWith returns a server with middleware.
func serverWith(middleware func(next call.Handler) call.Handler) *Server {
	s, _ := newServer()
	s.Engine = rpc.NewEngine(rpc.Handlers{}, slog.New(slog.DiscardHandler), middleware)
	return s
}

func TestSessionBeginsOnlyIfMiddlewareReturnsTheHandshake(t *testing.T) {
	for name, outcome := range map[string]struct {
		end  func() (any, error)
		want string
	}{
		"error": {func() (any, error) { return nil, jsonrpc.Errorf(-1, "not now") },
			`{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"not now"}}`},
		"panic": {func() (any, error) { panic("hunter2") },
			`{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"internal error"}}`},
		"goexit": {func() (any, error) { runtime.Goexit(); return nil, nil },
			`{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"internal error"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			fail := true
			s := serverWith(func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					if fail {
						return outcome.end()
					}
					return next(ctx, c)
				}
			}).NewSession(principal.Local)
			if got := string(serve(t.Context(), s, parse(t, initialize("2025-06-18")), nil)); got != outcome.want ||
				s.Initialized() {
				t.Errorf("%s, initialized: %v", got, s.Initialized())
			}
			fail = false
			got := string(serve(t.Context(), s, parse(t, initialize("2025-06-18")), nil))
			must.CheckThat(t, strings.Contains(got, `"protocolVersion":"2025-06-18"`) && s.Initialized(),
				"the second handshake: %s", got)
		})
	}
}

func TestMiddlewareSeesInvalidHandshakes(t *testing.T) {
	var seen []string
	s := serverWith(func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if err == nil {
				t.Errorf("%s succeeds with %+v", c.Method(), result)
			}
			seen = append(seen, c.Method()+" "+string(c.Revision()))
			return result, err
		}
	}).NewSession(principal.Local)
	reply := string(serve(t.Context(), s,
		parse(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}`), nil))
	must.CheckThat(t, strings.Contains(reply, `"code":-32602`) && !s.Initialized(), "got %s", reply)
	must.CheckThat(t, len(seen) == 1 && seen[0] == mcp.MethodInitialize+" 2024-11-05", "the middleware saw %q", seen)
}

func TestInvalidHandshakeThatMiddlewareAnswersBeginsNoSession(t *testing.T) {
	s := serverWith(func(call.Handler) call.Handler {
		return func(context.Context, *call.Call) (any, error) { return &mcp.InitializeResult{}, nil }
	}).NewSession(principal.Local)
	m := parse(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	if reply := serve(t.Context(), s, m, nil); s.Initialized() || strings.Contains(string(reply), `"error"`) {
		t.Errorf("initialized: %v, %s", s.Initialized(), reply)
	}
}
