package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestInvalidPromptsAreRejected(t *testing.T) {
	type topic struct {
		Topic string `json:"topic"`
	}
	add := func(p mcp.Prompt) string {
		return panicOf(func() {
			s := quiet()
			server.AddPrompt(s, mcp.Prompt{Name: "taken"},
				func(context.Context, topic) (string, error) { return "", nil })
			server.AddPrompt(s, p, func(context.Context, topic) (string, error) { return "", nil })
		})
	}
	for _, tc := range []struct {
		prompt mcp.Prompt
		want   string
	}{
		{mcp.Prompt{Name: "a"}, "nil"},
		{mcp.Prompt{}, "1 to 256 bytes"},
		{mcp.Prompt{Name: strings.Repeat("a", 257)}, "1 to 256 bytes"},
		{mcp.Prompt{Name: "\xff"}, "of UTF-8"},
		{mcp.Prompt{Name: "taken"}, "in use"},
		{mcp.Prompt{Name: "a", Arguments: []mcp.PromptArgument{}}, `requires the argument "topic"`},
		{mcp.Prompt{Name: "a", Arguments: []mcp.PromptArgument{{Name: "topic"}, {Name: "other"}}},
			`has no argument "other"`},
		{mcp.Prompt{Name: "a", Arguments: []mcp.PromptArgument{{Name: "topic"}, {Name: "topic"}}}, "duplicate"},
		{mcp.Prompt{Name: "a", Meta: mcp.Meta{"a": json.RawMessage(`{`)}}, "must be JSON"},
	} {
		must.CheckContains(t, add(tc.prompt), tc.want, tc.prompt)
	}
	for want, add := range map[string]func(s *server.Server){
		"must be a string, a number or a boolean": func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, struct{ List []string }) (string, error) {
				return "", nil
			})
		},
		`use doc:"the city"`: func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, struct {
				City string `description:"the city"`
			}) (string, error) {
				return "", nil
			})
		},
		"must be a struct or a map with string keys, not string": func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, string) (string, error) { return "", nil })
		},
		"must return a string": func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, topic) (int, error) { return 0, nil })
		},
		"handler must not be nil": func(s *server.Server) {
			server.AddPrompt[topic, string](s, mcp.Prompt{Name: "a"}, nil)
		},
	} {
		must.CheckContains(t, panicOf(func() { add(quiet()) }), want)
	}
	raw := func(context.Context, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }
	for want, err := range map[string]error{
		"1 to 256 bytes":          quiet().RegisterPrompt(mcp.Prompt{}, raw),
		"handler must not be nil": quiet().RegisterPrompt(mcp.Prompt{Name: "a"}, nil),
		"must have a name": quiet().RegisterPrompt(mcp.Prompt{Name: "a", Arguments: []mcp.PromptArgument{{}}},
			raw),
	} {
		must.CheckFails(t, err, want)
	}
}

func TestAnUntypedPromptGetsItsArguments(t *testing.T) {
	s := quiet()
	s.Declare(mcp.MethodGetPrompt)
	c := mcptest.Dial(t, s)
	must.CheckThat(t, c.Server().Capabilities.Prompts != nil, "prompts are offered and not declared")
	shared := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleAssistant,
		Content: mcp.Text("shared")}}}
	err := s.RegisterPrompt(mcp.Prompt{Name: "raw", Description: "Raw.",
		Arguments: []mcp.PromptArgument{{Name: "a", Required: true}}},
		func(_ context.Context, arguments map[string]string) (*mcp.GetPromptResult, error) {
			if arguments["a"] != "1" || arguments["unlisted"] != "x" {
				return nil, fmt.Errorf("%v", arguments)
			}
			return shared, nil
		})
	must.Do(t, err)
	result, err := c.GetPrompt(t.Context(), "raw", map[string]string{"a": "1", "unlisted": "x"})
	must.CheckThat(t, err == nil && result.Description == "Raw." && result.Messages[0].Role == mcp.RoleAssistant,
		"%+v, %v", result, err)
	must.CheckEqual(t, shared.Description, "")
	must.CheckThat(t, s.RemovePrompt("raw") && !s.RemovePrompt("raw"), "one prompt was there to be removed")
	must.CheckIs(t, must.Err(c.GetPrompt(t.Context(), "raw", nil)), &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams})
}

func TestACompleterWithoutAnArgumentIsRejected(t *testing.T) {
	complete := func(context.Context, string, map[string]string) ([]string, error) { return nil, nil }
	for want, f := range map[string]func(*server.Server){
		`Complete: no argument "nothing"`: func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "greet"}, func(context.Context, map[string]string) (string, error) {
				return "", nil
			}, server.Complete("nothing", complete))
		},
		`Complete: no argument "page"`: func(s *server.Server) {
			server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "x://{id}", Name: "x"},
				func(context.Context, map[string]string) (string, error) { return "", nil },
				server.Complete("page", complete))
		},
		"must not be empty": func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "greet"}, func(context.Context, map[string]string) (string, error) {
				return "", nil
			}, server.Complete("", complete))
		},
		"the function must not be nil": func(*server.Server) { server.Complete[[]string]("name", nil) },
	} {
		must.CheckContains(t, panicOf(func() { f(quiet()) }), want)
	}
}

// An option of another kind of entry is an error, and the entry is not added.
func TestAnOptionOfAnotherKindIsAnError(t *testing.T) {
	ofTools := []server.Option{server.AsTask(server.TaskOptions{}), server.Parked(), server.NotSecret("x")}
	ofArguments := []server.Option{server.CompleteFrom("a", "b")}
	ofResources := []server.Option{server.Cached(server.CachePolicy{}),
		server.WhileSubscribed(func(context.Context, string) {}),
		server.BeforeSubscribe(func(context.Context, string) error { return nil })}
	s := quiet()
	for kind, tc := range map[string]struct {
		register func(server.Option) error
		wrong    [][]server.Option
	}{
		"tool": {func(o server.Option) error { return s.RegisterTool(mcp.Tool{Name: "a"}, raw, o) },
			[][]server.Option{ofArguments, ofResources}},
		"prompt": {func(o server.Option) error {
			return s.RegisterPrompt(mcp.Prompt{Name: "a"}, func(context.Context,
				map[string]string) (*mcp.GetPromptResult, error) {
				return nil, nil
			}, o)
		}, [][]server.Option{ofTools, ofResources}},
		"resource": {func(o server.Option) error {
			return s.RegisterResource(mcp.Resource{URI: "x:a", Name: "a"}, func(context.Context,
				string) (*mcp.ReadResourceResult, error) {
				return nil, nil
			}, o)
		}, [][]server.Option{ofTools, ofArguments}},
		"template": {func(o server.Option) error {
			return s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: "x:{a}", Name: "a"}, func(context.Context,
				string) (*mcp.ReadResourceResult, error) {
				return nil, nil
			}, o)
		}, [][]server.Option{ofTools}},
	} {
		for _, o := range slices.Concat(tc.wrong...) {
			err := tc.register(o)
			must.CheckThat(t, err != nil && strings.HasPrefix(err.Error(), kind+" \"") &&
				strings.Contains(err.Error(), " must be an option of a "), "%s: %v", kind, err)
		}
		must.Check(t, tc.register(server.RequireScopes("a")), kind)
	}
	got := panicOf(func() {
		server.AddPrompt(s, mcp.Prompt{Name: "b"}, func(context.Context, struct{}) (string, error) { return "", nil },
			server.Parked())
	})
	must.CheckEqual(t, got, `server: prompt "b": Parked must be an option of a tool`, "AddPrompt panics")
}

// The completions capability is declared while there is a completer.
func TestCompletionIsDeclaredWhenThereIsACompleter(t *testing.T) {
	type named struct {
		Name string `json:"name"`
	}
	type chosen struct {
		Size string `json:"size" enum:"S,M,L"`
	}
	none := func(context.Context, named) (string, error) { return "", nil }
	for name, tc := range map[string]struct {
		add  func(s *server.Server)
		want bool
	}{
		"nothing":  {func(*server.Server) {}, false},
		"a prompt": {func(s *server.Server) { server.AddPrompt(s, mcp.Prompt{Name: "a"}, none) }, false},
		"an enumeration": {func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "a"}, func(context.Context, chosen) (string, error) { return "", nil })
		}, true},
		"an enumeration in a template": {func(s *server.Server) {
			server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "x://{size}", Name: "a"},
				func(context.Context, chosen) (string, error) { return "", nil })
		}, true},
		"a completer": {func(s *server.Server) {
			server.AddPrompt(s, mcp.Prompt{Name: "a"}, none, server.CompleteFrom("name"))
		}, true},
	} {
		s := quiet()
		tc.add(s)
		must.CheckEqual(t, mcptest.Dial(t, s).Server().Capabilities.Completions != nil, tc.want, name)
	}
}
