package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// Complete asks what an argument of a prompt, or a variable of a resource template, may
// be completed to:
//
//	c.Complete(ctx, mcp.CompleteParams{
//		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"},
//		Argument: mcp.CompleteArgument{Name: "language", Value: "py"},
//	})
//
// Context is sent to servers that know it, since 2025-06-18. Servers answer with at most
// 100 values. Timeouts.Read bounds the wait.
func (c *Client) Complete(ctx context.Context, params mcp.CompleteParams) (*mcp.Completion, error) {
	meta := params.Meta
	params.Meta = nil
	if err := checkMeta(meta); err != nil {
		return nil, fmt.Errorf("completion/complete: %w", err)
	}
	raw, err := c.request(ctx, func(l *link) *rpc.Request {
		body, _ := json.Marshal(revision.DowngradeCompletion(l.revision, params)) // strings
		timeout, most := c.timeouts(c.dialer.Timeouts.Read)
		return &rpc.Request{Method: mcp.MethodComplete, Params: body, Meta: meta, Timeout: timeout, MaxTimeout: most}
	}, true)
	if err != nil {
		return nil, err
	}
	var result mcp.CompleteResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("%w: completion/complete: %w", ErrInvalidResponse, err)
	}
	return &result.Completion, nil
}
