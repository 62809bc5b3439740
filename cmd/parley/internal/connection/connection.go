// Package connection lets processes of one user find each other by name: one serves a Unix socket in the user's runtime
// directory, and others connect to it.
//
// Only processes of the user can connect. The directory and the sockets are accessible by the user only, and both sides
// check the user of the other one where the operating system tells it (Linux, macOS, FreeBSD).
//
// A client sends messages of the protocol, one per line, as over stdio. A line that begins with a letter is a command
// to the process itself: "status" or "stop".
package connection

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

const (
	suffix      = ".sock"
	maxPath     = 103              // bytes, the least of the operating systems
	dialTimeout = 5 * time.Second  // also for the answer to a command
	stopTimeout = 30 * time.Second // for the process to end
	maxStatus   = 64 << 10         // bytes
)

// Commands to the process.
const (
	statusCommand = "status"
	stopCommand   = "stop"
)

var (
	// ErrNotConnected is the error if no process serves a name.
	ErrNotConnected = errors.New("not connected")
	// ErrInUse is the error if a process serves a name already.
	ErrInUse = errors.New("a process serves this name already")
)

// Info describes a process that serves a name.
type Info struct {
	Name    string    `json:"name"`
	Target  string    `json:"target"` // what it is connected to, without secrets
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Idle    string    `json:"idle"`    // the time without clients after which it ends
	Clients int       `json:"clients"` // that are connected now
}

// Dir is a directory with sockets.
type Dir struct{ path string }

// Default returns the runtime directory of the user: that of the environment variable PARLEY_RUNTIME_DIR, or one that
// depends on the operating system. It need not exist.
func Default() (*Dir, error) {
	if dir := os.Getenv("PARLEY_RUNTIME_DIR"); dir != "" {
		path, err := filepath.Abs(dir)
		return &Dir{path}, err
	}
	if runtime.GOOS == "windows" {
		cache, err := os.UserCacheDir()
		return &Dir{filepath.Join(cache, "parley", "run")}, err
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return &Dir{filepath.Join(dir, "parley")}, nil
	}
	return &Dir{filepath.Join(os.TempDir(), fmt.Sprintf("parley-%d", os.Getuid()))}, nil
}

// New returns the directory at path, which need not exist.
func New(path string) *Dir { return &Dir{path} }

// socket returns the path of the socket of a name.
func (d *Dir) socket(name string) (string, error) {
	path := filepath.Join(d.path, name+suffix)
	if len(path) > maxPath {
		return "",
			fmt.Errorf("the path %s is too long for a socket: %d bytes, the limit is %d; set PARLEY_RUNTIME_DIR to "+
				"a shorter directory", path, len(path), maxPath)
	}
	return path, nil
}

// check returns an error if other users can use the directory.
func (d *Dir) check() error {
	info, err := os.Lstat(d.path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s must be a directory", d.path)
	}
	return checkOwner(d.path, info)
}

// Dial connects to the process that serves a name. It returns ErrNotConnected if there is none.
func (d *Dir) Dial(ctx context.Context, name string) (net.Conn, error) {
	path, err := d.socket(name)
	if err != nil {
		return nil, ErrNotConnected // no process can serve it
	}
	if _, err := os.Lstat(path); err != nil {
		return nil, ErrNotConnected
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return dial(ctx, path)
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if isAbsent(err) {
		return nil, ErrNotConnected
	}
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn.(*net.UnixConn)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// isAbsent reports whether an error of dialling means that no process listens.
func isAbsent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// command sends a command to the process that serves a name.
func (d *Dir) command(ctx context.Context, name, command string) (net.Conn, error) {
	conn, err := d.Dial(ctx, name)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Info returns the description of the process that serves a name.
func (d *Dir) Info(ctx context.Context, name string) (*Info, error) {
	conn, err := d.command(ctx, name, statusCommand)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	line, err := bufio.NewReader(io.LimitReader(conn, maxStatus)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the process of %s does not answer: %w", name, err)
	}
	info := new(Info)
	return info, schema.Decode(line, info)
}

// List returns the descriptions of the processes that answer, in the order of their names.
func (d *Dir) List(ctx context.Context) (all []*Info) {
	for _, name := range d.Names() {
		if info, err := d.Info(ctx, name); err == nil {
			all = append(all, info)
		}
	}
	return all
}

// Names returns the names that have a socket, in their order. The processes of some may have ended.
func (d *Dir) Names() (names []string) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name, isSocket := strings.CutSuffix(e.Name(), suffix); isSocket {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Stop ends the process that serves a name, and waits for it.
func (d *Dir) Stop(ctx context.Context, name string) error {
	conn, err := d.command(ctx, name, stopCommand)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(stopTimeout))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the process of %s has not ended within %v", name, stopTimeout)
	}
	return context.Cause(ctx)
}

// Listen starts to serve a name. It replaces the socket of a process that has ended, and returns ErrInUse if a process
// serves the name.
func (d *Dir) Listen(ctx context.Context, name string) (*net.UnixListener, error) {
	path, err := d.socket(name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	// The lock is on the directory, so no file is left of it. It ends with the process.
	unlock, err := lock(ctx, d.path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	conn, err := dial(ctx, path)
	switch {
	case err == nil:
		conn.Close()
		return nil, ErrInUse
	case !errors.Is(err, ErrNotConnected):
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 && runtime.GOOS != "windows" {
			return nil, fmt.Errorf("%s is not a socket, and parley did not make it; move it away, or set "+
				"PARLEY_RUNTIME_DIR to another directory", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// encode returns the line with the description of a process.
func (i *Info) encode() ([]byte, error) {
	line, err := json.Marshal(i)
	return append(line, '\n'), err
}

// Names returns the names that have a socket.
func Names() []string {
	dir, err := Default()
	if err != nil {
		return nil
	}
	return dir.Names()
}

// Target returns the connection with a name, or nil if there is none.
func Target(ctx context.Context, name string) (client.Target, error) {
	dir, err := Default()
	if err != nil || link.CheckServerName(name) != nil { // without a directory there are no connections
		return nil, nil
	}
	conn, err := dir.Dial(ctx, name)
	switch {
	case errors.Is(err, ErrNotConnected):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot use the connection %s: %w", name, err)
	}
	return client.Conn(transport.Stream(conn, transport.StreamOptions{MaxMessage: transport.DefaultClientMaxMessage})),
		nil
}

// OpenHost returns a host of one server, which is ready. perCaller is that of its host.ServerConfig.
func OpenHost(ctx context.Context, d *client.Dialer, target client.Target, perCaller *bool) (*host.Host, error) {
	// The name is for errors and the log. Without a prefix, the names of tools are those of the server.
	h := &host.Host{Dialer: *d, Logger: d.Logger,
		Servers: []host.ServerConfig{{Name: "server", Target: target, PerCaller: perCaller, Prefix: new("")}}}
	// the gateway is made later
	if err := link.Get[link.Host[host.Host, host.ServerStatus, host.Request]]().Forward(h, nil); err != nil {
		return nil, err
	}
	if err := h.Start(); err != nil {
		return nil, err
	}
	if err := h.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// ServeHost calls serve with a server that has what the server of a host has. Timeout limits the time without a message
// during a call.
func ServeHost(cmd *cobra.Command, h *host.Host, timeout time.Duration,
	serve func(ctx context.Context, s *server.Server) error) error {
	s := bridgeServer(&h.Status()[0].Server)
	s.Logger = program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	g, err := gateway.New(h, s)
	if err != nil {
		return err
	}
	g.Logger, g.Timeout = s.Logger, timeout
	ctx, cancel := context.WithCancel(cmd.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { g.Run(ctx) })
	if err := g.WaitReady(ctx); err != nil {
		return err
	}
	return serve(ctx, s)
}

// bridgeServer returns a server without tools that has the name of another one.
func bridgeServer(of *client.ServerDetails) *server.Server {
	return &server.Server{Info: of.Info}
}
