package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type review struct {
	Language string `json:"language" title:"Language" doc:"of the code" enum:"go,python,Pascal,typescript"`
	Lines    int    `json:"lines,omitzero" doc:"how many" minimum:"1"`
	Strict   bool   `json:"strict" default:"true"`
	Author   string `json:"author,omitempty"`
}

// newPrompter returns a server with one prompt for each kind of behaviour.
func newPrompter() *server.Server {
	s := &server.Server{Name: "prompter", Version: "1.0.0", Logger: slog.New(slog.DiscardHandler)}
	server.AddPrompt(s, mcp.Prompt{
		Name: "review", Title: "Review", Description: "Reviews code.", Icons: icons,
		Meta: mcp.Meta{"com.example/a": json.RawMessage(`1`)},
	}, func(_ context.Context, in review) (string, error) {
		return fmt.Sprintf("%s %d %v %s", in.Language, in.Lines, in.Strict, in.Author), nil
	}, server.Complete("author", func(_ context.Context, value string, others map[string]string) ([]string, error) {
		if value == "fail" {
			return nil, errors.New("secret")
		}
		var names []string
		for i := range 250 {
			names = append(names, fmt.Sprintf("%s%s%d", value, others["language"], i))
		}
		return names, nil
	}))
	server.AddPrompt(s, mcp.Prompt{Name: "whole", Arguments: []mcp.PromptArgument{{Name: "a", Required: true}}},
		func(_ context.Context, in map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "of " + in["a"], Messages: []mcp.PromptMessage{}}, nil
		})
	server.AddPrompt(s, mcp.Prompt{Name: "none"}, func(context.Context, struct{}) (*mcp.GetPromptResult, error) {
		return nil, nil
	})
	server.AddPrompt(s, mcp.Prompt{Name: "broken"}, func(context.Context, struct{}) (string, error) {
		return "", errors.New("secret")
	})
	server.AddPrompt(s, mcp.Prompt{Name: "panic"}, func(context.Context, struct{}) (string, error) { panic("secret") })
	server.AddPrompt(s, mcp.Prompt{Name: "reject"}, func(context.Context, struct{}) (string, error) {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "not now")
	})
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "issue://{repo}/{number}{?open,labels*}", Name: "issue"},
		func(context.Context, issue) (string, error) { return "", nil },
		server.Complete("number", func(_ context.Context, value string, others map[string]string) ([]string, error) {
			return []string{value + "1", others["repo"]}, nil
		}))
	return s
}

func TestListPrompts(t *testing.T) {
	paged := func() *server.Server {
		s := newPrompter()
		s.Limits.PageSize = 2
		return s
	}
	everywhere(t, paged, func(t *testing.T, c *client.Client) {
		must.CheckThat(t, c.Server().Capabilities.Prompts != nil, "the prompts capability is not declared")
		listed := all(t, c.Prompts(t.Context()))
		var names []string
		for _, p := range listed {
			names = append(names, p.Name)
		}
		if got, want := strings.Join(names, " "), "broken none panic reject review whole"; got != want {
			t.Fatalf("prompts: %s, want %s", got, want)
		}
		want := []mcp.PromptArgument{
			{Name: "language", Title: "Language", Description: "of the code", Required: true},
			{Name: "lines", Description: "how many"}, {Name: "strict"}, {Name: "author"},
		}
		r := c.Revision()
		if r < mcp.V20250618 {
			want[0].Title = ""
		}
		p := listed[4]
		must.CheckEqual(t, cmp.Diff(want, p.Arguments), "", "arguments (-want +got")
		must.CheckThat(t, (p.Title != "") == (r >= mcp.V20250618) && (p.Meta != nil) == (r >= mcp.V20250618) &&
			(p.Icons != nil) == (r >= mcp.V20251125), "%s: %+v", r, p)
	})
}

func TestGetPrompt(t *testing.T) {
	everywhere(t, newPrompter, func(t *testing.T, c *client.Client) {
		for _, tc := range []struct {
			arguments any
			want      string
		}{
			{map[string]string{"language": "go"}, "go 0 true "},
			{map[string]any{"language": "go", "lines": 3, "strict": false, "author": "Ada", "none": nil},
				"go 3 false Ada"},
			{review{Language: "Pascal", Lines: 1, Author: "N. W."}, "Pascal 1 false N. W."},
		} {
			result, err := c.GetPrompt(t.Context(), "review", tc.arguments)
			if err != nil || len(result.Messages) != 1 || result.Description != "Reviews code." {
				t.Errorf("%v: %+v, %v", tc.arguments, result, err)
				continue
			}
			if m := result.Messages[0]; m.Role != mcp.RoleUser || m.Content.(*mcp.TextContent).Text != tc.want {
				t.Errorf("%v: %s %+v", tc.arguments, m.Role, m.Content)
			}
		}
		result, err := c.GetPrompt(t.Context(), "whole", map[string]string{"a": "x"})
		must.CheckThat(t, err == nil && len(result.Messages) == 0 && result.Description == "of x",
			"%+v, %v", result, err)
	})
}

// Rule Y3: invalid requests are rejected. The texts of internal errors are not sent.
func TestInvalidPromptRequestsAreRejected(t *testing.T) {
	everywhere(t, newPrompter, func(t *testing.T, c *client.Client) {
		invalid, internal := jsonrpc.CodeInvalidParams, jsonrpc.CodeInternalError
		for _, tc := range []struct {
			name      string
			arguments map[string]string
			code      int64
			message   string
		}{
			{"missing", nil, invalid, "unknown prompt"},
			{"review", nil, invalid,
				"invalid arguments: arguments/language: expected string, got nothing; it is required"},
			{"review", map[string]string{"language": "cobol"}, invalid,
				"invalid arguments: arguments/language: expected one of"},
			{"review", map[string]string{"language": "go", "lines": "many"}, invalid, "expected integer"},
			{"review", map[string]string{"language": "go", "lines": "0"}, invalid, "invalid arguments"},
			{"review", map[string]string{"language": "go", "strict": "yes"}, invalid, "expected boolean"},
			{"review", map[string]string{"language": "go", "other": "x"}, invalid, "other"},
			{"whole", nil, invalid, "arguments/a: expected string, got nothing"},
			{"none", nil, internal, "internal error"},
			{"broken", nil, internal, "internal error"},
			{"panic", nil, internal, "internal error"},
			{"reject", nil, jsonrpc.CodeInvalidRequest, "not now"},
		} {
			_, err := c.GetPrompt(t.Context(), tc.name, tc.arguments)
			var reported *jsonrpc.Error
			must.CheckThat(t, errors.As(err, &reported) && reported.Code == tc.code &&
				strings.Contains(reported.Message, tc.message) && !strings.Contains(reported.Message, "secret"),
				"%s %v: %v", tc.name, tc.arguments, err)
		}
	})
}

func TestComplete(t *testing.T) {
	prompt := func(name string) mcp.CompleteReference {
		return mcp.CompleteReference{Type: mcp.RefPrompt, Name: name, Title: "T"}
	}
	template := func(uri string) mcp.CompleteReference { return mcp.CompleteReference{Type: mcp.RefResource, URI: uri} }
	everywhere(t, newPrompter, func(t *testing.T, c *client.Client) {
		complete := func(ref mcp.CompleteReference, name, value string) (*mcp.Completion, error) {
			return c.Complete(t.Context(), mcp.CompleteParams{
				Ref: ref, Argument: mcp.CompleteArgument{Name: name, Value: value},
				Context: &mcp.CompleteContext{Arguments: map[string]string{"language": "go", "repo": "parley"}},
			})
		}
		language, repo := "go", "parley"
		if c.Revision() < mcp.V20250618 { // the context is not sent
			language, repo = "", ""
		}
		for _, tc := range []struct {
			ref         mcp.CompleteReference
			name, value string
			want        []string
		}{
			{prompt("review"), "language", "p", []string{"python", "Pascal", "typescript"}},
			{prompt("review"), "language", "PY", []string{"python"}},
			{prompt("review"), "language", "", []string{"go", "python", "Pascal", "typescript"}},
			{prompt("review"), "language", "cobol", []string{}},
			{prompt("review"), "strict", "t", []string{"true"}},
			{prompt("review"), "lines", "1", []string{}},
			{prompt("whole"), "a", "x", []string{}},
			{template("issue://{repo}/{number}{?open,labels*}"), "repo", "p", []string{"parley"}},
			{template("issue://{repo}/{number}{?open,labels*}"), "open", "", []string{"true", "false"}},
			{template("issue://{repo}/{number}{?open,labels*}"), "number", "2", []string{"21", repo}},
			{template("issue://parley/7"), "number", "2", []string{"21", repo}},
		} {
			got, err := complete(tc.ref, tc.name, tc.value)
			must.CheckThat(t, err == nil && cmp.Equal(tc.want, got.Values) && *got.Total == int64(len(tc.want)) &&
				!got.HasMore, "%s of %+v, %q: %+v, %v", tc.name, tc.ref, tc.value, got, err)
		}
		got, err := complete(prompt("review"), "author", "x")
		must.CheckThat(t, err == nil && len(got.Values) == mcp.MaxCompletionValues &&
			got.Values[99] == "x"+language+"99" && *got.Total == 250 && got.HasMore,
			"more values than the limit: %+v, %v", got, err)

		for _, tc := range []struct {
			ref         mcp.CompleteReference
			name, value string
			want        jsonrpc.Error
		}{
			{prompt("missing"), "a", "", jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
				Message: `unknown prompt: "missing"`}},
			{template("missing://{x}"), "x", "", jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
				Message: `unknown resource template: "missing://{x}"`}},
			{prompt("review"), "other", "", jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
				Message: `the prompt "review" has no argument "other"`}},
			{prompt("review"), "author", "fail", jsonrpc.Error{Code: jsonrpc.CodeInternalError,
				Message: "internal error"}},
			{prompt("review"), "author", strings.Repeat("x", 8<<10), jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}},
		} {
			must.CheckIs(t, must.Err(complete(tc.ref, tc.name, tc.value)), &tc.want, tc.name, tc.ref, tc.value)
		}
	})
}

// The methods of an undeclared capability are not found.
func TestUndeclaredMethodsAreNotFound(t *testing.T) {
	bare := func() *server.Server { return &server.Server{} }
	everywhere(t, bare, func(t *testing.T, c *client.Client) {
		ctx := t.Context()
		_, read := c.ReadResource(ctx, "note://a")
		_, prompt := c.GetPrompt(ctx, "a", nil)
		_, complete := c.Complete(ctx, mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: "a"}})
		for name, err := range map[string]error{
			"resources/read": read, "prompts/get": prompt, "completion/complete": complete,
			"resources/list":           firstError(c.Resources(ctx)),
			"resources/templates/list": firstError(c.ResourceTemplates(ctx)),
			"prompts/list":             firstError(c.Prompts(ctx)),
		} {
			must.CheckIs(t, err, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}, name)
		}
	})
}

func firstError[E any](seq iter.Seq2[E, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}

func TestPromptsAndResourcesCanRequestInput(t *testing.T) {
	asking := func() *server.Server {
		s := &server.Server{}
		server.AddPrompt(s, mcp.Prompt{Name: "ask"}, func(ctx context.Context, in map[string]string) (string, error) {
			return question(ctx, "whom?")
		})
		server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "ask://{what}", Name: "ask"},
			func(ctx context.Context, in map[string]string) (string, error) {
				first, err := question(ctx, in["what"])
				if err != nil {
					return "", err
				}
				second, err := question(ctx, "really?")
				return first + " " + second, err
			})
		return s
	}
	everywhere(t, asking, func(t *testing.T, c *client.Client) {
		prompt := must.Get(c.GetPrompt(t.Context(), "ask", nil))(t)
		must.CheckEqual(t, prompt.Messages[0].Content.(*mcp.TextContent).Text, "whom?!", prompt)
		result := must.Get(c.ReadResource(t.Context(), "ask://why"))(t)
		must.CheckEqual(t, result.Contents[0].Text, "why! really?!", result)
	}, answering)
}
