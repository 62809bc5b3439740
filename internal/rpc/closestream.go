package rpc

import (
	"context"
	"time"
)

// StreamCloser is implemented by a Stream whose connection can end while the stream continues.
// The error is ErrUnsupported if it cannot.
type StreamCloser interface {
	CloseStream(ctx context.Context, retry time.Duration) error
}

// CloseStream ends the connection of the call's stream while the call continues; see
// server.CloseStream. It returns ErrUnsupported if the stream cannot do that, and
// call.ErrCallDone once the call has ended.
func (c *Call) CloseStream(ctx context.Context, retry time.Duration) error {
	c.mu.Lock()
	err := c.ended()
	closer, ok := c.Stream.(StreamCloser)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if !ok {
		return ErrUnsupported
	}
	// Earlier messages are sent first, and the call cannot end meanwhile.
	if err := c.lockStream(ctx); err != nil {
		return err
	}
	defer c.unlockStream()
	c.mu.Lock()
	err = c.ended()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return closer.CloseStream(ctx, retry)
}
