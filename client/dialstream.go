package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// String returns the name of the program, without its directory and arguments.
func (t *CommandTarget) String() string { return "command " + filepath.Base(t.Path) }

// dial starts the process. Some servers exit on a message that they do not expect before initialize, or when they have
// rejected a revision. Such a process is started again, with initialize as the first message.
func (t *CommandTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	l, next, err := t.start(ctx, d, "", memory)
	for range maxRestarts {
		if next == "" || ctx.Err() != nil {
			break
		}
		l, next, err = t.start(ctx, d, next, nil)
	}
	return l, err
}

// maxRestarts is how often a process is started again in one Dial: once after server/discover, and once after a
// revision that it has rejected.
const maxRestarts = 2

// start starts the process and connects to it. If first is not empty, it sends initialize with that revision, and
// nothing before. If the process has exited because of a message, next is the revision to begin with instead.
func (t *CommandTarget) start(ctx context.Context, d *Dialer, first mcp.Revision, memory *Discovery) (_ *link, next mcp.Revision, _ error) {
	options := t.CommandOptions
	if options.MaxMessage <= 0 {
		options.MaxMessage = d.MaxMessage
	}
	if options.Logger == nil && options.Stderr == nil {
		options.Logger = d.Logger
	}
	process, err := transport.StartCommand(options)
	if err != nil {
		return nil, "", err
	}
	p, err := d.newProbe(process, process.Started())
	if err != nil {
		return nil, "", err
	}
	p.first = first
	l, err := p.connect(ctx, memory)
	var tooLarge *transport.MessageTooLargeError
	switch {
	case err == nil || !errors.Is(err, call.ErrConnectionLost) || errors.As(err, &tooLarge) || !process.InputRead() || p.Revision != "":
	case p.discovering:
		next = cmp.Or(p.offered, p.offer())
	case first != "" && p.offered != first: // it has rejected first
		next = p.offered
	}
	return l, next, err
}

func (t *connTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	if t.used.Swap(true) {
		return nil, errConnUsed
	}
	p, err := d.newProbe(t.conn, nil)
	if err != nil {
		return nil, err
	}
	return p.connect(ctx, memory)
}

// connect connects to the server at the other end of conn (2026-07-28, basic/transports/stdio, Backward Compatibility).
// It closes conn if it fails.
func (p *probe) connect(ctx context.Context, memory *Discovery) (*link, error) {
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
	l.call = func(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
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
