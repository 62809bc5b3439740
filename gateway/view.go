package gateway

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// maxTemplates bounds the resource templates of one server, because each read of a resource
// may be compared with all of them.
const maxTemplates = 1000

// view registers entries of servers with a catalog: entries for all callers with the catalog of the gateway's
// server, and entries that a server with CallerAuth lists for some callers with a separate catalog.
type view struct {
	*Gateway
	catalog      *server.Catalog
	filter       *server.ListFilter                // filter of lists
	ofCallers    bool                              // resources carry a prefix, and updates go to one caller
	withoutLogin bool                              // if a call succeeds, the caller has logged in
	capabilities map[string]mcp.ServerCapabilities // by server
	schemas      map[string]*schema.Budget         // budgets of the tools' schemas, by server

	visible   sync.Map // the registered tools by name, *visibleTool
	tools     registrations[host.Tool]
	prompts   registrations[host.Prompt]
	resources registrations[mcp.Resource]
	templates registrations[mcp.ResourceTemplate]
}

func (g *Gateway) newView(catalog *server.Catalog, filter *server.ListFilter) *view {
	v := &view{
		Gateway: g, catalog: catalog, filter: filter,
		capabilities: make(map[string]mcp.ServerCapabilities), schemas: make(map[string]*schema.Budget),
	}
	v.tools = registrations[host.Tool]{
		kind: "tool", key: func(t *host.Tool) string { return t.Name },
		register: v.registerTool, unregister: func(name string) bool {
			v.visible.Delete(name)
			return catalog.RemoveTool(name)
		},
	}
	v.prompts = registrations[host.Prompt]{
		kind: "prompt", key: func(p *host.Prompt) string { return p.Name },
		register: v.registerPrompt, unregister: catalog.RemovePrompt,
	}
	v.resources = registrations[mcp.Resource]{
		kind: "resource", key: func(r *mcp.Resource) string { return r.URI },
		register: v.registerResource, unregister: catalog.RemoveResource,
	}
	v.templates = registrations[mcp.ResourceTemplate]{
		kind: "template", most: maxTemplates, key: func(t *mcp.ResourceTemplate) string { return t.URITemplate },
		register: v.registerTemplate, unregister: catalog.RemoveTemplate,
	}
	return v
}

// set replaces the lists of a server.
func (v *view) set(status *host.ServerStatus) {
	v.capabilities[status.Name] = status.Server.Capabilities
	uri := unchanged
	if v.ofCallers {
		uri = func(key string) string { return prefixOf(status.Name, key) + key }
	}
	v.tools.set(v.logger(), status.Name, unchanged, status.Tools)
	v.prompts.set(v.logger(), status.Name, unchanged, status.Prompts)
	v.resources.set(v.logger(), status.Name, uri, status.Resources)
	v.templates.set(v.logger(), status.Name, uri, withPages(status, withSkillFiles(status)))
}

// apply registers the entries of servers under their wanted names.
func (v *view) apply(servers []string) {
	v.prompts.apply(servers)
	v.resources.apply(servers)
	v.templates.apply(servers)
	v.referToUIs(servers)
	v.tools.apply(servers)
}

// forget deletes what remains of a server without registrations.
func (v *view) forget(name string) {
	delete(v.capabilities, name)
	delete(v.schemas, name)
	v.tools.forget(name)
	v.prompts.forget(name)
	v.resources.forget(name)
	v.templates.forget(name)
}

// registerTool registers a tool and returns its name, or "" if it cannot be registered.
func (v *view) registerTool(serverName, name string, t *host.Tool) string {
	logger := v.logger().With("server", serverName, "tool", t.Definition.Name)
	tool := t.Definition
	if v.isDiscovery(name) {
		logger.Warn("tool left out: the gateway itself has a tool with this name; rename it, or give its server a "+
			"prefix",
			"name", name)
		return ""
	}
	tool.Name = name
	tool.Execution = nil
	tool.Meta = rewriteUI(tool.Meta.Forwardable(), v.uriOf(serverName))
	input, output := schema.WithoutBooleans(tool.InputSchema), schema.WithoutBooleans(tool.OutputSchema)
	if !bytes.Equal(input, tool.InputSchema) || !bytes.Equal(output, tool.OutputSchema) {
		logger.Warn("replaced true and false in a tool's schema with objects: many clients reject the whole " +
			"list of tools otherwise")
		tool.InputSchema, tool.OutputSchema = input, output
	}
	if v.schemas[serverName] == nil {
		v.schemas[serverName] = new(schema.Budget)
	}
	request := &host.Request{
		Method: mcp.MethodCallTool, Server: serverName, Kind: host.KindTool, Name: t.Definition.Name,
		Tool: &t.Definition,
	}
	options := []server.Option{server.Parked(), server.Forwarded(v.schemas[serverName]),
		server.Listed(v.filter, request)}
	found := &visibleTool{server: serverName, request: request, definition: new(mcp.Tool)}
	*found.definition = tool
	if v.runsTasks(serverName, &t.Definition) {
		options = append(options, server.AsTask(asTask))
		found.definition.Execution = &mcp.ToolExecution{TaskSupport: asTask.Support}
	}
	handler := v.forward(serverName, t.Definition.Name)
	if v.withoutLogin {
		handler = v.afterLogin(handler)
	}
	if err := v.catalog.RegisterTool(tool, handler, options...); err != nil {
		logger.Warn("tool not registered", "error", err)
		return ""
	}
	v.visible.Store(name, found)
	return name
}

// registerPrompt registers a prompt and returns its name, or "" if it cannot be
// registered.
func (v *view) registerPrompt(serverName, name string, p *host.Prompt) string {
	logger := v.logger().With("server", serverName, "prompt", p.Definition.Name)
	upstreamName := p.Definition.Name
	prompt := p.Definition
	prompt.Name = name
	prompt.Meta = prompt.Meta.Forwardable()
	prompt.Arguments = usable(logger, prompt.Arguments)
	err := v.catalog.RegisterPrompt(prompt, func(
		ctx context.Context, arguments map[string]string,
	) (*mcp.GetPromptResult, error) {
		result, err := v.host.Client(serverName).GetPrompt(v.withCaller(ctx), upstreamName, arguments,
			callOptions(ctx, v.options().content)...)
		if err != nil {
			return nil, v.protocolError(ctx, serverName, err)
		}
		for _, m := range result.Messages {
			v.routes.Load().rewrite(serverName, m.Content)
		}
		return result, nil
	}, server.Listed(v.filter, &host.Request{
		Method: mcp.MethodGetPrompt, Server: serverName, Kind: host.KindPrompt, Name: upstreamName,
	}), v.complete(serverName, mcp.CompleteReference{Type: mcp.RefPrompt, Name: upstreamName}))
	if err != nil {
		logger.Warn("prompt not registered", "error", err)
		return ""
	}
	return name
}

// usable returns the arguments of a prompt, without arguments that have no name or a duplicate name.
func usable(logger *slog.Logger, all []mcp.PromptArgument) []mcp.PromptArgument {
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(slices.Clone(all), func(a mcp.PromptArgument) bool {
		again := seen[a.Name]
		if seen[a.Name] = true; again {
			logger.Warn("ignoring an argument of a prompt: its name must be unique and not empty", "argument", a.Name)
		}
		return again
	})
}

// complete forwards completion requests for the arguments of a prompt or template of a server.
func (v *view) complete(serverName string, of mcp.CompleteReference) server.Option {
	return server.CompleteAll(func(
		ctx context.Context, argument, value string, arguments map[string]string,
	) (*mcp.Completion, error) {
		params := mcp.CompleteParams{Ref: of, Argument: mcp.CompleteArgument{Name: argument, Value: value}}
		if len(arguments) > 0 {
			params.Context = &mcp.CompleteContext{Arguments: arguments}
		}
		completion, err := v.host.Client(serverName).Complete(v.withCaller(ctx), params)
		if err != nil {
			return nil, v.protocolError(ctx, serverName, err)
		}
		return completion, nil
	})
}

// registerResource registers a resource and returns its URI at the gateway, or "" if it
// cannot be registered.
func (v *view) registerResource(serverName, want string, r *mcp.Resource) string {
	return v.registerURI(serverName, r.URI, want, func(uri, prefix string, options ...server.Option) error {
		resource := *r
		resource.URI = uri
		resource.Name = cmp.Or(r.Name, r.URI)
		resource.Meta = r.Meta.Forwardable()
		return v.catalog.RegisterResource(resource, v.read(serverName, prefix), options...)
	})
}

// registerTemplate registers a template and returns its URI template at the gateway, or
// "" if it cannot be registered.
func (v *view) registerTemplate(serverName, want string, t *mcp.ResourceTemplate) string {
	return v.registerURI(serverName, t.URITemplate, want, func(
		uri, prefix string, options ...server.Option,
	) error {
		template := *t
		template.URITemplate = uri
		template.Name = cmp.Or(t.Name, t.URITemplate)
		template.Meta = t.Meta.Forwardable()
		upstream := mcp.CompleteReference{Type: mcp.RefResource, URI: t.URITemplate}
		options = append(options, v.complete(serverName, upstream))
		return v.catalog.RegisterTemplate(template, v.readUnlisted(serverName, prefix), options...)
	})
}

// registerURI registers the wanted URI and returns it. If it cannot be registered, for
// example because the program has registered it, registerURI tries the URI prefixed with
// the name of the server.
func (v *view) registerURI(
	serverName, uri, want string, register func(uri, prefix string, options ...server.Option) error,
) string {
	logger := v.logger().With("server", serverName, "resource", uri)
	prefix := prefixOf(serverName, uri)
	try := func(prefix string) error {
		listed := server.Listed(v.filter, &host.Request{
			Method: mcp.MethodReadResource, Server: serverName, Kind: host.KindResource, Name: uri,
		})
		return register(prefix+uri, prefix, append(v.updatesFor(serverName, prefix), listed,
			v.forwardUpdates(serverName, prefix), v.beforeSubscribe(serverName, prefix))...)
	}
	if want == uri {
		err := try("")
		if err == nil {
			return uri
		}
		logger = logger.With("error", err)
	}
	if err := try(prefix); err != nil {
		logger.Warn("resource not registered", "uri", prefix+uri, "error", err)
		return ""
	}
	if !v.ofCallers && !isAllPages(uri) { // otherwise, resources always carry a prefix
		if want != uri {
			logger = logger.With("reason", "another server uses this URI, or may use it")
		}
		logger.Warn("resource renamed", "uri", prefix+uri)
	}
	return prefix + uri
}
