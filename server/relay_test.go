package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

const aForm = `{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`

// A raw question has the answer of the client as it is, in every revision that has it, and also if middleware asks.
func TestRawQuestionsHaveTheAnswerOfTheClient(t *testing.T) {
	ask := func(ctx context.Context) (string, error) {
		if !server.InputCapabilities(ctx).Elicitation.SupportsForm() {
			return `"declined"`, nil // before 2025-06-18
		}
		answer, err := server.RequestInput(ctx, mcp.MethodElicit, json.RawMessage(aForm))
		return string(answer), err
	}
	mcptest.Everywhere(t, func() *server.Server {
		s := &server.Server{}
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) { return ask(ctx) })
		server.AddTool(s, mcp.Tool{Name: "plain"}, func(context.Context, struct{}) (string, error) { return "", nil })
		s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if c.Method() != mcp.MethodCallTool || c.Name() != "plain" {
					return next(ctx, c)
				}
				answer, err := ask(ctx)
				if err != nil {
					return nil, err
				}
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(answer)}}, nil
			}
		}}
		return s
	}, func(t *testing.T, c *client.Client) {
		for _, tool := range []string{"ask", "plain"} {
			must.CheckContains(t, must.Get(client.CallTool[string](t.Context(), c, tool, nil))(t), "decline")
		}
	}, func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
	})
}

func TestRawQuestionsThatTheClientCannotAnswerAreErrors(t *testing.T) {
	s := &server.Server{}
	var err error
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, in struct{ Method, Params string }) (string, error) {
		_, err = server.RequestInput(ctx, in.Method, json.RawMessage(in.Params))
		return "", nil
	})
	var capability *call.CapabilityError
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125))
	for _, test := range []struct{ method, params, want string }{
		{mcp.MethodElicit, aForm, "elicitation"},
		{mcp.MethodElicit, `{"mode":"url","url":"https://example.com","message":""}`, "elicitation"},
		{mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1}`, "sampling"},
		{mcp.MethodListRoots, `{}`, "roots"},
		{mcp.MethodListRoots, `[]`, "must be a JSON object"},
		{"ping", `{}`, "must be elicitation/create"},
	} {
		must.Get(c.CallTool(t.Context(), "ask", map[string]string{"Method": test.method, "Params": test.params}))(t)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), test.want) &&
			errors.As(err, &capability) == !strings.Contains(test.want, "must"),
			"%s %s: %v", test.method, test.params, err)
	}
	_, err = server.RequestInput(t.Context(), mcp.MethodListRoots, nil)
	must.CheckEqual(t, errors.Is(err, call.ErrNoCall), true, err)
}

// A session receives log messages and notifications after the call, and can be asked for its roots.
func TestASessionOutlivesItsCall(t *testing.T) {
	s := &server.Server{}
	sessions := make(chan *server.Session, 1)
	server.AddTool(s, mcp.Tool{Name: "keep"}, func(ctx context.Context, _ struct{}) (string, error) {
		must.Check(t, server.Log(ctx, mcp.LoggingMessageParams{Level: mcp.LevelError, Data: json.RawMessage(`"during"`)}))
		sessions <- server.SessionOf(ctx)
		return "", nil
	})
	logged := make(chan string, 2)
	with := func(d *client.Dialer) {
		d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) { logged <- string(m.Data) }
		d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///a"}}, nil }
	}
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125), with)
	must.Get(c.CallTool(t.Context(), "keep", nil))(t)
	must.CheckEqual(t, <-logged, `"during"`)
	session := <-sessions
	must.CheckEqual(t, session.ID() != "", true)
	must.Check(t, session.Log(mcp.LoggingMessageParams{Level: mcp.LevelDebug, Data: json.RawMessage(`"not wanted"`)}))
	must.Check(t, session.Log(mcp.LoggingMessageParams{Level: mcp.LevelError, Data: json.RawMessage(`"after"`)}))
	must.CheckEqual(t, <-logged, `"after"`)
	if err := session.Log(mcp.LoggingMessageParams{Level: mcp.LevelError, Data: json.RawMessage(`{`)}); err == nil {
		t.Error("Log sends data that is no JSON")
	}
	if err := session.Notify("notifications/x", json.RawMessage(`[]`)); err == nil {
		t.Error("Notify sends params that are no object")
	}
	roots := must.Get(session.RequestInput(t.Context(), mcp.MethodListRoots, nil))(t)
	must.CheckContains(t, string(roots), "file:///a")
	_, err := session.RequestInput(t.Context(), mcp.MethodCreateMessage, json.RawMessage(`{}`))
	must.CheckEqual(t, errors.As(err, new(*call.CapabilityError)), true, err)

	modern := mcptest.Dial(t, s, with)
	must.Get(modern.CallTool(t.Context(), "keep", nil))(t)
	none := <-sessions
	must.CheckEqual(t, none == nil && none.ID() == "" && none.Notify("x", nil) == nil, true)
	_, err = none.RequestInput(t.Context(), mcp.MethodListRoots, nil)
	must.CheckEqual(t, errors.Is(err, server.ErrCannotAsk), true, err)
}

// A question whose context outlives its call ends with the call.
func TestARawQuestionEndsWithItsCall(t *testing.T) {
	s := &server.Server{}
	asked, ended := make(chan struct{}), make(chan error)
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		go func() {
			_, err := server.RequestInput(context.WithoutCancel(ctx), mcp.MethodElicit, json.RawMessage(aForm))
			ended <- err
		}()
		<-asked
		return "", nil
	})
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
		d.Elicit = func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			close(asked)
			<-ctx.Done() // until the server gives up
			return nil, ctx.Err()
		}
	})
	must.Get(c.CallTool(t.Context(), "ask", nil))(t)
	err := <-ended
	must.CheckEqual(t, errors.Is(err, call.ErrCallDone), true, err)
}
