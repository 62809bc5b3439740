package client

import (
	"context"

	"github.com/parley-mcp/parley/transport"
)

// Each is a server that is connected to anew whenever it is dialled, as a Command
// is, but in memory.
func Each(connect func() transport.Conn) Target { return each(connect) }

type each func() transport.Conn

func (e each) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	return d.dialStream(ctx, e(), nil, memory)
}

func (e each) String() string { return "each" }
