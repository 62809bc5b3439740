package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// AddTemplate adds the resources whose URIs match a template (RFC 6570). The fields of In
// receive the decoded values of the template's variables. In is a struct whose fields are
// strings, numbers, booleans and, for lists such as {/path*}, slices of these, or a map. Tags
// constrain the values as for the arguments of tools (see package schema). The returned value
// becomes contents as with [AddResource].
//
// If the values do not fit In, the resource is not found, and neither is a URI of more than 8
// KiB. If several definitions match a URI, the server uses the first in this order: a resource
// with that URI; then the template with more characters outside of its expressions; then a
// template without {+var} and {#var}; then the template whose text sorts first. The order of
// registration does not matter.
//
// Decoded values may contain ".." and slashes: use [AddFS] to serve files. Variables with the
// enum tag and boolean variables have completion. See [Complete] for others.
//
// AddTemplate panics if t has no name, if the template is in use or invalid, or if a key in
// t.Meta is invalid. A template must have at most 2 KiB and 32 variables, and no prefix modifier
// such as {var:3}. All of its variables must be in In, and all required fields of In must be in
// the template. [Catalog.RegisterTemplate] returns errors instead. Both copy t and are safe while
// the server serves.
func AddTemplate[In, Out any](
	to Registrar, t mcp.ResourceTemplate, handler func(ctx context.Context, in In) (Out, error),
	options ...Option,
) {
	if err := addTemplate(to.catalog(), t, handler, options); err != nil {
		panic(fmt.Sprintf("server: template %q: %v", t.URITemplate, err))
	}
}

func addTemplate[In, Out any](
	c *Catalog, t mcp.ResourceTemplate, handler func(ctx context.Context, in In) (Out, error), options []Option,
) error {
	if handler == nil {
		return errNoHandler
	}
	variables, err := parametersOf[In](true)
	if err != nil {
		return fmt.Errorf("variables: %w", err)
	}
	contents, err := contentsOf[Out](&t.MimeType)
	if err != nil {
		return err
	}
	return c.addTemplate(&templateEntry{
		template:  t,
		variables: variables,
		open: func(_ string, values map[string][]string) (readFunc, error) {
			var in In
			if err := variables.bind(values, &in); err != nil {
				return nil, err
			}
			return func(ctx context.Context) (*mcp.ReadResourceResult, error) {
				out, err := handler(ctx, in)
				if err != nil {
					return nil, err
				}
				return contents(out)
			}, nil
		},
	}, options)
}

// RegisterTemplate adds the resources whose URIs match a template, with an untyped handler. It
// returns an error where [AddTemplate] panics. If t has a Source, it is a template of another server,
// which need not be valid: an invalid one matches the URIs that begin and end as it does.
// RegisterTemplate copies t. Safe while the server serves. The handler is as for [Catalog.RegisterResource].
func (c *Catalog) RegisterTemplate(
	t mcp.ResourceTemplate, handler func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error),
	options ...Option,
) error {
	var err error
	if handler == nil {
		err = errNoHandler
	} else {
		err = c.addTemplate(&templateEntry{
			template: t,
			open: func(uri string, _ map[string][]string) (readFunc, error) {
				return func(ctx context.Context) (*mcp.ReadResourceResult, error) { return handler(ctx, uri) }, nil
			},
		}, options)
	}
	if err != nil {
		return fmt.Errorf("template %q: %w", t.URITemplate, err)
	}
	return nil
}

// RemoveTemplate removes a template and reports whether it existed. It also removes the template
// that [AddFS] has registered. Reads in flight continue. Safe while the server serves.
func (c *Catalog) RemoveTemplate(uriTemplate string) bool {
	return unregister(c, &templateKind, uriTemplate)
}

// readFunc reads one resource.
type readFunc func(ctx context.Context) (*mcp.ReadResourceResult, error)

// templateEntry is one registered template. It is immutable.
type templateEntry struct {
	resourceOffer
	template  mcp.ResourceTemplate
	uris      *uriTemplate
	variables *parameters // nil: any strings
	// open returns the function that reads a URI, or an error if the values of its variables
	// name no resource.
	open       func(uri string, values map[string][]string) (readFunc, error)
	files      *fileTree // listed by resources/list; nil: none
	completers completers
}

func (c *Catalog) addTemplate(e *templateEntry, options []Option) error {
	e.name, e.logger = e.template.URITemplate, c.logger
	if err := apply(e, options); err != nil {
		return err
	}
	c.declareFollow(&e.resourceOffer)
	if e.template.Name == "" {
		return errNoName
	}
	uris, err := parseTemplate(e.template.URITemplate)
	if err != nil && e.template.Source != nil {
		uris, err = opaqueTemplate(e.template.URITemplate)
	}
	if err != nil {
		return err
	}
	if err := e.checkVariables(uris); err != nil {
		return err
	}
	if err := uris.compile(func(name string) bool { return e.variable(name).list }); err != nil {
		return err
	}
	if err := c.checkMeta(e.template.Meta); err != nil {
		return err
	}
	if err := detach(&e.template, &e.template.Source); err != nil {
		return err
	}
	e.uris = uris
	if err := e.completers.check(e.completed); err != nil {
		return err
	}
	if err := register(c, &templateKind, e); err != nil {
		return err
	}
	if e.completers != nil ||
		slices.ContainsFunc(uris.variables, func(v templateVariable) bool { return e.variable(v.name).enum != nil }) {
		c.completes.Store(true)
	}
	return nil
}

// checkVariables checks that the handler and the template have the same variables.
func (e *templateEntry) checkVariables(uris *uriTemplate) error {
	if e.variables == nil {
		return nil
	}
	for _, v := range uris.variables {
		if e.variables.lookup(v.name) == nil {
			return fmt.Errorf("the handler has no variable %s: add a field for it, or remove it from the template",
				v.name)
		}
	}
	for _, p := range e.variables.all {
		if p.required && uris.variable(p.name) == nil {
			return fmt.Errorf("the handler requires the variable %s: add it to the template, or make the field "+
				"optional", p.name)
		}
	}
	return nil
}

// variable returns the parameter of a variable of the template.
func (e *templateEntry) variable(name string) *parameter {
	if e.variables == nil {
		return &parameter{name: name, kind: "string", list: true} // a list may be a single text
	}
	if p := e.variables.find(name); p != nil {
		return p
	}
	p := *e.variables.others
	p.name = name
	return &p
}

// completed returns the parameter of a variable, or nil if the template has no such variable.
func (e *templateEntry) completed(name string) *parameter {
	if e.uris.variable(name) == nil {
		return nil
	}
	return e.variable(name)
}

// maxMatching bounds the work of finding the templates that match one URI: the bytes of the
// URI times the variables of each template with which it is compared. Two of the largest
// templates take this work for the longest URI, about 25 ms.
const maxMatching = 2 * maxURI * (maxVariables + 1)

// errMatching is the error for a URI whose comparison with the templates exceeds maxMatching.
func errMatching(uri string) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
		"too many templates may match a URI of %d bytes: shorten the URI", len(uri))
}

// templateSet holds the templates of a server. Safe for concurrent use.
type templateSet struct {
	entries[*templateEntry]
	index atomic.Pointer[templateIndex] // of the entries of an earlier time, or of now
}

// indexed returns the index of the templates.
func (t *templateSet) indexed() *templateIndex {
	now, x := t.snapshot(), t.index.Load()
	if x == nil || x.of != now {
		x = newTemplateIndex(now.entries)
		x.of = now
		t.index.Store(x)
	}
	return x
}

// all returns the templates, the most specific first. The caller must not modify the result.
func (t *templateSet) all() []*templateEntry { return t.indexed().ranked }

// match calls found for the templates that match a URI, the most specific first, with the
// values of their variables, until found returns false. It returns false if the comparison
// ended at maxMatching, so that more templates may match.
func (t *templateSet) match(uri string, found func(e *templateEntry, values map[string][]string) bool) (complete bool) {
	if len(uri) > maxURI {
		return true
	}
	uri = upperTriplets(uri)
	work := 0
	for _, e := range t.indexed().candidates(uri) {
		if work += len(uri) * (1 + len(e.uris.variables)); work > maxMatching {
			return false
		}
		if values, ok := e.uris.match(uri); ok && !found(e, values) {
			return true
		}
	}
	return true
}

// templateIndex finds templates by the literal text at the beginning of their URIs. It is
// immutable.
type templateIndex struct {
	of     *snapshot[*templateEntry]
	ranked []*templateEntry // by compareSpecific
	groups []templateGroup  // by prefix
}

// templateGroup is the templates with the same prefix.
type templateGroup struct {
	prefix string
	ranks  []int // of the templates, ascending
	// parent is the index of the group with the longest prefix that this prefix begins with, or
	// -1.
	parent int
}

func newTemplateIndex(list []*templateEntry) *templateIndex {
	x := &templateIndex{ranked: slices.SortedFunc(slices.Values(list), compareSpecific)}
	ranks := make(map[string][]int)
	for rank, e := range x.ranked {
		ranks[e.uris.prefix] = append(ranks[e.uris.prefix], rank)
	}
	for prefix, ranks := range ranks {
		x.groups = append(x.groups, templateGroup{prefix: prefix, ranks: ranks})
	}
	slices.SortFunc(x.groups, func(a, b templateGroup) int { return strings.Compare(a.prefix, b.prefix) })
	for i := range x.groups {
		x.groups[i].parent = x.within(i-1, x.groups[i].prefix)
	}
	return x
}

// within returns the index of the first group, from group i up through its parents, whose
// prefix begins text. It returns -1 if no prefix does.
func (x *templateIndex) within(i int, text string) int {
	for i >= 0 && !strings.HasPrefix(text, x.groups[i].prefix) {
		i = x.groups[i].parent
	}
	return i
}

// candidates returns the templates whose prefix begins a URI, the most specific first. A
// prefix of the URI is not greater than the URI, and begins everything between the two. So
// all prefixes of the URI are among the last group that is not greater and its parents.
func (x *templateIndex) candidates(uri string) []*templateEntry {
	i, exact := slices.BinarySearchFunc(x.groups, uri,
		func(g templateGroup, uri string) int { return strings.Compare(g.prefix, uri) })
	if !exact {
		i--
	}
	var ranks []int
	for i = x.within(i, uri); i >= 0; i = x.groups[i].parent {
		ranks = append(ranks, x.groups[i].ranks...)
	}
	slices.Sort(ranks)
	found := make([]*templateEntry, len(ranks))
	for i, rank := range ranks {
		found[i] = x.ranked[rank]
	}
	return found
}

// compareSpecific orders templates that match the same URI: the one that serves it comes first; see [AddTemplate].
func compareSpecific(a, b *templateEntry) int {
	rank := func(reserved bool) int {
		if reserved {
			return 1
		}
		return 0
	}
	return cmp.Or(
		-cmp.Compare(a.uris.literals, b.uris.literals),
		cmp.Compare(rank(a.uris.reserved), rank(b.uris.reserved)),
		strings.Compare(a.uris.text, b.uris.text),
	)
}
