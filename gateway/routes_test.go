package gateway_test

import (
	"context"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// linking returns a server whose results link to its resources lib://shared and
// lib://NAME, to lib://tree/NAME of its template, to a resource that it does not list, and to
// the URI at a gateway of another server's resource.
func linking(name string) *server.Server {
	s := &server.Server{Name: name}
	uris := []string{"lib://shared", "lib://" + name, "lib://tree/" + name, "lib://unlisted", "server:second/lib://shared"}
	var blocks []mcp.Content
	for _, uri := range uris {
		blocks = append(blocks, &mcp.ResourceLink{URI: uri, Name: "link"},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: uri, Text: name}})
	}
	server.AddTool(s, mcp.Tool{Name: "links"}, func(context.Context, none) ([]mcp.Content, error) { return blocks, nil })
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
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "lib://tree/{path}", Name: "tree"}, func(_ context.Context, in path) (string, error) {
		return in.Path + " in " + name, nil
	})
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
		"first__links":  {"server:first/lib://shared", "lib://one", "server:first/lib://tree/one", "lib://unlisted", "server:first/server:second/lib://shared"},
		"second__links": {"server:second/lib://shared", "lib://two", "server:second/lib://tree/two", "lib://unlisted", "server:second/lib://shared"},
	} {
		result, err := c.CallTool(t.Context(), name, nil)
		if err != nil || !slices.Equal(urisOf(result.Content), want) {
			t.Errorf("tool %s: %v, %v, want %v", name, urisOf(result.Content), err, want)
		}
		prompt, err := c.GetPrompt(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		var blocks []mcp.Content
		for _, m := range prompt.Messages {
			blocks = append(blocks, m.Content)
		}
		if !slices.Equal(urisOf(blocks), want) {
			t.Errorf("prompt %s: %v, want %v", name, urisOf(blocks), want)
		}
	}
	for uri, want := range map[string]string{"server:first/lib://tree/one": "one in one", "server:second/lib://tree/two": "two in two"} {
		if got := read(t, c, uri); got.Text != want || got.URI != uri {
			t.Errorf("%s: %+v, want %s", uri, got, want)
		}
	}
	// The contents of a resource can name other resources.
	for uri, want := range map[string][]string{
		"lib://one":                  {"server:first/lib://shared", "lib://one"},
		"lib://two":                  {"server:second/lib://shared", "lib://two"},
		"server:second/lib://shared": {"server:second/lib://shared", "server:second/lib://two"},
	} {
		result, err := c.ReadResource(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, contents := range result.Contents {
			got = append(got, contents.URI)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the contents %v, want %v", uri, got, want)
		}
	}
}
