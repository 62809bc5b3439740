package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/transport"
)

const (
	roleVariable     = "PARLEY_TEST_ROLE"
	lifelineVariable = "PARLEY_TEST_LIFELINE"
)

// play is what a child process does. A role never comes back from a test's assertion: it logs to
// standard error and exits with code 1.
func play(role string) {
	log.SetFlags(0)
	role, argument, _ := strings.Cut(role, ":")
	holdLifeline(role)
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
	case "deaf":
		fmt.Println("ready")
		sleepForever()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		sleepForever()
	case "leave": // behind a grandchild that is stubborn, and exit: at once or when the input ends
		signal.Ignore(syscall.SIGTERM)
		startGrandchild(nil)
		if argument == "on EOF" {
			io.Copy(io.Discard, os.Stdin)
		}
	case "daemon": // starts a grandchild that leaves the group and keeps the pipes
		startGrandchild(newSession)
	case "grandchild":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("grandchild ready")
		grandchildReady()
		sleepForever()
	case "exit":
		readLine()
		fmt.Fprintln(os.Stderr, "out of cheese")
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
	case "never read":
		sleepForever()
	case "long line":
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 700 {
			os.Stdout.Write(chunk)
		}
		fmt.Println("\nafter")
		io.Copy(io.Discard, os.Stdin)
	case "flush at exit": // has more to say at its end than a pipe holds
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
	case "host": // a client that is itself killed
		p, err := transport.Command(transport.CommandOptions{Path: os.Args[0], InheritEnv: true,
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

// sleepForever lasts until the test lets go of the lifeline, at the latest when it ends: no failure
// leaves processes behind.
func sleepForever() {
	if heldLifeline != nil {
		io.Copy(io.Discard, heldLifeline)
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

// stdio is standard input and output without any help.
type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return nil }

// echo is a server: it sends back what it gets until its input ends.
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

// A lifeline tells when a process is gone, without asking again and again: each child holds a
// connection to the test for as long as it lives.
type lifeline struct {
	t        *testing.T
	listener net.Listener
}

func newLifeline(t *testing.T) *lifeline {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &lifeline{t, l}
}

func (l *lifeline) env() string { return lifelineVariable + "=" + l.listener.Addr().String() }

// holdLifeline is the child's part.
func holdLifeline(role string) {
	addr := os.Getenv(lifelineVariable)
	if addr == "" {
		return
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(conn, "%-20s", role)
	heldLifeline = conn
}

var heldLifeline net.Conn // so that it is not collected, and closed, before the process ends

// born waits for the next n processes and returns their connections by role.
func (l *lifeline) born(n int) map[string]net.Conn {
	l.t.Helper()
	conns := make(map[string]net.Conn)
	for range n {
		l.listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
		conn, err := l.listener.Accept()
		if err != nil {
			l.t.Fatalf("no process: %v", err)
		}
		l.t.Cleanup(func() { conn.Close() })
		role := make([]byte, 20)
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(conn, role); err != nil {
			l.t.Fatal(err)
		}
		conns[strings.TrimSpace(string(role))] = conn
	}
	return conns
}

// gone fails the test unless all the processes die soon.
func (l *lifeline) gone(conns map[string]net.Conn) {
	l.t.Helper()
	for role, conn := range conns {
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			l.t.Errorf("the process %q lives on", role)
		}
	}
}

// patience is how long a test waits for what must happen. Only a failing test waits for so long.
const patience = 10 * time.Second

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
