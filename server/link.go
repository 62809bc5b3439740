package server

import (
	"sync"

	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// The functions of package link for the gateway and for mock servers.
func init() {
	link.Set(link.Server[Server, ToolHandler, ToolOption]{
		Hooks:                func(s *Server) *link.Hooks { return &s.hooks },
		ForwardTool:          (*Server).forwardTool,
		RegisterToolCaller:   (*Server).registerToolCaller,
		LookupTool:           (*Server).lookupTool,
		UnlistTools:          (*Server).unlistTools,
		RecheckSubscriptions: (*Server).recheckSubscriptions,
		SetInstructions:      (*Server).setInstructions,
	})
}

// hiddenFrom returns a function that reports which entries Hide hides from a list of a caller; nil if it hides none.
func (s *Server) hiddenFrom(who principal.Principal, list string) func(name string) bool {
	if s.hooks.Hide == nil {
		return nil
	}
	hides := s.hooks.Hide(who)
	if hides == nil {
		return nil
	}
	return func(name string) bool { return hides(list, name) }
}

// either returns a function that reports whether a or b hides a name. Both may be nil.
func either(a, b func(name string) bool) func(name string) bool {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(name string) bool { return a(name) || b(name) }
}

// hides reports whether Hide hides an entry from a list of a caller.
func (s *Server) hides(who principal.Principal, list, name string) bool {
	hidden := s.hiddenFrom(who, list)
	return hidden != nil && hidden(name)
}

// notifiedOf returns a function that reports who is notified of updates of a resource; nil means every subscriber.
func (s *Server) notifiedOf(uri string) func(principal.Principal) bool {
	readers := s.readersOf(uri)
	if s.hooks.Hide == nil {
		return readers
	}
	return func(who principal.Principal) bool {
		return (readers == nil || readers(who)) && !s.hides(who, mcp.MethodSubscribe, uri)
	}
}

// recheckSubscriptions calls the functions of [BeforeSubscribe] again, because they may have another result now. A
// subscription of 2026-07-28 with a resource that is rejected ends, and the client can subscribe again to the others.
// Subscriptions of sessions continue; see link.Hooks for those. It does not block and is safe for concurrent use.
func (s *Server) recheckSubscriptions() {
	s.rechecks.mu.Lock()
	defer s.rechecks.mu.Unlock()
	if s.rechecks.next != nil {
		close(s.rechecks.next)
		s.rechecks.next = nil
	}
}

// rechecks announces calls of recheckSubscriptions.
type rechecks struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next call; nil if nothing waits for it
}

// wait returns a channel that the next call closes.
func (r *rechecks) wait() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}
