package rpc_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engineReply runs a call and appends its response to dst.
func engineReply(ctx context.Context, dst []byte, e *rpc.Engine, c *rpc.Call, identity []byte) ([]byte, *jsonrpc.Error) {
	reported := e.AppendReply(ctx, &dst, c, identity)
	return dst, reported
}

// appendReply runs a call as a request in flight and appends its response to dst.
func appendReply(ctx context.Context, dst []byte, f *rpc.Inflight, e *rpc.Engine, c *rpc.Call, identity []byte) []byte {
	if err := f.Accept(ctx, e, c); err != nil {
		return jsonrpc.AppendError(dst, c.ID(), err, false)
	}
	f.AppendReply(&dst, e, c, identity)
	return dst
}
