package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// Text of a file in Latin-1, CP949 or GBK, and as it arrives.
const (
	latin1   = "caf\xe9"
	replaced = "caf\uFFFD"
)

type hit struct {
	Path  string            `json:"path"`
	Line  string            `json:"line"`
	Tags  []string          `json:"tags,omitempty"`
	Attrs map[string]string `json:"attrs,omitempty"`
	More  any               `json:"more,omitempty"`
}

// textValue and jsonValue encode themselves.
type textValue string

func (v textValue) MarshalText() ([]byte, error) { return []byte(v), nil }

func (v *textValue) UnmarshalText(text []byte) error {
	*v = textValue(text)
	return nil
}

type jsonValue struct{ text string }

func (v jsonValue) MarshalJSON() ([]byte, error) { return []byte(`"` + v.text + `"`), nil }

// latin1Tools maps the name of each tool to its registration. All of them return latin1 in another way.
var latin1Tools = map[string]func(*server.Server, mcp.Tool){
	"string": returns(latin1),
	"error": func(s *server.Server, t mcp.Tool) {
		server.AddTool(s, t, func(context.Context, struct{}) (string, error) { return "", errors.New(latin1) })
	},
	"struct":      returns(hit{Path: "a.c", Line: latin1}),
	"pointer":     returns(&hit{Path: "a.c", Line: latin1}),
	"nested":      returns(hit{Tags: []string{latin1}, Attrs: map[string]string{"a": latin1}, More: []any{latin1}}),
	"slice":       returns([]hit{{"a.c", latin1, nil, nil, nil}}),
	"strings":     returns([]string{latin1}),
	"map":         returns(map[string]string{"a": latin1}),
	"key":         returns(map[string]int{latin1: 1}),
	"keys":        returns(map[string]any{"a": map[string]int{"caf\xe9": 1, "caf\xe8": 2, "caf\xe7": 3}}),
	"text method": returns(struct{ V textValue }{latin1}),
	"JSON method": returns(struct{ V jsonValue }{jsonValue{latin1}}),
	"raw":         returns(struct{ V json.RawMessage }{json.RawMessage(`"` + latin1 + `"`)}),
	"blocks":      returns([]mcp.Content{mcp.Text("before"), &mcp.TextContent{Text: latin1, Meta: meta("a")}}),
	"link":        returns([]mcp.Content{&mcp.ResourceLink{URI: "a:b", Name: latin1}}),
	"embedded": returns([]mcp.Content{&mcp.EmbeddedResource{
		Resource: mcp.ResourceContents{URI: "a:b", Text: latin1, MimeType: "text/plain"}}}),
	"annotated": returns([]mcp.Content{&mcp.TextContent{Text: "a", Meta: meta(latin1)}}),
	"result":    returns(&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"a":"` + latin1 + `"}`)}),
	"schema": func(s *server.Server, t mcp.Tool) {
		t.OutputSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)
		returns(&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"a":"` + latin1 + `"}`)})(s, t)
	},
	"protocol error": func(s *server.Server, t mcp.Tool) {
		server.AddTool(s, t, func(context.Context, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: 7, Message: "a", Data: json.RawMessage(`"` + latin1 + `"`)}
		})
	},
	"protocol error's message": func(s *server.Server, t mcp.Tool) {
		server.AddTool(s, t, func(context.Context, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: 7, Message: latin1}
		})
	},
}

func meta(text string) mcp.Meta { return mcp.Meta{"com.example/a": json.RawMessage(`"` + text + `"`)} }

func returns[Out any](out Out) func(*server.Server, mcp.Tool) {
	return func(s *server.Server, t mcp.Tool) {
		server.AddTool(s, t, func(context.Context, struct{}) (Out, error) { return out, nil })
	}
}

// newLatin1 returns a server with all results that a program can return.
func newLatin1() *server.Server {
	s := &server.Server{Name: "latin1", Version: "1", Logger: slog.New(slog.DiscardHandler)}
	for name, add := range latin1Tools {
		add(s, mcp.Tool{Name: strings.NewReplacer(" ", "-", "'", "").Replace(name)})
	}
	server.AddTool(s, mcp.Tool{Name: "reports"}, func(ctx context.Context, _ struct{}) (string, error) {
		server.Logger(ctx).Error(latin1, latin1, latin1, "raw", json.RawMessage(`"`+latin1+`"`))
		return "", server.Progress(ctx, 1, 2, latin1)
	})
	server.AddTool(s, mcp.Tool{Name: "asks"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[struct {
			Name string `json:"name"`
		}](ctx, latin1)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return "", err
		}
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, SystemPrompt: latin1,
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(latin1)}}}})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s and %s", form.Name, answer.Content[0].(*mcp.TextContent).Text), nil
	})
	server.AddResource(s, mcp.Resource{URI: "r:string", Name: "a"},
		func(context.Context) (string, error) { return latin1, nil })
	server.AddResource(s, mcp.Resource{URI: "r:struct", Name: "a"},
		func(context.Context) (hit, error) { return hit{Line: latin1}, nil })
	server.AddResource(s, mcp.Resource{URI: "r:slice", Name: "a"},
		func(context.Context) ([]hit, error) { return []hit{{Line: latin1}}, nil })
	server.AddResource(s, mcp.Resource{URI: "r:contents", Name: "a"},
		func(context.Context) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{Text: latin1, Meta: meta("a")}}, nil
		})
	server.AddPrompt(s, mcp.Prompt{Name: "string"}, func(context.Context, struct{}) (string, error) { return latin1, nil })
	server.AddPrompt(s, mcp.Prompt{Name: "messages"}, func(context.Context, struct{}) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: latin1, Messages: []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: mcp.Text(latin1)}}}, nil
	})
	return s
}

// Rule J6: a program may return bytes that are not UTF-8, but the message must be valid, and nothing else is lost.
func TestBytesThatAreNotUTF8AreReplacedInEveryResult(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	answering := func(d *client.Dialer) {
		record := func(params any) {
			raw, _ := json.Marshal(params)
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, string(raw))
		}
		d.Elicit = func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			record(p)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"name":"` + latin1 + `"}`)}, nil
		}
		d.Sample = func(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			record(p)
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: []mcp.Content{
				mcp.Text(latin1)}}, nil
		}
	}
	everywhere(t, newLatin1, func(t *testing.T, c *client.Client) {
		arrives := func(what string, v any, err error) {
			t.Helper()
			raw, _ := json.Marshal([]any{v, fmt.Sprint(err)})
			if failure, ok := errors.AsType[*jsonrpc.Error](err); ok {
				raw = append(raw, failure.Data...)
			}
			if text := string(raw); !strings.Contains(text, replaced) && !strings.Contains(text, `caf\ufffd`) {
				t.Errorf("%s: %s", what, raw)
			}
		}
		for name := range latin1Tools {
			if name == "annotated" && c.Revision() < mcp.V20250618 { // blocks have no _meta
				continue
			}
			r, err := c.CallTool(t.Context(), strings.NewReplacer(" ", "-", "'", "").Replace(name), nil)
			arrives(name, r, err)
			if err == nil && r.IsError != (name == "error") {
				t.Errorf("%s: %v", name, r.Content)
			}
		}
		for _, uri := range []string{"r:string", "r:struct", "r:slice", "r:contents"} {
			r, err := c.ReadResource(t.Context(), uri)
			arrives(uri, r, err)
		}
		for _, name := range []string{"string", "messages"} {
			r, err := c.GetPrompt(t.Context(), name, nil)
			arrives(name, r, err)
		}
		if c.Revision() > mcp.V20241105 {
			var progress string
			_, err := c.CallTool(t.Context(), "reports", nil,
				client.WithProgress(func(_, _ float64, text string) { progress = text }))
			arrives("progress", progress, err)
		}
		asks, err := c.CallTool(t.Context(), "asks", nil)
		arrives("an answer", asks, err)
		mu.Lock()
		defer mu.Unlock()
		for _, question := range asked {
			arrives("a question", question, nil)
		}
		if asked = nil; t.Failed() {
			t.FailNow()
		}
	}, answering)
}

func TestBytesThatAreNotUTF8AreReplacedInResultsOfExtensions(t *testing.T) {
	mcptest.Everywhere(t, func() *server.Server {
		s := newLatin1()
		server.AddExtension(s, server.Extension{ID: "com.example/a", Requests: map[string]func(context.Context,
			json.RawMessage) (any, error){"a/b": func(ctx context.Context, _ json.RawMessage) (any, error) {
			if err := server.Notify(ctx, "notifications/a", json.RawMessage(`{"a":"`+latin1+`"}`)); err != nil {
				return nil, err
			}
			return map[string]any{"a": json.RawMessage(`"` + latin1 + `"`), "b": latin1}, nil
		}}})
		return s
	}, func(t *testing.T, c *client.Client) {
		r, err := c.CallExtension(t.Context(), "a/b", nil)
		want := `"a":"` + replaced + `","b":"` + replaced + `"`
		must.CheckThat(t, err == nil && strings.Contains(string(r), want), "%s, %v", r, err)
	}, func(d *client.Dialer) { d.Extensions = append(d.Extensions, client.Extension{ID: "com.example/a"}) })
}

// With U+FFFD the path of a file would be that of another one.
func TestArgumentsThatAreNotUTF8AreNotSent(t *testing.T) {
	everywhere(t, newLatin1, func(t *testing.T, c *client.Client) {
		for name, arguments := range map[string]any{
			"map": map[string]string{"path": latin1}, "struct": hit{Path: latin1},
			"raw": json.RawMessage(`{"path":"` + latin1 + `"}`),
		} {
			must.CheckFails(t, must.Err(c.CallTool(t.Context(), "string", arguments)), "UTF-8", name)
		}
		_, err := c.GetPrompt(t.Context(), "string", map[string]string{"a": latin1})
		must.CheckThat(t, err != nil, "the argument of a prompt was sent")
	})
}
