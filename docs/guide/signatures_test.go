package guide_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// The pages state these signatures. If one of them changes, this file does not compile: change the page, too.
var (
	// server.md: all methods that serve return an error.
	_ interface {
		Run(context.Context) error
		ListenAndServe(context.Context, string) error
		Serve(context.Context, net.Listener) error
		ServeConn(context.Context, transport.Conn) error
		Shutdown(context.Context) error
		http.Handler
	} = (*server.Server)(nil)

	// tools.md
	_ func(to server.Registrar, tool mcp.Tool, handler func(context.Context, search) (string, error),
		options ...server.Option) = server.AddTool[search, string]
	_ func(s *server.Server, tool mcp.Tool, handler func(context.Context, json.RawMessage) (*mcp.CallToolResult, error),
		options ...server.Option) error = (*server.Server).RegisterTool
	_ func(context.Context) http.Header = server.HeaderOf

	// resources.md
	_ func(argument string, complete func(ctx context.Context, value string, others map[string]string) ([]string, error),
	) server.Option = server.Complete[[]string]

	// asking.md
	_ func(ctx context.Context, address, message string, done func(ctx context.Context) (bool, error),
		options ...server.AskOption) error = server.ElicitURL

	// client-errors.md
	_ = call.RetryRequests(call.Retry{Tool: func(name string) bool { return name == "search" }})

	// apps.md
	_ apps.Source = (*client.Client)(nil)
	_ apps.Source = host.Client{}
	_             = apps.AddPage[func(context.Context) (string, error)]

	// host.md
	_ = host.Host{Approve: func(_ context.Context, a *host.Approval) (bool, error) { return a.Question() == "", nil }}

	// authorization.md
	_ func(ctx context.Context, token string) (*auth.Info, error) = auth.VerifierFunc(nil)
)
