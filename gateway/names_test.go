package gateway_test

import (
	"context"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// upstreamOf returns the config of a server with tools and prompts of these names, a resource, a
// template and instructions.
func upstreamOf(t *testing.T, name string, names ...string) host.ServerConfig {
	s := &server.Server{Name: name, Version: "1", Instructions: "Text of " + name + "."}
	for _, n := range names {
		server.AddTool(s, mcp.Tool{Name: n}, func(context.Context, none) (string, error) {
			return n + " of " + name, nil
		})
		server.AddPrompt(s, mcp.Prompt{Name: n}, func(context.Context, none) (string, error) { return n, nil })
	}
	server.AddStatic(s, mcp.Resource{URI: name + "://one", Name: "one"}, name)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: name + "://any/{x}", Name: "any"},
		func(_ context.Context, in struct {
			X string `json:"x"`
		}) (string, error) {
			return in.X, nil
		})
	return inMemory(t, name, s)
}

// namesOf returns the names of the tools and prompts and the URIs that a client sees.
func namesOf(t *testing.T, c *client.Client) []string {
	t.Helper()
	all := make(map[string]bool)
	add := func(name string, err error) {
		must.Do(t, err)
		all[name] = true
	}
	for e, err := range c.Tools(t.Context()) {
		add("tool "+e.Name, err)
	}
	for e, err := range c.Prompts(t.Context()) {
		add("prompt "+e.Name, err)
	}
	for e, err := range c.Resources(t.Context()) {
		add("resource "+e.URI, err)
	}
	for e, err := range c.ResourceTemplates(t.Context()) {
		add("template "+e.URITemplate, err)
	}
	return slices.Sorted(maps.Keys(all))
}

// start starts a host that presents its servers through gateways that are made later.
func start(t *testing.T, h *host.Host) {
	t.Helper()
	must.Do(t, must.Err(gateway.New(h, new(server.Server))))
	must.Do(t, h.Start())
	t.Cleanup(func() { h.Close() })
}

// present serves a toolset of a host that has been started, until the test ends. It returns when
// the gateway has registered what ready and degraded servers list.
func present(t *testing.T, h *host.Host, toolset *gateway.Toolset) *server.Server {
	t.Helper()
	s := &server.Server{Name: "toolset", Version: "1", Logger: quiet}
	g := must.Get(gateway.New(h, s))(t)
	g.Logger, g.Toolset = quiet, toolset
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	for _, status := range h.Status() {
		if status.State == host.Ready {
			must.Do(t, g.Await(t.Context(), status))
		}
	}
	return s
}

// awaitList waits until the list of tools satisfies a condition.
func awaitList(t *testing.T, c *client.Client, condition func([]*mcp.Tool) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		must.Do(t, err)
		if condition(listed(t, c)) {
			return
		}
	}
	t.Fatal("the list of tools does not satisfy the condition")
}

func TestToolsetsOfOneHostAreServedSideBySide(t *testing.T) {
	h := &host.Host{Logger: quiet, Servers: []host.ServerConfig{
		upstreamOf(t, "a", "read", "write"), upstreamOf(t, "b", "read", "write"), upstreamOf(t, "c", "read"),
	}}
	start(t, h)
	must.Do(t, h.WaitReady(t.Context()))
	for name, c := range map[string]struct {
		toolset      *gateway.Toolset
		want         []string
		instructions string // instructions of the servers
	}{
		"all": {nil, []string{
			"prompt a__read", "prompt a__write", "prompt b__read", "prompt b__write", "prompt c__read",
			"resource a://one", "resource b://one", "resource c://one",
			"template a://any/{x}", "template b://any/{x}", "template c://any/{x}",
			"tool a__read", "tool a__write", "tool b__read", "tool b__write", "tool c__read",
		}, "a b c"},
		"a server": {&gateway.Toolset{Servers: []string{"a"}}, []string{
			"prompt a__read", "prompt a__write", "resource a://one", "template a://any/{x}", "tool a__read",
			"tool a__write",
		}, "a"},
		"patterns": {&gateway.Toolset{Tools: []string{"*__read"}, Prompts: []string{"b__*"}}, []string{
			"prompt b__read", "prompt b__write", "tool a__read", "tool b__read", "tool c__read",
		}, "a b c"},
		"a server and patterns without others": {&gateway.Toolset{Servers: []string{"a"}, Tools: []string{"b__*"},
			Hide: []string{"*__write"}}, []string{
			"prompt a__read", "resource a://one", "template a://any/{x}", "tool a__read", "tool b__read",
		}, "a b"},
		"nothing": {&gateway.Toolset{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := present(t, h, c.toolset)
			for server := range strings.FieldsSeq(c.instructions) {
				awaitInstructions(t, func() string {
					return mcptest.Dial(t, s).Server().Instructions
				}, "Text of "+server+".")
			}
			d := mcptest.Dial(t, s)
			got := namesOf(t, d)
			must.CheckThat(t, slices.Equal(got, c.want), "offered:\n%q\nwant:\n%q", got, c.want)
			text := d.Server().Instructions
			for _, server := range []string{"a", "b", "c"} {
				must.CheckEqual(t, strings.Contains(text, "Text of "+server+"."),
					strings.Contains(c.instructions, server), text)
			}
			for _, name := range []string{"a__write", "b__write"} {
				result, err := d.CallTool(t.Context(), name, nil)
				must.CheckEqual(t, slices.Contains(c.want, "tool "+name), err == nil, name, result, err)
			}
			for _, uri := range []string{"a://one", "b://any/2"} {
				_, err := d.ReadResource(t.Context(), uri)
				must.CheckEqual(t, c.toolset == nil || uri == "a://one" &&
					slices.Contains(c.want, "resource a://one"), err == nil, uri, err)
			}
		})
	}
}

func TestToolsThatAreNotSelectedCannotBeCalledThroughTheGateway(t *testing.T) {
	config := upstreamOf(t, "a", "read", "write")
	config.Tools = host.Selection{Hide: []string{"write"}, Rename: map[string]string{"read": "get"}}
	config.Prompts = config.Tools
	mcptest.Everywhere(t, func() *server.Server {
		copied := upstreamOf(t, "a", "read", "write")
		copied.Tools, copied.Prompts = config.Tools, config.Prompts
		return gatewayTo(t, copied)
	}, func(t *testing.T, c *client.Client) {
		want := []string{"prompt a__get", "resource a://one", "template a://any/{x}", "tool a__get"}
		got := namesOf(t, c)
		must.CheckThat(t, slices.Equal(got, want), "offered %q, want %q", got, want)
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "a__get", nil))(t), "read of a")
		for _, name := range []string{"a__write", "a__read", "write", "read"} {
			_, err := c.CallTool(t.Context(), name, nil)
			must.CheckThat(t, err != nil, "%s can be called", name)
			_, err = c.GetPrompt(t.Context(), name, nil)
			must.CheckThat(t, err != nil, "the prompt %s can be used", name)
		}
	})
}

func TestNamesOfTheGatewayHaveTheChosenPrefix(t *testing.T) {
	a, b := upstreamOf(t, "a", "read", "shared"), upstreamOf(t, "b", "write", "shared")
	a.NoPrefix, b.NoPrefix = true, true
	h := &host.Host{Logger: quiet, Servers: []host.ServerConfig{a, b}}
	start(t, h)
	must.Do(t, h.WaitReady(t.Context()))
	c := mcptest.Dial(t, present(t, h, nil))
	want := []string{
		"prompt read", "prompt write", "resource a://one", "resource b://one", "template a://any/{x}",
		"template b://any/{x}", "tool read", "tool write",
	}
	got := namesOf(t, c)
	must.CheckThat(t, slices.Equal(got, want), "offered %q, want %q", got, want)
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "write", nil))(t), "write of b")
	text := c.Server().Instructions
	must.CheckThat(t, !strings.Contains(text, "begin with") && strings.Contains(text, "Instructions of the server b:"),
		"instructions %q", text)
	// When one of two claims is withdrawn, the name belongs to the other server.
	must.Do(t, h.SetServers([]host.ServerConfig{a}))
	awaitList(t, c, func(tools []*mcp.Tool) bool {
		return slices.ContainsFunc(tools, func(tool *mcp.Tool) bool { return tool.Name == "shared" })
	})
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "shared", nil))(t), "shared of a")
}

// The protocol defines a grammar for the names of tools, but not for the names of prompts. In 2026-07-28, the
// name is sent in a header, too.
func TestPromptsKeepTheirNames(t *testing.T) {
	names := []string{"say hello", "say/hello", "größe", strings.Repeat("long", 60)}
	up := &server.Server{Name: "up"}
	for _, name := range names {
		err := up.RegisterPrompt(mcp.Prompt{Name: name, Arguments: []mcp.PromptArgument{{Name: "to"}}},
			func(context.Context, map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Description: name}, nil
			}, server.CompleteFrom("to", name))
		must.Do(t, err)
	}
	endpoint := httptest.NewServer(gatewayTo(t, inMemory(t, "up", up)))
	t.Cleanup(endpoint.Close)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			d := client.Dialer{Revision: r, Logger: quiet}
			c := must.Get(d.Dial(t.Context(), client.URL(endpoint.URL)))(t)
			defer c.Close()
			var listed []string
			for p, err := range c.Prompts(t.Context()) {
				must.Do(t, err)
				listed = append(listed, p.Name)
			}
			var want []string
			for _, name := range names {
				merged := "up__" + name
				want = append(want, merged)
				result := must.Get(c.GetPrompt(t.Context(), merged, nil))(t)
				must.CheckEqual(t, result.Description, name, merged, result)
				completion, err := c.Complete(t.Context(),
					mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: merged},
						Argument: mcp.CompleteArgument{Name: "to"}})
				must.CheckThat(t, err == nil && slices.Equal(completion.Values, []string{name}),
					"completion for prompt %q: %+v, %v", merged, completion, err)
			}
			slices.Sort(listed)
			slices.Sort(want)
			must.CheckThat(t, slices.Equal(listed, want), "the gateway lists %q, want %q", listed, want)
		})
	}
}

func TestArgumentsWithoutANameOfTheirOwnAreLeftOut(t *testing.T) {
	up := upstream{
		mcp.MethodListPrompts: `{"prompts":[{"name":"p","arguments":[{"name":"a","x":1},{"name":""},{"name":"a",` +
			`"required":true}]}]}`,
		mcp.MethodGetPrompt: `{"messages":[{"role":"user","content":"good"}]}`,
	}
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")))
	for p, err := range c.Prompts(t.Context()) {
		must.CheckThat(t, err == nil && p.Name == "up__p" && len(p.Arguments) == 1 && !p.Arguments[0].Required,
			"%+v, %v", p, err)
	}
	result := must.Get(c.GetPrompt(t.Context(), "up__p", map[string]string{"a": "1"}))(t)
	must.CheckEqual(t, len(result.Messages), 1, result)
}

// linking returns a server whose results link to its resources lib://shared and lib://NAME, to lib://tree/NAME of its
// template, to a resource that it does not list, and to the URI at a gateway of another server's resource.
func linking(name string) *server.Server {
	s := &server.Server{Name: name}
	uris := []string{"lib://shared", "lib://" + name, "lib://tree/" + name, "lib://unlisted",
		"server:second/lib://shared"}
	var blocks []mcp.Content
	for _, uri := range uris {
		blocks = append(blocks, &mcp.ResourceLink{URI: uri, Name: "link"},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: uri, Text: name}})
	}
	server.AddTool(s, mcp.Tool{Name: "links"}, func(context.Context, none) ([]mcp.Content, error) {
		return blocks, nil
	})
	server.AddPrompt(s, mcp.Prompt{Name: "links"}, func(context.Context, none) ([]mcp.PromptMessage, error) {
		var messages []mcp.PromptMessage
		for _, block := range blocks {
			messages = append(messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: block})
		}
		return messages, nil
	})
	directory := []mcp.ResourceContents{{URI: "lib://shared", Text: name}, {URI: "lib://" + name, Text: name}}
	contents := func(context.Context) ([]mcp.ResourceContents, error) { return directory, nil }
	server.AddResource(s, mcp.Resource{URI: "lib://shared", Name: "shared"}, contents)
	server.AddResource(s, mcp.Resource{URI: "lib://" + name, Name: "own"}, contents)
	type path struct {
		Path string `json:"path"`
	}
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "lib://tree/{path}", Name: "tree"},
		func(_ context.Context, in path) (string, error) { return in.Path + " in " + name, nil })
	return s
}

func urisOf(blocks []mcp.Content) (uris []string) {
	for _, block := range blocks {
		switch c := block.(type) {
		case *mcp.ResourceLink:
			uris = append(uris, c.URI)
		case *mcp.EmbeddedResource:
			uris = append(uris, c.Resource.URI)
		}
	}
	return slices.Compact(uris)
}

// The URIs in the results of a server lead to the resources of that server.
func TestLinksLeadToTheServerThatSentThem(t *testing.T) {
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", linking("one")), inMemory(t, "second", linking("two"))))
	for name, want := range map[string][]string{
		"first__links": {"server:first/lib://shared", "lib://one", "server:first/lib://tree/one", "lib://unlisted",
			"server:first/server:second/lib://shared"},
		"second__links": {"server:second/lib://shared", "lib://two", "server:second/lib://tree/two", "lib://unlisted",
			"server:second/lib://shared"},
	} {
		result, err := c.CallTool(t.Context(), name, nil)
		if err != nil || !slices.Equal(urisOf(result.Content), want) {
			t.Errorf("tool %s: %v, %v, want %v", name, urisOf(result.Content), err, want)
		}
		prompt := must.Get(c.GetPrompt(t.Context(), name, nil))(t)
		var blocks []mcp.Content
		for _, m := range prompt.Messages {
			blocks = append(blocks, m.Content)
		}
		if !slices.Equal(urisOf(blocks), want) {
			t.Errorf("prompt %s: %v, want %v", name, urisOf(blocks), want)
		}
	}
	for uri, want := range map[string]string{"server:first/lib://tree/one": "one in one",
		"server:second/lib://tree/two": "two in two"} {
		got := read(t, c, uri)
		must.CheckThat(t, got.Text == want && got.URI == uri, "%s: %+v, want %s", uri, got, want)
	}
	// The contents of a resource can name other resources.
	for uri, want := range map[string][]string{
		"lib://one":                  {"server:first/lib://shared", "lib://one"},
		"lib://two":                  {"server:second/lib://shared", "lib://two"},
		"server:second/lib://shared": {"server:second/lib://shared", "server:second/lib://two"},
	} {
		result := must.Get(c.ReadResource(t.Context(), uri))(t)
		var got []string
		for _, contents := range result.Contents {
			got = append(got, contents.URI)
		}
		must.CheckThat(t, slices.Equal(got, want), "%s has the contents %v, want %v", uri, got, want)
	}
}
