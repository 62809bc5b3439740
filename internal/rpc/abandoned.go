package rpc

import (
	"fmt"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Limits on what waits for clients have one rule: if no place is free, the oldest that is abandoned is displaced. Its
// client has been asked and has no request that waits at present, so it may never come back. Otherwise, clients that
// have left would keep everybody else out until their time is over.

// ErrDisplaced is the cause of the end of what is displaced, and the error of its question. It wraps ErrClientLeft.
var ErrDisplaced error = new(displacedError)

// DisplacedResponse is the response to a request that was displaced.
var DisplacedResponse = jsonrpc.Errorf(jsonrpc.CodeInternalError,
	"the call was given up, because its question had no answer for the longest time when others needed its place: "+
		"call again")

// displacedError is the type of ErrDisplaced.
type displacedError struct{}

// Error returns the text for the peer.
func (*displacedError) Error() string { return DisplacedResponse.Message }

// As sets a target of type **jsonrpc.Error to the error for the peer.
func (*displacedError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = DisplacedResponse
	}
	return ok
}

// Unwrap makes it an ErrClientLeft.
func (*displacedError) Unwrap() error { return fmt.Errorf("displaced: %w", ErrClientLeft) }

// Oldest returns the first abandoned element of all, which is in the order of arrival.
func Oldest[T any](all []T, abandoned func(T) bool) (oldest T, found bool) {
	for _, one := range all {
		if abandoned(one) {
			return one, true
		}
	}
	return oldest, false
}
