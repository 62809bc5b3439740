package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// AddPrompt adds a typed prompt. Its arguments are the fields of In, a struct whose fields are
// strings, numbers and booleans, or a map of these. The tags doc and title describe an argument.
// An argument is required unless its field is a pointer, has a default, or is tagged omitempty
// or omitzero. Other tags constrain its value (see package schema). If p.Arguments is set,
// clients receive p.Arguments instead of the inferred list; it must contain all required
// arguments.
//
// Arguments with the enum tag and boolean arguments have completion. See [Complete] for others.
//
// Out must be string, []mcp.PromptMessage or *mcp.GetPromptResult. A string becomes one message
// with the role user; the other types are used unchanged. For errors and panics of the handler,
// see the package documentation.
//
// AddPrompt panics if the name is in use or does not have 1 to 256 bytes, if a field of In
// cannot be an argument, if Out is another type, if p.Arguments does not fit In, or if a key in
// p.Meta is invalid. [Catalog.RegisterPrompt] returns errors instead. Both copy p and are safe
// while the server serves.
func AddPrompt[In, Out any](to Registrar, p mcp.Prompt, handler func(ctx context.Context, in In) (Out, error),
	options ...Option) {
	if err := addPrompt(to.catalog(), p, handler, options); err != nil {
		panic(fmt.Sprintf("server: prompt %q: %v", p.Name, err))
	}
}

func addPrompt[In, Out any](c *Catalog, p mcp.Prompt, handler func(ctx context.Context, in In) (Out, error),
	options []Option) error {
	if handler == nil {
		return errNoHandler
	}
	arguments, err := parametersOf[In](false)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	messages, err := messagesOf[Out]()
	if err != nil {
		return err
	}
	if p.Arguments == nil {
		p.Arguments = describe(arguments.all)
	} else if err := checkArguments(p.Arguments, arguments); err != nil {
		return err
	}
	return c.addPrompt(&promptEntry{
		prompt:    p,
		arguments: arguments,
		handle: func(ctx context.Context, given map[string]string) (*mcp.GetPromptResult, error) {
			values := make(map[string][]string, len(given))
			for name, value := range given {
				values[name] = []string{value}
			}
			var in In
			if err := arguments.bind(values, &in); err != nil {
				return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%v", invalidArguments(err))
			}
			out, err := handler(ctx, in)
			if err != nil {
				return nil, err
			}
			return messages(out), nil
		},
	}, options)
}

// describe returns the arguments that clients see.
func describe(all []parameter) []mcp.PromptArgument {
	var arguments []mcp.PromptArgument
	for _, p := range all {
		arguments = append(arguments, mcp.PromptArgument{Name: p.name, Title: p.title, Description: p.description,
			Required: p.required})
	}
	return arguments
}

// checkArguments checks that the declared arguments are some of those that the handler takes,
// and include all that it requires.
func checkArguments(declared []mcp.PromptArgument, accepted *parameters) error {
	for _, argument := range declared {
		if accepted.lookup(argument.Name) == nil {
			return fmt.Errorf("the handler has no argument %q: add a field for it, or remove it from the prompt",
				argument.Name)
		}
	}
	for _, p := range accepted.all {
		if p.required && !slices.ContainsFunc(declared, func(a mcp.PromptArgument) bool { return a.Name == p.name }) {
			return fmt.Errorf("the handler requires the argument %q: add it to the prompt, or make the field optional",
				p.name)
		}
	}
	return nil
}

// RegisterPrompt adds a prompt with an untyped handler, such as a prompt that is read from a
// file. It returns an error if the name is in use or does not have 1 to 256 bytes, if an
// argument has no name or the name of another one, or if a key in p.Meta is invalid. It copies
// p. Safe while the server serves.
//
// The handler receives the client's arguments, including all required ones, and may modify the map. If the result has
// no description, the client receives a copy with the description of the prompt. A nil result without an error becomes
// an internal error. For other errors and panics, see the package documentation.
func (c *Catalog) RegisterPrompt(
	p mcp.Prompt, handler func(ctx context.Context, arguments map[string]string) (*mcp.GetPromptResult, error),
	options ...Option,
) error {
	if err := c.addPrompt(&promptEntry{prompt: p, handle: handler}, options); err != nil {
		return fmt.Errorf("prompt %q: %w", p.Name, err)
	}
	return nil
}

// RemovePrompt removes a prompt and reports whether it existed. Calls in flight continue. Safe
// while the server serves.
func (c *Catalog) RemovePrompt(name string) bool {
	return unregister(c, &promptKind, name)
}

// maxPromptName bounds the name of a prompt in bytes: it is sent in a header.
const maxPromptName = 256

// promptEntry is one registered prompt. It is immutable.
type promptEntry struct {
	offer
	prompt     mcp.Prompt
	arguments  *parameters // nil: any strings
	handle     func(ctx context.Context, arguments map[string]string) (*mcp.GetPromptResult, error)
	completers completers
}

func (c *Catalog) addPrompt(e *promptEntry, options []Option) error {
	e.name, e.logger = e.prompt.Name, c.logger
	if err := apply(e, options); err != nil {
		return err
	}
	if e.handle == nil {
		return errNoHandler
	}
	if e.prompt.Name == "" || len(e.prompt.Name) > maxPromptName || !utf8.ValidString(e.prompt.Name) {
		return fmt.Errorf("the name must have 1 to %d bytes of UTF-8", maxPromptName)
	}
	for i, argument := range e.prompt.Arguments {
		if argument.Name == "" {
			return errors.New("every argument must have a name")
		}
		if slices.ContainsFunc(e.prompt.Arguments[:i],
			func(a mcp.PromptArgument) bool { return a.Name == argument.Name }) {
			return fmt.Errorf("duplicate argument %q", argument.Name)
		}
	}
	if err := e.completers.check(e.argument); err != nil {
		return err
	}
	if err := c.checkMeta(e.prompt.Meta); err != nil {
		return err
	}
	if err := detach(&e.prompt, &e.prompt.Source); err != nil {
		return err
	}
	if err := register(c, &promptKind, e); err != nil {
		return err
	}
	if e.completers != nil ||
		e.arguments != nil && slices.ContainsFunc(e.arguments.all, func(p parameter) bool { return p.enum != nil }) {
		c.completes.Store(true)
	}
	return nil
}

// argument returns the parameter of an argument, or nil if the prompt has no such argument.
func (e *promptEntry) argument(name string) *parameter {
	if !slices.ContainsFunc(e.prompt.Arguments, func(a mcp.PromptArgument) bool { return a.Name == name }) {
		return nil
	}
	if e.arguments == nil {
		return &parameter{name: name, kind: "string"}
	}
	return e.arguments.lookup(name)
}

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
	entry, ok, err := findFor(ctx, s, &promptKind, c.Principal(), name)
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
	if err == nil && isRelayed(&result.ResultBase) {
		copied := *result
		copied.ResultBase = relayed(result.ResultBase)
		result = &copied
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

// messagesOf returns a function that converts the results of a prompt handler to a prompt.
func messagesOf[Out any]() (func(out Out) *mcp.GetPromptResult, error) {
	var zero Out
	switch any(zero).(type) {
	case *mcp.GetPromptResult:
		return func(out Out) *mcp.GetPromptResult { return any(out).(*mcp.GetPromptResult) }, nil
	case []mcp.PromptMessage:
		return func(out Out) *mcp.GetPromptResult {
			return &mcp.GetPromptResult{Messages: any(out).([]mcp.PromptMessage)}
		}, nil
	case string:
		return func(out Out) *mcp.GetPromptResult {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser,
				Content: mcp.Text(any(out).(string))}}}
		}, nil
	}
	return nil, errors.New("the handler must return a string, []mcp.PromptMessage or *mcp.GetPromptResult")
}
