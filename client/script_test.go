package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// script is a server with fixed answers. It runs in memory or as a child process.
type script struct {
	// Delay is how long the server waits before it reads or writes anything.
	Delay time.Duration
	// Greeting lists the lines that the server writes before it reads.
	Greeting []string
	// Answers lists, for each method, the fields of successive responses. The last one
	// is repeated. "" means no response. The following do something else:
	//
	//	!exit 3 text    writes text to standard error and exits with code 3
	//	!close          closes the connection
	//	!mute           closes standard output
	//	!flood          writes a result of 16 MiB
	//	!lines …        writes lines, with $id replaced by the id of the request
	Answers map[string][]string
	// Otherwise is the answer to all other requests.
	Otherwise string
	// After contains delays before the responses to methods.
	After map[string]time.Duration
	// Last, if set, is the method after which the server closes the connection.
	Last string
	// Pins makes initialize select the legacy era for the life of the process: modern requests
	// then receive the error otherEra, and so do legacy requests before initialize.
	Pins bool
	// Life, if set, is an address that the process stays connected to until it exits.
	Life string
	// Unable makes the process exit before it reads.
	Unable bool
	// Stubborn makes the process ignore the end of input and SIGTERM.
	Stubborn bool
	// Cut, if set, is the text that the process writes, without a line feed, before it exits with code 7.
	Cut string
	// Executions and Starts, if set, are files to which the server appends a line for every tools/call, and when
	// it starts.
	Executions, Starts string
}

// Fields of responses.
const (
	otherEra       = `"error":{"code":-32600,"message":"this server is in the other era"}`
	methodNotFound = `"error":{"code":-32601,"message":"method not found"}`
	discovered     = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],` +
		`"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private",` +
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"1"}}}`
	initialized = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},` +
		`"serverInfo":{"name":"old","version":"1"}}`
	called = `"result":{"content":[{"type":"text","text":"called"}]}`
	listed = `"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
)

func answers(pairs ...string) map[string][]string {
	m := map[string][]string{"tools/call": {called}, "tools/list": {listed}, "ping": {`"result":{}`}}
	for pair := range slices.Chunk(pairs, 2) {
		m[pair[0]] = append(m[pair[0]][:0:0], pair[1])
	}
	return m
}

// modernServer and legacyServer return minimal servers of the two eras.
func modernServer() *script {
	return &script{Answers: answers("server/discover", discovered), Otherwise: methodNotFound}
}

func legacyServer() *script {
	return &script{Answers: answers("initialize", initialized), Otherwise: methodNotFound}
}

// serve runs the script on conn until the client closes it, and returns the methods and
// responses that it received.
func (s *script) serve(conn transport.Conn) (received []string) {
	ctx := context.Background()
	time.Sleep(s.Delay)
	for _, line := range s.Greeting {
		conn.Write(ctx, []byte(line))
	}
	var late sync.WaitGroup
	defer late.Wait()
	counts := make(map[string]int)
	pinned := false // the legacy era is selected
	for {
		line, err := conn.Read(ctx)
		if err != nil {
			return received
		}
		m, err := jsonrpc.Parse(line, jsonrpc.Limits{})
		if err != nil {
			panic(fmt.Sprintf("the client sent %s: %v", line, err))
		}
		if m.Kind == jsonrpc.Response {
			received = append(received, "response "+string(line))
			continue
		}
		received = append(received, strings.Clone(m.Method)) // the method shares the memory of line
		if m.Method == "tools/call" && s.Executions != "" {
			appendLine(s.Executions, m.ID.String())
		}
		answer := s.Otherwise
		if all := s.Answers[m.Method]; len(all) > 0 {
			answer = all[min(counts[m.Method], len(all)-1)]
		}
		counts[m.Method]++
		if isModern := bytes.Contains(m.Raw, []byte(mcp.MetaProtocolVersion)); s.Pins && m.Kind == jsonrpc.Request {
			if m.Method == mcp.MethodInitialize {
				pinned = true
			} else if isModern == pinned {
				answer = otherEra
			}
		}
		if m.Kind == jsonrpc.Notification && m.Method == s.Last {
			return received
		}
		if m.Kind == jsonrpc.Notification || answer == "" {
			continue
		}
		if after := s.After[m.Method]; after > 0 {
			late.Go(func() {
				time.Sleep(after)
				s.answer(conn, m.ID, answer)
			})
			continue
		}
		s.answer(conn, m.ID, answer)
		if m.Method == s.Last {
			return received
		}
	}
}

func appendLine(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, line)
	f.Close()
}

func (s *script) answer(conn transport.Conn, id jsonrpc.ID, answer string) {
	lines := []string{`{"jsonrpc":"2.0","id":$id,` + answer + `}`}
	switch verb, rest, _ := strings.Cut(answer, " "); verb {
	case "!exit":
		code, text, _ := strings.Cut(rest, " ")
		fmt.Fprintln(os.Stderr, text)
		n, _ := strconv.Atoi(code)
		os.Exit(n)
	case "!mute":
		conn.Close()
		os.Stdout.Close()
		return
	case "!flood":
		conn.Write(context.Background(), slices.Concat([]byte(`{"jsonrpc":"2.0","id":`+id.String()+`,"result":{"x":"`),
			bytes.Repeat([]byte("x"), 16<<20), []byte(`"}}`)))
		return
	case "!close":
		conn.Close()
		return
	case "!lines":
		lines = strings.Split(rest, "\n")
	}
	for _, line := range lines {
		conn.Write(context.Background(), []byte(strings.ReplaceAll(line, "$id", id.String())))
	}
}

// recorder records what scripts in memory receive.
type recorder struct {
	mu       sync.Mutex
	received []string
	wg       sync.WaitGroup
}

// methods returns the methods and responses, after all scripts have ended.
func (p *recorder) methods() string {
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.received, " ")
}

// wants fails the test unless the methods and responses contain text n times.
func (p *recorder) wants(t *testing.T, text string, n int) {
	t.Helper()
	received := p.methods()
	must.CheckEqual(t, strings.Count(received, text), n, "the servers received", received, text)
}

// target returns a target that runs the next script for each connection. The last one is
// repeated.
func target(scripts ...*script) (client.Target, *recorder) {
	p := new(recorder)
	n := 0
	return client.NewTarget(func() transport.Conn {
		near, far := transport.Pipe()
		s := scripts[min(n, len(scripts)-1)]
		n++
		p.wg.Go(func() {
			defer far.Close()
			received := s.serve(far)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.received = append(p.received, received...)
		})
		return near
	}), p
}

// inBubble runs f as a subtest with a fake clock.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// quiet returns a Dialer that logs nothing.
func quiet() client.Dialer { return client.Dialer{Logger: slog.New(slog.DiscardHandler)} }

const scriptVariable = "PARLEY_CLIENT_TEST_SCRIPT"

// child returns a target that runs s in a child process.
func child(t testing.TB, s *script) *client.CommandTarget {
	t.Helper()
	raw := must.Get(json.Marshal(s))(t)
	exe := must.Get(os.Executable())(t)
	p := client.Command(exe).(*client.CommandTarget)
	p.Env = append(quietExit(), scriptVariable+"="+string(raw))
	return p
}

// runScript runs a script in a child process.
func runScript(raw string) {
	var s script
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		panic(err)
	}
	if s.Life != "" {
		conn, err := net.Dial("tcp", s.Life)
		if err != nil {
			panic(err)
		}
		defer conn.Close()
	}
	if s.Cut != "" {
		fmt.Print(s.Cut)
		fmt.Fprintln(os.Stderr, "no such file: config.json")
		os.Exit(7)
	}
	if s.Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	if s.Starts != "" {
		appendLine(s.Starts, "started")
	}
	if s.Unable {
		os.Exit(1)
	}
	conn, err := transport.Stdio(transport.StdioOptions{})
	if err != nil {
		panic(err)
	}
	s.serve(conn)
	if s.Stubborn {
		time.Sleep(time.Hour)
	}
	conn.Close()
}

// TestMain runs the tests, or a scripted server if a test has started this binary as a
// child process.
func TestMain(m *testing.M) {
	if s := os.Getenv(scriptVariable); s != "" {
		runScript(s)
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(exitCode int) {
		if testing.CoverMode() != "" {
			_ = os.RemoveAll(coverage())
		}
		os.Exit(exitCode)
	}))
}

// quietExit returns the environment in which an instrumented child exits at once and without a warning: with the race
// detector it would sleep, and with coverage it would print a warning. All tests share one directory for coverage,
// because a child that Dial has given up on may write there after its test.
func quietExit() []string {
	env := []string{"GORACE=atexit_sleep_ms=0"}
	if testing.CoverMode() != "" {
		env = append(env, "GOCOVERDIR="+coverage())
	}
	return env
}

var coverage = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	return dir
})
