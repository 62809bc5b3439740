package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/skills"
)

// scenarios returns the functions that run the scenarios, by name.
func scenarios() map[string]func(context.Context, *client.Client) error {
	return map[string]func(context.Context, *client.Client) error{
		"initialize":                          list,
		"elicitation-sep1034-client-defaults": call("test_client_elicitation_defaults"),
		"sep-2322-client-request-state":       echoState,
		"tools_call":                          addNumbers,
		"request-metadata":                    list,
		"http-standard-headers":               callAll,
		"http-custom-headers":                 callFromContext,
		"http-invalid-tool-headers":           callAllInRegion,
		"json-schema-ref-no-deref":            list,
		"json-schema-2020-12-preservation":    echoSchema,
		"sse-retry":                           call("test_reconnection"),
		"auth/token-refresh-basic":            callAsTokensExpire,
		"auth/token-refresh-rotation":         callAsTokensExpire,
		"session-renegotiation-404":           listTwice,
		"tasks-client-create-handling":        callAllWithText,
		"tasks-client-lifecycle":              useTasks,
		"sep-2640-client-no-prefetch":         listSkills,
		"sep-2640-client-verify-digest":       loadSkills,
		"sep-2640-client-verify-size":         loadSkills,
		"sep-2640-client-verify-frontmatter":  loadSkills,
	}
}

// tools lists the tools of the server.
func tools(ctx context.Context, c *client.Client) ([]*mcp.Tool, error) {
	var all []*mcp.Tool
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, tool)
	}
	return all, nil
}

func list(ctx context.Context, c *client.Client) error {
	_, err := tools(ctx, c)
	return err
}

// listTwice uses the server again after it has ended the session.
func listTwice(ctx context.Context, c *client.Client) error {
	return errors.Join(list(ctx, c), list(ctx, c))
}

// must calls a tool and returns an error if it fails.
func must(ctx context.Context, c *client.Client, name string, arguments any) error {
	result, err := c.CallTool(ctx, name, arguments)
	if err != nil {
		return err
	}
	if result.IsError {
		return fmt.Errorf("tool %s failed", name)
	}
	return nil
}

func call(name string) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		if err := list(ctx, c); err != nil {
			return err
		}
		return must(ctx, c, name, struct{}{})
	}
}

func addNumbers(ctx context.Context, c *client.Client) error {
	if err := list(ctx, c); err != nil {
		return err
	}
	return must(ctx, c, "add_numbers", map[string]int{"a": 5, "b": 3})
}

func callAll(ctx context.Context, c *client.Client) error {
	all, err := tools(ctx, c)
	if err != nil {
		return err
	}
	for _, tool := range all {
		if err := must(ctx, c, tool.Name, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

func callAllWithText(ctx context.Context, c *client.Client) error {
	all, err := tools(ctx, c)
	if err != nil {
		return err
	}
	for _, tool := range all {
		if err := must(ctx, c, tool.Name, map[string]string{"text": "hello"}); err != nil {
			return err
		}
	}
	return nil
}

// useTasks waits for a task, calls a tool that is none, sees a task fail, and cancels one. The server responds to the
// ping with a task, which is invalid.
func useTasks(ctx context.Context, c *client.Client) error {
	for _, name := range []string{"quick_task", "sync_echo"} {
		if err := must(ctx, c, name, map[string]string{"text": "hello"}); err != nil {
			return err
		}
	}
	if err := must(ctx, c, "failing_task", struct{}{}); err == nil {
		return errors.New("the failed task has a result")
	}
	task, err := c.StartTool(ctx, "cancel_task", struct{}{})
	if err != nil {
		return err
	}
	if err := task.Cancel(ctx); err != nil {
		return err
	}
	if _, err := task.Wait(ctx); !errors.Is(err, client.ErrTaskCancelled) {
		return fmt.Errorf("the cancelled task ended with: %w", err)
	}
	if err := c.Ping(ctx); err == nil {
		return errors.New("a task was accepted as the response to a ping")
	}
	return nil
}

// callAllInRegion calls every tool. The client drops the tools with invalid header annotations.
func callAllInRegion(ctx context.Context, c *client.Client) error {
	all, err := tools(ctx, c)
	if err != nil {
		return err
	}
	for _, tool := range all {
		if err := must(ctx, c, tool.Name, map[string]string{"region": "us-west1"}); err != nil {
			return err
		}
	}
	return nil
}

// callFromContext makes the calls in the context of the scenario.
func callFromContext(ctx context.Context, c *client.Client) error {
	var scenario struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &scenario); err != nil {
		return fmt.Errorf("cannot decode MCP_CONFORMANCE_CONTEXT: %w", err)
	}
	if err := list(ctx, c); err != nil {
		return err
	}
	for _, call := range scenario.ToolCalls {
		if err := must(ctx, c, call.Name, call.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends the schema of a tool back, byte for byte.
func echoSchema(ctx context.Context, c *client.Client) error {
	all, err := tools(ctx, c)
	if err != nil {
		return err
	}
	for _, tool := range all {
		if tool.Name == "json_schema_2020_12_tool" {
			return must(ctx, c, "json_schema_echo", map[string]json.RawMessage{"schema": tool.InputSchema})
		}
	}
	return errors.New("tool json_schema_2020_12_tool is missing")
}

// listSkills lists the skills of the server and loads none.
func listSkills(ctx context.Context, c *client.Client) error {
	for _, err := range skills.List(ctx, c) {
		if err != nil {
			return err
		}
	}
	return nil
}

// loadSkills reads all files of the skills of the server. A skill that cannot be verified is not read further.
func loadSkills(ctx context.Context, c *client.Client) error {
	for s, err := range skills.List(ctx, c) {
		if err != nil {
			return err
		}
		for _, f := range s.Files { // SKILL.md first
			_, err := skills.Read(ctx, c, s, f.URI)
			var unverified *skills.VerificationError
			if errors.As(err, &unverified) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
