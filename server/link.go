package server

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// The functions of package link for the gateway and for mock servers.
func init() {
	link.Set(link.Server[Server, ToolHandler, ToolOption]{
		Hooks:                func(s *Server) *link.Hooks { return &s.hooks },
		ForwardTool:          (*Server).forwardTool,
		RegisterToolCaller:   (*Server).registerToolCaller,
		LookupTool:           (*Server).lookupTool,
		UnlistTools:          (*Server).unlistTools,
		RecheckSubscriptions: (*Server).recheckSubscriptions,
		SetInstructions:      (*Server).setInstructions,
	})
}

// hiddenFrom returns a function that reports which entries Hide hides from a list of a caller; nil if it hides none.
func (s *Server) hiddenFrom(who principal.Principal, list string) func(name string) bool {
	if s.hooks.Hide == nil {
		return nil
	}
	hides := s.hooks.Hide(who)
	if hides == nil {
		return nil
	}
	return func(name string) bool { return hides(list, name) }
}

// either returns a function that reports whether a or b hides a name. Both may be nil.
func either(a, b func(name string) bool) func(name string) bool {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return func(name string) bool { return a(name) || b(name) }
}

// hides reports whether Hide hides an entry from a list of a caller.
func (s *Server) hides(who principal.Principal, list, name string) bool {
	hidden := s.hiddenFrom(who, list)
	return hidden != nil && hidden(name)
}

// notifiedOf returns a function that reports who is notified of updates of a resource; nil means every subscriber.
func (s *Server) notifiedOf(uri string) func(principal.Principal) bool {
	readers := s.readersOf(uri)
	if s.hooks.Hide == nil {
		return readers
	}
	return func(who principal.Principal) bool {
		return (readers == nil || readers(who)) && !s.hides(who, mcp.MethodSubscribe, uri)
	}
}

// recheckSubscriptions calls the functions of [BeforeSubscribe] again, because they may have another result now. A
// subscription of 2026-07-28 with a resource that is rejected ends, and the client can subscribe again to the others.
// Subscriptions of sessions continue; see link.Hooks for those. It does not block and is safe for concurrent use.
func (s *Server) recheckSubscriptions() {
	s.rechecks.mu.Lock()
	defer s.rechecks.mu.Unlock()
	if s.rechecks.next != nil {
		close(s.rechecks.next)
		s.rechecks.next = nil
	}
}

// rechecks announces calls of recheckSubscriptions.
type rechecks struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next call; nil if nothing waits for it
}

// wait returns a channel that the next call closes.
func (r *rechecks) wait() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

// forwardTool adds a tool of another server, as [Catalog.RegisterTool] does, but does not reject
// its schemas. Clients receive a schema that cannot be compiled unchanged; the server logs a
// warning and does not validate with it. The type of the input schema becomes "object", as the
// protocol requires, and an output schema that is not a JSON object is left out. The other server
// decides about null for an argument that the schema does not require. Safe while the server serves.
func (s *Server) forwardTool(tool mcp.Tool, handler ToolHandler, options ...ToolOption) error {
	if handler == nil {
		return fmt.Errorf("tool %q: %w", tool.Name, errNoHandler)
	}
	logger := s.logger().With("tool", tool.Name)
	if object := withObjectType(tool.InputSchema); string(object) != string(tool.InputSchema) {
		if tool.InputSchema != nil {
			logger.Warn("changed the type of a tool's input schema to object")
		}
		tool.InputSchema = object
	}
	if tool.OutputSchema != nil && !isObject(tool.OutputSchema) {
		logger.Warn("left out the output schema of a tool, because it is not a JSON object")
		tool.OutputSchema = nil
	}
	e := &toolEntry{tool: tool, handle: handler, forwarded: true}
	var err error
	if e.input, err = schema.Compile(tool.InputSchema); err != nil {
		logger.Warn("the arguments of a tool are not validated", "error", err)
		if e.input, err = schema.Compile(anyObject); err != nil {
			return fmt.Errorf("tool %q: input schema: %w", tool.Name, err)
		}
	}
	if tool.OutputSchema != nil {
		if e.output, err = schema.Compile(tool.OutputSchema); err != nil {
			logger.Warn("the results of a tool are not validated", "error", err)
			e.output = nil
		}
	}
	if err := s.addUntyped(e, options); err != nil {
		return err
	}
	e.logUnchecked(s.logger())
	return nil
}

// forwarded returns the result of a forwarded call. It decodes the Source if the result needs
// another form in revision r, or when middleware looks at it.
func (s *Server) forwarded(r mcp.Revision, f *rpc.Forwarding) (any, error) {
	if revision.Downgrade(r, f.Result) != f.Result {
		return decodeForwarded(f.Result)
	}
	return &rpc.Encoded{
		Append: func(dst []byte) []byte { return f.Append(dst, r, s.core.engine.Identity) },
		Result: func() any {
			decoded, _ := decodeForwarded(f.Result) // it is an object with a list of blocks
			return decoded
		},
		Fresh: true,
	}, nil
}

// decodeForwarded returns a result with the fields that its Source has.
func decodeForwarded(result *mcp.CallToolResult) (*mcp.CallToolResult, error) {
	decoded := new(mcp.CallToolResult)
	var source json.RawMessage = revision.AppendForwarded(nil, mcp.V20251125, result, nil, nil)
	source, _, err := contain.Decode(source, decoded) // the client has checked the texts only
	decoded.Source = source
	return decoded, err
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// withObjectType returns a schema with the type "object".
func withObjectType(raw json.RawMessage) json.RawMessage {
	if !isObject(raw) {
		return anyObject
	}
	kind, ok := jsonrpc.Get(raw, "type")
	if ok && jsonrpc.Unquote(kind) == "object" {
		return raw
	}
	out := []byte(`{"type":"object"`)
	for name, value := range jsonrpc.All(raw) {
		if name != "type" {
			out = append(append(jsonrpc.AppendString(append(out, ','), name), ':'), value...)
		}
	}
	return append(out, '}')
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// headersOf returns the parameters that clients mirror in headers. The program vouches for its
// own tools only: parameters of a forwarded tool may be secret, and are ignored if they are
// invalid, as clients then reject the tool.
func (e *toolEntry) headersOf() ([]schema.HeaderParam, error) {
	mirrored, err := schema.Headers(e.tool.InputSchema)
	switch {
	case e.forwarded && err != nil:
		return nil, nil
	case e.forwarded:
		return mirrored, nil
	case err != nil:
		return nil, fmt.Errorf("input %w", err)
	}
	return mirrored, checkMirrored(mirrored, e.notSecret)
}

// unlistTools leaves the tools with these names out of tools/list. Clients can still call them. It is for
// servers with more tools than a model can use at once, which offer tools to search for them:
// lookupTool finds an unlisted tool, and a tool of registerToolCaller calls it.
//
// The names replace those of the previous call; without names, all tools are listed. A tool with one of
// the names may be added later. Clients are notified that the list has changed. Safe while the server
// serves.
func (s *Server) unlistTools(names ...string) {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	if s.tools.unlist(set) {
		s.changes.Publish(changes.Change{Kind: changes.ToolsChanged})
		s.replicas.announce(announcement{Kind: changes.ToolsChanged})
	}
}

// lookupTool returns the definition of a tool that the caller can see and that link.Hooks does not hide, listed or not.
// The caller is that of the call with the context ctx; see [VisibleTo]. The definition must not be modified.
func (s *Server) lookupTool(ctx context.Context, name string) (tool mcp.Tool, ok bool) {
	who := PrincipalOf(ctx)
	e, from, ok, err := findFor(ctx, s, &toolKind, name, who)
	if err != nil || !ok || s.hides(who, mcp.MethodListTools, name) ||
		from != nil && from.hides(who, mcp.MethodListTools, name) {
		return mcp.Tool{}, false
	}
	return e.tool, true
}

// registerToolCaller adds a tool with which clients call other tools of the server, such as unlisted ones.
// target returns the name and the arguments of the other tool for the arguments of a call, which have
// passed the input schema of tool. Nil arguments mean an empty object. The other tool serves the call as
// if the client had named it: its arguments and result are validated, it needs the scopes of
// [RequireScopes], and it can report progress, ask the client and run as a task. Middleware sees the name
// that the client has sent.
//
// An error of target is a tool error, and so is a name that the caller cannot see or that of a tool
// that calls other tools. target must be safe for concurrent use and return the same for the same
// arguments. registerToolCaller returns an error where [Catalog.RegisterTool] does. Safe while the
// server serves.
func (s *Server) registerToolCaller(tool mcp.Tool, target link.ToolTarget, options ...ToolOption) error {
	if target == nil {
		return fmt.Errorf("tool %q: target must not be nil", tool.Name)
	}
	input, err := schema.Compile(tool.InputSchema)
	if err != nil {
		return fmt.Errorf("tool %q: input schema: %w", tool.Name, err)
	}
	if err := s.addTool(&toolEntry{tool: tool, input: input, target: target}, options); err != nil {
		return fmt.Errorf("tool %q: %w", tool.Name, err)
	}
	return nil
}

// targetOf returns the tool that serves a call of entry, and its arguments. That is entry itself unless
// it calls other tools. The error is for the model. Without the context of a call, the tools of Personal are not found.
func (s *Server) targetOf(ctx context.Context, entry *toolEntry, arguments json.RawMessage,
	who principal.Principal) (*toolEntry, json.RawMessage, error) {
	if entry.target == nil {
		return entry, arguments, nil
	}
	if err := entry.input.Validate(arguments); err != nil {
		return nil, nil, invalidArguments(err)
	}
	name, arguments, err := entry.target(arguments)
	if err != nil {
		return nil, nil, err
	}
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	target, _, ok, err := findFor(ctx, s, &toolKind, name, who)
	switch {
	case err != nil:
		return nil, nil, err
	case !ok:
		return nil, nil, fmt.Errorf("unknown tool: %.128q", name)
	case target.target != nil:
		return nil, nil, fmt.Errorf("tool %q calls other tools: call it directly", name)
	case !isObject(arguments):
		return nil, nil, fmt.Errorf("the arguments of tool %q must be an object", name)
	}
	return target, arguments, nil
}
