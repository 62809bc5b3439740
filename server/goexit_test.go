package server_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A handler that calls runtime.Goexit is answered like a panic, logged once, and ends nothing else.
func TestGoexitIsAnsweredLikeAPanic(t *testing.T) {
	for name, stop := range map[string]func(){
		"panic":          func() { panic("hunter2") },
		"runtime.Goexit": runtime.Goexit,
	} {
		var log *syncbuffer.Buffer
		failing := func() *server.Server {
			log = new(syncbuffer.Buffer)
			s := httpServer()
			s.Logger = slog.New(slog.NewTextHandler(log, nil))
			s.Limits.MaxInflight = 2
			server.AddTool(s, mcp.Tool{Name: "fail"}, func(context.Context, struct{}) (string, error) { stop(); return "", nil })
			server.AddPrompt(s, mcp.Prompt{Name: "fail"}, func(context.Context, struct{}) (string, error) { stop(); return "", nil })
			server.AddResource(s, mcp.Resource{URI: "test:fail", Name: "fail"}, func(context.Context) (string, error) { stop(); return "", nil })
			s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					if uri, _ := c.Params().Get("uri"); string(uri) == `"test:middleware"` {
						stop()
					}
					return next(ctx, c)
				}
			})
			return s
		}
		const internalError = `"error":{"code":-32603,"message":"internal error"}`
		t.Run(name, func(t *testing.T) {
			onEverySurface(t, failing, func(t *testing.T, s surface) {
				for id := 1; id <= 3; id++ { // more than the limit of requests in flight
					for _, test := range []struct{ method, members, want string }{
						{mcp.MethodCallTool, `"name":"fail","arguments":{}`, `"isError":true`},
						{mcp.MethodGetPrompt, `"name":"fail"`, internalError},
						{mcp.MethodReadResource, `"uri":"test:fail"`, internalError},
						{mcp.MethodReadResource, `"uri":"test:middleware"`, internalError},
					} {
						logged := strings.Count(log.String(), "level=ERROR")
						response := s.ask(id, test.method, test.members)
						if !strings.Contains(response, test.want) || strings.Contains(response, "hunter2") {
							t.Errorf("%s: %s, want %s", test.members, response, test.want)
						}
						if n := strings.Count(log.String(), "level=ERROR") - logged; n != 1 {
							t.Errorf("%s: %d log lines", test.members, n)
						}
					}
					if response := s.ask(id, mcp.MethodCallTool, `"name":"echo","arguments":{"text":"alive"}`); !strings.Contains(response, "alive") {
						t.Errorf("the next call: %s", response)
					}
				}
			})
		})
	}
}
