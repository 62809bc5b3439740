package freeaddr

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"time"
)

// Process is the process of a server.
type Process struct {
	// Addr is the address at which the server accepts connections.
	Addr string

	command *exec.Cmd
	exited  chan struct{} // closed when the process has exited
}

// Start runs the command that command returns for a free address, and returns when the server accepts connections
// there. If the process exits first, Start tries other addresses, because another process may have taken the first
// one. The caller must kill the server.
func Start(ctx context.Context, command func(addr string) *exec.Cmd) (*Process, error) {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		addr, err := New()
		if err != nil {
			return nil, err
		}
		p, err := StartAt(ctx, addr, command(addr))
		if err == nil || attempt == attempts || ctx.Err() != nil {
			return p, err
		}
	}
}

// StartAt starts a server and returns when it accepts connections at addr. The caller must kill the server.
func StartAt(ctx context.Context, addr string, command *exec.Cmd) (*Process, error) {
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &Process{Addr: addr, command: command, exited: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(p.exited)
	}()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return p, nil
		}
		select {
		case <-poll.C:
		case <-p.exited:
			return nil, fmt.Errorf("%s has exited before it accepted connections at %s: %v", command.Path, addr,
				command.ProcessState)
		case <-ctx.Done():
			p.Kill()
			return nil, fmt.Errorf("%s does not accept connections at %s: %w", command.Path, addr, err)
		}
	}
}

// Kill ends the process without warning and returns when it has exited.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.exited
}
