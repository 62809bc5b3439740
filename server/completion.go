package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Complete suggests values for an argument of a prompt, or a variable of a template, while the user types. It returns
// the most relevant value first. The variable of a directory of [AddFS] is called path. Value is the text so far, and
// arguments contains the other arguments that already have a value; clients before 2025-06-18 do not send them. The
// function may modify the map, and must be safe for concurrent use. It replaces the completion that the enum tag
// provides.
//
// The client receives the first 100 values. If the function returns a slice, the client also learns how many there are
// in all; a nil *mcp.Completion contains no values. Suggest only values that every caller of the prompt or template may
// see. For errors and panics, see the package documentation.
//
// Complete panics if complete is nil. It is an error if the prompt or template has no such argument.
func Complete[Out []string | *mcp.Completion](
	argument string, complete func(ctx context.Context, value string, arguments map[string]string) (Out, error),
) Option {
	if complete == nil {
		panic("server: Complete: the function must not be nil")
	}
	if argument == anyArgument {
		return func(entry) error { return errors.New("Complete: the argument must not be empty") }
	}
	return completing(argument, func(
		ctx context.Context, _, value string, arguments map[string]string,
	) (*mcp.Completion, error) {
		out, err := complete(ctx, value, arguments)
		if err != nil {
			return nil, err
		}
		if values, ok := any(out).([]string); ok {
			return completionOf(values), nil
		}
		return any(out).(*mcp.Completion), nil
	})
}

// CompleteFrom completes an argument from a fixed list: first the values that begin with the typed text, then those
// that contain it elsewhere. It ignores case. It keeps values, which must not be modified afterwards. See [Complete].
func CompleteFrom(argument string, values ...string) Option {
	return Complete(argument, func(_ context.Context, value string, _ map[string]string) ([]string, error) {
		return matching(values, value), nil
	})
}

// CompleteAll completes every argument of a prompt, or variable of a template, that has no [Complete] option. The
// function receives the name of the argument.
//
// CompleteAll panics if complete is nil.
func CompleteAll(
	complete func(ctx context.Context, argument, value string, arguments map[string]string) (*mcp.Completion, error),
) Option {
	if complete == nil {
		panic("server: CompleteAll: the function must not be nil")
	}
	return completing(anyArgument, complete)
}

// completer completes an argument.
type completer func(ctx context.Context, argument, value string, arguments map[string]string) (*mcp.Completion, error)

// completers are the completers of one prompt or template, by argument.
type completers map[string]completer

// anyArgument is the key of the completer of all arguments that have none.
const anyArgument = ""

// completing returns the option that sets a completer.
func completing(argument string, complete completer) Option {
	return func(e entry) error {
		var all *completers
		switch e := e.(type) {
		case *promptEntry:
			all = &e.completers
		case *templateEntry:
			all = &e.completers
		default:
			return errors.New("Complete must be an option of a prompt, template or directory")
		}
		if *all == nil {
			*all = make(completers)
		}
		(*all)[argument] = complete
		return nil
	}
}

// check returns an error if there is no parameter for a completer.
func (c completers) check(parameter func(name string) *parameter) error {
	for name := range c {
		if name != anyArgument && parameter(name) == nil {
			return fmt.Errorf("Complete: no argument %q", name)
		}
	}
	return nil
}

// of returns the completer of an argument, or nil.
func (c completers) of(argument string) completer {
	if complete, ok := c[argument]; ok {
		return complete
	}
	return c[anyArgument]
}

// completionTarget is the prompt or template of a completion request.
type completionTarget struct {
	name       string // for error texts
	completers completers
	parameter  func(name string) *parameter // nil if there is none
	scopes     []string
	params     *mcp.CompleteParams
}

// completionTarget returns the prompt or template of a reference that a caller can see.
// The URI of a resource of a template refers to the template (2026-07-28,
// server/utilities/completion, CompleteRequest).
func (c *Catalog) completionTarget(ref mcp.CompleteReference, who principal.Principal) (*completionTarget, error) {
	switch ref.Type {
	case mcp.RefPrompt:
		if e, ok := c.prompts.find(ref.Name, who); ok {
			name := fmt.Sprintf("the prompt %q", ref.Name)
			return &completionTarget{name: name, completers: e.completers, parameter: e.argument, scopes: e.scopes}, nil
		}
		return nil, unknownPrompt(ref.Name)
	case mcp.RefResource:
		e, ok := c.templates.find(ref.URI, who)
		complete := ok || c.templates.match(ref.URI, func(candidate *templateEntry, _ map[string][]string) bool {
			e, ok = candidate, candidate.visibleTo(who)
			return !ok
		})
		if !complete {
			return nil, errMatching(ref.URI)
		}
		if !ok {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown resource template: %.128q", ref.URI)
		}
		name := fmt.Sprintf("the template %q", e.uris.text)
		return &completionTarget{name: name, completers: e.completers, parameter: e.completed, scopes: e.scopes}, nil
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.ref.type must be %q or %q", mcp.RefPrompt,
		mcp.RefResource)
}

// resolveCompletion returns the *completionTarget of a call of completion/complete.
func (s *Server) resolveCompletion(ctx context.Context, c *rpc.Call) (any, []string, error) {
	params, err := completeParams(c)
	if err != nil {
		return nil, nil, err
	}
	var target *completionTarget
	var unknown error
	err = s.lookup(ctx, func(of *Catalog) bool {
		target, unknown = of.completionTarget(params.Ref, c.Principal())
		return unknown == nil
	})
	if err = cmp.Or(err, unknown); err != nil {
		return nil, nil, err
	}
	target.params = params
	return target, target.scopes, nil
}

// complete serves completion/complete.
func (s *Server) complete(ctx context.Context, c *rpc.Call) (any, error) {
	target := c.Target.Entry.(*completionTarget)
	params := target.params
	name, value := params.Argument.Name, params.Argument.Value
	argument := target.parameter(name)
	if argument == nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s has no argument %.128q", target.name, name)
	}
	complete := target.completers.of(name)
	if complete == nil {
		return &mcp.CompleteResult{Completion: *completionOf(argument.suggest(value))}, nil
	}
	completion, err := complete(ctx, name, value, params.Context.Arguments)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot complete %q of %s: %w", name, target.name, err)
	case completion == nil:
		completion = completionOf(nil)
	case len(completion.Values) > mcp.MaxCompletionValues:
		limited := *completion
		limited.Values, limited.HasMore = completion.Values[:mcp.MaxCompletionValues], true
		if total := int64(len(completion.Values)); limited.Total == nil {
			limited.Total = &total
		}
		completion = &limited
	}
	return &mcp.CompleteResult{Completion: *completion}, nil
}

// completionOf returns the completion of all suggestions.
func completionOf(all []string) *mcp.Completion {
	total := int64(len(all))
	values := make([]string, 0, min(total, mcp.MaxCompletionValues))
	for _, value := range all[:cap(values)] {
		values = append(values, strings.ToValidUTF8(value, "\uFFFD"))
	}
	return &mcp.Completion{Values: values, Total: &total, HasMore: len(values) < len(all)}
}

// completeParams decodes the params of completion/complete.
func completeParams(c *rpc.Call) (*mcp.CompleteParams, error) {
	invalid := func(text string) (*mcp.CompleteParams, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
	}
	if err := checkNames(c.Params(), "ref", "argument", "context", "_meta"); err != nil {
		return nil, err
	}
	ref, err := membersOf(c, "ref", "type", "name", "uri", "title")
	if err != nil {
		return nil, err
	}
	argument, err := membersOf(c, "argument", "name", "value")
	if err != nil {
		return nil, err
	}
	others, err := membersOf(c, "context", "arguments")
	if err != nil {
		return nil, err
	}
	p := &mcp.CompleteParams{Context: &mcp.CompleteContext{}}
	text := func(raw []byte, into *string) bool {
		*into = jsonrpc.Unquote(raw)
		return len(raw) > 0 && raw[0] == '"' && len(raw) <= maxURI
	}
	switch {
	case !text(ref["type"], (*string)(&p.Ref.Type)):
		return invalid("params.ref.type must be a string")
	case p.Ref.Type == mcp.RefPrompt && !text(ref["name"], &p.Ref.Name):
		return invalid("params.ref.name must be a string: the name of a prompt")
	case p.Ref.Type == mcp.RefResource && !text(ref["uri"], &p.Ref.URI):
		return invalid("params.ref.uri must be a string: the URI template of resources")
	case !text(argument["name"], &p.Argument.Name) || !text(argument["value"], &p.Argument.Value):
		return invalid(fmt.Sprintf("params.argument must have a name and a value, each a string of at most %d bytes",
			maxURI))
	}
	p.Context.Arguments, err = textsOf("params.context.arguments", others["arguments"])
	return p, err
}
