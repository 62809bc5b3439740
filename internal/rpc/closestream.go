package rpc

import (
	"context"
	"time"
)

// StreamCloser is implemented by a Stream whose connection can end while the stream
// goes on. The error is ErrUnsupported where it cannot.
type StreamCloser interface {
	CloseStream(ctx context.Context, retry time.Duration) error
}

// CloseStream ends the connection of the call's stream while the call goes on; see
// server.CloseStream. It returns ErrUnsupported where there is no such thing, and
// ErrCallDone once the call has ended.
func (c *Call) CloseStream(ctx context.Context, retry time.Duration) error {
	c.mu.Lock()
	err := c.over()
	closer, ok := c.Stream.(StreamCloser)
	if c.turn == nil {
		c.turn = make(chan struct{}, 1)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if !ok {
		return ErrUnsupported
	}
	// In its turn: what was sent before goes out first, and the call is not done meanwhile.
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	c.mu.Lock()
	err = c.over()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return closer.CloseStream(ctx, retry)
}
