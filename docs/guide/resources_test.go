package guide_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// settings are the settings of a program, which another part of it changes.
type settings struct {
	mu      sync.Mutex
	text    string
	changed chan struct{} // has a capacity of 1
}

func (s *settings) get(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, nil
}

func (s *settings) set(text string) {
	s.mu.Lock()
	s.text = text
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default: // an earlier change is not announced yet
	}
}

func addSettings(s *server.Server, current *settings) {
	server.AddResource(s, mcp.Resource{URI: "app://settings", Name: "settings", MimeType: "application/json"}, current.get,
		server.Cached(server.CachePolicy{TTL: time.Minute}), // clients may use a copy for a minute
		server.WhileSubscribed(func(ctx context.Context, uri string) {
			for { // until the last subscriber has left
				select {
				case <-current.changed:
					s.ResourceUpdated(uri)
				case <-ctx.Done():
					return
				}
			}
		}))
}

func TestSubscribersAreNotified(t *testing.T) {
	s, current := new(server.Server), &settings{text: "{}", changed: make(chan struct{}, 1)}
	addSettings(s, current)
	c := mcptest.Dial(t, s)
	for change, err := range c.Watch(t.Context(), client.WatchFilter{URIs: []string{"app://settings"}}) {
		must.Do(t, err)
		if !change.Resync {
			break
		}
		current.set(`{"dark":true}`)
	}
	result := must.Get(c.ReadResource(t.Context(), "app://settings"))(t)
	must.CheckEqual(t, result.Contents[0].Text, `{"dark":true}`)
}
