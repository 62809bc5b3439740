package server

// ToolPages returns how many pages of the list of tools are kept.
func (s *Server) ToolPages() int {
	s.tools.mu.RLock()
	defer s.tools.mu.RUnlock()
	return len(s.tools.pages)
}
