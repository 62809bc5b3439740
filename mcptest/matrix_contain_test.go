package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// A panic in the client's Elicit or Sample function ends only the call that requested the input.
func TestPanicInInputHandlerEndsOnlyTheCall(t *testing.T) {
	var charged, log atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		log.Store(0)
		result, err := c.CallTool(t.Context(), "order", nil)
		must.CheckThat(t, err != nil || result.IsError, "the call succeeds: %+v", result)
		must.CheckThat(t, err == nil || strings.Contains(err.Error(), "secret") == c.Revision().Modern(),
			"the call returns %v", err) // in a session the error is the server's
		must.CheckThat(t, log.Load() != 0, "the panic is not logged")
		text := must.Get(client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "alive"}))(t)
		must.CheckEqual(t, text, "alive", "the next call")
	}, func(d *client.Dialer) {
		d.Logger = slog.New(errorCount{&log})
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { panic("secret") }
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { panic("secret") }
	})
}

// A panic in a progress function does not even affect its call.
func TestPanicInMiddlewareEndsOnlyTheRequest(t *testing.T) {
	var log atomic.Int32
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		log.Store(0)
		must.CheckFails(t, must.Err(c.CallTool(t.Context(), "everything", nil)), "Middleware panicked",
			"the call returns")
		must.CheckEqual(t, log.Load(), 1, "errors were logged")
		reports := 0
		result, err := c.CallTool(t.Context(), "count", countParams{To: 3},
			client.WithProgress(func(float64, float64, string) {
				reports++
				panic("secret")
			}))
		must.CheckThat(t, err == nil && !result.IsError && reports == 3 && log.Load() == 4,
			"%+v, %v with %d reports and %d errors", result, err, reports, log.Load())
	}, func(d *client.Dialer) {
		d.Logger = slog.New(errorCount{&log})
		d.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if name, _ := c.Params().Get("name"); string(name) == `"everything"` {
					panic("secret")
				}
				return next(ctx, c)
			}
		}}
	})
}

// Dial sends its requests in another goroutine.
func TestPanicInMiddlewareDuringDialIsAnError(t *testing.T) {
	d := client.Dialer{Logger: slog.New(slog.DiscardHandler),
		Middleware: []call.Middleware{func(call.Handler) call.Handler {
			return func(context.Context, *call.Call) (any, error) { panic("secret") }
		}}}
	near, far := transport.Pipe()
	t.Cleanup(func() { far.Close() })
	endpoint := httptest.NewServer(newServer())
	t.Cleanup(endpoint.Close)
	for name, target := range map[string]client.Target{"stream": client.Conn(near), "http": client.URL(endpoint.URL)} {
		t.Run(name, func(t *testing.T) {
			must.CheckFails(t, must.Err(d.Dial(t.Context(), target)), "Middleware panicked")
		})
	}
}

// errorCount is a slog.Handler that counts errors.
type errorCount struct{ errors *atomic.Int32 }

func (errorCount) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (c errorCount) Handle(context.Context, slog.Record) error  { c.errors.Add(1); return nil }
func (c errorCount) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c errorCount) WithGroup(string) slog.Handler              { return c }

// A function of a client that calls runtime.Goexit does not answer. The server gets an error, and
// the connection serves the next call.
func TestGoexitInAFunctionOfTheClientIsAnError(t *testing.T) {
	inquisitive := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "elicit"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Elicit[struct {
				A string `json:"a"`
			}](ctx, "a?")
			return "elicited", err
		})
		server.AddTool(s, mcp.Tool{Name: "sample"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1})
			return "sampled", err
		})
		server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Roots(ctx)
			return "rooted", err
		})
		server.AddTool(s, mcp.Tool{Name: "log"}, func(ctx context.Context, _ struct{}) (string, error) {
			server.Logger(ctx).Error("logged")
			return "logged", nil
		})
		return s
	}
	everywhere(t, inquisitive, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for _, tool := range []string{"elicit", "sample", "roots"} {
			if tool == "elicit" && c.Revision() < mcp.V20250618 {
				continue
			}
			result, err := c.CallTool(ctx, tool, nil)
			must.That(t, ctx.Err() == nil && (err != nil || result.IsError) && !errors.Is(err, call.ErrConnectionLost),
				"%s: %+v, %v, want an error of the client", tool, result, err)
		}
		result := must.Get(c.CallTool(ctx, "log", nil))(t)
		must.CheckThat(t, !result.IsError, "log: %+v", result)
		must.Check(t, must.Err(c.CallTool(ctx, "everything", nil)), "the next call")
	}, func(d *client.Dialer) {
		d.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			runtime.Goexit()
			return nil, nil
		}
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			runtime.Goexit()
			return nil, nil
		}
		d.Roots = func(context.Context) ([]mcp.Root, error) { runtime.Goexit(); return nil, nil }
		d.OnLog = func(context.Context, mcp.LoggingMessageParams) { runtime.Goexit() }
	})

}

// A client's middleware receives every request and its result, can add _meta that the
// server's middleware receives, and can send a request again.
func TestClientMiddlewareWrapsRequests(t *testing.T) {
	const traceParent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	var mu sync.Mutex
	arrived := make(map[string]string) // the traceparent, by method
	newServer := func() *server.Server {
		s := newServer()
		s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				var meta mcp.Meta
				if raw, ok := c.Params().Get("_meta"); ok {
					_ = json.Unmarshal(raw, &meta)
				}
				mu.Lock()
				arrived[c.Method()] = string(meta[mcp.MetaTraceParent])
				mu.Unlock()
				return next(ctx, c)
			}
		}}
		return s
	}
	typed := map[string]any{
		mcp.MethodInitialize: new(mcp.InitializeResult), mcp.MethodDiscover: new(mcp.DiscoverResult),
		mcp.MethodCallTool:  new(mcp.CallToolResult),
		mcp.MethodListTools: new(mcp.ListToolsResult),
	}
	var seen []string
	middleware := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			must.Check(t, c.SetMeta(mcp.MetaTraceParent, traceParent))
			must.CheckIs(t, c.SetMeta(mcp.MetaProtocolVersion, "2000-01-01"), mcp.ErrMetaKey)
			result, err := next(ctx, c)
			if err == nil && c.Method() == mcp.MethodCallTool {
				result, err = next(ctx, c)
			}
			mu.Lock()
			defer mu.Unlock()
			name, _ := c.Params().Get("name")
			seen = append(seen, c.Method()+string(name)+string(c.Revision()))
			if want, known := typed[c.Method()]; err == nil &&
				(!known || reflect.TypeOf(result) != reflect.TypeOf(want)) {
				t.Errorf("%s: the result is a %T", c.Method(), result)
			}
			return result, err
		}
	}
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		must.CheckEqual(t,
			must.Get(client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "hello"}))(t), "hello")
		mu.Lock()
		defer mu.Unlock()
		opening := mcp.MethodDiscover
		if !c.Revision().Modern() {
			opening = mcp.MethodInitialize
		}
		for _, want := range []string{opening + string(c.Revision()),
			mcp.MethodCallTool + `"echo"` + string(c.Revision())} {
			must.CheckThat(t, slices.Contains(seen, want), "the middleware has received %q, want %s", seen, want)
		}
		must.CheckEqual(t, arrived[mcp.MethodCallTool], `"`+traceParent+`"`, "the server has received the traceparent")
		seen = nil
		clear(arrived)
	}, func(d *client.Dialer) { d.Middleware = []call.Middleware{middleware} })
}

// Middleware may return a result of package mcp without sending the request.
func TestClientMiddlewareCanReturnResult(t *testing.T) {
	answer := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			switch c.Method() {
			case mcp.MethodCallTool:
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("from middleware")}}, nil
			case mcp.MethodReadResource:
				return nil, nil
			}
			return next(ctx, c)
		}
	}
	c := mcptest.Dial(t, newServer(), func(d *client.Dialer) { d.Middleware = []call.Middleware{answer} })
	text := must.Get(client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "from server"}))(t)
	must.CheckEqual(t, text, "from middleware")
	_, err := c.ReadResource(t.Context(), "file:///any")
	must.CheckThat(t, err != nil, "a nil result is accepted")
}

// withMiddleware returns a function that makes a server with the middleware.
func withMiddleware(middleware ...call.Middleware) func() *server.Server {
	return func() *server.Server {
		s := newServer()
		s.Middleware = middleware
		server.AddPrompt(s, mcp.Prompt{Name: "open"}, func(context.Context, struct{}) (string, error) {
			return "o", nil
		})
		server.AddStatic(s, mcp.Resource{URI: "note://open", Name: "open"}, "o")
		return s
	}
}

func toolNames(t *testing.T, c *client.Client) []string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context(), client.WithRefresh()) {
		must.Do(t, err)
		names = append(names, tool.Name)
	}
	return names
}

func TestServerMiddlewareSeesEveryMethodWithItsTypedResult(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]string) // the type of the result or the error code, by method
	count := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodListen { // returns when the subscription ends
				mu.Lock()
				seen[c.Method()] = "begun"
				mu.Unlock()
				return next(ctx, c)
			}
			result, err := next(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			seen[c.Method()] = typeOf(result, err)
			if c.Revision() == "" || c.Peer().Info.Name == "" && c.Method() != mcp.MethodPing {
				t.Errorf("%s: revision %q, client %+v", c.Method(), c.Revision(), c.Peer().Info)
			}
			return result, err
		}
	}
	mcptest.Everywhere(t, withMiddleware(count), func(t *testing.T, c *client.Client) {
		modern := c.Revision().Modern()
		must.Check(t, c.Ping(t.Context()))
		must.Check(t, must.Err(client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "x"})))
		_ = toolNames(t, c)
		for _, err := range c.Prompts(t.Context()) {
			must.Check(t, err)
		}
		var reported *jsonrpc.Error
		_, err := c.CallExtension(t.Context(), "com.example/unknown", nil)
		must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound,
			"unknown method: %v", err)
		if modern {
			ctx, cancel := context.WithCancel(t.Context())
			for range c.Watch(ctx, client.WatchFilter{Tools: true}) {
				cancel()
			}
			cancel()
		}
		want := map[string]string{
			mcp.MethodCallTool: "*mcp.CallToolResult", mcp.MethodListTools: "*mcp.ListToolsResult",
			mcp.MethodListPrompts: "*mcp.ListPromptsResult",
			"com.example/unknown": "-32601",
		}
		if modern {
			want[mcp.MethodDiscover], want[mcp.MethodListen] = "*mcp.DiscoverResult", "begun"
		} else {
			want[mcp.MethodInitialize], want[mcp.MethodPing] = "*mcp.InitializeResult", "*mcp.EmptyResult"
		}
		mu.Lock()
		defer mu.Unlock()
		must.CheckThat(t, maps.Equal(seen, want), "seen %v, want %v", seen, want)
		clear(seen)
	})
}

func typeOf(result any, err error) string {
	var reported *jsonrpc.Error
	if errors.As(err, &reported) {
		return strconv.FormatInt(reported.Code, 10)
	}
	return fmt.Sprintf("%T", result)
}

func TestServerMiddlewareRewritesResults(t *testing.T) {
	rewrite := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			switch r := result.(type) {
			case *mcp.CallToolResult:
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("rewritten " + c.Name())}}, err
			case *mcp.ReadResourceResult:
				return nil, &jsonrpc.Error{Code: mcp.CodeResourceNotFound, Message: "hidden"}
			case *mcp.InitializeResult:
				changed := *r
				changed.Instructions = "rewritten"
				return &changed, err
			case *mcp.DiscoverResult:
				changed := *r
				changed.Instructions = "rewritten"
				return &changed, err
			}
			return result, err
		}
	}
	everywhere(t, withMiddleware(rewrite), func(t *testing.T, c *client.Client) {
		must.CheckEqual(t, c.Server().Instructions, "rewritten")
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "x"}))(t),
			"rewritten echo")
		var reported *jsonrpc.Error
		_, err := c.ReadResource(t.Context(), "note://open")
		must.CheckThat(t, errors.As(err, &reported) && reported.Message == "hidden", "read: %v", err)
	})
}

// Middleware may change the fields of a result that it received, although the server keeps the
// list and its encoding for many calls: the change is for one call.
func TestServerMiddlewareChangesOneCallsResult(t *testing.T) {
	var calls atomic.Int32
	modify := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if list, ok := result.(*mcp.ListToolsResult); ok && calls.Add(1)%2 == 1 {
				list.Tools = list.Tools[:1]
			}
			return result, err
		}
	}
	everywhere(t, withMiddleware(modify), func(t *testing.T, c *client.Client) {
		calls.Store(0)
		for i, want := range []func(n int) bool{
			func(n int) bool { return n == 1 },
			func(n int) bool { return n > 1 },
		} {
			n := 0
			for _, err := range c.Tools(t.Context()) {
				must.Do(t, err)
				n++
			}
			must.CheckThat(t, want(n), "list %d has %d tools", i+1, n)
		}
	})
}

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
