package modern

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves one request of a stream and appends its response to dst.
func serve(ctx context.Context, s *Server, dst []byte, m *jsonrpc.Message, who principal.Principal) []byte {
	p := &Peer{s, who, new(rpc.Inflight)}
	c, err := rpc.Accept(ctx, p, m, classify(m), nil)
	if err != nil {
		return jsonrpc.AppendError(dst, m.ID, err, false)
	}
	p.AppendReply(&dst, c)
	return dst
}
