package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
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
	titles := server.Complete("title", func(_ context.Context, value string, _ map[string]string) ([]string, error) {
		return []string{value + "-" + name}, nil
	})
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "lib://" + name + "/{title}", Name: "books"},
		func(_ context.Context, in book) (string, error) {
			if in.Title == "lost" {
				return "", call.ErrResourceNotFound
			}
			return in.Title + " in " + name, nil
		}, titles)
	server.AddPrompt(s, mcp.Prompt{Name: "review"}, func(_ context.Context, in book) (string, error) {
		return "review " + in.Title + " for " + name, nil
	}, titles)
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
			if got := read(t, c, "lib://"+name); string(got.Blob) != name || got.MimeType != "image/png" ||
				got.URI != "lib://"+name {
				t.Errorf("the resource of %s is %+v", name, got)
			}
			got := read(t, c, "lib://"+name+"/moby%20dick")
			must.CheckEqual(t, got.Text, "moby dick in "+name, "the book", name, got)
		}
		must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "lib://one/lost")), call.ErrResourceNotFound)
	})
}

func TestURIOfTwoServersGetsPrefix(t *testing.T) {
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", library("one")), inMemory(t, "second", library("two"))))
	var uris []string
	for r, err := range c.Resources(t.Context()) {
		must.Do(t, err)
		uris = append(uris, r.URI)
	}
	slices.Sort(uris)
	want := []string{"lib://one", "lib://two", "server:first/lib://shared",
		"server:second/lib://shared"}
	must.That(t, slices.Equal(uris, want), "the resources are %v, want %v", uris, want)
	for uri, want := range map[string]string{"server:first/lib://shared": "shared of one",
		"server:second/lib://shared": "shared of two"} {
		got := read(t, c, uri)
		must.CheckThat(t, got.Text == want && got.URI == uri, "%s has the contents %+v, want %s", uri, got, want)
	}
	must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "lib://shared")), call.ErrResourceNotFound)
}

// Some servers put IDs where other URIs have a host, so case matters there.
func TestURIsThatDifferInCaseAreOfTwoServers(t *testing.T) {
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", library("Ab")), inMemory(t, "second", library("ab"))))
	for _, name := range []string{"Ab", "ab"} {
		got := read(t, c, "lib://"+name)
		must.CheckEqual(t, string(got.Blob), name, got)
	}
}

// A server that claims the URIs of another server does not serve them, whichever comes
// first.
func TestNoServerTakesOverTheURIsOfAnother(t *testing.T) {
	greedy := &server.Server{Name: "greedy"}
	stolen := func(context.Context, map[string]string) (string, error) { return "stolen", nil }
	for _, template := range []string{"{+all}", "server:{+all}", "server:second/lib://{+all}", "LIB://two/{+all}",
		"lib://two{+all}"} {
		server.AddTemplate(greedy, mcp.ResourceTemplate{URITemplate: template, Name: "greedy"}, stolen)
	}
	for _, uri := range []string{"lib://two", "server:second/lib://two", "parley:result/second/1", "greedy://own"} {
		server.AddStatic(greedy, mcp.Resource{URI: uri, Name: "greedy"}, "stolen")
	}
	two := library("two")
	hidden := &host.Rules{Default: host.Allow, Rules: []host.Rule{{Server: "second", Resource: "lib://shared",
		Action: host.Deny, WhenForLists: true}}}
	for _, policy := range []host.Policy{nil, hidden} {
		s := &server.Server{Name: "gateway", Version: "1"}
		gatewaytest.Run(t, &host.Host{Policy: policy, Servers: []host.ServerConfig{inMemory(t, "first", greedy),
			inMemory(t, "second", two)}}, s)
		c := mcptest.Dial(t, s)
		var uris []string
		for r, err := range c.Resources(t.Context()) {
			must.Do(t, err)
			uris = append(uris, r.URI)
		}
		slices.Sort(uris)
		want := []string{
			"greedy://own", "lib://shared", "server:first/lib://two", "server:first/parley:result/second/1",
			"server:first/server:second/lib://two", "server:second/lib://two",
		}
		if policy != nil {
			want = slices.DeleteFunc(want, func(uri string) bool { return uri == "lib://shared" })
		}
		must.CheckThat(t, slices.Equal(uris, want), "the resources are %q, want %q", uris, want)
		for uri, want := range map[string]string{
			"lib://shared": "shared of two", "server:second/lib://two": "",
			"server:second/lib://two/emma": "emma in two", "greedy://own": "stolen", "other://x": "stolen",
			"server:first/lib://two/emma": "stolen", "server:first/lib://shared": "not found",
			// These URIs belong to no server, because both claim them.
			"lib://two": "not found", "lib://two/emma": "not found", "Lib://two": "not found",
			"lib://two/%65mma": "not found", "lib://sh%61red": "not found", "server:third/x": "not found",
		} {
			if policy != nil && uri == "lib://shared" {
				want = "denied"
			}
			result, err := c.ReadResource(t.Context(), uri)
			got := "not found"
			switch {
			case err == nil:
				got = result.Contents[0].Text
			case strings.Contains(err.Error(), "is denied: rule 1"):
				got = "denied"
			case !errors.Is(err, call.ErrResourceNotFound):
				got = err.Error()
			}
			must.CheckEqual(t, got, want, uri)
		}
	}
}

// A gateway does not interpret URIs and templates, so they need not be valid.
func TestURIsAreForwardedAsTheyAre(t *testing.T) {
	up := upstream{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},` +
			`"resources":{"subscribe":true},"completions":{}},"serverInfo":{"name":"up","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"download","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"content":[{"type":"resource_link","uri":"Report 2026.pdf","name":"Report"}]}`,
		"resources/list": `{"resources":[{"uri":"Report 2026.pdf"},{"uri":"file:///C:/My Files/a.txt",` +
			`"name":"a"},{"uri":"docs://ok","name":"ok"}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"crm://customers/{customer-id}",` +
			`"name":"c"},{"uriTemplate":"docs:///my docs/{name:3}.{ext}","name":"d"},{"uriTemplate":"{","name":"e"}]}`,
		"resources/read":      `{"contents":[{"uri":"<uri>","text":"contents of <uri>"}]}`,
		"resources/subscribe": `{}`,
		"completion/complete": `{"completion":{"values":["7"]}}`,
	}
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up"), inMemory(t, "second", library("two"))))
	for _, uri := range []string{"Report 2026.pdf", "file:///C:/My Files/a.txt", "docs://ok", "crm://customers/7",
		"docs:///my docs/a b.txt", "docs:///my%20docs/a.txt"} {
		got := read(t, c, uri)
		must.CheckThat(t, got.Text == "contents of "+uri && got.URI == uri, "%q: %+v", uri, got)
	}
	for _, uri := range []string{"crm://other/7", "docs:///your docs/a", "report 2026.pdf"} {
		must.CheckIs(t, must.Err(c.ReadResource(t.Context(), uri)), call.ErrResourceNotFound, uri)
	}
	result, err := c.CallTool(t.Context(), "up__download", nil)
	must.CheckThat(t, err == nil && slices.Equal(urisOf(result.Content), []string{"Report 2026.pdf"}),
		"%+v, %v", result, err)
	got, err := c.Complete(t.Context(), mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefResource, URI: "crm://customers/{customer-id}"},
		Argument: mcp.CompleteArgument{Name: "customer-id"},
	})
	must.CheckThat(t, err == nil && slices.Equal(got.Values, []string{"7"}), "%+v, %v", got, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for change, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{"Report 2026.pdf"}}) {
		must.Do(t, err)
		must.CheckEqual(t, change.URI, "Report 2026.pdf", change)
		break
	}
}

func TestPromptsAreForwarded(t *testing.T) {
	one, two := library("one"), library("two")
	mcptest.Everywhere(t, func() *server.Server {
		return gatewayTo(t, inMemory(t, "first", one), inMemory(t, "second", two))
	}, func(t *testing.T, c *client.Client) {
		var names []string
		for p, err := range c.Prompts(t.Context()) {
			must.Do(t, err)
			names = append(names, p.Name)
			must.CheckThat(t, len(p.Arguments) == 1 && p.Arguments[0].Required,
				"the arguments of %s are %+v", p.Name, p.Arguments)
		}
		want := []string{"first__review", "second__review"}
		must.CheckThat(t, slices.Equal(names, want), "prompts are %v, want %v", names, want)
		result := must.Get(c.GetPrompt(t.Context(), "second__review", map[string]string{"title": "Emma"}))(t)
		must.Equal(t, len(result.Messages), 1, result)
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
		got, err := c.Complete(t.Context(), mcp.CompleteParams{Ref: ref,
			Argument: mcp.CompleteArgument{Name: "title", Value: "em"}})
		must.CheckThat(t, err == nil && slices.Equal(got.Values, []string{want}),
			"%+v: %+v, %v, want %s", ref, got, err, want)
	}
}

// The errors of a server that is down contain its name. The other server and the lists
// remain usable.
func TestErrorsNameTheServerThatIsDown(t *testing.T) {
	t.Parallel()
	endpoint := httptest.NewServer(library("mortal"))
	defer endpoint.Close()
	c := mcptest.Dial(t, gatewayTo(t, host.ServerConfig{Name: "gone", Target: client.URL(endpoint.URL)},
		inMemory(t, "other", answering("other"))))
	read(t, c, "lib://mortal")
	endpoint.CloseClientConnections()
	endpoint.Close()
	var calls sync.WaitGroup // each waits for the server to come back
	calls.Go(func() {
		_, err := client.CallTool[string](t.Context(), c, "gone__answer", nil)
		failed := new(client.ToolError)
		must.CheckThat(t, errors.As(err, &failed) && strings.Contains(err.Error(), `server "gone"`),
			"tools/call: %v", err)
	})
	for method, call := range map[string]func() error{
		mcp.MethodReadResource: func() error { _, err := c.ReadResource(t.Context(), "lib://mortal"); return err },
		mcp.MethodGetPrompt: func() error {
			_, err := c.GetPrompt(t.Context(), "gone__review", map[string]string{"title": "Emma"})
			return err
		},
	} {
		calls.Go(func() {
			err := call()
			reported := new(jsonrpc.Error)
			must.CheckThat(t, errors.As(err, &reported) && strings.Contains(err.Error(), `server "gone"`),
				"%s: %v", method, err)
		})
	}
	calls.Wait()
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "other__answer", nil))(t), "other")
	must.CheckEqual(t, len(listed(t, c)), 2)
}

// The client also receives updates of a resource that only a template lists.
func TestChangesAndUpdatesAreForwarded(t *testing.T) {
	t.Parallel()
	var one, two *server.Server
	mcptest.Everywhere(t, func() *server.Server {
		one, two = library("one"), library("two")
		return gatewayTo(t, inMemory(t, "first", one), inMemory(t, "second", two))
	}, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		const renamed = "server:second/lib://shared"
		next, stop := iter.Pull2(c.Watch(ctx, client.WatchFilter{Tools: true,
			URIs: []string{"lib://one", "lib://one/emma", renamed}}))
		defer stop()
		until := func(want ...client.Change) {
			t.Helper()
			for len(want) > 0 {
				got, err, ok := next()
				must.That(t, err == nil && ok, "waiting for %v: %v", want, err)
				want = slices.DeleteFunc(want, func(c client.Change) bool { return c == got })
			}
		}
		updates := map[string]func(){
			"lib://one":      func() { one.ResourceUpdated("lib://one") },
			"lib://one/emma": func() { one.ResourceUpdated("lib://one/emma") },
			renamed:          func() { two.ResourceUpdated("lib://shared") },
		}
		// The first update of a resource says that the subscription has started. No update
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
		server.AddTool(two, mcp.Tool{Name: "new"}, func(context.Context, struct{}) (string, error) {
			return "made", nil
		})
		until(client.Change{Kind: client.ToolsChanged})
		must.CheckEqual(t, must.Get(client.CallTool[string](ctx, c, "second__new", nil))(t), "made")
	})
}

func TestTheTemplatesOfAServerAreBounded(t *testing.T) {
	s := library("one")
	for i := range 1001 {
		server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: fmt.Sprintf("many://%04d/{title}", i), Name: "many"},
			func(context.Context, map[string]string) (string, error) { return "", nil })
	}
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", s), inMemory(t, "second", library("two"))))
	count, other := 0, false
	for r, err := range c.ResourceTemplates(t.Context()) {
		must.Do(t, err)
		count++
		other = other || r.URITemplate == "lib://two/{title}"
	}
	must.CheckThat(t, count == 1001 && other,
		"the gateway has %d templates, that of the second server: %v; want 1000 of the first and one of the "+"second",
		count, other)
}
