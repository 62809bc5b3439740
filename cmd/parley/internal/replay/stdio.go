package replay

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/transport"
)

// stdioPeer is a server that is a program. Each exchange has a process, which starts with its first message.
type stdioPeer struct {
	r       *replayer
	ctx     context.Context
	cancel  context.CancelFunc
	command transport.CommandOptions
	running map[int64]*transport.CommandConn
	reading sync.WaitGroup
}

func newStdioPeer(ctx context.Context, r *replayer, command transport.CommandOptions) peer {
	p := &stdioPeer{r: r, command: command, running: make(map[int64]*transport.CommandConn)}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// read passes on the messages of a process until it ends.
func (p *stdioPeer) read(exchange int64, conn *transport.CommandConn) {
	for {
		raw, err := conn.Read(p.ctx)
		got := received{exchange: exchange, end: err != nil}
		if err == nil {
			raw = append([]byte(nil), raw...)
			got.message = parse(raw)
			p.r.trace(p.r.options.Received, raw)
		}
		select {
		case p.r.received <- got:
		case <-p.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// send implements peer.
func (p *stdioPeer) send(e *traffic.Entry) (bool, error) {
	conn := p.running[e.Exchange]
	if conn == nil {
		var err error
		if conn, err = transport.StartCommand(p.command); err != nil {
			return false, err
		}
		p.running[e.Exchange] = conn
		p.reading.Go(func() { p.read(e.Exchange, conn) })
	}
	raw := p.r.outgoing(e)
	p.r.trace(p.r.options.Sent, raw)
	if err := conn.Write(p.ctx, raw); err != nil {
		if exit := conn.Err(); exit != nil && !errors.Is(exit, io.EOF) {
			err = exit
		}
		return false, err
	}
	return true, nil
}

// endStream implements peer. The end of the input of the server is the end of the replay.
func (p *stdioPeer) endStream(*traffic.Entry) {}

func (p *stdioPeer) close() {
	p.cancel()
	var closing sync.WaitGroup
	for _, conn := range p.running {
		closing.Go(func() { _ = conn.Close() }) // how the server exits is no difference
	}
	closing.Wait()
	p.reading.Wait()
}

// trace calls a function of the options.
func (r *replayer) trace(f func([]byte), message []byte) {
	if f != nil && len(message) > 0 {
		f(message)
	}
}
