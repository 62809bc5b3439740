package client

import "github.com/parley-mcp/parley/call"

// Errors of requests, besides those of contexts. Errors that a server reports are
// *jsonrpc.Error.
var (
	// ErrConnectionLost means that the connection ended before the result came. The server may
	// have acted on the request. It is the same as call.ErrConnectionLost.
	ErrConnectionLost = call.ErrConnectionLost
	// ErrClientClosed means that [Client.Close] was called. It is the same as call.ErrClosed.
	ErrClientClosed = call.ErrClosed
	// ErrInvalidResponse means that the server sent a response that the protocol does not
	// allow. It is the same as call.ErrInvalidResponse.
	ErrInvalidResponse = call.ErrInvalidResponse
	// ErrUnauthorized means that the server requires credentials that could not be obtained.
	// The server has not acted on the request. It is the same as call.ErrUnauthorized.
	ErrUnauthorized = call.ErrUnauthorized
	// ErrRevision means that client and server have no revision of the protocol in common. It
	// is the same as call.ErrRevision.
	ErrRevision = call.ErrRevision
)
