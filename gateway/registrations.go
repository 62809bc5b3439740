package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
)

// registrations contains the tools, the prompts, the resources or the templates
// of all servers, as they are registered with the gateway's server.
type registrations[E any] struct {
	most       int                                    // maximum number of entries of one server; 0 means no limit
	kind       string                                 // for the log
	key        func(e *E) string                      // identifies e within its server
	register   func(server, name string, e *E) string // registers e and returns its name or URI; "" if it cannot
	unregister func(name string) bool                 // the opposite of register
	byServer   map[string][]*registration[E]          // in the order of the server's list
	byName     map[string]*registration[E]            // by the name that was registered or tried
}

// registration is one tool, prompt, resource or template.
type registration[E any] struct {
	entry      E
	key        string
	definition []byte
	want       string // the name or URI wanted for the entry at the gateway
	tried      string // the name or URI that register was called with; empty before
	name       string // as registered; empty if it could not be registered
	wantUI     string // the URIs of the pages of a tool
	ui         string // wantUI when register was called
}

// unchanged is the function want of set for entries whose names are their keys.
func unchanged(key string) string { return key }

// set replaces the entries of a server. want returns the wanted name for a key. Entries that the server no longer
// lists are unregistered. Unchanged entries are left alone, so that clients receive no needless notifications and
// warnings are logged once.
func (r *registrations[E]) set(logger *slog.Logger, server string, want func(key string) string, list []E) {
	if r.most > 0 && len(list) > r.most {
		if len(r.byServer[server]) < r.most { // otherwise, it was logged before
			logger.Warn(r.kind+"s ignored: the server has too many", "server", server, "number", len(list), "max",
				r.most)
		}
		list = list[:r.most]
	}
	before := make(map[string]*registration[E])
	for _, e := range r.byServer[server] {
		before[e.key] = e
	}
	seen := make(map[string]bool, len(list))
	now := make([]*registration[E], 0, len(list))
	for i := range list {
		key := r.key(&list[i])
		definition, err := json.Marshal(&list[i])
		switch {
		case err != nil:
			logger.Warn(r.kind+" not registered: it cannot be encoded", "server", server, r.kind, key, "error", err)
			continue
		case seen[key]:
			logger.Warn(r.kind+" ignored: the server lists it twice", "server", server, r.kind, key)
			continue
		}
		seen[key] = true
		if old := before[key]; old != nil && bytes.Equal(old.definition, definition) {
			now = append(now, old)
			delete(before, key)
		} else {
			now = append(now, &registration[E]{entry: list[i], key: key, want: want(key), definition: definition})
		}
	}
	for _, old := range before {
		r.drop(old)
	}
	if r.byServer == nil {
		r.byServer = make(map[string][]*registration[E])
	}
	r.byServer[server] = now
}

// apply registers the entries of all servers under their wanted names. An entry waits while
// another one uses its name: when a name moves to another server, the new list of that server may
// arrive while the old list of the first server is still in use.
func (r *registrations[E]) apply(servers []string) {
	if r.byName == nil {
		r.byName = make(map[string]*registration[E])
	}
	for _, server := range servers {
		for _, e := range r.byServer[server] {
			if e.tried != e.want || e.ui != e.wantUI {
				r.drop(e)
			}
		}
	}
	for _, server := range servers {
		for _, e := range r.byServer[server] {
			if e.tried == "" && r.byName[e.want] == nil {
				r.byName[e.want] = e
				e.ui = e.wantUI
				e.tried, e.name = e.want, r.register(server, e.want, &e.entry)
			}
		}
	}
}

// forget deletes the list of a server, which must be empty.
func (r *registrations[E]) forget(server string) { delete(r.byServer, server) }

func (r *registrations[E]) drop(e *registration[E]) {
	if e.name != "" {
		r.unregister(e.name)
	}
	if r.byName[e.tried] == e {
		delete(r.byName, e.tried)
	}
	e.name, e.tried = "", ""
}

// WaitReady waits until no server of the host is starting, and the gateway has registered what the servers offer. It
// returns the errors of [host.Host.WaitReady]. Run must have been called, or be about to be called.
func (g *Gateway) WaitReady(ctx context.Context) error {
	errs := []error{g.host.WaitReady(ctx)}
	for _, status := range g.host.Status() {
		errs = append(errs, g.Await(ctx, status))
	}
	return errors.Join(errs...)
}

// Await waits until the gateway has registered what a status of its host lists, or a later status of the same server.
// It returns at once if the host no longer knows the server. It returns context.Cause(ctx) if ctx ends first, and
// call.ErrClosed if Run has ended.
func (g *Gateway) Await(ctx context.Context, status host.ServerStatus) error {
	for {
		version, changed := g.registered.version(status.Name)
		switch {
		case status.State == host.Removed && version == 0:
			return nil
		case status.State == host.Removed:
		case version >= status.Version, !slices.Contains(g.present(), status.Name):
			return nil
		}
		if err := g.registered.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// registered contains the versions of the statuses that the registrations match.
type registered struct {
	ended chan struct{} // closed at the end of Run

	mu       sync.Mutex
	versions map[string]uint64 // by server
	changed  chan struct{}     // closed and replaced when versions change
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

// wait waits until changed is closed. The error is context.Cause(ctx) if ctx ends first, and call.ErrClosed if Run has
// ended.
func (r *registered) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-r.ended:
		return call.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
