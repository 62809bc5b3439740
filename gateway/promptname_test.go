package gateway_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// The protocol has a grammar for the names of tools and none for those of prompts. In 2026-07-28 the name is in a
// header, too.
func TestPromptsKeepTheirNames(t *testing.T) {
	names := []string{"say hello", "say/hello", "größe", strings.Repeat("long", 60)}
	up := &server.Server{Name: "up"}
	for _, name := range names {
		err := up.RegisterPrompt(mcp.Prompt{Name: name, Arguments: []mcp.PromptArgument{{Name: "to"}}}, func(context.Context, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: name}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		server.CompletePrompt(up, name, "to", server.CompleteFrom(name))
	}
	endpoint := httptest.NewServer(gatewayTo(t, inMemory(t, "up", up)))
	t.Cleanup(endpoint.Close)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			d := client.Dialer{Revision: r, Logger: quiet}
			c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var listed []string
			for p, err := range c.Prompts(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				listed = append(listed, p.Name)
			}
			var want []string
			for _, name := range names {
				merged := "up__" + name
				want = append(want, merged)
				if result, err := c.GetPrompt(t.Context(), merged, nil); err != nil || result.Description != name {
					t.Errorf("prompt %q: %+v, %v", merged, result, err)
				}
				completion, err := c.Complete(t.Context(), mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: merged}, Argument: mcp.CompleteArgument{Name: "to"}})
				if err != nil || !slices.Equal(completion.Values, []string{name}) {
					t.Errorf("completion for prompt %q: %+v, %v", merged, completion, err)
				}
			}
			slices.Sort(listed)
			slices.Sort(want)
			if !slices.Equal(listed, want) {
				t.Errorf("the gateway lists %q, want %q", listed, want)
			}
		})
	}
}

func TestArgumentsWithoutANameOfTheirOwnAreLeftOut(t *testing.T) {
	up := upstream{
		mcp.MethodListPrompts: `{"prompts":[{"name":"p","arguments":[{"name":"a","x":1},{"name":""},{"name":"a","required":true}]}]}`,
		mcp.MethodGetPrompt:   `{"messages":[{"role":"user","content":"good"}]}`,
	}
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")))
	for p, err := range c.Prompts(t.Context()) {
		if err != nil || p.Name != "up__p" || len(p.Arguments) != 1 || p.Arguments[0].Required {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if result, err := c.GetPrompt(t.Context(), "up__p", map[string]string{"a": "1"}); err != nil || len(result.Messages) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}
