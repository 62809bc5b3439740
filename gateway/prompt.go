package gateway

import (
	"context"
	"log/slog"
	"slices"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

// registerPrompt registers a prompt and returns its name, or "" if it cannot be
// registered.
func (g *Gateway) registerPrompt(serverName, name string, p *host.Merged[mcp.Prompt]) string {
	logger := g.logger().With("server", serverName, "prompt", p.Definition.Name)
	upstreamName := p.Definition.Name
	prompt := p.Definition
	prompt.Name = name
	prompt.Meta = revision.ForwardableMeta(prompt.Meta)
	prompt.Arguments = usable(logger, prompt.Arguments)
	err := g.server.RegisterPrompt(prompt, func(ctx context.Context,
		arguments map[string]string) (*mcp.GetPromptResult, error) {
		result, err := g.host.GetPrompt(ctx, serverName, upstreamName, arguments,
			callOptions(ctx, g.options().content)...)
		if err != nil {
			return nil, g.protocolError(ctx, serverName, err)
		}
		strip(&result.ResultBase)
		for _, m := range result.Messages {
			g.currentRoutes().rewrite(serverName, m.Content)
		}
		return result, nil
	})
	if err != nil {
		logger.Warn("prompt not registered", "error", err)
		return ""
	}
	g.setOrigin(mcp.MethodListPrompts, name, host.Request{Method: mcp.MethodGetPrompt, Server: serverName,
		Kind: host.KindPrompt, Name: upstreamName})
	for _, a := range prompt.Arguments {
		g.registerCompleter(serverName, mcp.CompleteReference{Type: mcp.RefPrompt, Name: name},
			mcp.CompleteReference{Type: mcp.RefPrompt, Name: upstreamName}, a.Name)
	}
	return name
}

// usable returns the arguments of a prompt without those that have no name, or the name of another one.
func usable(logger *slog.Logger, all []mcp.PromptArgument) []mcp.PromptArgument {
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(slices.Clone(all), func(a mcp.PromptArgument) bool {
		again := seen[a.Name]
		if seen[a.Name] = true; again {
			logger.Warn("argument of a prompt ignored: its name must be unique and not empty", "argument", a.Name)
		}
		return again
	})
}

// registerCompleter forwards completion requests for an argument. registered is the
// reference at the gateway, upstream the reference at the server.
func (g *Gateway) registerCompleter(serverName string, registered, upstream mcp.CompleteReference, argument string) {
	// The prompt or template works without completion, so the error is ignored.
	_ = g.server.RegisterCompletion(registered, argument,
		func(ctx context.Context, value string, arguments map[string]string) (*mcp.Completion, error) {
			params := mcp.CompleteParams{Ref: upstream, Argument: mcp.CompleteArgument{Name: argument, Value: value}}
			if len(arguments) > 0 {
				params.Context = &mcp.CompleteContext{Arguments: arguments}
			}
			completion, err := g.host.Complete(ctx, serverName, params)
			if err != nil {
				return nil, g.protocolError(ctx, serverName, err)
			}
			return completion, nil
		})
}
