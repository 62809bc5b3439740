// Package tap forwards the traffic between a client and a server unchanged, and reports it.
package tap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/childenv"
	"github.com/parley-mcp/parley/transport"
)

// outputGrace is the time for output after the server has exited, which a process that it has started can write.
const outputGrace = 2 * time.Second

// Command is a server that is a program, between In and Out.
type Command struct {
	// Server is the program. Its Path, Args, Dir, Env and InheritEnv are used.
	Server transport.CommandOptions
	// In and Out are the client. Run closes Out when the output of the server ends, and In, if it is an
	// io.Closer, when the server reads no more.
	In  io.Reader
	Out io.WriteCloser
	// Stderr receives the standard error of the server. The server writes directly to an *os.File.
	Stderr io.Writer
	// Signals are sent to the server. May be nil.
	Signals <-chan os.Signal
	// Report receives each line of both directions before it is forwarded, possibly concurrently. A message is
	// valid until Report returns.
	Report func(traffic.Event)
}

// Run starts the server, forwards until it has exited, and returns its exit code: 128 and the number of the
// signal if one has ended it. The error is of the start. When Run returns, a read of In may still be blocked.
func (c *Command) Run() (code int, err error) {
	cmd := exec.Command(c.Server.Path, c.Server.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.Server.Dir, childenv.New(c.Server.InheritEnv, c.Server.Env), c.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	output, childOutput, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, stdin.Close())
	}
	cmd.Stdout = childOutput
	err = cmd.Start()
	childOutput.Close()
	if err != nil { // Start has closed stdin
		output.Close()
		return 0, err
	}

	go func() {
		readAll := c.forward(stdin, c.In, traffic.Client)
		_ = stdin.Close()
		if in, ok := c.In.(io.Closer); ok && !readAll {
			_ = in.Close() // the client finds out that the server does not read
		}
	}()
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.forward(c.Out, output, traffic.Server)
		_ = c.Out.Close()
		_ = output.Close() // after a failed write, the next write of the server fails
	}()
	exited := make(chan struct{})
	var signalling sync.WaitGroup
	signalling.Go(func() {
		for {
			select {
			case s := <-c.Signals:
				_ = cmd.Process.Signal(s)
			case <-exited:
				return
			}
		}
	})

	err = cmd.Wait()
	close(exited)
	signalling.Wait()
	select {
	case <-written:
	case <-time.After(outputGrace):
		_ = output.Close()
		<-written
	}
	return exitCode(cmd.ProcessState, err)
}

// exitCode returns the exit code of a process that has ended.
func exitCode(state *os.ProcessState, err error) (int, error) {
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("cannot wait for the server: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// forward copies from r to w until one of them ends, and reports the lines. It reports whether r has ended.
func (c *Command) forward(w io.Writer, r io.Reader, from traffic.Side) (readAll bool) {
	lines := lineSplitter{emit: func(line []byte) {
		c.Report(traffic.Event{From: from, Wire: traffic.Stdio, Message: line})
	}}
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		lines.write(buffer[:n])
		if err != nil {
			lines.end()
			c.Report(traffic.Event{From: from, Wire: traffic.Stdio, End: true})
		}
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return false
			}
		}
		if err != nil {
			return true
		}
	}
}

// lineSplitter finds the lines in a stream of bytes.
type lineSplitter struct {
	emit func(line []byte) // owns nothing of line
	line []byte
}

func (s *lineSplitter) write(b []byte) {
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		b = rest
		if ended && len(s.line) == 0 {
			s.emitLine(part)
			continue
		}
		s.line = append(s.line, part[:min(len(part), traffic.MaxMessage+1-len(s.line))]...)
		if ended {
			s.end()
		}
	}
}

// end emits a line that does not end with a line feed.
func (s *lineSplitter) end() {
	s.emitLine(s.line)
	s.line = s.line[:0]
}

func (s *lineSplitter) emitLine(line []byte) {
	if len(line) > 0 {
		s.emit(line)
	}
}
