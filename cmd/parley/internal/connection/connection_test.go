package connection

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newDir returns a directory with a path that is short enough for sockets.
func newDir(t *testing.T) *Dir {
	t.Helper()
	path := must.Get(os.MkdirTemp("", "p"))(t)
	t.Cleanup(func() { os.RemoveAll(path) })
	return New(filepath.Join(path, "run"))
}

// echo serves a client by sending back what it sends.
func echo(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, _ = io.Copy(conn, conn)
}

// run starts to serve a name. ended receives the result of Run.
func run(t *testing.T, d *Dir, s *Server) (ended chan error) {
	t.Helper()
	listener := must.Get(d.Listen(t.Context(), s.Info.Name))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		ended <- s.Run(ctx, listener)
		s.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	return ended
}

func TestAProcessServesClientsAndCommands(t *testing.T) {
	d := newDir(t)
	if _, err := d.Dial(t.Context(), "a"); !errors.Is(err, ErrNotConnected) {
		t.Errorf("error %v without a process, want ErrNotConnected", err)
	}
	ended := run(t, d, &Server{Info: Info{Name: "a", Target: "example", PID: 7}, Idle: time.Hour, Serve: echo})
	conn := must.Get(d.Dial(t.Context(), "a"))(t)
	defer conn.Close()
	message := []byte("{\"a\": 1}\n")
	must.Get(conn.Write(message))(t)
	answer := make([]byte, len(message))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != string(message) {
		t.Errorf("answer %q, %v", answer, err)
	}
	info := d.List(t.Context())
	if len(info) != 1 || info[0].Target != "example" || info[0].PID != 7 || info[0].Clients != 1 {
		t.Errorf("list %+v", info)
	}
	must.Check(t, d.Stop(t.Context(), "a"))
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(answer); err == nil {
		t.Error("the connection outlives the process")
	}
	if err := d.Stop(t.Context(), "a"); !errors.Is(err, ErrNotConnected) || len(d.Names()) > 0 {
		t.Errorf("error %v, names %q after the end", err, d.Names())
	}
}

// leave creates a socket whose process has ended without removing it.
func leave(t *testing.T, d *Dir, name string) {
	t.Helper()
	listener := must.Get(d.Listen(t.Context(), name))(t)
	listener.SetUnlinkOnClose(false)
	listener.Close()
}

func TestASocketOfAKilledProcessIsReplacedByOneProcess(t *testing.T) {
	d := newDir(t)
	leave(t, d, "a")
	if _, err := d.Dial(t.Context(), "a"); !errors.Is(err, ErrNotConnected) {
		t.Errorf("error %v, want ErrNotConnected", err)
	}
	if all := d.List(t.Context()); len(all) > 0 || len(d.Names()) != 1 {
		t.Errorf("list %v of %q", all, d.Names())
	}
	const processes = 8
	var mu sync.Mutex
	var winners []net.Listener
	var starting sync.WaitGroup
	for range processes {
		starting.Go(func() {
			listener, err := d.Listen(t.Context(), "a")
			if err == nil {
				mu.Lock()
				winners = append(winners, listener)
				mu.Unlock()
			} else if !errors.Is(err, ErrInUse) {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if len(winners) != 1 {
		t.Errorf("%d processes serve the name", len(winners))
	}
	for _, l := range winners {
		l.Close()
	}
	if entries, err := os.ReadDir(d.path); err != nil || len(entries) > 0 {
		t.Errorf("files %v are left, %v", entries, err)
	}
}

func TestOnlyTheUserCanUseTheDirectoryAndTheSockets(t *testing.T) {
	d := newDir(t)
	run(t, d, &Server{Info: Info{Name: "a"}, Idle: time.Hour, Serve: echo})
	for path, want := range map[string]os.FileMode{d.path: 0o700, filepath.Join(d.path, "a.sock"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	must.Do(t, os.Chmod(d.path, 0o755))
	if _, err := d.Dial(t.Context(), "a"); err == nil ||
		!strings.Contains(err.Error(), "must be accessible by you only") {
		t.Errorf("dial: %v", err)
	}
	if _, err := d.Listen(t.Context(), "b"); err == nil ||
		!strings.Contains(err.Error(), "must be accessible by you only") {
		t.Errorf("listen: %v", err)
	}
}

func TestAClientOfAnotherUserIsNotServed(t *testing.T) {
	d := newDir(t)
	run(t, d, &Server{
		Info: Info{Name: "a"}, Idle: time.Hour,
		Serve: func(context.Context, net.Conn) { t.Error("the client is served") },
		check: func(net.Conn) error { return errors.New("another user") },
	})
	conn := must.Get(d.Dial(t.Context(), "a"))(t)
	defer conn.Close()
	_, _ = io.WriteString(conn, "{}\n")
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("an answer")
	}
}

func TestALongPathIsAnErrorThatSaysWhatToDo(t *testing.T) {
	d := New("/" + strings.Repeat("a", 100))
	if _, err := d.Listen(t.Context(), "name"); err == nil ||
		!strings.Contains(err.Error(), "set PARLEY_RUNTIME_DIR to a shorter directory") {
		t.Error(err)
	}
	if _, err := d.Dial(t.Context(), "name"); !errors.Is(err, ErrNotConnected) {
		t.Error(err)
	}
}

// pipes is a listener whose clients are pipes, which synctest knows.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes { return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.accepted <- server
	return client
}

// served starts a server of pipes.
func served() (clients *pipes, ended chan error) {
	clients, ended = newPipes(), make(chan error, 1)
	s := &Server{Idle: time.Minute, Serve: echo, check: func(net.Conn) error { return nil }}
	go func() { ended <- s.Run(context.Background(), clients) }()
	return clients, ended
}

func TestAProcessEndsAfterItsIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clients, ended := served()
		time.Sleep(30 * time.Second)
		conn := clients.dial()
		must.Get(io.WriteString(conn, "{}\n"))(t)
		must.Get(io.ReadFull(conn, make([]byte, 3)))(t)
		time.Sleep(time.Hour) // the client stays
		conn.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if after := time.Since(start); after != time.Hour+90*time.Second {
			t.Errorf("ended after %v", after)
		}
	})
}

func TestASilentClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clients, ended := served()
		conn := clients.dial()
		if _, err := conn.Read(make([]byte, 1)); err == nil || time.Since(start) != firstTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestClientsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, ended := served()
		var all []net.Conn
		for range maxClients {
			conn := clients.dial()
			_, _ = io.WriteString(conn, "{")
			all = append(all, conn)
		}
		conn := clients.dial()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("one client too many is served")
		}
		for _, conn := range all {
			conn.Close()
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
