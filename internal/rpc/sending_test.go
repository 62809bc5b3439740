package rpc_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// What a caller says of one request goes before what middleware says of all of them.
func TestCallersMetaGoesBeforeMiddlewares(t *testing.T) {
	sending := rpc.NewSending(func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			for key, value := range map[string]string{"com.example/a": "middleware's", "com.example/b": "middleware's"} {
				if err := c.SetMeta(key, value); err != nil {
					t.Error(err)
				}
			}
			return next(ctx, c)
		}
	})
	req := &rpc.Request{Method: "tools/call", Meta: map[string]json.RawMessage{"com.example/a": json.RawMessage(`"caller's"`)}}
	_, err := sending.Do(t.Context(), mcp.V20260728, req, func(_ context.Context, sent *rpc.Request) (json.RawMessage, error) {
		if a, b := string(sent.Meta["com.example/a"]), string(sent.Meta["com.example/b"]); a != `"caller's"` || b != `"middleware's"` {
			t.Errorf("sent a: %s, b: %s", a, b)
		}
		return json.RawMessage(`{}`), nil
	})
	if err != nil {
		t.Error(err)
	}
	if len(req.Meta) != 1 {
		t.Errorf("the caller's own map has become %s", req.Meta)
	}
}
