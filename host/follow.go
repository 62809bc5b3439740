package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
)

// ErrTooMany is returned by Follow when more resources of a server are followed than a
// subscription may have: 1,024, of 1 MiB together.
var ErrTooMany = errors.New("host: too many resources are followed")

// Follow calls updated whenever a resource of a server has been updated, or may have
// been while the server could not tell, until ctx ends or the Host is closed. Several
// updates may be one call. Updated is called by the goroutine that hears the server,
// and must return soon.
//
// While the server is down, and if it does not report updates, updated is not called.
// The errors are [ErrUnknownServer], [ErrTooMany] and [ErrClosed].
func (h *Host) Follow(ctx context.Context, server, uri string, updated func()) error {
	m := h.byName[server]
	if m == nil {
		return fmt.Errorf("%w: %q", ErrUnknownServer, server)
	}
	f := &followed{updated}
	if err := m.follows.add(uri, f); err != nil {
		return fmt.Errorf("server %q: %w", server, err)
	}
	defer m.follows.remove(uri, f)
	select {
	case <-ctx.Done():
		return nil
	case <-h.ctx.Done():
		return ErrClosed
	}
}

// followed is one call of Follow.
type followed struct{ updated func() }

// follows is which resources of a server are followed, and by whom.
type follows struct {
	mu      sync.Mutex
	uris    map[string]map[*followed]struct{}
	bytes   int
	changed bulletin // that the keys of uris have changed
}

func (f *follows) add(uri string, by *followed) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uris[uri] == nil {
		if len(f.uris) >= rpc.MaxSubscribed || f.bytes+len(uri) > rpc.MaxSubscribedURIs || len(uri) > rpc.MaxSubscribedURI {
			return ErrTooMany
		}
		if f.uris == nil {
			f.uris = make(map[string]map[*followed]struct{})
		}
		f.uris[uri] = make(map[*followed]struct{})
		f.bytes += len(uri)
		f.changed.changed()
	}
	f.uris[uri][by] = struct{}{}
	return nil
}

func (f *follows) remove(uri string, by *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.uris[uri], by)
	if len(f.uris[uri]) == 0 {
		delete(f.uris, uri)
		f.bytes -= len(uri)
		f.changed.changed()
	}
}

// wanted returns the resources that are followed, and a channel that is closed when
// they are not the same any more.
func (f *follows) wanted() (uris []string, changed <-chan struct{}) {
	changed = f.changed.next()
	f.mu.Lock()
	defer f.mu.Unlock()
	for uri := range f.uris {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris, changed
}

// updated tells those who follow a resource.
func (f *follows) updated(uri string) {
	f.mu.Lock()
	var all []*followed
	for by := range f.uris[uri] {
		all = append(all, by)
	}
	f.mu.Unlock()
	for _, by := range all {
		by.updated()
	}
}
