package endpoint

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/server"
)

// Below serves other servers below the endpoint, each at the path that is its name. It is safe for concurrent use.
type Below struct {
	mu     sync.RWMutex
	byName map[string]*server.Server
}

// Set replaces the servers.
func (b *Below) Set(byName map[string]*server.Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byName = byName
}

func (b *Below) find(name string) *server.Server {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byName[name]
}

// ServeHTTP serves the server that the path names.
func (b *Below) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := b.find(r.PathValue("toolset"))
	if s == nil {
		http.Error(w, "unknown toolset", http.StatusNotFound)
		return
	}
	s.ServeHTTP(w, r)
}

// metadata returns a handler that serves the metadata of the endpoint, which is protected by own, and of the servers
// below it (RFC 9728, section 3.1).
func (b *Below) metadata(own *auth.ProtectedResource) http.Handler {
	path := auth.MetadataPath + Path
	if u, err := url.Parse(own.URI); err == nil && own.URI != "" {
		path = auth.MetadataPath + strings.TrimSuffix(u.Path, "/")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := own
		if name, ok := strings.CutPrefix(r.URL.Path, path+"/"); ok {
			s := b.find(name)
			if s == nil {
				http.NotFound(w, r)
				return
			}
			resource = s.Auth
		}
		resource.MetadataHandler().ServeHTTP(w, r)
	})
}

// shutdown ends all servers; see server.Server.Shutdown.
func (b *Below) shutdown(ctx context.Context) error {
	b.mu.RLock()
	all := slices.Collect(maps.Values(b.byName))
	b.mu.RUnlock()
	errs := make(chan error, len(all))
	for _, s := range all {
		go func() { errs <- s.Shutdown(ctx) }()
	}
	var first error
	for range all {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
