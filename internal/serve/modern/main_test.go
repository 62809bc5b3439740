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
	connection := *s
	connection.Inflight = new(rpc.Inflight)
	c, err := connection.NewCall(rpc.Sender{Who: who}, m, classify(m))
	if err == nil {
		err = connection.Begin(ctx, c, nil)
	}
	if err != nil {
		return jsonrpc.AppendError(dst, m.ID, err, false)
	}
	connection.AppendReply(&dst, c)
	return dst
}
