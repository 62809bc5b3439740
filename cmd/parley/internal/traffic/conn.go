package traffic

import (
	"context"
	"errors"
	"io"

	"github.com/parley-mcp/parley/transport"
)

// ServerConn returns the connection of a server that reports the messages of the client and of the server, possibly
// concurrently. A message is valid until report returns.
func ServerConn(conn transport.Conn, report func(Event)) transport.Conn {
	return &serverConn{conn, report}
}

type serverConn struct {
	transport.Conn
	report func(Event)
}

// Read implements transport.Conn.
func (c *serverConn) Read(ctx context.Context) ([]byte, error) {
	msg, err := c.Conn.Read(ctx)
	switch {
	case err == nil:
		c.report(Event{From: Client, Wire: Stdio, Message: msg})
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		c.report(Event{From: Client, Wire: Stdio, End: true})
	}
	return msg, err
}

// Write implements transport.Conn.
func (c *serverConn) Write(ctx context.Context, msg []byte) error {
	c.report(Event{From: Server, Wire: Stdio, Message: msg})
	return c.Conn.Write(ctx, msg)
}
