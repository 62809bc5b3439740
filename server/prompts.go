package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

var getPromptMembers = []string{"name", "arguments", "_meta", "inputResponses", "requestState"}

// resolvePrompt returns the *promptEntry that a call of prompts/get names.
func (s *Server) resolvePrompt(ctx context.Context, c *rpc.Call) (any, []string, error) {
	if err := checkNames(c.Params(), getPromptMembers...); err != nil {
		return nil, nil, err
	}
	name, err := textParam(c, "name", "name of a prompt")
	if err != nil {
		return nil, nil, err
	}
	entry, _, ok, err := findFor(ctx, s, &promptKind, name, c.Principal())
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, unknownPrompt(name)
	}
	return entry, entry.scopes, nil
}

// getPrompt serves prompts/get.
func (s *Server) getPrompt(ctx context.Context, c *rpc.Call) (any, error) {
	entry := c.Target.Entry.(*promptEntry)
	given, _ := c.Params().Get("arguments")
	arguments, err := textsOf("params.arguments", given)
	if err != nil {
		return nil, err
	}
	for _, argument := range entry.prompt.Arguments {
		if _, given := arguments[argument.Name]; argument.Required && !given {
			return nil, wrongArgument(argument.Name, entry.argument(argument.Name).kind, "nothing; it is required")
		}
	}
	result, err := entry.handle(ctx, arguments)
	if err == nil && result == nil {
		err = errors.New("the handler returned no prompt")
	}
	if err == nil {
		err = s.checkMeta(result.Meta)
	}
	if err != nil {
		return nil, fmt.Errorf("prompt %q: %w", entry.prompt.Name, err)
	}
	if result.Description == "" && entry.prompt.Description != "" {
		described := *result
		described.Description = entry.prompt.Description
		result = &described
	}
	return result, nil
}

func unknownPrompt(name string) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown prompt: %.128q", name)
}
