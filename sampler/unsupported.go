package sampler

import (
	"fmt"

	"github.com/parley-mcp/parley/jsonrpc"
)

// UnsupportedError reports that a request uses a feature that the API of a provider does not support. The server that
// has sent the request receives it as an error with jsonrpc.CodeInvalidParams.
type UnsupportedError struct {
	API  string // such as "the Messages API"
	What string // such as "audio"
}

// Error names what is not supported.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("cannot sample: %s does not support %s", e.API, e.What)
}

// Unwrap returns the error for the server.
func (e *UnsupportedError) Unwrap() error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", e.Error())
}
