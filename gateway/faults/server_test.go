//go:build integration && unix

package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// settings contains the settings of a server process.
type settings struct {
	Name     string
	Journal  string // file of the journal
	Pids     string // directory with a file for each process; see record
	Stubborn bool   // whether to ignore SIGTERM and the end of the input
	Address  string // address to serve at over HTTP; empty: standard input and output
	Gate     string // file that the process waits for; may be empty
}

// arguments contains the arguments of every tool.
type arguments struct {
	// Nonce identifies the call in the ledger. Every tool returns it.
	Nonce string `json:"nonce"`
	// User is the caller.
	User string `json:"user"`
	// Fault is the fault of the tool fault.
	Fault string `json:"fault,omitempty"`
}

// process is a server over the standard input and output.
type process struct {
	settings
	journal *ledger.Journal
	out     output
}

func runServer(text string) error {
	p := &process{}
	if err := json.Unmarshal([]byte(text), &p.settings); err != nil {
		return err
	}
	var err error
	if p.journal, err = ledger.OpenJournal(p.Journal); err != nil {
		return err
	}
	defer p.journal.Close()
	recorded, err := record(p.Pids, strconv.Itoa(os.Getpid()), p.Name)
	if err != nil {
		return err
	}
	defer recorded.Close()
	if p.Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	s := &server.Server{Name: p.Name, Version: "1.0.0"}
	tool := func(name string, handle func(context.Context, arguments) (string, error)) {
		server.AddTool(s, mcp.Tool{Name: name, Description: "A tool of the fault tests"}, handle)
	}
	tool("echo", p.started(func(_ context.Context, in arguments) (string, error) { return in.Nonce, nil }))
	tool("steps", p.started(steps))
	tool("fault", p.started(p.fault))
	if p.Gate != "" {
		if err := faulttest.Within(faulttest.Patience,
			func() error { _, err := os.Stat(p.Gate); return err }); err != nil {
			return err
		}
	}
	if p.Address != "" {
		endpoint := &http.Server{Addr: p.Address, Handler: s, ReadHeaderTimeout: time.Minute}
		return endpoint.ListenAndServe()
	}
	p.out.file = os.Stdout
	err = s.ServeConn(context.Background(), transport.Stream(&p.out, transport.StreamOptions{}))
	if p.Stubborn {
		select {} // the gateway must kill the process
	}
	return err
}

// record creates the file of a process, with the name of its server, and locks it. The lock ends with the process, or
// with the last process that inherited the file. It therefore shows whether the process runs, although the system may
// reuse its ID.
func record(dir, file, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	_, err = f.WriteString(name)
	return f, err
}

// started records the start of a handler.
func (p *process) started(handle func(context.Context, arguments) (string, error)) func(context.Context,
	arguments) (string, error) {
	return func(ctx context.Context, in arguments) (string, error) {
		if err := p.journal.Started(in.User, in.Nonce); err != nil {
			return "", err
		}
		return handle(ctx, in)
	}
}

// steps reports progress, with the nonce as the message.
func steps(ctx context.Context, in arguments) (string, error) {
	const number = 5
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for i := range number {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if err := server.Progress(ctx, float64(i+1), number, in.Nonce); err != nil {
			return "", err
		}
	}
	return in.Nonce, nil
}

// output wraps standard input and output, so that a fault can write between messages.
type output struct {
	mu   sync.Mutex
	file *os.File
	cut  bool // whether to end the process in the middle of the next message
}

func (o *output) Read(b []byte) (int, error) { return os.Stdin.Read(b) }
func (o *output) Close() error               { return nil }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut {
		_, _ = o.file.Write(b[:len(b)/2])
		die()
	}
	return o.file.Write(b)
}

// die ends this process as kill -9 does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// serverFaults lists the faults of a server.
var serverFaults = []struct {
	name     string
	survives bool // the call gets a result, and the connection continues
}{
	{"is killed in a handler", false},
	{"is killed while it writes", false},
	{"exits with status 0 in a handler", false},
	{"is stopped", false},
	{"closes its output", false},
	{"closes its input", false},
	{"exits and leaves a child with its pipes", false},
	{"leaves a child with its pipes", true},
	{"floods its standard error", true},
	{"prints text", true},
	{"prints a part of a line and exits", false},
	{"prints a line of 100 MB", true},
	{"answers requests that it did not receive", true},
	{"reports 2,000 changes of lists", true},
}

// fault makes the process fail.
func (p *process) fault(_ context.Context, in arguments) (string, error) {
	switch in.Fault {
	case "is killed in a handler":
		die()
	case "is killed while it writes":
		p.out.mu.Lock()
		p.out.cut = true
		p.out.mu.Unlock()
	case "exits with status 0 in a handler":
		os.Exit(0)
	case "is stopped":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "closes its output":
		p.out.mu.Lock()
		_ = os.Stdout.Close()
		p.out.mu.Unlock()
	case "closes its input":
		_ = os.Stdin.Close()
	case "exits and leaves a child with its pipes":
		if err := p.child(); err != nil {
			return "", err
		}
		os.Exit(0)
	case "leaves a child with its pipes":
		return in.Nonce, p.child()
	case "floods its standard error":
		line := append(bytes.Repeat([]byte("x"), 999), '\n')
		for range 20_000 {
			_, _ = os.Stderr.Write(line)
		}
	case "prints text":
		p.print(bytes.Repeat([]byte("Server is ready.\n"), 1000))
	case "prints a part of a line and exits":
		p.print([]byte(`{"jsonrpc":"2.0","id":`))
		os.Exit(1)
	case "prints a line of 100 MB":
		p.out.mu.Lock()
		defer p.out.mu.Unlock()
		part := bytes.Repeat([]byte("x"), 1<<20)
		for range 100 {
			_, _ = os.Stdout.Write(part)
		}
		_, _ = os.Stdout.WriteString("\n")
	case "answers requests that it did not receive":
		for i := range 1000 {
			p.print(fmt.Appendf(nil,
				`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"crossed"}]}}`+"\n", 1_000_000+i))
		}
	case "reports 2,000 changes of lists":
		for range 2000 {
			p.print([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"))
		}
	default:
		return "", errors.New("unknown fault")
	}
	return in.Nonce, nil
}

func (p *process) print(text []byte) {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	_, _ = os.Stdout.Write(text)
}

// child starts a process that inherits the standard input and output and does not end on its own.
func (p *process) child() error {
	c := exec.Command("sleep", "1000")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	recorded, err := record(p.Pids, "child-"+rand.Text(), "") // the child is not a server
	if err != nil {
		return err
	}
	defer recorded.Close()
	c.ExtraFiles = []*os.File{recorded}
	return c.Start()
}
