package guide_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// source produces an error.
type source func(t *testing.T) string

// panics returns the panic of a function that adds something to a server.
func panics(add func(s *server.Server)) source {
	return func(*testing.T) (text string) {
		defer func() { text, _ = recover().(string) }()
		add(new(server.Server))
		return ""
	}
}

// fails returns the error of a request to a server, and its log.
func fails(add func(s *server.Server), request func(ctx context.Context, c *client.Client) error,
	options ...func(*client.Dialer)) source {
	return func(t *testing.T) string {
		var log bytes.Buffer
		s := &server.Server{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		add(s)
		err := request(t.Context(), mcptest.Dial(t, s, options...))
		if err == nil {
			return ""
		}
		return err.Error() + strings.ReplaceAll(log.String(), `\"`, `"`)
	}
}

// tool returns the error of a tool without arguments.
func tool(handler func(ctx context.Context) (string, error), options ...func(*client.Dialer)) source {
	return fails(func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "t"}, func(ctx context.Context, _ struct{}) (string, error) { return handler(ctx) })
	}, calls("t", nil), options...)
}

func calls(tool string, arguments any) func(ctx context.Context, c *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		_, err := client.CallTool[string](ctx, c, tool, arguments)
		return err
	}
}

func reads(uri string) func(ctx context.Context, c *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		_, err := c.ReadResource(ctx, uri)
		return err
	}
}

func gets(prompt string, arguments map[string]string) func(ctx context.Context, c *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		_, err := c.GetPrompt(ctx, prompt, arguments)
		return err
	}
}

// posts returns the response to an HTTP request with a header.
func posts(s *server.Server, name, value string) source {
	return func(t *testing.T) string {
		req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/mcp", strings.NewReader(strings.Repeat(" ", 200)))
		req = req.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, loopback{}))
		req.Header.Set("Content-Type", "application/json")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
		w := httptest.NewRecorder()
		s.Logger = slog.New(slog.DiscardHandler)
		s.ServeHTTP(w, req)
		body := must.Get(io.ReadAll(w.Body))(t)
		return w.Result().Status + " " + strings.ReplaceAll(string(body), `\"`, `"`)
	}
}

type loopback struct{}

func (loopback) Network() string { return "tcp" }
func (loopback) String() string  { return "127.0.0.1:8080" }

func nothing(context.Context, struct{}) (string, error) { return "", nil }

func answersSure(d *client.Dialer) {
	d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(confirmation{true})
	}
}

func elicits[T any](ctx context.Context) (string, error) {
	_, err := server.Elicit[T](ctx, "?")
	return "", err
}

type address struct {
	A struct{ B string } `json:"a"`
}

func returns(result any, err error) func(s *server.Server) {
	return func(s *server.Server) {
		s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if c.Method() == mcp.MethodCallTool {
					return result, err
				}
				return next(ctx, c)
			}
		}}
		server.AddTool(s, mcp.Tool{Name: "t"}, nothing)
	}
}

var quoted = []struct {
	page, text string
	of         source
}{
	{"server", `the Host header must name this server, not "example.com"`, posts(new(server.Server), "Host", "example.com")},
	{"server", `the Origin "https://a.example" is not allowed`, posts(new(server.Server), "Origin", "https://a.example")},

	{"tools", `the tag jsonschema belongs to another library; use doc:"`, panics(func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, struct {
			A string `json:"a" jsonschema:"the a"`
		}) (string, error) {
			return "", nil
		})
	})},
	{"tools", "the argument of the handler must be a struct or a map with string keys, not string",
		panics(func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, string) (string, error) { return "", nil })
		})},
	{"tools", `arguments/limit: expected integer, got string "7"`, fails(addSearch, calls("search",
		map[string]any{"words": []string{"tea"}, "limit": "7"}))},
	{"tools", `got unknown property "more"`, fails(addSearch, calls("search",
		map[string]any{"words": []string{"tea"}, "more": 1}))},

	{"results", "the tool failed: its result does not match its output schema", fails(addMismatch, calls("t", nil))},
	{"results", "value/a: expected a value, got nothing; it is required", fails(addMismatch, calls("t", nil))},
	{"results", "the tool returned no result", fails(func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (*file, error) { return nil, nil })
	}, calls("t", nil))},
	{"results", "the tool failed unexpectedly", tool(func(context.Context) (string, error) { panic("a bug") })},
	{"results", `server: tool "t": output: `, panics(func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (struct{ C chan int }, error) {
			panic("not called")
		})
	})},

	{"resources", "resources/read: internal error (code -32603)", fails(func(s *server.Server) {
		server.AddResource(s, mcp.Resource{URI: "a://a", Name: "a"}, func(context.Context) (string, error) {
			return "", errors.New("cause")
		})
	}, reads("a://a"))},
	{"resources", "resources/read: resource not found", fails(addPictures(0), reads("file:///p/.hidden"))},
	{"resources", " bytes, the limit is 10", fails(addPictures(10), reads("file:///p/terminal.svg"))},
	{"resources", `server: resource "rules": the URI must begin with a scheme, such as file:///notes.txt`,
		panics(func(s *server.Server) { server.AddStatic(s, mcp.Resource{URI: "rules", Name: "rules"}, "") })},

	{"resources", "prompts/get: internal error (code -32603)", fails(func(s *server.Server) {
		server.AddPrompt(s, mcp.Prompt{Name: "p"}, func(context.Context, struct{}) (string, error) {
			return "", errors.New("cause")
		})
	}, gets("p", nil))},

	{"asking", `the client must declare the capabilities {"elicitation":{}}`, tool(elicits[confirmation])},
	{"asking", `address cannot be a form: requested schema: property "a": type must be string, number, integer, ` +
		`boolean or array, got "object"`, tool(elicits[address], answersSure)},
	{"asking", "the call has asked for input in 10 rounds, which is the limit",
		tool(func(ctx context.Context) (string, error) {
			for {
				if _, err := elicits[confirmation](ctx); err != nil {
					return "", err
				}
			}
		}, answersSure)},

	{"long-calls", "the call has ended: its handler has returned or the client has cancelled it", lateProgress},
	{"long-calls", "the operation was started before and its result is unknown: look it up by its idempotency key",
		func(*testing.T) string { return server.ErrOnceUncertain.Error() }},
	{"long-calls", "task not found: it never existed, has expired or belongs to another principal",
		fails(func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "t"}, nothing, server.AsTask(server.TaskOptions{}))
		}, func(ctx context.Context, c *client.Client) error {
			task, err := c.Task("AAAA")
			if err == nil {
				_, err = task.Get(ctx)
			}
			return err
		})},

	{"catalogs", `unknown tool: "refund"`, fails(func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "t"}, nothing)
	}, calls("refund", nil))},
	{"catalogs", "insufficient scope: the call needs billing", fails(func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "refund"}, nothing, server.RequireScopes("billing"))
	}, calls("refund", nil))},
	{"catalogs", `tool "motto": already in use: remove the earlier registration first`, func(*testing.T) string {
		var c server.Catalog
		server.AddTool(&c, mcp.Tool{Name: "motto"}, nothing)
		return c.RegisterTool(mcp.Tool{Name: "motto"}, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return nil, nil
		}).Error()
	}},

	{"middleware", "internal error (code -32603)", fails(returns(nil, errors.New("not today")), calls("t", nil))},
	{"middleware", `error="not today"`, fails(returns(nil, errors.New("not today")), calls("t", nil))},
	{"middleware", `error="a result must be a JSON object, but string encodes to another type"`,
		fails(returns("text", nil), calls("t", nil))},
	{"middleware", "too many calls: try again in ", fails(func(s *server.Server) {
		s.Middleware = []call.Middleware{call.LimitRate(call.RateLimit{PerSecond: 0.5})}
		server.AddTool(s, mcp.Tool{Name: "t"}, nothing)
	}, func(ctx context.Context, c *client.Client) error {
		_ = calls("t", nil)(ctx, c)
		return calls("t", nil)(ctx, c)
	})},

	{"protocol", `method "tools/call" is not available in revision 2026-07-28 of this server`,
		fails(func(*server.Server) {}, calls("t", nil))},
	{"protocol", "server: Limits.Inflight must not be negative; 0 means the default", func(*testing.T) string {
		return (&server.Server{Limits: server.Limits{Inflight: -1}}).Check().Error()
	}},
	{"protocol", "the server is not configured correctly: see its log",
		posts(&server.Server{Limits: server.Limits{Inflight: -1}}, "Accept", "*/*")},
	{"protocol", "message too large: the limit is ",
		posts(&server.Server{Limits: server.Limits{MaxMessage: 100}}, "Accept", "application/json, text/event-stream")},
}

func addSearch(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "search"}, func(context.Context, search) (string, error) { return "", nil })
}

func addMismatch(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "t", OutputSchema: []byte(`{"type":"object","required":["a"]}`)},
		func(context.Context, struct{}) (map[string]int, error) { return map[string]int{}, nil })
}

func addPictures(limit int64) func(s *server.Server) {
	return func(s *server.Server) {
		root, err := os.OpenRoot(filepath.Join("..", "pictures"))
		if err != nil {
			panic(err)
		}
		server.AddFS(s, "file:///p/", root, server.FSOptions{MaxFile: limit})
	}
}

func lateProgress(t *testing.T) string {
	late := make(chan context.Context, 1)
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "t"}, func(ctx context.Context, _ struct{}) (string, error) {
		late <- ctx
		return "", nil
	})
	must.Do(t, calls("t", nil)(t.Context(), mcptest.Dial(t, s)))
	return server.Progress(<-late, 1, 2, "").Error()
}

// Errors that the pages quote have these texts.
func TestQuotedErrorsAreTrue(t *testing.T) {
	for _, q := range quoted {
		t.Run(q.page, func(t *testing.T) {
			page := must.Get(os.ReadFile(q.page + ".md"))(t)
			must.CheckContains(t, strings.Join(strings.Fields(string(page)), " "), strings.TrimSpace(q.text))
			must.CheckContains(t, q.of(t), q.text)
		})
	}
}
