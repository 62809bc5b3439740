package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxPages bounds the pages of one list: a server could hand out cursors for ever.
const maxPages = 64

// Tools lists the server's tools, page by page as the loop goes on. It ends after
// the first error.
//
// Over HTTP, tools of 2026-07-28 are left out, and a warning is logged, whose
// parameters are marked with an x-mcp-header that cannot be followed.
func (c *Client) Tools(ctx context.Context) iter.Seq2[*mcp.Tool, error] {
	return list(ctx, c, mcp.MethodListTools, func(page *mcp.ListToolsResult) ([]mcp.Tool, *string) {
		return c.usable(page.Tools), page.NextCursor
	})
}

// Resources lists the server's resources, as [Client.Tools] lists its tools. There may
// be more to read than is listed: see [Client.ResourceTemplates].
func (c *Client) Resources(ctx context.Context) iter.Seq2[*mcp.Resource, error] {
	return list(ctx, c, mcp.MethodListResources, func(page *mcp.ListResourcesResult) ([]mcp.Resource, *string) {
		return page.Resources, page.NextCursor
	})
}

// ResourceTemplates lists the templates of the URIs that the server's resources have,
// as [Client.Tools] lists its tools.
func (c *Client) ResourceTemplates(ctx context.Context) iter.Seq2[*mcp.ResourceTemplate, error] {
	return list(ctx, c, mcp.MethodListResourceTemplates, func(page *mcp.ListResourceTemplatesResult) ([]mcp.ResourceTemplate, *string) {
		return page.ResourceTemplates, page.NextCursor
	})
}

// Prompts lists the server's prompts, as [Client.Tools] lists its tools.
func (c *Client) Prompts(ctx context.Context) iter.Seq2[*mcp.Prompt, error] {
	return list(ctx, c, mcp.MethodListPrompts, func(page *mcp.ListPromptsResult) ([]mcp.Prompt, *string) {
		return page.Prompts, page.NextCursor
	})
}

// list asks for the pages of a list, one after the other. Split returns the elements of
// a page and the cursor of the next.
func list[Page, E any](ctx context.Context, c *Client, method string, split func(*Page) ([]E, *string)) iter.Seq2[*E, error] {
	return func(yield func(*E, error) bool) {
		var cursor *string
		for range maxPages {
			page, err := listPage[Page](ctx, c, method, cursor)
			if err != nil {
				yield(nil, err)
				return
			}
			elements, next := split(page)
			for i := range elements {
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

func listPage[Page any](ctx context.Context, c *Client, method string, cursor *string) (*Page, error) {
	var params []byte
	if cursor != nil {
		params = append(jsonrpc.AppendString([]byte(`{"cursor":`), *cursor), '}')
	}
	raw, err := c.request(ctx, func(*link) *call.Request {
		timeout, most := c.timeouts(c.dialer.Timeouts.Read)
		return &call.Request{Method: method, Params: params, Timeout: timeout, MaxTimeout: most}
	}, true)
	if err != nil {
		return nil, err
	}
	page := new(Page)
	if err := json.Unmarshal(raw, page); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidResponse, method, err)
	}
	return page, nil
}
