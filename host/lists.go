package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// lists contains the lists of a server as the server sends them.
type lists struct {
	tools      []mcp.Tool
	prompts    []mcp.Prompt
	resources  []mcp.Resource
	templates  []mcp.ResourceTemplate
	incomplete map[client.ChangeKind]error // why a list is incomplete
}

// replaced returns l with the lists of the given kinds taken from by.
func (l lists) replaced(kinds client.ChangeKind, by *lists) lists {
	incomplete := make(map[client.ChangeKind]error)
	maps.Copy(incomplete, by.incomplete)
	for kind, err := range l.incomplete {
		if kinds&kind == 0 {
			incomplete[kind] = err
		}
	}
	l.incomplete = incomplete
	if kinds&client.ToolsChanged != 0 {
		l.tools = by.tools
	}
	if kinds&client.PromptsChanged != 0 {
		l.prompts = by.prompts
	}
	if kinds&client.ResourcesChanged != 0 {
		l.resources, l.templates = by.resources, by.templates
	}
	return l
}

// allKinds contains every kind of list that a server can have.
const allKinds = client.ToolsChanged | client.PromptsChanged | client.ResourcesChanged

// list requests the lists of the given kinds for which the server declares a
// capability. The options apply to each request.
func list(ctx context.Context, c *client.Client, kinds client.ChangeKind,
	options ...client.CallOption) (l lists, err error) {
	options = append(options, client.WithSource())
	has := c.Server().Capabilities
	l.incomplete = make(map[client.ChangeKind]error)
	if kinds&client.ToolsChanged != 0 && has.Tools != nil {
		if l.tools, err = collect(&l, client.ToolsChanged, c.Tools(ctx, options...)); err != nil {
			return l, err
		}
	}
	if kinds&client.ResourcesChanged != 0 && has.Resources != nil {
		if l.resources, err = collect(&l, client.ResourcesChanged, c.Resources(ctx, options...)); err != nil {
			return l, err
		}
		if l.templates, err = collect(&l, client.ResourcesChanged, c.ResourceTemplates(ctx, options...)); err != nil {
			return l, err
		}
	}
	if kinds&client.PromptsChanged != 0 && has.Prompts != nil {
		l.prompts, err = collect(&l, client.PromptsChanged, c.Prompts(ctx, options...))
	}
	return l, err
}

// outdatedError says that a list is incomplete because it could not be updated.
type outdatedError struct{ err error }

func (e *outdatedError) Error() string {
	return "cannot update a list, so the previous one is used: " + e.err.Error()
}

func (e *outdatedError) Unwrap() error { return e.err }

// outdated returns the kinds of lists that could not be updated.
func (l *lists) outdated() (kinds client.ChangeKind) {
	for kind, err := range l.incomplete {
		if errors.As(err, new(*outdatedError)) {
			kinds |= kind
		}
	}
	return kinds
}

// collect returns the elements of a list. It returns none if the server does not
// implement the method: a server that declares resources may have no templates, or only
// templates. If a response is invalid or the list has no end, collect returns the
// elements before that and records the error in l.incomplete; another request would
// find the same.
func collect[E any](l *lists, kind client.ChangeKind, elements iter.Seq2[*E, error]) (all []E, err error) {
	for e, err := range elements {
		var reported *jsonrpc.Error
		switch {
		case errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound:
			return nil, nil
		case errors.Is(err, call.ErrInvalidResponse):
			l.incomplete[kind] = errors.Join(l.incomplete[kind], err)
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, *e)
	}
	return all, nil
}

// Selection selects the tools or the prompts of a server that a [Host] offers, and renames them. It uses the server's
// own names. The zero Selection selects everything. A tool or prompt that is not selected appears in no list of the
// Host, and calls of it fail with [ErrUnknown].
//
// In patterns, * matches any number of characters and ? matches one character. Patterns
// match whole names, and letters are case-sensitive.
type Selection struct {
	// Only contains patterns of the names to select. Nil means all names.
	Only []string
	// Hide contains patterns of names to leave out, even if Only selects them.
	Hide []string
	// Rename contains the new names of tools or prompts in the merged lists, by their old names. A new name has 1 to
	// 128 ASCII letters, digits, hyphens, underscores and dots. The prefix of the server is added to it.
	Rename map[string]string

	// Annotations selects the tools that declare these annotations: ReadOnlyHint and IdempotentHint if they are true,
	// DestructiveHint and OpenWorldHint if they are not nil. A tool that declares ReadOnlyHint counts as idempotent and
	// not destructive. Annotations may be false, so do not rely on them for a server that you do not trust. Prompts
	// have no annotations.
	Annotations mcp.ToolAnnotations
}

// names reports whether the selection includes a name.
func (s *Selection) names(name string) bool {
	return (s.Only == nil || glob.Any(s.Only, name)) && !glob.Any(s.Hide, name)
}

// byAnnotation reports whether the annotations of a tool decide, and not only its name.
func (s *Selection) byAnnotation() bool { return s.Annotations != (mcp.ToolAnnotations{}) }

// tool reports whether a tool is selected.
func (s *Selection) tool(t *mcp.Tool) bool {
	if !s.names(t.Name) {
		return false
	}
	want, a := &s.Annotations, t.Annotations
	if a == nil {
		return !s.byAnnotation()
	}
	declares := func(want, hint *bool) bool { return want == nil || hint != nil && *hint == *want }
	destructive := a.DestructiveHint
	if a.ReadOnlyHint {
		destructive = new(false)
	}
	return (!want.ReadOnlyHint || a.ReadOnlyHint) && (!want.IdempotentHint || a.ReadOnlyHint || a.IdempotentHint) &&
		declares(want.DestructiveHint, destructive) && declares(want.OpenWorldHint, a.OpenWorldHint)
}

// renamed returns the name that replaces a name of the server in the merged lists.
func (s *Selection) renamed(name string) string {
	if other, ok := s.Rename[name]; ok {
		return other
	}
	return name
}

// check returns an error for fields that are invalid. Only tools have annotations.
func (s *Selection) check(annotated bool) error {
	for _, name := range slices.Sorted(maps.Keys(s.Rename)) {
		if to := s.Rename[name]; to == "" || len(to) > maxMergedName || validName(to) != to {
			return fmt.Errorf("new name %.140q of %.140q must have 1 to %d letters, digits, hyphens, underscores and "+
				"dots", to, name, maxMergedName)
		}
	}
	if !annotated && s.byAnnotation() {
		return errors.New("prompts must not be selected by annotations: they have none")
	}
	return nil
}

// unknownNames returns an error with the names of a selection that a server does not list: a misspelt name in Hide
// hides nothing. Patterns need not match anything, and a list is empty until the server has connected.
func unknownNames[Entry any](s *Selection, kind string, listed []Entry, nameOf func(*Entry) string) error {
	if len(listed) == 0 {
		return nil
	}
	names := slices.Concat(s.Only, s.Hide, slices.Sorted(maps.Keys(s.Rename)))
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.ContainsAny(name, "*?") || slices.ContainsFunc(listed,
			func(e Entry) bool { return nameOf(&e) == name })
	})
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("the configuration names the %ss %q, which the server does not list: correct or remove them",
		kind, slices.Compact(names))
}
