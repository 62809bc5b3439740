package client

import (
	"context"

	"github.com/parley-mcp/parley/transport"
)

// NewTarget returns a target that calls connect for each connection. Like a Command, it can
// be dialled again, but in memory.
func NewTarget(connect func() transport.Conn) Target { return connectFunc(connect) }

type connectFunc func() transport.Conn

func (f connectFunc) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	p, err := d.newProbe(f(), nil)
	if err != nil {
		return nil, err
	}
	return p.connect(ctx, memory)
}

func (f connectFunc) String() string { return "memory" }
