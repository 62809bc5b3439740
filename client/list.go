package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Tools lists the server's tools. It requests the next page when the loop reaches it, and
// ends after the first error. It takes fresh pages from the cache; see [WithRefresh]. The
// time-out for each page is Timeouts.Read.
//
// A list of more than 100,000 tools or 64 MiB, or one of many empty pages, ends with an
// [ErrIncompleteList]. The tools before it are valid. A list whose cursor does not advance
// ends without an error, and with a warning.
//
// Tools leaves out entries that cannot be decoded or have no name, and optional fields that cannot be decoded, and logs
// a warning. Over HTTP in 2026-07-28, it also leaves out tools with an invalid x-mcp-header in their schema.
func (c *Client) Tools(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.Tool, error] {
	return list(ctx, c, options, mcp.MethodListTools, "tools",
		func(page *mcp.ListToolsResult, sources []json.RawMessage) ([]mcp.Tool, *string) {
			for i := range page.Tools {
				t := &page.Tools[i]
				if string(t.OutputSchema) == "null" {
					t.OutputSchema = nil
				}
				if string(t.InputSchema) == "null" {
					t.InputSchema = nil
				}
				if i < len(sources) {
					t.Source = sources[i]
				}
			}
			return c.learnTools(page.Tools), page.NextCursor
		}, func(t *mcp.Tool) (string, *mcp.Icons) { return t.Name, &t.Icons })
}

// Resources lists the server's resources, in the same way as [Client.Tools] lists tools. A
// server need not list all resources that can be read; see also [Client.ResourceTemplates].
func (c *Client) Resources(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.Resource, error] {
	return list(ctx, c, options, mcp.MethodListResources, "resources",
		func(page *mcp.ListResourcesResult, sources []json.RawMessage) ([]mcp.Resource, *string) {
			for i, source := range sources {
				page.Resources[i].Source = source
			}
			return page.Resources, page.NextCursor
		}, func(r *mcp.Resource) (string, *mcp.Icons) { return r.URI, &r.Icons })
}

// ResourceTemplates lists the templates of the server's resource URIs, in the same way as
// [Client.Tools] lists tools.
func (c *Client) ResourceTemplates(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.ResourceTemplate, error] {
	return list(ctx, c, options, mcp.MethodListResourceTemplates, "resourceTemplates",
		func(page *mcp.ListResourceTemplatesResult, sources []json.RawMessage) ([]mcp.ResourceTemplate, *string) {
			for i, source := range sources {
				page.ResourceTemplates[i].Source = source
			}
			return page.ResourceTemplates, page.NextCursor
		}, func(t *mcp.ResourceTemplate) (string, *mcp.Icons) { return t.URITemplate, &t.Icons })
}

// Prompts lists the server's prompts, in the same way as [Client.Tools] lists tools.
func (c *Client) Prompts(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.Prompt, error] {
	return list(ctx, c, options, mcp.MethodListPrompts, "prompts",
		func(page *mcp.ListPromptsResult, sources []json.RawMessage) ([]mcp.Prompt, *string) {
			for i, source := range sources {
				page.Prompts[i].Source = source
			}
			return page.Prompts, page.NextCursor
		}, func(p *mcp.Prompt) (string, *mcp.Icons) { return p.Name, &p.Icons })
}

// list requests the pages of a list one after another. split returns the elements of a page,
// which are in the given field, and the cursor of the next page. It receives the JSON of the
// elements if they need their Source. parts returns the identifier and the icons of an element.
func list[Page, E any](ctx context.Context, c *Client, options []CallOption, method, member string,
	split func(*Page, []json.RawMessage) ([]E, *string), parts func(*E) (string, *mcp.Icons)) iter.Seq2[*E, error] {
	return func(yield func(*E, error) bool) {
		o, err := optionsOf(options, listRequest, c.dialer.Timeouts.Read)
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", method, err))
			return
		}
		var cursor *string
		var skip map[string]bool         // after a restart: what the caller has already received
		yielded := make(map[string]bool) // used only for lists of several pages
		anyCached, restarted := false, false
		ignored := 0 // number of entries that cannot be used
		limits := newListLimits(method)
		for {
			page, raw, cached, err := listPage[Page](ctx, c, method, cursor, o)
			if err != nil {
				if _, reported := errors.AsType[*jsonrpc.Error](err); reported && cursor != nil && *cursor == "" {
					c.endList(method, "its cursor is empty, and the server rejects it")
					return
				}
				if cursor != nil && isInvalidParams(err) {
					c.cache.invalidate(method, nil)
					if anyCached && !restarted { // the cursor came from a cached page and has expired
						cursor, skip, restarted, o.refresh = nil, yielded, true, true
						limits = newListLimits(method)
						continue
					}
				}
				yield(nil, err)
				return
			}
			anyCached = anyCached || cached
			var sources []json.RawMessage
			if o.keepSource {
				sources = elementsOf(raw, member)
			}
			elements, next := split(page, sources)
			stuck := "" // why the rest of the list is not requested
			switch known := func(e E) bool { name, _ := parts(&e); return yielded[name] }; {
			case cursor != nil && !restarted && len(elements) > 0 && all(elements, known):
				stuck = "the page has only entries of earlier pages"
			case next != nil && limits.repeats(*next):
				stuck = "its cursor repeats"
			}
			if stuck != "" {
				c.endList(method, stuck)
				next = nil
			}
			replaced := replacedValues(raw, member)
			for i := range elements {
				name, icons := parts(&elements[i])
				if skip[name] || stuck != "" && yielded[name] {
					continue
				}
				if reason := unusable(name, replaced); reason != "" {
					if ignored++; !cached && ignored <= maxIgnoredLogged {
						c.dialer.Logger.Warn("ignoring an entry of a list: "+reason,
							"server", c.target.String(), "method", method, "index", i, "name",
							fmt.Sprintf("%.64s", name))
					}
					continue
				}
				if next != nil && !restarted {
					yielded[name] = true
				}
				c.filterIcons(icons)
				if !yield(&elements[i], nil) {
					return
				}
			}
			if !cached && ignored > maxIgnoredLogged && next == nil {
				c.dialer.Logger.Warn("ignoring more entries of a list",
					"server", c.target.String(), "method", method, "count", ignored-maxIgnoredLogged)
			}
			if cursor = next; cursor == nil {
				return
			}
			if err := limits.add(len(elements), len(raw)); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// endList logs why the next page of a list is not requested, or is ignored. Some servers send an empty cursor with
// the last page, or ignore cursors; what they have sent is the list.
func (c *Client) endList(method, reason string) {
	c.dialer.Logger.Warn("ignoring the next page of a list: "+reason, "server", c.target.String(), "method", method)
}

func all[E any](list []E, is func(E) bool) bool {
	return !slices.ContainsFunc(list, func(e E) bool { return !is(e) })
}

// maxIgnoredLogged limits the log lines about unusable entries of one list.
const maxIgnoredLogged = 8

func listPage[Page any](ctx context.Context, c *Client, method string, cursor *string,
	o callOptions) (page *Page, raw json.RawMessage, cached bool, _ error) {
	var params []byte
	if cursor != nil {
		params = append(jsonrpc.AppendString([]byte(`{"cursor":`), *cursor), '}')
	}
	raw, cached, err := c.fetch(ctx, outbound.Request{Method: method, Params: params}, o)
	if err != nil {
		return nil, nil, false, err
	}
	page, raw, err = decodeResult[Page](c, method, raw, cached)
	return page, raw, cached, err
}

// elementsOf returns the JSON of the elements of a list that has been decoded.
func elementsOf(page json.RawMessage, member string) (all []json.RawMessage) {
	list, _ := jsonrpc.Get(page, member)
	if schema.Decode(list, &all) != nil {
		return nil // it is missing
	}
	return all
}

func isInvalidParams(err error) bool {
	var reported *jsonrpc.Error
	return errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams
}

// Limits on one list. A server may choose the size of its pages, so their number has no limit.
const (
	maxListed      = 100_000  // entries
	maxListedBytes = 64 << 20 // bytes of all pages
	maxEmptyPages  = 64       // in a row
)

// ErrIncompleteList means that the client did not request the remaining pages of a list, for example because there are
// too many. The entries that came before it are valid. The error is also a call.ErrInvalidResponse.
var ErrIncompleteList = errors.New("the list is incomplete")

// listLimits checks one list against the limits.
type listLimits struct {
	method                string
	entries, bytes, empty int // empty is the number of empty pages in a row
	seed                  maphash.Seed
	cursors               map[uint64]struct{} // hashes, because cursors may be long
}

func newListLimits(method string) *listLimits {
	return &listLimits{method: method, seed: maphash.MakeSeed(), cursors: make(map[uint64]struct{})}
}

// repeats records the cursor of the next page, and reports whether an earlier page returned the same cursor.
func (l *listLimits) repeats(next string) bool {
	cursor := maphash.String(l.seed, next)
	_, repeated := l.cursors[cursor]
	l.cursors[cursor] = struct{}{}
	return repeated
}

// add counts a page. It returns an error if the client must not request the next one.
func (l *listLimits) add(entries, bytes int) error {
	l.entries += entries
	l.bytes += bytes
	if l.empty++; entries > 0 {
		l.empty = 0
	}
	reason := ""
	switch {
	case l.entries >= maxListed:
		reason = fmt.Sprintf("the limit is %d entries", maxListed)
	case l.bytes >= maxListedBytes:
		reason = fmt.Sprintf("the limit is %d MiB", maxListedBytes>>20)
	case l.empty >= maxEmptyPages:
		reason = fmt.Sprintf("the server sent %d empty pages in a row", l.empty)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s: %w after %d entries: %s", call.ErrInvalidResponse, l.method, ErrIncompleteList,
		l.entries, reason)
}
