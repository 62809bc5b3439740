package client

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
)

// WithCaller returns a context for requests on behalf of a caller, such as one of the users of a
// program that serves several. A request of the server is answered for a caller only if it belongs to a
// call of that caller: if it may belong to calls of several callers, the server receives an error; see
// [Dialer.Elicit]. Requests without a caller are those of the program.
func WithCaller(ctx context.Context, key string) context.Context {
	return rpc.WithCaller(ctx, rpc.Caller{Key: key, Returns: true})
}
