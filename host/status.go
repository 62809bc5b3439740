package host

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// State says whether a server can be called.
type State int

// The states of a server.
const (
	Starting State = iota // it is being started or dialled, perhaps not for the first time
	Ready
	Down // see Status.Err
)

// String returns the state as a word.
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Ready:
		return "ready"
	}
	return "down"
}

// Status is how a server is at one moment.
type Status struct {
	Name  string
	State State

	// Err says why the server is down. Retry is when it may be tried again.
	Err   error
	Retry time.Time
	// GivenUp: the server has never started, and is not tried again by itself.
	GivenUp bool

	// The rest is as it was when the server was ready last.

	// Revision is the revision of the protocol that is spoken with it.
	Revision mcp.Revision
	// Server is what it says of itself.
	Server client.Server
	// Tools, Resources, Templates and Prompts are what it has. They are shared and must
	// not be modified.
	Tools     []mcp.Tool
	Resources []mcp.Resource
	Templates []mcp.ResourceTemplate
	Prompts   []mcp.Prompt
}

// DownError is returned for calls to a server that is down.
type DownError struct {
	Server string
	Retry  time.Time // when it may be tried again
	Err    error     // why it is down
}

// Error says which server it is, and why.
func (e *DownError) Error() string {
	text := fmt.Sprintf("server %q is down: %v", e.Server, e.Err)
	if wait := time.Until(e.Retry).Round(time.Second); wait > 0 {
		text += fmt.Sprintf("; it can be tried again in %v", wait)
	}
	return text
}

// Unwrap returns why the server is down.
func (e *DownError) Unwrap() error { return e.Err }

// Status returns how the servers are, in the order of Host.Servers.
func (h *Host) Status() []Status {
	all := make([]Status, 0, len(h.members))
	for _, m := range h.members {
		s, _ := m.snapshot()
		all = append(all, s)
	}
	return all
}

// Watch yields the status of each server, and then again of each that changes,
// until ctx or the Host ends. A loop that is slow does not see what came and went
// meanwhile: it gets each server's newest status.
func (h *Host) Watch(ctx context.Context) iter.Seq[Status] {
	return func(yield func(Status) bool) {
		seen := make([]uint64, len(h.members))
		for {
			changed := h.news.next()
			for i, m := range h.members {
				s, version := m.snapshot()
				if version == seen[i] {
					continue
				}
				seen[i] = version
				if !yield(s) {
					return
				}
			}
			if h.ctx == nil {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-h.ctx.Done():
				return
			}
		}
	}
}

// bulletin tells whoever waits that something has changed.
type bulletin struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next change.
func (b *bulletin) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bulletin) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
