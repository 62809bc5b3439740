package gateway

import (
	"context"

	"github.com/parley-mcp/parley/mcp"
)

// offerPrompt registers a prompt and returns its name here, or "" if it cannot be
// offered.
func (g *Gateway) offerPrompt(serverName string, prompt *mcp.Prompt) string {
	logger := g.logger().With("server", serverName, "prompt", prompt.Name)
	name, plain := g.promptNames.take(serverName, prompt.Name)
	if !plain {
		logger.Warn("prompt renamed", "name", name)
	}
	own := prompt.Name
	shown := *prompt
	shown.Name = name
	shown.Meta = passable(prompt.Meta)
	err := g.server.RegisterPrompt(shown, func(ctx context.Context, arguments map[string]string) (*mcp.GetPromptResult, error) {
		result, err := g.host.GetPrompt(ctx, serverName, own, arguments, g.options(ctx)...)
		if err != nil {
			return nil, report(ctx, serverName, err)
		}
		strip(&result.ResultBase)
		return result, nil
	})
	if err != nil {
		logger.Warn("prompt left out", "error", err)
		g.promptNames.free(name)
		return ""
	}
	for _, a := range prompt.Arguments {
		g.complete(serverName, mcp.CompleteReference{Type: mcp.RefPrompt, Name: name}, mcp.CompleteReference{Type: mcp.RefPrompt, Name: own}, a.Name)
	}
	return name
}

// complete has an argument of what is here be completed by the server that has it.
func (g *Gateway) complete(serverName string, here, there mcp.CompleteReference, argument string) {
	// What cannot be completed here is not: the rest of it works.
	_ = g.server.RegisterCompleter(here, argument, func(ctx context.Context, value string, arguments map[string]string) ([]string, error) {
		params := mcp.CompleteParams{Ref: there, Argument: mcp.CompleteArgument{Name: argument, Value: value}}
		if len(arguments) > 0 {
			params.Context = &mcp.CompleteContext{Arguments: arguments}
		}
		completion, err := g.host.Complete(ctx, serverName, params)
		if err != nil {
			return nil, report(ctx, serverName, err)
		}
		return completion.Values, nil
	})
}
