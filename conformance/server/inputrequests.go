package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type user struct {
	Username string `json:"username" doc:"the user's name"`
	Email    string `json:"email" doc:"the user's mail address"`
}

type name struct {
	Name string `json:"name" doc:"the user's name"`
}

type color struct {
	Color string `json:"color" doc:"a color"`
}

type confirmation struct {
	OK bool `json:"ok" doc:"continue?"`
}

// addInputRequests adds the tools with one input request, for both eras.
func addInputRequests(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "test_sampling", Description: "Asks the model of the client."},
		func(ctx context.Context, in struct {
			Prompt string `json:"prompt"`
		}) (string, error) {
			answer, err := server.Sample(ctx, sampling(in.Prompt))
			if err != nil {
				return "", err
			}
			return "LLM response: " + textOf(answer.Content), nil
		})
	server.AddTool(s, mcp.Tool{Name: "test_elicitation", Description: "Asks the user for a name and an address."},
		func(ctx context.Context, in struct {
			Message string `json:"message"`
		}) (string, error) {
			u, err := server.Elicit[user](ctx, in.Message)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("User response: %s, %s", u.Username, u.Email), nil
		})
	server.AddTool(s, mcp.Tool{Name: "test_elicitation_sep1034_defaults",
		Description: "Asks with a form that has defaults."}, formTool(defaultsForm))
	server.AddTool(s, mcp.Tool{Name: "test_elicitation_sep1330_enums",
		Description: "Asks with a form that has all kinds of choices."}, formTool(enumsForm))
	server.AddTool(s, mcp.Tool{Name: "test_missing_capability", Description: "Requires the sampling capability."},
		func(ctx context.Context, _ struct{}) (string, error) {
			answer, err := server.Sample(ctx, sampling("Say something."))
			if err != nil {
				return "", err
			}
			return textOf(answer.Content), nil
		})
	server.AddTool(s, mcp.Tool{Name: "test_streaming_elicitation", Description: "Asks the user for a name."}, askName)
	addInputRequired(s)
}

// addInputRequired adds the tools for input_required results.
func addInputRequired(s *server.Server) {
	tool := func(suffix, description string) mcp.Tool {
		return mcp.Tool{Name: "test_input_required_result_" + suffix, Description: description}
	}
	server.AddTool(s, tool("elicitation", "Asks for a name."), askName)
	server.AddTool(s, tool("sampling", "Asks the model of the client."),
		func(ctx context.Context, _ struct{}) (string, error) {
			answer, err := server.Sample(ctx, sampling("What is the capital of France?"),
				server.Keyed("capital_question"))
			if err != nil {
				return "", err
			}
			return textOf(answer.Content), nil
		})
	server.AddTool(s, tool("list_roots", "Asks for the roots of the client."),
		func(ctx context.Context, _ struct{}) (string, error) {
			roots, err := server.Roots(ctx, server.Keyed("client_roots"))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d roots", len(roots)), nil
		})
	server.AddTool(s, tool("request_state", "Asks for a confirmation."),
		func(ctx context.Context, _ struct{}) (string, error) {
			if _, err := server.Elicit[confirmation](ctx, "Continue?", server.Keyed("confirm")); err != nil {
				return "", err
			}
			return "state-ok", nil
		})
	server.AddTool(s, tool("multiple_inputs", "Makes three input requests at once."),
		func(ctx context.Context, _ struct{}) (string, error) {
			var who name
			var answer mcp.CreateMessageResult
			var roots []mcp.Root
			err := server.Ask(ctx,
				server.ElicitInto(&who, "What is your name?", server.Keyed("user_name")),
				server.SampleInto(&answer, sampling("Write a greeting."), server.Keyed("greeting")),
				server.RootsInto(&roots, server.Keyed("client_roots")))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s, %s, %d roots", textOf(answer.Content), who.Name, len(roots)), nil
		})
	server.AddTool(s, tool("multi_round", "Makes two input requests, one after the other."),
		func(ctx context.Context, _ struct{}) (string, error) {
			first, err := server.Elicit[name](ctx, "First?", server.Keyed("step1"))
			if err != nil {
				return "", err
			}
			second, err := server.Elicit[color](ctx, "What is your favorite color?", server.Keyed("step2"))
			if err != nil {
				return "", err
			}
			return first.Name + " likes " + second.Color, nil
		})
	server.AddTool(s, tool("tampered_state", "Asks for a confirmation."),
		func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Elicit[confirmation](ctx, "Continue?", server.Keyed("confirm"))
			return "confirmed", err
		})
	server.AddTool(s, tool("capabilities", "Asks for input that the client supports."),
		func(ctx context.Context, _ struct{}) (string, error) {
			if call.From(ctx).Peer().Capabilities.Elicitation.SupportsForm() {
				who, err := server.Elicit[name](ctx, "What is your name?")
				return who.Name, err
			}
			answer, err := server.Sample(ctx, sampling("Say a name."))
			if err != nil {
				return "", err
			}
			return textOf(answer.Content), nil
		})
}

func askName(ctx context.Context, _ struct{}) (string, error) {
	who, err := server.Elicit[name](ctx, "What is your name?", server.Keyed("user_name"))
	if err != nil {
		return "", err
	}
	return "Hello, " + who.Name + "!", nil
}

func sampling(prompt string) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(prompt)}}},
	}
}

func textOf(content []mcp.Content) string {
	var texts []string
	for _, c := range content {
		if t, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, " ")
}

// formTool returns the handler of a tool that asks with a form and returns the content.
func formTool(form string) func(context.Context, struct{}) (string, error) {
	return func(ctx context.Context, _ struct{}) (string, error) {
		content, err := server.ElicitForm(ctx, "Please fill in the form.", json.RawMessage(form))
		if err != nil {
			return "", err
		}
		return "Elicitation completed: " + string(content), nil
	}
}

const defaultsForm = `{"type":"object","properties":{
	"name":{"type":"string","default":"John Doe"},
	"age":{"type":"integer","default":30},
	"score":{"type":"number","default":95.5},
	"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
	"verified":{"type":"boolean","default":true}}}`

const enumsForm = `{"type":"object","properties":{
	"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
	"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First"},{"const":"value2","title":"Second"},{"const":"value3","title":"Third"}]},
	"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["One","Two","Three"]},
	"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
	"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First"},{"const":"value2","title":"Second"},{"const":"value3","title":"Third"}]}}}}`
