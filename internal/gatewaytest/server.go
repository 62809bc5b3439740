package gatewaytest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Server is a server with a tool for each feature of the matrix.
type Server struct {
	server.Server
	bus store.Bus
}

// nonceOf contains the arguments of the Server's tools.
type nonceOf struct{ Nonce string }

// resourceURI is the URI of the Server's resource.
const resourceURI = "lib://a"

// NewServer returns a server for clients of one revision. Its handlers, the handlers in its other processes, and
// the test share a Bus.
func NewServer(r mcp.Revision, bus store.Bus) *Server {
	support := mcp.TaskRequired
	if noTasks[r] != "" {
		support = mcp.TaskForbidden
	}
	s := &Server{server.Server{Name: "up", Logger: slog.New(slog.DiscardHandler)}, bus}
	add := func(name string, handle func(ctx context.Context, nonce string) (string, error)) {
		server.AddTool(&s.Server, mcp.Tool{Name: name}, func(ctx context.Context,
			in nonceOf) (string, error) {
			return handle(ctx, in.Nonce)
		})
	}
	add("form", form)
	add("url", func(ctx context.Context, nonce string) (string, error) {
		return "opened " + nonce, server.ElicitURL(ctx, "https://example.com/"+nonce, "open", nil)
	})
	add("sample", sample)
	add("roots", func(ctx context.Context, nonce string) (string, error) {
		all, err := server.Roots(ctx)
		if err != nil {
			return "", err
		}
		return all[0].URI + nonce, nil
	})
	add("progress", func(ctx context.Context, _ string) (string, error) {
		return "", errors.Join(server.Progress(ctx, 1, 2, ""), server.Progress(ctx, 2, 2, ""))
	})
	server.AddTool(&s.Server, mcp.Tool{Name: "job"}, func(ctx context.Context,
		in nonceOf) (string, error) {
		return form(ctx, in.Nonce)
	},
		server.AsTask(server.TaskOptions{Support: support, PollInterval: 100 * time.Millisecond}))
	server.AddTool(&s.Server, mcp.Tool{Name: "cancel"}, s.untilCancelled)
	server.AddTool(&s.Server, mcp.Tool{Name: "cancel_task"}, s.untilCancelled,
		server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond}))
	add("log", func(ctx context.Context, nonce string) (string, error) {
		server.Logger(ctx).WithGroup("tool").Debug(nonce)
		return "logged", nil
	})
	add("add", func(ctx context.Context, nonce string) (string, error) {
		return "added", signal{added, nonce}.send(ctx, bus)
	})
	server.AddStatic(&s.Server, mcp.Resource{URI: resourceURI, Name: "a"}, "a")
	add("update", func(ctx context.Context, nonce string) (string, error) {
		return "updated", signal{updated, nonce}.send(ctx, bus)
	})
	server.AddPrompt(&s.Server, mcp.Prompt{Name: "form"},
		func(ctx context.Context, in nonceOf) (string, error) { return form(ctx, in.Nonce) })
	return s
}

// Start makes the server apply the changes that handlers in any of its processes announce, until the returned
// function is called.
func (s *Server) Start(ctx context.Context) (stop func(), err error) {
	return follow(ctx, s.bus, func(change signal) {
		switch change.Kind {
		case added:
			_ = s.RegisterTool(mcp.Tool{Name: change.Nonce, InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
					return nil, errors.New("unused")
				})
		case updated:
			s.ResourceUpdated(resourceURI)
		}
	})
}

func form(ctx context.Context, nonce string) (string, error) {
	answer, err := server.Elicit[struct{ Text string }](ctx, "form "+nonce)
	return answer.Text, err
}

func sample(ctx context.Context, nonce string) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(nonce)}}}})
	if err != nil {
		return "", err
	}
	return text(answer.Content), nil
}

func (s *Server) untilCancelled(ctx context.Context, in nonceOf) (string, error) {
	if err := errors.Join(server.Progress(ctx, 1, 2, "begun "+in.Nonce),
		signal{begun, in.Nonce}.send(ctx, s.bus)); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "", errors.Join(context.Cause(ctx), signal{cancelled, in.Nonce}.send(ctx, s.bus))
}

// text returns the text of the only content.
func text(content []mcp.Content) string { return content[0].(*mcp.TextContent).Text }
