// Package streamclient is the client of a byte stream: standard input and output, a socket, memory.
package streamclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Client is the client side of a connection.
type Client struct {
	conn   transport.Conn
	to     outbound.Receiver
	limits jsonrpc.Limits
	done   chan struct{}

	batches atomic.Bool // whether the agreed revision has batches
}

var _ outbound.Wire = (*Client)(nil)

// NewClient returns a client that owns conn, reads messages from it and passes them to the receiver to.
func NewClient(conn transport.Conn, to outbound.Receiver, limits jsonrpc.Limits) *Client {
	c := &Client{conn: conn, to: to, limits: limits, done: make(chan struct{})}
	go c.read()
	return c
}

// Send implements outbound.Wire. If the connection cannot be written to, the client is lost even if the server can
// still write: requests can no longer be cancelled, and new requests should fail at once.
func (c *Client) Send(ctx context.Context, out *outbound.Outgoing) error {
	err := c.conn.Write(ctx, out.Message)
	if err == nil {
		return nil
	}
	var broken *transport.WriteError
	switch {
	case errors.As(err, &broken):
		err = fmt.Errorf("%w: %w", call.ErrConnectionLost, err)
		c.to.Lost(err)
		err = fmt.Errorf("%w: %w", call.ErrNotSent, err)
	case errors.Is(err, transport.ErrClosed):
		err = fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrClosed)
	case ctx.Err() != nil: // the cause may be a lost connection
		err = fmt.Errorf("%w: %w", call.ErrNotSent, context.Cause(ctx))
	}
	return err
}

// SetRevision implements outbound.Wire.
func (c *Client) SetRevision(r mcp.Revision) { c.batches.Store(revision.Batches.In(r)) }

// Close implements outbound.Wire.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

func (c *Client) read() {
	defer close(c.done)
	var m jsonrpc.Message // the receiver copies what it keeps
	for {
		data, err := c.conn.Read(context.Background()) // Close ends the Read
		if tooLarge, ok := errors.AsType[*transport.MessageTooLargeError](err); ok {
			outbound.ReceiveTooLarge(c.to, tooLarge)
			continue
		}
		if err != nil {
			c.to.Lost(connectionError(err))
			return
		}
		if c.batches.Load() && jsonrpc.IsBatch(data) {
			c.batch(data)
			continue
		}
		if err = m.Parse(data, c.limits); err != nil {
			outbound.ReceiveInvalid(c.to, &m, data, err)
			continue
		}
		c.to.Receive(&m)
	}
}

// batch passes on the messages of a batch, which servers of 2025-03-26 may send (basic, Batching).
func (c *Client) batch(data []byte) {
	var m jsonrpc.Message
	parts, err := jsonrpc.SplitBatch(data, c.limits)
	if err != nil {
		outbound.ReceiveInvalid(c.to, &m, data, err)
		return
	}
	for _, part := range parts {
		if err = m.Parse(part, c.limits); err != nil {
			outbound.ReceiveInvalid(c.to, &m, part, err)
		} else {
			c.to.Receive(&m)
		}
	}
}

// connectionError returns the error of a connection that cannot be read.
func connectionError(err error) error {
	switch {
	case errors.Is(err, transport.ErrClosed):
		return call.ErrClosed
	case errors.Is(err, io.EOF):
		return call.ErrConnectionLost
	}
	return fmt.Errorf("%w: %w", call.ErrConnectionLost, err)
}
