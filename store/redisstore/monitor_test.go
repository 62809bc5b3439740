//go:build integration

package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/must"
)

// monitor reads every command that the clients of a Redis server send. It does not see the commands that scripts run.
type monitor struct {
	t        *testing.T
	lines    *bufio.Reader
	control  *redis.Client // commands of the test itself, which the monitor leaves out
	scripts  map[string]string
	marks    int
	sweeping map[string]bool // replicas that look for tasks of others, by the address of the connection

	window   []command // operations of calls since begin
	occupied bool      // a replica was busy with its lease or the tasks of others
}

// command is an operation of a store, as Redis sees it.
type command struct {
	operation string // a method of store.KV, store.Log or store.Bus
	from      string // address of the connection
	key       string
}

func newMonitor(t *testing.T, s *server) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	must.Do(t, err)
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(4 * patience))
	must.Do(t, must.Err(fmt.Fprint(conn, "MONITOR\r\n")))
	m := &monitor{t: t, lines: bufio.NewReader(conn), control: s.client(), sweeping: make(map[string]bool)}
	if line, err := m.lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR: %q, %v", line, err)
	}
	m.scripts = make(map[string]string)
	for operation, scripts := range map[string][]script{
		"Put": {putScript, replaceScript}, "Touch": {touchScript}, "Add": {addScript, addFullScript},
		"Remove": {removeScript},
		"List":   {listScript}, "Append": {appendScript}, "ReadAfter": {readAfterScript},
	} {
		for _, sc := range scripts {
			// Without this, the first use of a script takes one more round trip.
			must.Do(t, m.control.ScriptLoad(context.Background(), sc.source).Err())
			m.scripts[sc.sha] = operation
		}
	}
	return m
}

var (
	monitorLine = regexp.MustCompile(`^\+[0-9.]+ \[[0-9]+ ([^\]]+)\] (.*)\r\n$`)
	argument    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// begin forgets the operations so far.
func (m *monitor) begin() {
	m.t.Helper()
	m.update()
	m.window, m.occupied = nil, false
	for _, sweeps := range m.sweeping {
		m.occupied = m.occupied || sweeps
	}
}

// update adds the operations so far to the window.
func (m *monitor) update() {
	m.t.Helper()
	for _, c := range m.read() {
		switch {
		case c.operation == "List" && strings.HasSuffix(c.key, "{/replicas/tasks}"):
			// a sweep begins with List and ends with it
			m.sweeping[c.from] = !m.sweeping[c.from]
			m.occupied = true
		case c.operation == "Put" && strings.Contains(c.key, "{/replica/"):
			m.occupied = true
		default:
			m.window = append(m.window, c)
		}
	}
}

// await waits until the window contains n operations of one kind.
func (m *monitor) await(n int, operation string) {
	m.t.Helper()
	wait(m.t, fmt.Sprintf("the replicas have sent %d %s", n, operation), func() error {
		m.update()
		found := 0
		for _, c := range m.window {
			if c.operation == operation {
				found++
			}
		}
		if found < n {
			return fmt.Errorf("they have sent %s", summary(m.window))
		}
		return nil
	})
}

// awaitSequence waits until the window contains these operations in this order, perhaps with others in
// between.
func (m *monitor) awaitSequence(operations ...string) {
	m.t.Helper()
	wait(m.t, fmt.Sprintf("the replicas have sent %v", operations), func() error {
		m.update()
		missing := operations
		for _, c := range m.window {
			if len(missing) > 0 && c.operation == missing[0] {
				missing = missing[1:]
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("they have sent %s", summary(m.window))
		}
		return nil
	})
}

// read returns the operations since the last call.
func (m *monitor) read() (all []command) {
	m.t.Helper()
	m.marks++
	mark := fmt.Sprint("mark ", m.marks)
	must.Do(m.t, m.control.Echo(context.Background(), mark).Err())
	for {
		line, err := m.lines.ReadString('\n')
		must.Do(m.t, err, "MONITOR")
		parts := monitorLine.FindStringSubmatch(line)
		must.That(m.t, parts != nil, "MONITOR: %q", line)
		var arguments []string
		for _, quoted := range argument.FindAllString(parts[2], -1) {
			text, err := strconv.Unquote(quoted)
			must.That(m.t, err == nil, "MONITOR: %v in %q", err, line)
			arguments = append(arguments, text)
		}
		if strings.EqualFold(arguments[0], "echo") && arguments[1] == mark {
			return all
		}
		if parts[1] != "lua" {
			all = append(all, m.commands(parts[1], arguments)...)
		}
	}
}

// commands returns the operations in one command. Only SUBSCRIBE and UNSUBSCRIBE contain several.
func (m *monitor) commands(from string, arguments []string) (all []command) {
	switch name := strings.ToLower(arguments[0]); name {
	case "evalsha":
		return []command{{m.scripts[arguments[1]], from, arguments[3]}}
	case "get":
		return []command{{"Get", from, arguments[1]}}
	case "set":
		return []command{{"Put", from, arguments[1]}}
	case "unlink":
		operation := "Delete"
		if strings.Contains(arguments[1], groupKind+":{") {
			operation = "Drop"
		}
		return []command{{operation, from, arguments[1]}}
	case "publish":
		return []command{{"Publish", from, arguments[1]}}
	case "subscribe", "unsubscribe":
		for _, channel := range arguments[1:] {
			all = append(all, command{strings.ToUpper(name[:1]) + name[1:], from, channel})
		}
		return all
	case "ping", "info", "hello", "client", "select", "script", "auth":
		return nil
	default:
		m.t.Fatalf("a replica sends the unknown command %q", arguments)
		return nil
	}
}

// summary returns the operations in the form of callTable.
func summary(all []command) string {
	number := make(map[string]int)
	for _, c := range all {
		number[c.operation]++
	}
	var operations []string
	for operation, n := range number {
		if n > 1 {
			operation = fmt.Sprintf("%d %s", n, operation)
		}
		operations = append(operations, operation)
	}
	slices.SortFunc(operations, func(a, b string) int {
		return strings.Compare(strings.TrimLeft(a, "0123456789 "), strings.TrimLeft(b, "0123456789 "))
	})
	return strings.Join(operations, ", ")
}

// proxy forwards connections to a server. It delays and drops answers, counts round trips and cuts connections.
type proxy struct {
	addr   string
	to     string
	delay  atomic.Int64 // nanoseconds before each part of an answer
	drop   atomic.Bool  // whether to close the connection instead of forwarding an answer
	trips  atomic.Int64
	opened atomic.Int64

	mu          sync.Mutex
	connections map[net.Conn]struct{}
	rejects     bool
	ended       chan struct{}
	running     sync.WaitGroup
}

// newProxy starts a proxy that ends with the test.
func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	p := &proxy{addr: l.Addr().String(), to: to, connections: make(map[net.Conn]struct{}), ended: make(chan struct{})}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(p.ended)
		_ = l.Close()
		p.cut(true)
		p.running.Wait()
	})
	return p
}

// cut closes all connections. If reject is set, new connections are closed at once.
func (p *proxy) cut(reject bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rejects = reject
	for c := range p.connections {
		_ = c.Close()
	}
	clear(p.connections)
}

func (p *proxy) allow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rejects = false
}

func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.rejects {
		p.connections[c] = struct{}{}
	}
	return !p.rejects
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.add(client) || !p.add(server) {
		return
	}
	p.opened.Add(1)
	var asked atomic.Bool // the client waits for an answer
	var copying sync.WaitGroup
	copying.Go(func() {
		defer server.Close()
		forward(server, client, func() bool {
			if !asked.Swap(true) {
				p.trips.Add(1)
			}
			return true
		})
	})
	forward(client, server, func() bool {
		asked.Store(false)
		return p.pause() && !p.drop.Load()
	})
	client.Close()
	copying.Wait()
}

// pause waits for the delay. It returns false if the proxy has ended.
func (p *proxy) pause() bool {
	delay := time.Duration(p.delay.Load())
	if delay == 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ended:
		return false
	}
}

// forward copies until an error. before is called before each write.
func forward(to io.Writer, from io.Reader, before func() bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !before() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
