package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// PromptHandler makes a prompt in the raw. Arguments are what the client has given;
// those that the prompt requires are among them. The map is the handler's. A result
// without a description gets that of the prompt, in a copy.
//
// An error is reported as an internal error without its text, which goes to the log,
// unless it is or wraps a *jsonrpc.Error.
type PromptHandler func(ctx context.Context, arguments map[string]string) (*mcp.GetPromptResult, error)

// AddPrompt offers a typed prompt. Its arguments are the members of In, a struct whose
// fields are strings, numbers and booleans, or a map of these: the tags doc and title
// describe an argument; it is required unless its field is a pointer, has a default or
// is tagged omitempty or omitzero; other tags constrain it (see package schema). If p
// has arguments, these are what clients are told instead.
//
// Fields with enum: and booleans are completed; see [CompletePrompt] for the others.
//
// What the handler returns becomes the prompt: a string is one message by the user,
// []mcp.PromptMessage and *mcp.GetPromptResult are as they stand. An error, or a
// panic, is an internal error whose text stays in the log, unless it is or wraps a
// *jsonrpc.Error.
//
// AddPrompt panics if the prompt cannot be offered: if In has a field that is no text,
// if the name is taken or empty. [Server.RegisterPrompt] returns errors instead. Both
// are safe while the server serves, and keep nothing of p that the caller could change.
func AddPrompt[In, Out any](s *Server, p mcp.Prompt, handler func(ctx context.Context, in In) (Out, error), options ...PromptOption) {
	if err := addPrompt(s, p, handler, options); err != nil {
		panic(fmt.Sprintf("server: prompt %q: %v", p.Name, err))
	}
}

func addPrompt[In, Out any](s *Server, p mcp.Prompt, handler func(ctx context.Context, in In) (Out, error), options []PromptOption) error {
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
	return s.addPrompt(&promptEntry{
		prompt:    p,
		arguments: arguments,
		handle: func(ctx context.Context, given map[string]string) (*mcp.GetPromptResult, error) {
			values := make(map[string][]string, len(given))
			for name, value := range given {
				values[name] = []string{value}
			}
			var in In
			if err := arguments.bind(values, &in); err != nil {
				return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid arguments: %v", err)
			}
			out, err := handler(ctx, in)
			if err != nil {
				return nil, err
			}
			return messages(out), nil
		},
	}, options)
}

// describe says to clients what arguments there are.
func describe(all []parameter) []mcp.PromptArgument {
	var arguments []mcp.PromptArgument
	for _, p := range all {
		arguments = append(arguments, mcp.PromptArgument{Name: p.name, Title: p.title, Description: p.description, Required: p.required})
	}
	return arguments
}

// checkArguments checks that clients are told of arguments that the handler takes, and
// of all that it needs.
func checkArguments(told []mcp.PromptArgument, taken *parameters) error {
	for _, argument := range told {
		if taken.lookup(argument.Name) == nil {
			return fmt.Errorf("the handler takes no argument %q", argument.Name)
		}
	}
	for _, p := range taken.all {
		if p.required && !slices.ContainsFunc(told, func(a mcp.PromptArgument) bool { return a.Name == p.name }) {
			return fmt.Errorf("the handler needs an argument %q, which the prompt does not have", p.name)
		}
	}
	return nil
}

// RegisterPrompt offers a prompt that a raw handler makes: for prompts that are not
// known when the program is written. The error says why the prompt cannot be offered.
// Safe while the server serves.
func (s *Server) RegisterPrompt(p mcp.Prompt, handler PromptHandler, options ...PromptOption) error {
	if err := s.addPrompt(&promptEntry{prompt: p, handle: handler}, options); err != nil {
		return fmt.Errorf("prompt %q: %w", p.Name, err)
	}
	return nil
}

// RemovePrompt withdraws a prompt and reports whether there was one. Calls in flight
// finish. Safe while the server serves.
func (s *Server) RemovePrompt(name string) bool {
	return removed(s, rpc.PromptsChanged, &s.prompts, name)
}

// DeclarePrompts declares that the server has prompts even while it has none, for one
// whose prompts come and go.
func (s *Server) DeclarePrompts() { s.prompts.offer() }

// maxPromptName bounds names of prompts, in bytes: they are sent in a header.
const maxPromptName = 256

// promptEntry is one prompt as it is offered. But for its completers it does not change.
type promptEntry struct {
	offer
	prompt     mcp.Prompt
	arguments  *parameters // nil: any texts
	handle     PromptHandler
	completers completers
}

func (s *Server) addPrompt(e *promptEntry, options []PromptOption) error {
	e.offer = offer{name: e.prompt.Name, logger: s.logger}
	for _, o := range options {
		o.ofPrompt(e)
	}
	if e.handle == nil {
		return errNoHandler
	}
	if e.prompt.Name == "" || len(e.prompt.Name) > maxPromptName {
		return fmt.Errorf("a prompt's name has 1 to %d bytes", maxPromptName)
	}
	for i, argument := range e.prompt.Arguments {
		if argument.Name == "" {
			return errors.New("an argument has no name")
		}
		if slices.ContainsFunc(e.prompt.Arguments[:i], func(a mcp.PromptArgument) bool { return a.Name == argument.Name }) {
			return fmt.Errorf("the argument %q is there twice", argument.Name)
		}
	}
	var err error
	if err := s.checkMeta(e.prompt.Meta); err != nil {
		return err
	}
	if e.prompt, err = detached(e.prompt); err != nil {
		return err
	}
	if err := added(s, rpc.PromptsChanged, &s.prompts, e.prompt.Name, e); err != nil {
		return err
	}
	if e.arguments != nil && slices.ContainsFunc(e.arguments.all, func(p parameter) bool { return p.enum != nil }) {
		s.completes.Store(true)
	}
	return nil
}

// argument returns what is known of an argument, or nil if the prompt has none of
// the name.
func (e *promptEntry) argument(name string) *parameter {
	if !slices.ContainsFunc(e.prompt.Arguments, func(a mcp.PromptArgument) bool { return a.Name == name }) {
		return nil
	}
	if e.arguments == nil {
		return &parameter{name: name, kind: "string"}
	}
	return e.arguments.lookup(name)
}
