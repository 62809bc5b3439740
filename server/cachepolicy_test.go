package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func hintsOf(t *testing.T, l *line, method, params string) (ttl int64, scope string) {
	t.Helper()
	raw, rejected := l.ask(method, params)
	var hints mcp.CacheHints
	if err := json.Unmarshal(raw, &hints); err != nil || rejected != nil || hints.TTLMs == nil {
		t.Fatalf("%s: %s, %v, %v", method, raw, rejected, err)
	}
	return *hints.TTLMs, hints.CacheScope
}

func newCaching(s *server.Server) *server.Server {
	s.Logger = slog.New(slog.DiscardHandler)
	s.PageSize = 1
	for _, name := range []string{"a", "b"} {
		server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, struct{}) (string, error) { return "", nil })
	}
	s.DeclarePrompts()
	server.AddStatic(s, mcp.Resource{URI: "x://plain", Name: "plain"}, "")
	server.AddStatic(s, mcp.Resource{URI: "x://kept", Name: "kept"}, "", server.Cached(server.CachePolicy{TTL: 1500 * time.Microsecond, Public: true}))
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "t://{x}", Name: "t"},
		func(context.Context, map[string]string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "t"}}, CacheHints: mcp.CacheHints{CacheScope: mcp.CacheScopePrivate}}, nil
		}, server.Cached(server.CachePolicy{TTL: time.Minute, Public: true}))
	return s
}

// Rule C1: by default results are neither cacheable nor public.
func TestResultsAreNotCacheableByDefault(t *testing.T) {
	l := connectLine(t, newCaching(&server.Server{}))
	for _, method := range []string{mcp.MethodDiscover, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates} {
		if ttl, scope := hintsOf(t, l, method, ""); ttl != 0 || scope != "private" {
			t.Errorf("%s: %d, %s", method, ttl, scope)
		}
	}
	if ttl, scope := hintsOf(t, l, mcp.MethodReadResource, `"uri":"x://plain"`); ttl != 0 || scope != "private" {
		t.Errorf("resources/read: %d, %s", ttl, scope)
	}
}

func TestCachePoliciesSetTheHints(t *testing.T) {
	s := newCaching(&server.Server{
		ListCache:     server.CachePolicy{TTL: time.Minute, Public: true},
		DiscoverCache: server.CachePolicy{TTL: time.Hour},
	})
	l := connectLine(t, s)
	if ttl, scope := hintsOf(t, l, mcp.MethodDiscover, ""); ttl != 3_600_000 || scope != "private" {
		t.Errorf("server/discover: %d, %s", ttl, scope)
	}
	for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates} {
		if ttl, scope := hintsOf(t, l, method, ""); ttl != 60_000 || scope != "public" {
			t.Errorf("%s: %d, %s", method, ttl, scope)
		}
	}
	_, next := names(t, l, "")
	if ttl, scope := hintsOf(t, l, mcp.MethodListTools, `"cursor":"`+next+`"`); ttl != 60_000 || scope != "public" {
		t.Errorf("the second page: %d, %s", ttl, scope)
	}
	if ttl, scope := hintsOf(t, l, mcp.MethodReadResource, `"uri":"x://kept"`); ttl != 1 || scope != "public" {
		t.Errorf("a resource: %d, %s", ttl, scope)
	}
	// A scope that the handler sets is kept; a missing TTL is filled in.
	if ttl, scope := hintsOf(t, l, mcp.MethodReadResource, `"uri":"t://x"`); ttl != 60_000 || scope != "private" {
		t.Errorf("a template's: %d, %s", ttl, scope)
	}
}

// Rules C1, R1: a shared cache must not return a resource that requires scopes to callers without them,
// whatever hints the program sets.
func TestResourcesWithScopesAreCachedPrivately(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler), LocalScopes: []string{"books"}}
	public := server.Cached(server.CachePolicy{TTL: time.Minute, Public: true})
	server.AddStatic(s, mcp.Resource{URI: "x://a", Name: "a"}, "a", public, server.RequireScopes("books"))
	server.AddResource(s, mcp.Resource{URI: "x://b", Name: "b"}, func(context.Context) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "b"}}, CacheHints: mcp.CacheHints{CacheScope: mcp.CacheScopePublic}}, nil
	}, server.RequireScopes("books"), public)
	l := connectLine(t, s)
	for _, uri := range []string{"x://a", "x://b"} {
		if ttl, scope := hintsOf(t, l, mcp.MethodReadResource, `"uri":"`+uri+`"`); ttl != 60_000 || scope != "private" {
			t.Errorf("%s: %d, %s", uri, ttl, scope)
		}
	}
}
