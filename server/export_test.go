package server

import (
	"context"

	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/transport"
)

// ToolPages returns how many pages of the list of tools are kept.
func (s *Server) ToolPages() int {
	s.tools.mu.RLock()
	defer s.tools.mu.RUnlock()
	return len(s.tools.pages)
}

// ServeConnAs serves a connection on which somebody has been authenticated.
func (s *Server) ServeConnAs(ctx context.Context, conn transport.Conn, who principal.Principal) error {
	c, err := s.ready()
	if err != nil {
		return err
	}
	return c.stream.Serve(ctx, c.draining, conn, who)
}

// CursorAfter makes a cursor for everybody of a list.
func (s *Server) CursorAfter(list, name string) string {
	_, _ = s.ready()
	return s.core.cursors.after(list, name, nil)
}
