package client

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Complete returns values that complete an argument of a prompt or a variable of a resource
// template, at most 100:
//
//	c.Complete(ctx, mcp.CompleteParams{
//		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"},
//		Argument: mcp.CompleteArgument{Name: "language", Value: "py"},
//	})
//
// Servers before 2025-06-18 do not receive params.Context. The option [WithMeta] replaces
// params.Meta. The time-out is Timeouts.Read.
func (c *Client) Complete(ctx context.Context, params mcp.CompleteParams, options ...CallOption) (*mcp.Completion, error) {
	meta := params.Meta
	params.Meta = nil
	o, err := optionsOf(append([]CallOption{WithMeta(meta)}, options...), c.dialer.Timeouts.Read)
	if err != nil {
		return nil, fmt.Errorf("completion/complete: %w", err)
	}
	raw, err := c.request(ctx, func(l *link) *outbound.Request {
		body, _ := schema.Marshal(revision.DowngradeCompletion(l.revision, params)) // strings only
		return &outbound.Request{
			Method: mcp.MethodComplete, Params: body, Meta: o.meta,
			Timeout: o.timeout, MaxTimeout: c.dialer.Timeouts.Max, OnProgress: c.dialer.progressContained(o.onProgress),
		}
	}, true)
	if err != nil {
		return nil, err
	}
	result, _, err := decodeResult[mcp.CompleteResult](c, mcp.MethodComplete, raw, false)
	if err != nil {
		return nil, err
	}
	return &result.Completion, nil
}
