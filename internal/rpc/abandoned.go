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

// IsAbandoned reports whether the handler of the call waits for an answer of its client and no request of the client
// waits for the handler.
func (c *Call) IsAbandoned() bool {
	c.mu.Lock()
	asks := c.rounds != nil && c.rounds.asking > 0
	c.mu.Unlock()
	return asks && !c.Connected()
}

// beginAsking records that the handler waits for an answer until the returned function is called.
func (c *Call) beginAsking() (end func()) {
	add := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.several().asking += n
	}
	add(1)
	return func() { add(-1) }
}
