package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// forward returns the handler of a tool here that is another one there.
func (g *Gateway) forward(serverName, tool string) server.ToolHandler {
	return func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		result, err := g.host.CallTool(ctx, serverName, tool, arguments, g.options(ctx)...)
		if err != nil {
			return nil, explain(ctx, serverName, err)
		}
		strip(&result.ResultBase)
		return result, nil
	}
}

// options are how long a call there may take, and that its progress is passed on.
func (g *Gateway) options(ctx context.Context) []client.CallOption {
	options := []client.CallOption{client.Timeout(g.timeout())}
	if c := rpc.From(ctx); c != nil && !c.ProgressToken.IsZero() {
		options = append(options, client.OnProgress(func(p rpc.Progress) {
			// One that cannot be delivered is of no use to anybody.
			_ = server.Progress(ctx, p.Done, p.Total, p.Message)
		}))
	}
	return options
}

// explain makes an error for whoever called the tool. That the arguments are wrong
// is the caller's business as it stands; everything else names the server, which
// the caller may not have known to be another one.
func explain(ctx context.Context, serverName string, err error) error {
	var reported *jsonrpc.Error
	var down *host.DownError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // nobody waits for the answer
	case errors.As(err, &down):
		return err
	case !errors.As(err, &reported):
		return fmt.Errorf("server %q: %w", serverName, err)
	case reported.Code == jsonrpc.CodeInvalidParams:
		return reported
	}
	// Its text only: the error itself would be reported as this server's.
	return fmt.Errorf("server %q refused the call: %v", serverName, reported)
}

// strip takes from a result what is about its own server and connection only.
func strip(result *mcp.ResultBase) {
	result.ResultType = ""
	result.Meta = passable(result.Meta)
}

// passable is what of another server's _meta a gateway may say as its own: keys that
// follow the grammar and are not the protocol's.
func passable(meta mcp.Meta) mcp.Meta {
	own := maps.Clone(meta)
	maps.DeleteFunc(own, func(key string, value json.RawMessage) bool { return rpc.CheckMeta(key, value) != nil })
	if len(own) == 0 {
		return nil
	}
	return own
}

func (g *Gateway) timeout() time.Duration {
	if g.Timeout != 0 {
		return g.Timeout
	}
	return defaultTimeout
}
