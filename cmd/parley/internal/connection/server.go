package connection

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	maxClients   = 64
	firstTimeout = 10 * time.Second // for the first byte of a client
	maxCommand   = 64               // bytes
)

// Server serves the clients of a name.
type Server struct {
	Info Info
	// Idle is the time without clients after which Run returns. It must be positive.
	Idle time.Duration
	// Serve serves one client until conn is closed or ctx ends.
	Serve func(ctx context.Context, conn net.Conn)

	check func(conn net.Conn) error // nil means checkPeer; for tests

	mu      sync.Mutex
	clients int
	changed chan struct{} // capacity 1; receives after clients has changed
	stopped []net.Conn    // clients that wait for the end of the process
}

// Run serves clients until ctx ends, a client stops the process, or there was no client for the time of Idle. It closes
// the listener, so that another process can serve the name, and waits for the functions that serve clients.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	if s.Idle <= 0 {
		return errors.Join(errors.New("the idle time must be positive"), listener.Close())
	}
	defer listener.Close()
	s.changed = make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	serving.Go(func() {
		defer cancel()
		s.awaitIdle(ctx)
	})
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !s.begin() {
			conn.Close()
			continue
		}
		serving.Go(func() {
			defer s.end()
			s.client(ctx, cancel, conn)
		})
	}
}

// begin counts a client, and reports whether it can be served.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= maxClients {
		return false
	}
	s.clients++
	s.wake()
	return true
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	s.wake()
}

// wake wakes awaitIdle. The caller has locked s.mu.
func (s *Server) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// awaitIdle returns when there was no client for the time of Idle, or when ctx ends.
func (s *Server) awaitIdle(ctx context.Context) {
	timer := time.NewTimer(s.Idle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-s.changed:
		}
		timer.Stop()
		s.mu.Lock()
		idle := s.clients == 0
		s.mu.Unlock()
		if idle {
			timer.Reset(s.Idle)
		}
	}
}

// client serves one client: messages of the protocol, or a command.
func (s *Server) client(ctx context.Context, stop func(), conn net.Conn) {
	check := s.check
	if check == nil {
		check = checkPeer
	}
	if check(conn) != nil {
		conn.Close()
		return
	}
	buffered := &bufferedConn{Conn: conn, r: bufio.NewReader(conn)}
	_ = conn.SetReadDeadline(time.Now().Add(firstTimeout))
	interrupt := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	first, err := buffered.r.Peek(1)
	if !interrupt() || err != nil {
		conn.Close()
		return
	}
	if first[0] < 'a' || first[0] > 'z' {
		_ = conn.SetReadDeadline(time.Time{})
		s.Serve(ctx, buffered)
		conn.Close()
		return
	}
	line, err := bufio.NewReader(io.LimitReader(buffered.r, maxCommand)).ReadString('\n')
	switch command := strings.TrimSpace(line); {
	case err != nil:
	case command == statusCommand:
		s.mu.Lock()
		info := s.Info
		info.Clients = s.clients - 1 // without this one
		s.mu.Unlock()
		if line, err := info.encode(); err == nil {
			_ = conn.SetWriteDeadline(time.Now().Add(dialTimeout))
			_, _ = conn.Write(line) // the client sees an error
		}
	case command == stopCommand:
		s.mu.Lock()
		s.stopped = append(s.stopped, conn) // at most maxClients
		s.mu.Unlock()
		stop()
		return
	}
	conn.Close()
}

// Close tells the clients that have stopped the process that it has ended.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.stopped {
		conn.Close()
	}
	s.stopped = nil
}

// bufferedConn is a connection from which some bytes were read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

// Read implements io.Reader.
func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// checkPeer returns an error if the process at the other end of a Unix socket is known to be another user's. Where the
// system does not tell the user, the directory of the sockets protects them.
func checkPeer(conn net.Conn) error {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("the connection must be a Unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	uid, known := 0, false
	err = raw.Control(func(fd uintptr) { uid, known, failed = peerUser(int(fd)) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if known && uid != os.Getuid() {
		return fmt.Errorf("the process at the other end is of the user %d", uid)
	}
	return nil
}

// readyLine is what a background process writes to stdout when it serves its name.
const readyLine = "ready"

// ExitError reports that a background process has ended before it was ready. It has printed the reason.
type ExitError struct{ Code int }

// Error implements the error interface.
func (e *ExitError) Error() string {
	return fmt.Sprintf("the background process has ended with the exit code %d", e.Code)
}

// Start starts a background process of this program, which outlives it, and waits until it calls Ready of a Background.
// What the process writes to stderr until then is copied to stderr. When ctx ends before that, Start ends the process.
func Start(ctx context.Context, args []string, stderr io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	detach(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	messages, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	var copying sync.WaitGroup
	copying.Go(func() { _, _ = io.Copy(stderr, messages) })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) == readyLine {
		messages.Close() // the process writes nothing after its line
		copying.Wait()
		return cmd.Process.Release()
	}
	copying.Wait()
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return &ExitError{exit.ExitCode()}
	}
	return errors.Join(errors.New("the background process has ended before it was ready"), err)
}

// Background is the stderr of a background process. What is written after Ready is discarded, because the process that
// has started it is gone. The zero value is ready to use.
type Background struct {
	mu    sync.Mutex
	ready bool
}

// Write implements io.Writer.
func (b *Background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready {
		return len(p), nil
	}
	return os.Stderr.Write(p)
}

// Ready lets Start return.
func (b *Background) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = true
	_, err := fmt.Fprintln(os.Stdout, readyLine)
	return errors.Join(err, os.Stdout.Close())
}
