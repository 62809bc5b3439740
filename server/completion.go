package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Completer suggests values for an argument that a user is typing, the most relevant first.
// Value is the text so far. Arguments are the other arguments that have a value already; clients
// before 2025-06-18 do not send them. The completer may modify the map. It must be safe for
// concurrent use.
//
// The client receives the first 100 suggestions and their total number. Suggest only values that
// every caller of the prompt or template may see. For errors and panics, see the package
// documentation.
type Completer func(ctx context.Context, value string, arguments map[string]string) ([]string, error)

// CompleteFrom returns a Completer that suggests the values that begin with the typed text,
// followed by those that contain it elsewhere. It ignores case. It retains values.
func CompleteFrom(values ...string) Completer {
	return func(_ context.Context, value string, _ map[string]string) ([]string, error) {
		return matching(values, value), nil
	}
}

// CompletePrompt sets the completer of an argument of a prompt. It replaces an earlier
// completer, and the completion of an argument with the enum tag. The prompt must exist.
// Removing the prompt removes its completers.
//
// CompletePrompt panics if there is no such prompt or argument, or if complete is nil.
// [Catalog.RegisterCompletion] returns errors instead. Both are safe while the server serves.
func CompletePrompt(to Registrar, prompt, argument string, complete Completer) {
	mustComplete(to, mcp.CompleteReference{Type: mcp.RefPrompt, Name: prompt}, argument, complete)
}

// CompleteTemplate sets the completer of a variable of a template, as [CompletePrompt] does for
// an argument of a prompt. A template that [AddFS] has registered has the variable path.
func CompleteTemplate(to Registrar, uriTemplate, variable string, complete Completer) {
	mustComplete(to, mcp.CompleteReference{Type: mcp.RefResource, URI: uriTemplate}, variable, complete)
}

func mustComplete(to Registrar, ref mcp.CompleteReference, argument string, complete Completer) {
	err := errNoCompleter
	if complete != nil {
		err = to.catalog().RegisterCompletion(ref, argument, complete.completion)
	}
	if err != nil {
		panic("server: " + err.Error())
	}
}

// completion returns the suggestions as a completion.
func (c Completer) completion(ctx context.Context, value string, arguments map[string]string) (*mcp.Completion, error) {
	suggestions, err := c(ctx, value, arguments)
	if err != nil {
		return nil, err
	}
	return completionOf(suggestions), nil
}

// RegisterCompletion sets the completer of an argument of a prompt, or of a variable of a template. It returns an error
// where [CompletePrompt] panics. A nil result without an error has no values. The client receives the first 100 values.
// Safe while the server serves.
func (c *Catalog) RegisterCompletion(
	ref mcp.CompleteReference, argument string,
	complete func(ctx context.Context, value string, arguments map[string]string) (*mcp.Completion, error),
) error {
	if complete == nil {
		return errNoCompleter
	}
	target, err := c.completionTarget(ref, func(entry) bool { return true })
	if err != nil {
		return err
	}
	if target.parameter(argument) == nil {
		return fmt.Errorf("%s has no argument %q", target.name, argument)
	}
	target.completers.set(argument, complete)
	c.completes.Store(true)
	return nil
}

var errNoCompleter = errors.New("completer must not be nil")

// completer is the form of all completers.
type completer func(ctx context.Context, value string, arguments map[string]string) (*mcp.Completion, error)

// completers are the completers of one prompt or template, by argument. Safe for concurrent use.
type completers struct {
	mu sync.RWMutex
	by map[string]completer
}

func (c *completers) set(argument string, complete completer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[string]completer)
	}
	c.by[argument] = complete
}

func (c *completers) get(argument string) completer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.by[argument]
}

// completionTarget is the prompt or template of a completion request.
type completionTarget struct {
	name       string // for error texts
	completers *completers
	parameter  func(name string) *parameter // nil if there is none
	scopes     []string
	params     *mcp.CompleteParams
}

// completionTarget returns the prompt or template of a reference, among those that are seen.
// The URI of a resource of a template refers to the template (2026-07-28,
// server/utilities/completion, CompleteRequest).
func (c *Catalog) completionTarget(ref mcp.CompleteReference, seen func(entry) bool) (*completionTarget, error) {
	switch ref.Type {
	case mcp.RefPrompt:
		if e, ok := c.prompts.get(ref.Name); ok && seen(e) {
			name := fmt.Sprintf("the prompt %q", ref.Name)
			return &completionTarget{name: name, completers: &e.completers, parameter: e.argument, scopes: e.scopes},
				nil
		}
		return nil, unknownPrompt(ref.Name)
	case mcp.RefResource:
		e, ok := c.templates.get(ref.URI)
		ok = ok && seen(e)
		complete := ok || c.templates.match(ref.URI, func(candidate *templateEntry, _ map[string][]string) bool {
			e, ok = candidate, seen(candidate)
			return !ok
		})
		if !complete {
			return nil, errMatching(ref.URI)
		}
		if !ok {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown resource template: %.128q", ref.URI)
		}
		variable := func(name string) *parameter {
			if e.uris.variable(name) == nil {
				return nil
			}
			return e.variable(name)
		}
		name := fmt.Sprintf("the template %q", e.uris.text)
		return &completionTarget{name: name, completers: &e.completers, parameter: variable, scopes: e.scopes}, nil
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
		target, unknown = of.completionTarget(params.Ref, func(e entry) bool { return e.visibleTo(c.Principal()) })
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
	complete := target.completers.get(name)
	if complete == nil {
		return &mcp.CompleteResult{Completion: *completionOf(argument.suggest(value))}, nil
	}
	completion, err := complete(ctx, value, params.Context.Arguments)
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
	case !text(ref["type"], &p.Ref.Type):
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
