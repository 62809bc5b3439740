package client

import (
	"context"

	"github.com/parley-mcp/parley/transport"
)

// traced returns a connection that reports its messages to trace, or conn if trace is nil.
func traced(conn transport.Conn, trace func(bool, []byte)) transport.Conn {
	if trace == nil {
		return conn
	}
	return &tracedConn{conn, trace}
}

type tracedConn struct {
	transport.Conn
	trace func(sent bool, message []byte)
}

func (t *tracedConn) Read(ctx context.Context) ([]byte, error) {
	msg, err := t.Conn.Read(ctx)
	if err == nil {
		t.trace(false, msg)
	}
	return msg, err
}

func (t *tracedConn) Write(ctx context.Context, msg []byte) error {
	t.trace(true, msg)
	return t.Conn.Write(ctx, msg)
}
