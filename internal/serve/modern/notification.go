package modern

import (
	"context"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// ServeNotification runs the handler of an extension's notification and returns when it
// returns. Like a request, a notification must declare the client's capabilities in _meta.
// ServeNotification ignores other notifications.
func (s *Server) ServeNotification(ctx context.Context, m *jsonrpc.Message, class revision.Class, who principal.Principal, source string) {
	if class.Fault != nil || !s.Engine.AcceptsNotification(m.Method, class.Revision) {
		return
	}
	c := new(rpc.Call)
	d := call.Description{Revision: class.Revision, Principal: who, Source: source}
	if s.metadata(c, &d, m, &class.Metadata) != nil {
		return
	}
	c.Call = *call.New(d)
	s.Engine.ServeNotification(ctx, c)
}
