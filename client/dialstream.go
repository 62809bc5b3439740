package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/transport"
)

// String returns the name of the program, without its directory and arguments.
func (t *CommandTarget) String() string { return "command " + filepath.Base(t.Path) }

func (t *CommandTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	options := t.CommandOptions
	if options.MaxMessage <= 0 {
		options.MaxMessage = d.MaxMessage
	}
	if options.Logger == nil && options.Stderr == nil {
		options.Logger = d.Logger
	}
	process, err := transport.StartCommand(options)
	if err != nil {
		return nil, err
	}
	return d.dialStream(ctx, process, process.Started(), memory)
}

func (t *connTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	if t.used.Swap(true) {
		return nil, errConnUsed
	}
	return d.dialStream(ctx, t.conn, nil, memory)
}

// dialStream connects to the server at the other end of conn (2026-07-28,
// basic/transports/stdio, Backward Compatibility). It closes conn if it fails.
func (d *Dialer) dialStream(ctx context.Context, conn transport.Conn, started <-chan struct{}, memory *Discovery) (*link, error) {
	p, err := d.newProbe(conn, started)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l, err := p.recall(ctx, memory)
	if l == nil && err == nil {
		l, err = p.find(ctx)
	}
	if err != nil {
		err = p.addExit(err)
		p.close()
		return nil, err
	}
	p.watchLoss()
	l.fail = p.eras.Lost
	send := l.call
	l.call = func(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
		result, err := send(ctx, req)
		if err != nil {
			err = p.addExit(err)
		}
		return result, err
	}
	return l, nil
}

// exitTimeout limits the wait for the exit of a process that has closed its output.
const exitTimeout = 2 * time.Second

// errExited is the reason for a lost connection if the process exits without an error.
var errExited = errors.New("the server process exited with code 0")

// addExit adds to a lost connection's error how the server process ended.
func (p *probe) addExit(err error) error {
	process, ok := p.conn.(*transport.CommandConn)
	var tooLarge *transport.MessageTooLargeError
	if !ok || !errors.Is(err, call.ErrConnectionLost) || errors.As(err, &tooLarge) {
		return err
	}
	timer := time.NewTimer(exitTimeout)
	defer timer.Stop()
	select {
	case <-process.Done():
	case <-timer.C:
		return err
	}
	if exit := process.Err(); exit != nil {
		return fmt.Errorf("%w: %w", err, exit)
	}
	return fmt.Errorf("%w: %w", err, errExited)
}

// watchLoss calls OnConnectionLost once the established connection ends, even if it has ended
// already.
func (p *probe) watchLoss() {
	if p.OnConnectionLost == nil {
		return
	}
	p.watching.Go(func() {
		<-p.modern.Done()
		if err := p.modern.Failed(); !errors.Is(err, call.ErrClosed) {
			p.OnConnectionLost(p.addExit(err))
		}
	})
}
