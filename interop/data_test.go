//go:build integration

package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// offerData adds resources, a template and a prompt, with completion.
func offerData(s *server.Server) {
	server.AddStatic(s, mcp.Resource{URI: "test://text", Name: "text", MimeType: "text/plain"}, "Grüße")
	server.AddStatic(s, mcp.Resource{URI: "test://blob", Name: "blob", MimeType: "application/octet-stream"},
		[]byte{0, 1, 254, 255})
	server.AddStatic(s, mcp.Resource{URI: "test://watched", Name: "watched", MimeType: "text/plain"}, "constant",
		server.Cached(server.CachePolicy{TTL: time.Minute, Public: true}))
	for n := range 4 { // for a second page
		name := fmt.Sprintf("other-%d", n)
		server.AddStatic(s, mcp.Resource{URI: "test://" + name, Name: name}, name)
	}
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "test://books/{isbn}", Name: "books",
		MimeType: "text/plain"},
		func(_ context.Context, in struct {
			ISBN string `json:"isbn"`
		}) (string, error) {
			return "book " + in.ISBN, nil
		},
		server.Complete("isbn", func(_ context.Context, value string, _ map[string]string) ([]string, error) {
			return startingWith(value, "9780131103627", "9780201633610", "9780262033848"), nil
		}))
	server.AddPrompt(s, mcp.Prompt{Name: "greet", Description: "Greet a person"},
		func(_ context.Context, in struct {
			Name string `json:"name"`
			Mood string `json:"mood"`
		}) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{
				{Role: mcp.RoleUser, Content: mcp.Text(fmt.Sprintf("Greet %s, %s.", in.Name, in.Mood))},
				{Role: mcp.RoleAssistant, Content: mcp.Image([]byte("\x89PNG"), "image/png")},
				{Role: mcp.RoleUser, Content: &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "test://text",
					MimeType: "text/plain", Text: "Grüße"}}},
			}, nil
		},
		server.Complete("mood", func(_ context.Context, value string, others map[string]string) ([]string, error) {
			moods := startingWith(value, "calm", "cheerful", "curious")
			if name := others["name"]; name != "" {
				for i := range moods {
					moods[i] += " " + name
				}
			}
			return moods, nil
		}))
}

func startingWith(prefix string, values ...string) []string {
	return slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, prefix) })
}

// useData reads the resources, gets the prompt and completes arguments.
func useData(t *testing.T, p *peer) {
	var uris []string
	for resource, err := range p.Resources(t.Context()) { // in two pages
		must.Do(t, err)
		uris = append(uris, resource.URI)
	}
	must.CheckThat(t, slices.Equal(uris, []string{"test://text", "test://blob", "test://watched"}),
		"resources: %v", uris)
	var templates []string
	for template, err := range p.ResourceTemplates(t.Context()) {
		must.Do(t, err)
		templates = append(templates, template.URITemplate)
	}
	must.CheckThat(t, slices.Equal(templates, []string{"test://books/{isbn}"}), "templates: %v", templates)
	for uri, want := range map[string]mcp.ResourceContents{
		"test://text":       {URI: "test://text", MimeType: "text/plain", Text: "Grüße"},
		"test://blob":       {URI: "test://blob", MimeType: "application/octet-stream", Blob: []byte{0, 1, 254, 255}},
		"test://books/9780": {URI: "test://books/9780", MimeType: "text/plain", Text: "book 9780"},
	} {
		read, err := p.ReadResource(t.Context(), uri)
		if err != nil || len(read.Contents) != 1 {
			t.Errorf("%s: %+v, %v", uri, read, err)
			continue
		}
		got := read.Contents[0]
		must.CheckThat(t, got.URI == want.URI && got.MimeType == want.MimeType && got.Text == want.Text &&
			bytes.Equal(got.Blob, want.Blob), "%s: %+v, want %+v", uri, got, want)
	}
	_, err := p.ReadResource(t.Context(), "test://missing")
	if p.Server().Info.Name == "interop-v1-server" {
		// This server answers -32602, but 2025-11-25, server/resources, Error Handling, requires -32002. The second
		// generation also answers -32602, with the URI in the data, by which the client recognizes the error.
		var reported *jsonrpc.Error
		must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams,
			"a missing resource: %v", err)
	} else if !errors.Is(err, call.ErrResourceNotFound) {
		t.Errorf("a missing resource: %v", err)
	}

	prompt, err := p.GetPrompt(t.Context(), "greet", map[string]string{"name": "Ada", "mood": "calm"})
	must.That(t, err == nil && len(prompt.Messages) == 3, "prompt: %+v, %v", prompt, err)
	if text, ok := prompt.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "Greet Ada, calm." {
		t.Errorf("prompt: %+v", prompt.Messages[0].Content)
	}
	if image, ok := prompt.Messages[1].Content.(*mcp.ImageContent); !ok || !bytes.Equal(image.Data, []byte("\x89PNG")) {
		t.Errorf("prompt: %+v", prompt.Messages[1].Content)
	}
	if embedded, ok := prompt.Messages[2].Content.(*mcp.EmbeddedResource); !ok || embedded.Resource.Text != "Grüße" {
		t.Errorf("prompt: %+v", prompt.Messages[2].Content)
	}
	if _, err := p.GetPrompt(t.Context(), "greet", nil); err == nil {
		t.Error("prompt without its argument: no error")
	}

	mood := mcp.CompleteReference{Type: mcp.RefPrompt, Name: "greet"}
	isbn := mcp.CompleteReference{Type: mcp.RefResource, URI: "test://books/{isbn}"}
	for _, tt := range []struct {
		params mcp.CompleteParams
		want   []string
	}{
		{mcp.CompleteParams{Ref: mood, Argument: mcp.CompleteArgument{Name: "mood", Value: "c"}},
			[]string{"calm", "cheerful", "curious"}},
		{mcp.CompleteParams{
			Ref: mood, Argument: mcp.CompleteArgument{Name: "mood", Value: "cu"},
			Context: &mcp.CompleteContext{Arguments: map[string]string{"name": "Ada"}},
		}, []string{"curious Ada"}},
		{mcp.CompleteParams{Ref: isbn, Argument: mcp.CompleteArgument{Name: "isbn", Value: "97802"}},
			[]string{"9780201633610", "9780262033848"}},
	} {
		if got, err := p.Complete(t.Context(), tt.params); err != nil || !slices.Equal(got.Values, tt.want) {
			t.Errorf("completions of %s: %+v, %v, want %v", tt.params.Argument.Value, got, err, tt.want)
		}
	}
}

// dataObservation is what a client peer reports about resources and prompts.
type dataObservation struct {
	Error     *observedError
	Pages     int
	Resources []struct{ URI, MimeType string }
	Templates []struct{ URITemplate string }
	Read      map[string]struct {
		Contents []struct{ URI, MimeType, Text, Blob string }
		Error    *observedError
	}
	Prompts []struct {
		Name      string
		Arguments []struct {
			Name     string
			Required bool
		}
	}
	Greet struct {
		Messages []struct {
			Role    string
			Content struct {
				Type, Text, Data, MimeType string
				Resource                   struct{ URI, Text string }
			}
		}
	}
	Incomplete  struct{ Error *observedError }
	Completions map[string]struct{ Completion struct{ Values []string } }
}

func (o dataObservation) check(t *testing.T, revision string) {
	t.Helper()
	must.That(t, o.Error == nil, "data: %+v", o.Error)
	must.CheckThat(t, len(o.Resources) >= 3 && o.Pages == 2,
		"%d pages with the resources %+v, want 2 pages", o.Pages, o.Resources)
	must.CheckThat(t, len(o.Templates) == 1 && o.Templates[0].URITemplate == "test://books/{isbn}",
		"templates: %+v", o.Templates)
	for name, want := range map[string][4]string{
		"text": {"test://text", "text/plain", "Grüße", ""},
		"blob": {"test://blob", "application/octet-stream", "", "AAH+/w=="},
		"book": {"test://books/9780", "text/plain", "book 9780", ""},
	} {
		got := o.Read[name]
		must.CheckThat(t, len(got.Contents) == 1 &&
			[4]string{got.Contents[0].URI, got.Contents[0].MimeType, got.Contents[0].Text,
				got.Contents[0].Blob} == want, "%s reads %+v, want %v", name, got, want)
	}
	must.CheckThat(t, o.Read["missing"].Error != nil, "a missing resource: %+v", o.Read["missing"])
	must.CheckThat(t, len(o.Prompts) == 1 && len(o.Prompts[0].Arguments) == 2 && o.Prompts[0].Arguments[0].Required,
		"prompts: %+v", o.Prompts)
	m := o.Greet.Messages
	must.CheckThat(t, len(m) == 3 && m[0].Content.Text == "Greet Ada, calm." && m[1].Content.Data == "iVBORw==" &&
		m[2].Content.Resource.Text == "Grüße", "prompt: %+v", m)
	must.CheckThat(t, o.Incomplete.Error != nil, "prompt without its arguments: no error")
	want := map[string][]string{
		"mood":      {"calm", "cheerful", "curious"},
		"moodOfAda": {"curious Ada"},
		"isbn":      {"9780201633610", "9780262033848"},
	}
	// earlier revisions have no completion context; the SDK sends it, and servers may use it
	if revision < "2025-06-18" {
		delete(want, "moodOfAda")
	}
	if revision < "2025-03-26" { // earlier servers do not declare completion, so the SDK does not use it
		return
	}
	for name, want := range want {
		got := o.Completions[name].Completion.Values
		must.CheckThat(t, slices.Equal(got, want), "completions of %s: %v, want %v", name, got, want)
	}
}

// offerTools adds tools, one with a mirrored parameter and one that fails.
func offerTools(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "echo", Description: "Return the text"},
		func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return in.Text, nil
		})
	type sum struct {
		Sum float64 `json:"sum"`
	}
	server.AddTool(s, mcp.Tool{Name: "add", Description: "Add two numbers"},
		func(_ context.Context, in struct {
			A float64 `json:"a"`
			B float64 `json:"b"`
		}) (sum, error) {
			return sum{in.A + in.B}, nil
		})
	server.AddTool(s, mcp.Tool{Name: "count", Description: "Count up, reporting each step"},
		func(ctx context.Context, in struct {
			To int `json:"to" minimum:"1" maximum:"1000"`
		}) (string, error) {
			for i := range in.To {
				if err := server.Progress(ctx, float64(i+1), float64(in.To),
					fmt.Sprintf("%d of %d", i+1, in.To)); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("counted to %d", in.To), nil
		})
	server.AddTool(s, mcp.Tool{Name: "fail", Description: "Fail"},
		func(context.Context, struct{}) (string, error) { return "", errors.New("failed on purpose") })
	// The server rejects a call whose header differs from the argument, so success proves that the header is right.
	server.AddTool(s, mcp.Tool{Name: "region", Description: "Return the region"},
		func(_ context.Context, in struct {
			Region string `json:"region" mcp-header:"Region"`
		}) (string, error) {
			return in.Region, nil
		})
}

// useTools lists and calls tools.
func useTools(t *testing.T, p *peer) {
	tools := map[string]bool{}
	for tool, err := range p.Tools(t.Context()) {
		must.Do(t, err)
		tools[tool.Name] = true
	}
	for _, name := range []string{"echo", "add", "count", "fail", "region"} {
		must.CheckThat(t, tools[name], "tool %q is not listed", name)
	}
	if text, err := client.CallTool[string](t.Context(), p.Client, "echo",
		map[string]any{"text": "héllo"}); err != nil || text != "héllo" {
		t.Errorf("echo: %q, %v", text, err)
	}
	added, err := client.CallTool[struct {
		Sum float64 `json:"sum"`
	}](t.Context(), p.Client, "add", map[string]any{"a": 2, "b": 40})
	must.CheckThat(t, err == nil && added.Sum == 42, "add: %v, %v", added, err)
	var steps []float64
	text, err := client.CallTool[string](t.Context(), p.Client, "count", map[string]any{"to": 5},
		client.WithProgress(func(done, _ float64, _ string) { steps = append(steps, done) }))
	must.CheckThat(t, err == nil && text == "counted to 5" && slices.Equal(steps, []float64{1, 2, 3, 4, 5}),
		"count: %q, %v, progress %v", text, err, steps)
	var failed *client.ToolError
	if _, err := client.CallTool[string](t.Context(), p.Client, "fail", nil); !errors.As(err, &failed) {
		t.Errorf("fail: %v", err)
	}
	if _, err := client.CallTool[string](t.Context(), p.Client, "no_such_tool", nil); err == nil {
		t.Error("call of an unknown tool: no error")
	}
	must.Check(t, p.Ping(t.Context()), "ping")
	region := "none"
	if p.Revision() >= mcp.V20260728 && p.transport == "http" {
		region = "eu-north" // 2026-07-28, basic/transports/streamable-http, Custom Headers from Tool Parameters
	}
	if text, err := client.CallTool[string](t.Context(), p.Client, "region",
		map[string]string{"region": "eu-north"}); err != nil || text != region {
		t.Errorf("region: %q, %v, want %q", text, err, region)
	}
}
