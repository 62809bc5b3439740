package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// large returns a server whose tools have large results.
func large() *server.Server {
	s := &server.Server{Name: "large"}
	server.AddTool(s, mcp.Tool{Name: "text"}, func(context.Context, none) (string, error) { return longText, nil })
	server.AddTool(s, mcp.Tool{Name: "small"}, func(context.Context, none) (string, error) { return "small", nil })
	server.AddTool(s, mcp.Tool{Name: "structured"}, func(context.Context, none) (map[string]string, error) {
		return map[string]string{"text": longText}, nil
	})
	server.AddTool(s, mcp.Tool{Name: "image"}, func(context.Context, none) ([]mcp.Content, error) {
		return []mcp.Content{mcp.Text("see"), mcp.Image([]byte(longText), "image/png")}, nil
	})
	server.AddTool(s, mcp.Tool{Name: "fails"}, func(context.Context, none) (string, error) { return "", errors.New(longText) })
	return s
}

var longText = strings.Repeat("äöü ", 1000)

// A large result is cut, and its resource is readable at another replica, in every revision.
func TestLargeResultsBecomeResources(t *testing.T) {
	shared := store.NewMemory(store.MemoryOptions{})
	var urls []string
	for range 2 { // replicas
		config := httpConfig(t, "up", large())
		config.MaxResult = 200
		s := &server.Server{Name: "gateway", Version: "1"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}, KV: shared, Keys: [][]byte{make([]byte, 32)}}, s)
		urls = append(urls, protect(t, s))
	}
	dial := func(r mcp.Revision, replica int, user string) *client.Client {
		c, err := (&client.Dialer{Revision: r, Logger: quiet}).Dial(t.Context(), as(user, urls[replica]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		ada, elsewhere, bob := dial(r, 0, "ada"), dial(r, 1, "ada"), dial(r, 0, "bob")
		for tool := range ada.Tools(t.Context()) {
			if tool.OutputSchema != nil {
				t.Errorf("%s: tool %s has an output schema", r, tool.Name)
			}
		}
		for tool, want := range map[string]string{"text": "text/plain", "structured": "text/plain", "image": "application/json", "fails": "text/plain"} {
			result, err := ada.CallTool(t.Context(), "up__"+tool, nil)
			if err != nil {
				t.Fatal(err)
			}
			uri, texts := "", ""
			for _, block := range result.Content {
				switch b := block.(type) {
				case *mcp.ResourceLink:
					uri = b.URI
				case *mcp.TextContent:
					texts += b.Text
				}
			}
			if uri == "" { // before 2025-06-18 there are no links
				_, uri, _ = strings.Cut(texts, "The resource ")
				uri, _, _ = strings.Cut(uri, " ")
			}
			if len(texts) > 500 || result.IsError != (tool == "fails") || want == "text/plain" && !strings.Contains(texts, "äöü") {
				t.Errorf("%s, %s: error %t, %q", r, tool, result.IsError, texts)
			}
			for _, c := range []*client.Client{ada, elsewhere} {
				read, err := c.ReadResource(t.Context(), uri)
				if err != nil || len(read.Contents) != 1 || read.Contents[0].MimeType != want || len(read.Contents[0].Text) < 4000 || read.Contents[0].URI != uri {
					t.Errorf("%s, %s: %s: %+v, %v", r, tool, uri, read, err)
				}
			}
			if _, err := bob.ReadResource(t.Context(), uri); !errors.Is(err, client.ErrResourceNotFound) {
				t.Errorf("%s, %s: another principal reads the result: %v", r, tool, err)
			}
		}
		if got, err := client.CallTool[string](t.Context(), ada, "up__small", nil); got != "small" || err != nil {
			t.Errorf("%s: %q, %v", r, got, err)
		}
	}
	for _, uri := range []string{"parley:result/up/x", "parley:result/other/x", "parley:result/up/"} {
		if _, err := dial(mcp.V20260728, 0, "ada").ReadResource(t.Context(), uri); !errors.Is(err, client.ErrResourceNotFound) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// A server that is a gateway, too, has links that begin in the same way.
func TestLargeResultsOfAnotherGatewayAreRead(t *testing.T) {
	var config host.ServerConfig
	inner := large()
	for _, name := range []string{"inner", "outer"} {
		config = httpConfig(t, name, inner)
		config.MaxResult = map[string]int{"inner": 1000, "outer": 100_000}[name]
		inner = &server.Server{Name: name, Version: "1"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}}, inner)
	}
	c, err := client.Dial(t.Context(), httpConfig(t, "", inner).Target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(t.Context(), "outer__inner__text", nil)
	if err != nil {
		t.Fatal(err)
	}
	link, ok := result.Content[len(result.Content)-1].(*mcp.ResourceLink)
	if !ok {
		t.Fatalf("%+v", result.Content)
	}
	read, err := c.ReadResource(t.Context(), link.URI)
	if err != nil || read.Contents[0].Text != longText {
		t.Errorf("%s: %v", link.URI, err)
	}
}

// fullKV has no space for results.
type fullKV struct{ store.KV }

func (fullKV) Add(context.Context, string, string, store.AddOptions) error { return store.ErrFull }

// The beginning of a large result reaches the client if the rest cannot be stored.
func TestLargeResultsAreCutIfTheyCannotBeStored(t *testing.T) {
	config := httpConfig(t, "up", large())
	config.MaxResult = 200
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}, KV: fullKV{store.NewMemory(store.MemoryOptions{})}}, s)
	for _, r := range mcp.Revisions() {
		got, err := client.CallTool[string](t.Context(), mcptest.Dial(t, s, mcptest.WithRevision(r)), "up__text", nil)
		if err != nil || !strings.HasPrefix(got, "äöü ") || !strings.Contains(got, "The rest cannot be stored") {
			t.Errorf("%s: %q, %v", r, got, err)
		}
	}
}
