package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
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
	if len(result.Contents) != 1 {
		t.Fatalf("%s: %+v", uri, result)
	}
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
		if got := panicOf(func() { server.AddResource(s, tc.resource, text("")) }); !strings.Contains(got, tc.want) {
			t.Errorf("%.40q: %v, want %q", tc.resource.URI, got, tc.want)
		}
		raw := func(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil }
		if err := s.RegisterResource(tc.resource, raw); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.40q: %v, want %q", tc.resource.URI, err, tc.want)
		}
	}
	for _, uri := range []string{"note:a", "note://a%20b%3f", "urn:isbn:0-395-36341-1", "x-y.z+1://[::1]:80/a;b=c?d#e", "https://example.com/caf%C3%A9"} {
		server.AddStatic(quiet(), mcp.Resource{URI: uri, Name: "a"}, "")
	}
	if err := quiet().RegisterResource(mcp.Resource{URI: "note://a", Name: "a"}, nil); err == nil {
		t.Error("a resource without a handler is offered")
	}
	if got := panicOf(func() { server.AddResource[string](quiet(), mcp.Resource{URI: "note://a", Name: "a"}, nil) }); !strings.Contains(got, "handler") {
		t.Errorf("without a handler: %v", got)
	}
}

func TestAddResourceCopiesTheDefinition(t *testing.T) {
	s := quiet()
	r := mcp.Resource{URI: "note://a", Name: "a", Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}}, Meta: mcp.Meta{"a": json.RawMessage(`1`)}}
	server.AddResource(s, r, text(""))
	r.Annotations.Audience[0], r.Meta["a"] = "unknown", json.RawMessage(`{`)
	for got, err := range mcptest.Dial(t, s).Resources(t.Context()) {
		if err != nil || got.Annotations.Audience[0] != mcp.RoleUser || string(got.Meta["a"]) != "1" {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestAnUntypedResourceIsReadByItsURI(t *testing.T) {
	s := quiet()
	shared := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "shared"}}}
	for _, uri := range []string{"note://a", "note://b"} {
		if err := s.RegisterResource(mcp.Resource{URI: uri, Name: uri, MimeType: "text/markdown"}, func(_ context.Context, uri string) (*mcp.ReadResourceResult, error) {
			if uri == "note://b" {
				return nil, nil
			}
			return shared, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	c := mcptest.Dial(t, s)
	result, err := c.ReadResource(t.Context(), "note://a")
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Contents[0]; got.URI != "note://a" || got.MimeType != "text/markdown" || got.Text != "shared" {
		t.Errorf("%+v", got)
	}
	if shared.Contents[0].URI != "" || shared.TTLMs != nil {
		t.Errorf("the handler's own result was changed: %+v", shared)
	}
	if _, err := c.ReadResource(t.Context(), "note://b"); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("no result: %v", err)
	}
}

func TestRemovedResourceIsNotFound(t *testing.T) {
	s := quiet()
	s.DeclareResources()
	c := mcptest.Dial(t, s)
	if c.Server().Capabilities.Resources == nil {
		t.Error("resources are offered and not declared")
	}
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "text")
	if got := textAt(t, c, "note://a"); got != "text" {
		t.Error(got)
	}
	if !s.RemoveResource("note://a") || s.RemoveResource("note://a") {
		t.Error("one resource was there to be removed")
	}
	if _, err := c.ReadResource(t.Context(), "note://a"); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("%v", err)
	}
	for r := range c.Resources(t.Context()) {
		t.Errorf("%v is listed", r)
	}
}

func TestResourcesCanChangeWhileTheyAreRead(t *testing.T) {
	s := quiet()
	s.DeclareResources()
	c := mcptest.Dial(t, s)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			uri, template := fmt.Sprintf("note://%d", i), fmt.Sprintf("note%d://{id}", i)
			for range 50 {
				server.AddStatic(s, mcp.Resource{URI: uri, Name: "a"}, "text")
				server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: template, Name: "a"}, func(context.Context, map[string]string) (string, error) { return "of a template", nil })
				s.RemoveResource(uri)
				s.RemoveTemplate(template)
			}
		})
		wg.Go(func() {
			for range 50 {
				for _, err := range c.Resources(t.Context()) {
					if err != nil {
						t.Error(err)
					}
				}
				for _, uri := range []string{fmt.Sprintf("note://%d", i), fmt.Sprintf("note%d://7", i)} {
					if _, err := c.ReadResource(t.Context(), uri); err != nil && !errors.Is(err, client.ErrResourceNotFound) {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}
