package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// library returns a server with a tool, resources, a template and a prompt.
func library(name string) *server.Server {
	s := answering(name)
	server.AddStatic(s, mcp.Resource{URI: "lib://shared", Name: "shared"}, "shared of "+name)
	server.AddStatic(s, mcp.Resource{URI: "lib://" + name, Name: "own", MimeType: "image/png"}, []byte(name))
	type book struct {
		Title string `json:"title"`
	}
	template := "lib://" + name + "/{title}"
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: template, Name: "books"}, func(_ context.Context, in book) (string, error) {
		if in.Title == "lost" {
			return "", server.ErrResourceNotFound
		}
		return in.Title + " in " + name, nil
	})
	titles := func(_ context.Context, value string, _ map[string]string) ([]string, error) {
		return []string{value + "-" + name}, nil
	}
	server.CompleteTemplate(s, template, "title", titles)
	server.AddPrompt(s, mcp.Prompt{Name: "review"}, func(_ context.Context, in book) (string, error) {
		return "review " + in.Title + " for " + name, nil
	})
	server.CompletePrompt(s, "review", "title", titles)
	return s
}

func read(t *testing.T, c *client.Client, uri string) mcp.ResourceContents {
	t.Helper()
	result, err := c.ReadResource(t.Context(), uri)
	if err != nil || len(result.Contents) != 1 {
		t.Errorf("%s: %+v, %v", uri, result, err)
		return mcp.ResourceContents{}
	}
	return result.Contents[0]
}

func TestReadsAreForwardedToTheRightServer(t *testing.T) {
	one, two := library("one"), library("two")
	mcptest.Everywhere(t, func() *server.Server {
		return gatewayTo(t, inMemory(t, "first", one), inMemory(t, "second", two))
	}, func(t *testing.T, c *client.Client) {
		for _, name := range []string{"one", "two"} {
			if got := read(t, c, "lib://"+name); string(got.Blob) != name || got.MimeType != "image/png" || got.URI != "lib://"+name {
				t.Errorf("the resource of %s is %+v", name, got)
			}
			if got := read(t, c, "lib://"+name+"/moby%20dick"); got.Text != "moby dick in "+name {
				t.Errorf("the book of %s is %+v", name, got)
			}
		}
		_, err := c.ReadResource(t.Context(), "lib://one/lost")
		if !errors.Is(err, client.ErrResourceNotFound) {
			t.Errorf("reading a missing resource: %v, want ErrResourceNotFound", err)
		}
	})
}

// The order is that of the configuration, whichever server is ready first.
func TestURIOfTwoServersGetsPrefix(t *testing.T) {
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", library("one")), inMemory(t, "second", library("two"))))
	var uris []string
	for r, err := range c.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URI)
	}
	slices.Sort(uris)
	if want := []string{"lib://one", "lib://shared", "lib://two", "server:second/lib://shared"}; !slices.Equal(uris, want) {
		t.Fatalf("the resources are %v, want %v", uris, want)
	}
	for uri, want := range map[string]string{"lib://shared": "shared of one", "server:second/lib://shared": "shared of two"} {
		if got := read(t, c, uri); got.Text != want || got.URI != uri {
			t.Errorf("%s has the contents %+v, want %s", uri, got, want)
		}
	}
}

func TestPromptsAreForwarded(t *testing.T) {
	one, two := library("one"), library("two")
	mcptest.Everywhere(t, func() *server.Server {
		return gatewayTo(t, inMemory(t, "first", one), inMemory(t, "second", two))
	}, func(t *testing.T, c *client.Client) {
		var names []string
		for p, err := range c.Prompts(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, p.Name)
			if len(p.Arguments) != 1 || !p.Arguments[0].Required {
				t.Errorf("the arguments of %s are %+v", p.Name, p.Arguments)
			}
		}
		if want := []string{"first__review", "second__review"}; !slices.Equal(names, want) {
			t.Errorf("prompts are %v, want %v", names, want)
		}
		result, err := c.GetPrompt(t.Context(), "second__review", map[string]string{"title": "Emma"})
		if err != nil || len(result.Messages) != 1 {
			t.Fatalf("the prompt is %+v, %v", result, err)
		}
		if text, ok := result.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "review Emma for two" {
			t.Errorf("the prompt contains %+v", result.Messages[0].Content)
		}
	})
}

func TestCompletionIsForwarded(t *testing.T) {
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", library("one")), inMemory(t, "second", library("two"))))
	for want, ref := range map[string]mcp.CompleteReference{
		"em-two": {Type: mcp.RefPrompt, Name: "second__review"},
		"em-one": {Type: mcp.RefResource, URI: "lib://one/{title}"},
	} {
		got, err := c.Complete(t.Context(), mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: "title", Value: "em"}})
		if err != nil || !slices.Equal(got.Values, []string{want}) {
			t.Errorf("%+v: %+v, %v, want %s", ref, got, err, want)
		}
	}
}

func TestResourceAndPromptErrorsNameServerThatIsDown(t *testing.T) {
	endpoint := httptest.NewServer(library("mortal"))
	defer endpoint.Close()
	c := mcptest.Dial(t, gatewayTo(t, host.ServerConfig{Name: "gone", Target: client.URL(endpoint.URL)}))
	read(t, c, "lib://mortal")
	endpoint.CloseClientConnections()
	endpoint.Close()
	_, reading := c.ReadResource(t.Context(), "lib://mortal")
	_, prompting := c.GetPrompt(t.Context(), "gone__review", map[string]string{"title": "Emma"})
	for _, err := range []error{reading, prompting} {
		var reported *jsonrpc.Error
		if !errors.As(err, &reported) || !strings.Contains(err.Error(), `server "gone"`) {
			t.Errorf("got %v, want an error with the name of the server", err)
		}
	}
}

// The client also receives updates of a resource that only a template lists.
func TestChangesAndUpdatesAreForwarded(t *testing.T) {
	var one, two *server.Server
	mcptest.Everywhere(t, func() *server.Server {
		one, two = library("one"), library("two")
		return gatewayTo(t, inMemory(t, "first", one), inMemory(t, "second", two))
	}, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		const renamed = "server:second/lib://shared"
		next, stop := iter.Pull2(c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{"lib://one", "lib://one/emma", renamed}}))
		defer stop()
		until := func(want ...client.Change) {
			t.Helper()
			for len(want) > 0 {
				got, err, ok := next()
				if err != nil || !ok {
					t.Fatalf("waiting for %v: %v", want, err)
				}
				want = slices.DeleteFunc(want, func(c client.Change) bool { return c == got })
			}
		}
		updates := map[string]func(){
			"lib://one":      func() { one.ResourceUpdated("lib://one") },
			"lib://one/emma": func() { one.ResourceUpdated("lib://one/emma") },
			renamed:          func() { two.ResourceUpdated("lib://shared") },
		}
		// The first update of a resource tells that the subscription has started. No update
		// is missed after it.
		var started []client.Change
		for uri := range updates {
			started = append(started, client.Change{Kind: client.ResourceUpdated, URI: uri})
		}
		until(started...)
		for uri, update := range updates {
			update()
			until(client.Change{Kind: client.ResourceUpdated, URI: uri})
		}
		server.AddTool(two, mcp.Tool{Name: "new"}, func(context.Context, struct{}) (string, error) { return "made", nil })
		until(client.Change{Kind: client.ToolsChanged})
		if text, err := client.CallTool[string](ctx, c, "second__new", nil); err != nil || text != "made" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestTheTemplatesOfAServerAreBounded(t *testing.T) {
	s := library("one")
	for i := range 1001 {
		server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: fmt.Sprintf("many://%04d/{title}", i), Name: "many"}, func(context.Context, map[string]string) (string, error) { return "", nil })
	}
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", s), inMemory(t, "second", library("two"))))
	count, other := 0, false
	for r, err := range c.ResourceTemplates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		count++
		other = other || r.URITemplate == "lib://two/{title}"
	}
	if count != 1001 || !other {
		t.Errorf("the gateway has %d templates, that of the second server: %v; want 1000 of the first and one of the second", count, other)
	}
}
