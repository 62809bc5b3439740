package server

import (
	"context"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/transport"
)

// ToolPages returns the number of cached pages of the list of tools.
func (s *Server) ToolPages() int { return len(s.tools.snapshot().pages.all) }

// ServeConnAs serves a connection with an authenticated client.
func (s *Server) ServeConnAs(ctx context.Context, conn transport.Conn, who principal.Principal) error {
	c, err := s.ready()
	if err != nil {
		return err
	}
	return c.stream.Serve(ctx, c.draining, conn, who)
}

// CursorFor returns a cursor of a list that depends on the caller.
func (s *Server) CursorFor(list, name string, who principal.Principal) string {
	_, _ = s.ready()
	return s.core.cursors.after(list, name, &who)
}

// SealState seals a text as a requestState.
func (s *Server) SealState(text string) string {
	_, _ = s.ready()
	return s.core.cursors.keys.Seal("requestState", []byte(text))
}

// CursorAfter returns a cursor of a list that is the same for all callers.
func (s *Server) CursorAfter(list, name string) string {
	_, _ = s.ready()
	return s.core.cursors.after(list, name, nil)
}

// SubscribeAs adds a subscription of a principal, until the server shuts down.
func (s *Server) SubscribeAs(who principal.Principal, filter mcp.SubscriptionFilter) {
	s.changes.Subscribe(who, filter)
}

// RemoveNulls is the function behind withoutNulls.
var RemoveNulls = removeNulls
