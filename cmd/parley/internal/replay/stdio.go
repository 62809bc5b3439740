package replay

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
	"github.com/parley-mcp/parley/transport"
)

// stdioPeer is a server that is a program.
type stdioPeer struct {
	r       *replayer
	ctx     context.Context
	conn    *transport.CommandConn
	cancel  context.CancelFunc
	reading sync.WaitGroup
}

func newStdioPeer(ctx context.Context, r *replayer, command transport.CommandOptions) (peer, error) {
	conn, err := transport.StartCommand(command)
	if err != nil {
		return nil, err
	}
	p := &stdioPeer{r: r, conn: conn}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.reading.Go(p.read)
	return p, nil
}

// read passes on the messages of the server until it ends.
func (p *stdioPeer) read() {
	for {
		raw, err := p.conn.Read(p.ctx)
		got := received{end: err != nil}
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
func (p *stdioPeer) send(e *recording.Entry) (bool, error) {
	raw := p.r.outgoing(e.Message)
	p.r.trace(p.r.options.Sent, raw)
	if err := p.conn.Write(p.ctx, raw); err != nil {
		if exit := p.conn.Err(); exit != nil && !errors.Is(exit, io.EOF) {
			err = exit
		}
		return false, err
	}
	return true, nil
}

// endStream implements peer. The end of the input of the server is the end of the replay.
func (p *stdioPeer) endStream(*recording.Entry) {}

func (p *stdioPeer) close() {
	p.cancel()
	_ = p.conn.Close() // how the server exits is no difference
	p.reading.Wait()
}

// trace calls a function of the options.
func (r *replayer) trace(f func([]byte), message []byte) {
	if f != nil && len(message) > 0 {
		f(message)
	}
}
