package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// quiet returns a server that discards its log.
func quiet() *server.Server { return &server.Server{Logger: slog.New(slog.DiscardHandler)} }

// panicOf returns the text of the panic of f.
func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

// textAt reads a resource with one text.
func textAt(t *testing.T, c *client.Client, uri string) string {
	t.Helper()
	result, err := c.ReadResource(t.Context(), uri)
	if err != nil {
		return err.Error()
	}
	must.Equal(t, len(result.Contents), 1, uri, result)
	return result.Contents[0].Text
}

func text(s string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, nil }
}

func TestInvalidResourcesAreRejected(t *testing.T) {
	for _, tc := range []struct {
		resource mcp.Resource
		want     string
	}{
		{mcp.Resource{URI: "note://a"}, "name must not be empty"},
		{mcp.Resource{Name: "a"}, "must begin with a scheme"},
		{mcp.Resource{URI: "a.txt", Name: "a"}, "must begin with a scheme"},
		{mcp.Resource{URI: "note://a b", Name: "a"}, "percent-encoded"},
		{mcp.Resource{URI: "note:///a b", Name: "a"}, "percent-encoded"},
		{mcp.Resource{URI: "note:///{a}", Name: "a"}, "percent-encoded"},
		{mcp.Resource{URI: "note:///é", Name: "a"}, "percent-encoded"},
		{mcp.Resource{URI: "note:///a\n", Name: "a"}, "percent-encoded"},
		{mcp.Resource{URI: "note:///%zz", Name: "a"}, "percent-encoded"},
		{mcp.Resource{URI: "note:///\xff", Name: "a"}, "percent-encoded"},
		{mcp.Resource{URI: "note:///" + strings.Repeat("a", 8<<10), Name: "a"}, "the limit is 8192"},
		{mcp.Resource{URI: "note://taken", Name: "a"}, "in use"},
		{mcp.Resource{URI: "note://a", Name: "a", Meta: mcp.Meta{"a": json.RawMessage(`{`)}}, "must be JSON"},
	} {
		s := quiet()
		server.AddStatic(s, mcp.Resource{URI: "note://taken", Name: "a"}, "")
		must.CheckContains(t, panicOf(func() { server.AddResource(s, tc.resource, text("")) }), tc.want,
			tc.resource.URI)
		raw := func(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil }
		must.CheckFails(t, s.RegisterResource(tc.resource, raw), tc.want, tc.resource.URI)
	}
	for _, uri := range []string{"note:a", "note://a%20b%3f", "urn:isbn:0-395-36341-1", "x-y.z+1://[::1]:80/a;b=c?d#e",
		"https://example.com/caf%C3%A9"} {
		server.AddStatic(quiet(), mcp.Resource{URI: uri, Name: "a"}, "")
	}
	err := quiet().RegisterResource(mcp.Resource{URI: "note://a", Name: "a"}, nil)
	must.CheckThat(t, err != nil, "a resource without a handler is offered")
	must.CheckContains(t, panicOf(func() {
		server.AddResource[string](quiet(), mcp.Resource{URI: "note://a", Name: "a"}, nil)
	}), "handler", "without a handler")
	for name, add := range map[string]func(*server.Server){
		"resource": func(s *server.Server) {
			server.AddResource(s, mcp.Resource{URI: "note://a", Name: "a"},
				func(context.Context) ([]chan int, error) { return nil, nil })
		},
		"template": func(s *server.Server) {
			server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "note://{+path}", Name: "a"},
				func(context.Context, struct {
					Path string `json:"path"`
				}) (func(), error) {
					return nil, nil
				})
		},
	} {
		must.CheckContains(t, panicOf(func() { add(quiet()) }), "has no JSON form", name)
	}
}

func TestAddResourceCopiesTheDefinition(t *testing.T) {
	s := quiet()
	r := mcp.Resource{URI: "note://a", Name: "a", Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}},
		Meta: mcp.Meta{"a": json.RawMessage(`1`)}}
	server.AddResource(s, r, text(""))
	r.Annotations.Audience[0], r.Meta["a"] = "unknown", json.RawMessage(`{`)
	for got, err := range mcptest.Dial(t, s).Resources(t.Context()) {
		must.CheckThat(t, err == nil && got.Annotations.Audience[0] == mcp.RoleUser && string(got.Meta["a"]) == "1",
			"%+v, %v", got, err)
	}
}

func TestAnUntypedResourceIsReadByItsURI(t *testing.T) {
	s := quiet()
	shared := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "shared"}}}
	for _, uri := range []string{"note://a", "note://b"} {
		must.Do(t, s.RegisterResource(mcp.Resource{URI: uri, Name: uri, MimeType: "text/markdown"},
			func(_ context.Context, uri string) (*mcp.ReadResourceResult, error) {
				if uri == "note://b" {
					return nil, nil
				}
				return shared, nil
			}))
	}
	c := mcptest.Dial(t, s)
	result := must.Get(c.ReadResource(t.Context(), "note://a"))(t)
	got := result.Contents[0]
	must.CheckThat(t, got.URI == "note://a" && got.MimeType == "text/markdown" && got.Text == "shared", "%+v", got)
	must.CheckThat(t, shared.Contents[0].URI == "" && shared.TTLMs == nil,
		"the handler's own result was changed: %+v", shared)
	must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "note://b")), call.ErrResourceNotFound, "no result")
}

func TestRemovedResourceIsNotFound(t *testing.T) {
	s := quiet()
	s.Declare(mcp.MethodReadResource)
	c := mcptest.Dial(t, s)
	must.CheckThat(t, c.Server().Capabilities.Resources != nil, "resources are offered and not declared")
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "text")
	must.CheckEqual(t, textAt(t, c, "note://a"), "text")
	must.CheckThat(t, s.RemoveResource("note://a") && !s.RemoveResource("note://a"),
		"one resource was there to be removed")
	must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "note://a")), call.ErrResourceNotFound)
	for r := range c.Resources(t.Context()) {
		t.Errorf("%v is listed", r)
	}
}

func TestResourcesCanChangeWhileTheyAreRead(t *testing.T) {
	s := quiet()
	s.Declare(mcp.MethodReadResource)
	c := mcptest.Dial(t, s)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			uri, template := fmt.Sprintf("note://%d", i), fmt.Sprintf("note%d://{id}", i)
			for range 50 {
				server.AddStatic(s, mcp.Resource{URI: uri, Name: "a"}, "text")
				server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: template, Name: "a"},
					func(context.Context, map[string]string) (string, error) { return "of a template", nil })
				s.RemoveResource(uri)
				s.RemoveTemplate(template)
			}
		})
		wg.Go(func() {
			for range 50 {
				for _, err := range c.Resources(t.Context()) {
					must.Check(t, err)
				}
				for _, uri := range []string{fmt.Sprintf("note://%d", i), fmt.Sprintf("note%d://7", i)} {
					_, err := c.ReadResource(t.Context(), uri)
					must.CheckThat(t, err == nil || errors.Is(err, call.ErrResourceNotFound), "%v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestTheMostSpecificTemplateServesAURI(t *testing.T) {
	type add func(s *server.Server)
	named := func(text string) add {
		return func(s *server.Server) {
			server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: text, Name: text},
				func(context.Context, map[string]string) (string, error) { return text, nil })
		}
	}
	adds := []add{
		func(s *server.Server) {
			server.AddStatic(s, mcp.Resource{URI: "repo://docs/index", Name: "index"}, "exactly")
		},
		named("repo://docs/{page}"), named("repo://docs/{+path}"), named("repo://{owner}/{name}"),
		named("repo://{+all}"), named("repo://{owner}/index"),
		func(s *server.Server) {
			server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "repo://docs/{number}", Name: "number"},
				func(_ context.Context, in struct {
					Number int `json:"number"`
				}) (string, error) {
					return fmt.Sprint("number ", in.Number), nil
				})
		},
	}
	for range 10 { // in any order of registration
		rand.Shuffle(len(adds), func(i, j int) { adds[i], adds[j] = adds[j], adds[i] })
		s := quiet()
		for _, add := range adds {
			add(s)
		}
		c := mcptest.Dial(t, s)
		for uri, want := range map[string]string{
			"repo://docs/index": "exactly",
			"repo://docs/7":     "number 7", // sorts before {page}
			"repo://docs/intro": "repo://docs/{page}",
			"repo://docs/a/b":   "repo://docs/{+path}",
			"repo://acme/index": "repo://{owner}/index",
			"repo://acme/tools": "repo://{owner}/{name}",
			"repo://acme/a/b":   "repo://{+all}",
		} {
			must.CheckEqual(t, textAt(t, c, uri), want, uri)
		}
	}
}

func TestVariablesAreDecodedIntoTheirTypes(t *testing.T) {
	type variables struct {
		Text   string         `json:"text"`
		Int    int64          `json:"int"`
		Float  float64        `json:"float"`
		Bool   bool           `json:"bool"`
		Ints   []int          `json:"ints,omitzero"`
		Path   []string       `json:"path,omitzero"`
		Preset string         `json:"preset" default:"set"`
		When   time.Time      `json:"when,omitzero"`
		For    *time.Duration `json:"for"`
	}
	s := quiet()
	server.AddTemplate(s,
		mcp.ResourceTemplate{URITemplate: "all://{text}/{int}/{float}/{bool}{/path*}{?ints*,preset,when,for}",
			Name: "all"},
		func(_ context.Context, in variables) (string, error) {
			duration := "none"
			if in.For != nil {
				duration = in.For.String()
			}
			return fmt.Sprintf("%q %d %v %v %v %q %s %d %s", in.Text, in.Int, in.Float, in.Bool, in.Ints, in.Path,
				in.Preset, in.When.Year(), duration), nil
		})
	c := mcptest.Dial(t, s)
	for uri, want := range map[string]string{
		"all://a%20b/9007199254740993/-1.5e3/true": `"a b" 9007199254740993 -1500 true [] [] set 1 ` +
			`none`,
		"all://%2E%2E/0/0/false/x/%2E%2E/y":                        `".." 0 0 false [] ["x" ".." "y"] set 1 none`,
		"all://t/1/1/true?ints=1&ints=2&preset=":                   `"t" 1 1 true [1 2] []  1 none`,
		"all://t/1/1/true?when=2026-01-02T03%3A04%3A05Z&for=1h30m": `"t" 1 1 true [] [] set 2026 1h30m0s`,
	} {
		must.CheckEqual(t, textAt(t, c, uri), want, uri)
	}
	for _, uri := range []string{
		"all:///1/1/true", "all://t/1.5/1/true", "all://t/0x1/1/true", "all://t/+1/1/true", "all://t/01/1/true",
		"all://t/1/NaN/true", "all://t/1/1/TRUE",
		"all://t/9223372036854775808/1/true", "all://t/1/1/true?ints=a", "all://t/1/1/true?for=long",
		"all://t/1/1/true?when=now", "all://t/1/1/%22true%22",
	} {
		must.CheckIs(t, must.Err(c.ReadResource(t.Context(), uri)), call.ErrResourceNotFound, uri)
	}
}

func TestTemplatesMustMatchTheirHandlers(t *testing.T) {
	type id struct {
		ID string `json:"id"`
	}
	add := func(text string) string {
		return panicOf(func() {
			server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: text, Name: "a"},
				func(context.Context, id) (string, error) { return "", nil })
		})
	}
	for text, want := range map[string]string{
		"x://{id}":        "nil",
		"x://{id}/{page}": "has no variable page",
		"x://all":         "requires the variable id",
		"x://{id*}":       "make the field id a slice",
		"x://{id:3}":      "prefix",
		"x://{id":         "missing }",
	} {
		must.CheckContains(t, add(text), want, text)
	}
	nameless := panicOf(func() {
		server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: "x://{id}"},
			func(context.Context, id) (string, error) { return "", nil })
	})
	number := panicOf(func() {
		server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: "x://{id}", Name: "a"},
			func(context.Context, int) (string, error) { return "", nil })
	})
	nested := panicOf(func() {
		server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: "x://{id}", Name: "a"},
			func(context.Context, struct{ ID struct{} }) (string, error) { return "", nil })
	})
	must.CheckThat(t, strings.Contains(nameless, "name must not be empty") &&
		strings.Contains(number, "a struct or a map") &&
		strings.Contains(nested, "must be a string, a number or a boolean"), "%s; %s; %s", nameless, number, nested)
}

func TestAnUntypedTemplateIsReadByURI(t *testing.T) {
	s := quiet()
	echo := func(_ context.Context, uri string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "read " + uri}}}, nil
	}
	const text = "x://{host}/{ids}{/path*}"
	must.Do(t, s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: text, Name: "a"}, echo))
	c := mcptest.Dial(t, s)
	must.CheckEqual(t, textAt(t, c, "x://h/1,2/a/%62"), "read x://h/1,2/a/%62")
	for want, err := range map[string]error{
		"in use":    s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: text, Name: "b"}, echo),
		"handler":   s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: "y://{a}", Name: "b"}, nil),
		"missing }": s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: "y://{a", Name: "b"}, echo),
	} {
		must.CheckFails(t, err, want)
	}
	must.CheckThat(t, s.RemoveTemplate(text) && !s.RemoveTemplate(text), "one template was there to be removed")
	must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "x://h/1")), call.ErrResourceNotFound)
}

// A value that does not match its schema is an unknown resource, without details.
func TestInvalidURIsAreRejected(t *testing.T) {
	s := quiet()
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "{+any}", Name: "any"},
		func(_ context.Context, in map[string]string) (string, error) { return in["any"], nil })
	c := mcptest.Dial(t, s)
	for _, uri := range []string{" ", "a b", "x:\n", "x:<>", "x:\u00e9", "x:%", "x:%0g", "x:\\"} {
		must.CheckIs(t, must.Err(c.ReadResource(t.Context(), uri)), call.ErrResourceNotFound, uri)
	}
}

func hintsOf(t *testing.T, l *line, method, params string) (ttl int64, scope mcp.CacheScope) {
	t.Helper()
	raw, rejected := l.ask(method, params)
	var hints mcp.CacheHints
	err := json.Unmarshal(raw, &hints)
	must.That(t, err == nil && rejected == nil && hints.TTLMs != nil, "%s: %s, %v, %v", method, raw, rejected, err)
	return *hints.TTLMs, hints.CacheScope
}

func newCaching(s *server.Server) *server.Server {
	s.Logger = slog.New(slog.DiscardHandler)
	s.Limits.PageSize = 1
	for _, name := range []string{"a", "b"} {
		server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, struct{}) (string, error) { return "", nil })
	}
	s.Declare(mcp.MethodGetPrompt)
	server.AddStatic(s, mcp.Resource{URI: "x://plain", Name: "plain"}, "")
	server.AddStatic(s, mcp.Resource{URI: "x://kept", Name: "kept"}, "",
		server.Cached(server.CachePolicy{TTL: 1500 * time.Microsecond, Public: true}))
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "t://{x}", Name: "t"},
		func(context.Context, map[string]string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "t"}},
				CacheHints: mcp.CacheHints{CacheScope: mcp.CacheScopePrivate}}, nil
		}, server.Cached(server.CachePolicy{TTL: time.Minute, Public: true}))
	return s
}

// Rule C1: by default results are neither cacheable nor public.
func TestResultsAreNotCacheableByDefault(t *testing.T) {
	l := connectLine(t, newCaching(&server.Server{}))
	for _, method := range []string{mcp.MethodDiscover, mcp.MethodListTools, mcp.MethodListPrompts,
		mcp.MethodListResources, mcp.MethodListResourceTemplates} {
		ttl, scope := hintsOf(t, l, method, "")
		must.CheckThat(t, ttl == 0 && scope == "private", "%s: %d, %s", method, ttl, scope)
	}
	ttl, scope := hintsOf(t, l, mcp.MethodReadResource, `"uri":"x://plain"`)
	must.CheckThat(t, ttl == 0 && scope == "private", "resources/read: %d, %s", ttl, scope)
}

func TestCachePoliciesSetTheHints(t *testing.T) {
	s := newCaching(&server.Server{
		ListCache: server.CachePolicy{TTL: time.Minute, Public: true},
	})
	l := connectLine(t, s)
	for _, method := range []string{mcp.MethodDiscover, mcp.MethodListTools, mcp.MethodListPrompts,
		mcp.MethodListResources,
		mcp.MethodListResourceTemplates} {
		ttl, scope := hintsOf(t, l, method, "")
		must.CheckThat(t, ttl == 60_000 && scope == "public", "%s: %d, %s", method, ttl, scope)
	}
	_, next := names(t, l, "")
	ttl, scope := hintsOf(t, l, mcp.MethodListTools, `"cursor":"`+next+`"`)
	must.CheckThat(t, ttl == 60_000 && scope == "public", "the second page: %d, %s", ttl, scope)
	ttl, scope = hintsOf(t, l, mcp.MethodReadResource, `"uri":"x://kept"`)
	must.CheckThat(t, ttl == 1 && scope == "public", "a resource: %d, %s", ttl, scope)
	// A scope that the handler sets is kept; a missing TTL is filled in.
	ttl, scope = hintsOf(t, l, mcp.MethodReadResource, `"uri":"t://x"`)
	must.CheckThat(t, ttl == 60_000 && scope == "private", "a template's: %d, %s", ttl, scope)
}

// Rules C1, R1: a shared cache must not return a resource that requires scopes to callers without them,
// whatever hints the program sets.
func TestResourcesWithScopesAreCachedPrivately(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler), LocalScopes: []string{"books"}}
	public := server.Cached(server.CachePolicy{TTL: time.Minute, Public: true})
	server.AddStatic(s, mcp.Resource{URI: "x://a", Name: "a"}, "a", public, server.RequireScopes("books"))
	server.AddResource(s, mcp.Resource{URI: "x://b", Name: "b"},
		func(context.Context) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "b"}},
				CacheHints: mcp.CacheHints{CacheScope: mcp.CacheScopePublic}}, nil
		}, server.RequireScopes("books"), public)
	l := connectLine(t, s)
	for _, uri := range []string{"x://a", "x://b"} {
		ttl, scope := hintsOf(t, l, mcp.MethodReadResource, `"uri":"`+uri+`"`)
		must.CheckThat(t, ttl == 60_000 && scope == "private", "%s: %d, %s", uri, ttl, scope)
	}
}
