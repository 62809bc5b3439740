package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

const (
	roleVariable    = "PARLEY_TEST_ROLE"
	monitorVariable = "PARLEY_TEST_MONITOR"
)

// runRole runs a child process in a role. If it fails, it logs to standard error and exits with code 1.
func runRole(role string) {
	log.SetFlags(0)
	role, argument, _ := strings.Cut(role, ":")
	connectToMonitor(role)
	switch role {
	case "echo":
		echo(nil)
	case "print":
		echo(func(msg []byte) { fmt.Printf("stray print of %s\n", msg) })
	case "flood":
		lines := bytes.Repeat(append(bytes.Repeat([]byte("x"), 99), '\n'), 1<<10)
		for range 1 << 10 {
			os.Stderr.Write(lines)
		}
		echo(nil)
	case "ignore EOF":
		fmt.Println("ready")
		sleepForever()
	case "ignore SIGTERM":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		sleepForever()
	case "leave": // starts a grandchild that ignores SIGTERM; exits at once or at the end of its input
		signal.Ignore(syscall.SIGTERM)
		startGrandchild(nil)
		if argument == "on EOF" {
			io.Copy(io.Discard, os.Stdin)
		}
	case "abandon": // starts a grandchild without pipes to the client; exits at the end of its input
		startGrandchild(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, nil, nil })
		fmt.Println("grandchild started")
		io.Copy(io.Discard, os.Stdin)
	case "daemon": // starts a grandchild that leaves the group and keeps the pipes open
		startGrandchild(newSession)
	case "grandchild":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("grandchild ready")
		grandchildReady()
		sleepForever()
	case "exit":
		readLine()
		fmt.Fprintln(os.Stderr, "disk full")
		os.Exit(3)
	case "exit cleanly":
		readLine()
		fmt.Println("last message")
	case "kill yourself":
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		sleepForever()
	case "close stdout":
		fmt.Println("ready")
		os.Stdout.Close()
		io.Copy(io.Discard, os.Stdin)
	case "never write":
		io.Copy(io.Discard, os.Stdin)
	case "never read":
		sleepForever()
	case "long line":
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 700 {
			os.Stdout.Write(chunk)
		}
		fmt.Println("\nafter")
		io.Copy(io.Discard, os.Stdin)
	case "flush at exit": // writes more than fits into a pipe
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		os.Stdout.Write(make([]byte, 1<<20))
	case "environment":
		for _, entry := range os.Environ() {
			fmt.Println(entry)
		}
		dir, _ := os.Getwd()
		fmt.Println("DIR=" + dir)
	case "stderr":
		fmt.Fprint(os.Stderr, "one\r\n\ntwo\xff\n", strings.Repeat("l", 10_000), "\nno newline")
	case "host": // a client that the test kills
		p, err := transport.StartCommand(transport.CommandOptions{Path: os.Args[0], InheritEnv: true,
			Env: []string{roleVariable + "=" + argument}})
		if err != nil {
			log.Fatal(err)
		}
		p.Read(context.Background())
		fmt.Println("ready")
		sleepForever()
	case "stdio states":
		stdioStates()
	default:
		log.Fatalf("no such role: %q", role)
	}
}

// sleepForever sleeps until the test closes the connection to the monitor. That happens at the end of the
// test at the latest, so that no process is left behind.
func sleepForever() {
	if monitorConn != nil {
		io.Copy(io.Discard, monitorConn)
		os.Exit(0)
	}
	for {
		time.Sleep(time.Hour)
	}
}

func readLine() {
	conn := transport.Stream(stdio{}, transport.StreamOptions{})
	conn.Read(context.Background())
}

// stdio is the plain standard input and output.
type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return nil }

// echo is a server that returns each message until its input ends.
func echo(also func(msg []byte)) {
	conn, err := transport.Stdio(transport.StdioOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for {
		msg, err := conn.Read(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if also != nil {
			also(msg)
		}
		if err := conn.Write(context.Background(), msg); err != nil {
			log.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		log.Fatal(err)
	}
}

// A monitor notices without polling that processes have exited. Each process has a connection to the
// monitor, which closes when the process exits.
type monitor struct {
	t        *testing.T
	listener net.Listener
}

func newMonitor(t *testing.T) *monitor {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return &monitor{t, l}
}

func (m *monitor) env() string { return monitorVariable + "=" + m.listener.Addr().String() }

// connectToMonitor connects a child to the monitor. It runs in the child.
func connectToMonitor(role string) {
	addr := os.Getenv(monitorVariable)
	if addr == "" {
		return
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(conn, "%-20s", role)
	monitorConn = conn
}

var monitorConn net.Conn // global, so that it is not garbage collected before the process exits

// accept waits for n processes to start and returns their connections by role.
func (m *monitor) accept(n int) map[string]net.Conn {
	m.t.Helper()
	conns := make(map[string]net.Conn)
	for range n {
		m.listener.(*net.TCPListener).SetDeadline(time.Now().Add(testTimeout))
		conn := must.Get(m.listener.Accept())(m.t)
		m.t.Cleanup(func() { conn.Close() })
		role := make([]byte, 20)
		conn.SetDeadline(time.Now().Add(testTimeout))
		must.Get(io.ReadFull(conn, role))(m.t)
		conns[strings.TrimSpace(string(role))] = conn
	}
	return conns
}

// wantExited waits for the processes to exit and fails the test if they do not.
func (m *monitor) wantExited(conns map[string]net.Conn) {
	m.t.Helper()
	for role, conn := range conns {
		conn.SetDeadline(time.Now().Add(testTimeout))
		_, err := conn.Read(make([]byte, 1))
		must.CheckThat(m.t, err != nil && !os.IsTimeout(err), "the process %q has not exited", role)
	}
}

// testTimeout limits how long a test waits for an event. Only a failing test waits that long.
const testTimeout = time.Minute

func timeoutContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}
