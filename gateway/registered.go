package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/host"
)

// WaitReady waits until no server of the host is starting, as [host.Host.WaitReady] does, and the gateway has registered
// what they have. It returns the errors of that method. Run must have been called, or be called soon.
func (g *Gateway) WaitReady(ctx context.Context) error {
	errs := []error{g.host.WaitReady(ctx)}
	for _, status := range g.host.Status() {
		errs = append(errs, g.Await(ctx, status))
	}
	return errors.Join(errs...)
}

// Await waits until the gateway has registered what a status of its host lists, or a later status of the same server. It
// returns at once if the host no longer has the server. The error is context.Cause(ctx) if ctx ends first, and
// [host.ErrClosed] if Run has ended.
func (g *Gateway) Await(ctx context.Context, status host.ServerStatus) error {
	for {
		version, changed := g.registered.version(status.Name)
		switch {
		case status.State == host.Removed && version == 0:
			return nil
		case status.State != host.Removed && (version >= status.Version || !slices.Contains(g.present(), status.Name)):
			return nil
		}
		if err := g.registered.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// registered has the versions of the statuses that the registrations match.
type registered struct {
	ended chan struct{} // closed at the end of Run

	mu       sync.Mutex
	versions map[string]uint64 // by server
	changed  chan struct{}     // closed and replaced when versions changes
}

func newRegistered() *registered {
	return &registered{ended: make(chan struct{}), versions: make(map[string]uint64), changed: make(chan struct{})}
}

// set records that the registrations match a status.
func (r *registered) set(status host.ServerStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if status.State == host.Removed {
		delete(r.versions, status.Name)
	} else {
		r.versions[status.Name] = status.Version
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// version returns the version for a server, or 0, and a channel that is closed when it may have changed.
func (r *registered) version(server string) (version uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.versions[server], r.changed
}

// wait waits until changed is closed. The error is context.Cause(ctx) if ctx ends first, and host.ErrClosed if Run has ended.
func (r *registered) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-r.ended:
		return host.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
