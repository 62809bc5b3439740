package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxPages bounds the pages of one list: a server could hand out cursors for ever.
const maxPages = 64

// Tools lists the server's tools, page by page as the loop goes on. It ends after
// the first error. Pages of 2026-07-28 that the server says are fresh are not asked for
// again: see [Cache] and [WithRefresh].
//
// Over HTTP, tools of 2026-07-28 are left out, and a warning is logged, whose
// parameters are marked with an x-mcp-header that cannot be followed.
func (c *Client) Tools(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.Tool, error] {
	return list(ctx, c, options, mcp.MethodListTools, func(page *mcp.ListToolsResult) ([]mcp.Tool, *string) {
		return c.usable(page.Tools), page.NextCursor
	}, func(t *mcp.Tool) string { return t.Name })
}

// Resources lists the server's resources, as [Client.Tools] lists its tools. There may
// be more to read than is listed: see [Client.ResourceTemplates].
func (c *Client) Resources(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.Resource, error] {
	return list(ctx, c, options, mcp.MethodListResources, func(page *mcp.ListResourcesResult) ([]mcp.Resource, *string) {
		return page.Resources, page.NextCursor
	}, func(r *mcp.Resource) string { return r.URI })
}

// ResourceTemplates lists the templates of the URIs that the server's resources have,
// as [Client.Tools] lists its tools.
func (c *Client) ResourceTemplates(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.ResourceTemplate, error] {
	return list(ctx, c, options, mcp.MethodListResourceTemplates, func(page *mcp.ListResourceTemplatesResult) ([]mcp.ResourceTemplate, *string) {
		return page.ResourceTemplates, page.NextCursor
	}, func(t *mcp.ResourceTemplate) string { return t.URITemplate })
}

// Prompts lists the server's prompts, as [Client.Tools] lists its tools.
func (c *Client) Prompts(ctx context.Context, options ...CallOption) iter.Seq2[*mcp.Prompt, error] {
	return list(ctx, c, options, mcp.MethodListPrompts, func(page *mcp.ListPromptsResult) ([]mcp.Prompt, *string) {
		return page.Prompts, page.NextCursor
	}, func(p *mcp.Prompt) string { return p.Name })
}

// list asks for the pages of a list, one after the other. Split returns the elements of
// a page and the cursor of the next; name tells elements apart.
func list[Page, E any](ctx context.Context, c *Client, options []CallOption, method string, split func(*Page) ([]E, *string), name func(*E) string) iter.Seq2[*E, error] {
	return func(yield func(*E, error) bool) {
		o, err := optionsOf(options, c.dialer.Timeouts.Read)
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", method, err))
			return
		}
		var cursor *string
		var again map[string]bool    // what the caller has had, when the list is gone through anew
		had := make(map[string]bool) // of lists with several pages
		kept := false                // something was not asked for
		for range maxPages {
			page, fromCache, err := listPage[Page](ctx, c, method, cursor, o)
			if err != nil {
				if cursor != nil && isInvalidParams(err) {
					c.cache.invalidate(method)
					if kept && again == nil { // the cursor was of a page that the server has forgotten
						cursor, again, o.refresh = nil, had, true
						continue
					}
				}
				yield(nil, err)
				return
			}
			kept = kept || fromCache
			elements, next := split(page)
			for i := range elements {
				if again[name(&elements[i])] {
					continue
				}
				if next != nil && again == nil {
					had[name(&elements[i])] = true
				}
				if !yield(&elements[i], nil) {
					return
				}
			}
			if cursor = next; cursor == nil { // an empty one is a cursor as any other
				return
			}
		}
		yield(nil, fmt.Errorf("%w: %s: more than %d pages", ErrInvalidResponse, method, maxPages))
	}
}

func listPage[Page any](ctx context.Context, c *Client, method string, cursor *string, o callOptions) (page *Page, fromCache bool, _ error) {
	var params []byte
	if cursor != nil {
		params = append(jsonrpc.AppendString([]byte(`{"cursor":`), *cursor), '}')
	}
	raw, fromCache, err := c.fetch(ctx, rpc.Request{Method: method, Params: params}, o)
	if err != nil {
		return nil, false, err
	}
	page = new(Page)
	if err := json.Unmarshal(raw, page); err != nil {
		return nil, false, fmt.Errorf("%w: %s: %w", ErrInvalidResponse, method, err)
	}
	return page, fromCache, nil
}

func isInvalidParams(err error) bool {
	var reported *jsonrpc.Error
	return errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams
}
