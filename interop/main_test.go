//go:build integration

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// serveVariable is the environment variable that makes this test binary the server of the stdio tests.
const serveVariable = "PARLEY_INTEROP_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		if err := newServer().Run(context.Background()); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// newServer returns a server with the features of the server peers.
func newServer() *server.Server {
	s := &server.Server{
		Name:      "interop-parley",
		Version:   "1.0.0",
		Limits:    server.Limits{PageSize: 5},
		ListCache: server.CachePolicy{TTL: time.Minute, Public: true},
	}
	offerTools(s)
	offerData(s)
	offerCalls(s)
	offerChanges(s)
	offerInputRequests(s)
	return s
}

func TestTheirClientsUseOurServer(t *testing.T) {
	self := must.Get(os.Executable())(t)
	for _, tt := range []struct {
		name      string
		client    []string
		transport string
		revision  string
	}{
		{"v1 over stdio", []string{"v1-client.mjs"}, "stdio", "2025-11-25"},
		{"v1 over HTTP", []string{"v1-client.mjs"}, "http", "2025-11-25"},
		{"v1 over HTTP+SSE", []string{"v1-client.mjs"}, "sse", "2025-11-25"},
		{"v2 legacy over stdio", []string{"v2-client.mjs", "--era", "legacy"}, "stdio", "2025-11-25"},
		{"v2 legacy over HTTP", []string{"v2-client.mjs", "--era", "legacy"}, "http", "2025-11-25"},
		{"v2 in 2024-11-05 over HTTP", []string{"v2-client.mjs", "--era", "legacy", "--revision", "2024-11-05"}, "http",
			"2024-11-05"},
		{"v2 in 2025-03-26 over stdio", []string{"v2-client.mjs", "--era", "legacy", "--revision", "2025-03-26"},
			"stdio", "2025-03-26"},
		{"v2 modern over stdio", []string{"v2-client.mjs", "--era", "modern"}, "stdio", "2026-07-28"},
		{"v2 modern over HTTP", []string{"v2-client.mjs", "--era", "modern"}, "http", "2026-07-28"},
		{"v2 auto over stdio", []string{"v2-client.mjs", "--era", "auto"}, "stdio", "2026-07-28"},
		{"v2 auto over HTTP", []string{"v2-client.mjs", "--era", "auto"}, "http", "2026-07-28"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			where := []string{"stdio", self}
			if tt.transport != "stdio" {
				endpoint := httptest.NewServer(newServer())
				t.Cleanup(endpoint.Close)
				t.Cleanup(endpoint.CloseClientConnections)
				where = []string{tt.transport, endpoint.URL}
			}
			seen := observe(t, node(t, tt.client[0], slices.Concat(tt.client[1:], where)...))
			seen.check(t, tt.revision)
			must.CheckThat(t, seen.Server.Name == "interop-parley",
				"server name %q, want interop-parley", seen.Server.Name)
			call := seen.Calls["region"]
			must.CheckEqual(t, call.text(), "eu-north", "a call with a mirrored parameter", call)
			if call := seen.Calls["badArguments"]; !call.IsError || !strings.Contains(call.text(), "a") {
				t.Errorf("invalid arguments: %+v, want a tool error that names them", call)
			}
		})
	}
}

func TestOurClientUsesTheirServers(t *testing.T) {
	for _, tt := range []struct {
		name      string
		server    []string
		transport string
		revision  mcp.Revision
	}{
		{"v1 over stdio", []string{"v1-server.mjs"}, "stdio", mcp.V20251125},
		{"v1 over HTTP", []string{"v1-server.mjs"}, "http", mcp.V20251125},
		{"v1 over HTTP+SSE", []string{"v1-server.mjs"}, "sse", mcp.V20251125},
		{"v2 legacy over stdio", []string{"v2-server.mjs", "--era", "legacy"}, "stdio", mcp.V20251125},
		{"v2 legacy over HTTP", []string{"v2-server.mjs", "--era", "legacy"}, "http", mcp.V20251125},
		{"v2 modern over stdio", []string{"v2-server.mjs", "--era", "modern"}, "stdio", mcp.V20260728},
		{"v2 modern over HTTP", []string{"v2-server.mjs", "--era", "modern"}, "http", mcp.V20260728},
		{"v2 both over stdio", []string{"v2-server.mjs"}, "stdio", mcp.V20260728},
		{"v2 both over HTTP", []string{"v2-server.mjs"}, "http", mcp.V20260728},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, tt.transport, tt.server)
			if p.Revision() != tt.revision {
				t.Errorf("revision %s, want %s", p.Revision(), tt.revision)
			}
			for _, subject := range []struct {
				name string
				use  func(*testing.T, *peer)
			}{
				{"tools", useTools},
				{"data", useData},
				{"cache", useCache},
				{"calls", useCalls},
				{"changes", useChanges},
				{"input requests", useInputRequests},
			} {
				t.Run(subject.name, func(t *testing.T) { subject.use(t, p) })
			}
		})
	}
}

// peer is our client of a server peer, with what it received.
type peer struct {
	*client.Client
	transport string
	logged    chan mcp.LoggingMessageParams
	opened    chan string   // the URLs of its URL elicitations
	cancelled chan struct{} // closed when it has cancelled an input request

	mu       sync.Mutex
	requests []string // the methods sent to it
}

// sent returns the number of messages with a method.
func (p *peer) sent(method string) (times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sent := range p.requests {
		if sent == method {
			times++
		}
	}
	return times
}

func (p *peer) trace(sent bool, message []byte) {
	var request struct{ Method string }
	if sent && json.Unmarshal(message, &request) == nil {
		p.mu.Lock()
		p.requests = append(p.requests, request.Method)
		p.mu.Unlock()
	}
}

// startPeer starts a server peer and dials it.
func startPeer(t *testing.T, transport string, command []string) *peer {
	t.Helper()
	return dialPeer(t, transport, target(t, transport, command))
}

func dialPeer(t *testing.T, transport string, target client.Target) *peer {
	t.Helper()
	p := &peer{
		transport: transport,
		logged:    make(chan mcp.LoggingMessageParams, 16),
		opened:    make(chan string, 16),
		cancelled: make(chan struct{}),
	}
	d := &client.Dialer{
		OnLog:      func(_ context.Context, message mcp.LoggingMessageParams) { p.logged <- message },
		Extensions: []client.Extension{{ID: shouting}},
		Trace:      p.trace,
		Timeouts:   client.Timeouts{URLElicitation: 10 * time.Second},
	}
	p.setHandlers(d)
	p.Client = dial(t, d, target)
	return p
}

func target(t *testing.T, how string, peer []string) client.Target {
	if how == "stdio" {
		command := node(t, peer[0], append(slices.Clone(peer[1:]), "stdio")...)
		return client.Command(command[0], command[1:]...)
	}
	return client.URL(listen(t, node(t, peer[0], append(slices.Clone(peer[1:]), how, "0")...)))
}

func dial(t *testing.T, d *client.Dialer, target client.Target) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
	defer cancel()
	c := must.Get(d.Dial(ctx, target))(t)
	t.Cleanup(func() {
		began := time.Now()
		must.Check(t, c.Close(), "close")
		took := time.Since(began)
		must.CheckThat(t, took <= 20*time.Second, "close took %v", took)
	})
	return c
}

// peerTimeout is the limit for one peer process. On a busy machine, Node takes a second to start.
const peerTimeout = time.Minute

// observation is the output of a client peer; see npm/use/observe.mjs.
type observation struct {
	SDK      string
	Revision string
	Session  bool // it has a session id
	Server   struct{ Name, Version string }
	Tools    map[string]json.RawMessage
	Calls    map[string]callObservation
	Progress []struct {
		Progress, Total float64
		Message         string
	}

	Pages    int // of the list of tools
	Data     dataObservation
	Cache    cacheObservation
	Called   callsObservation
	Changed  changesObservation
	Answered inputRequestsObservation
}

// callObservation is the result of a tool, or the protocol error if Error is not nil.
type callObservation struct {
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
	Error             *observedError
}

// observedError is an error of the SDK.
type observedError struct {
	Type    string
	Code    any // a number, or a string for an error of the SDK itself
	Message string
	Data    json.RawMessage
}

func (e *observedError) String() string {
	return fmt.Sprintf("%s %v: %s %s", e.Type, e.Code, e.Message, e.Data)
}

// text joins the text blocks of a result.
func (c callObservation) text() string {
	var blocks []string
	for _, block := range c.Content {
		blocks = append(blocks, block.Text)
	}
	return strings.Join(blocks, "\n")
}

// node returns the command line of a peer. These tests fail if a tool is missing; they never skip.
func node(t *testing.T, peer string, args ...string) []string {
	t.Helper()
	for _, tool := range []string{"../.tools/conformance/node_modules/.bin/node", "npm/node_modules/zod"} {
		must.Do(t, must.Err(os.Stat(tool)), "cannot find the interop peers", "run scripts/tools")
	}
	program, err := filepath.Abs("../.tools/conformance/node_modules/.bin/node")
	must.Do(t, err)
	script, err := filepath.Abs(filepath.Join("npm", peer))
	must.Do(t, err)
	return append([]string{program, script}, args...)
}

// observe runs a client peer for all subjects.
func observe(t *testing.T, command []string) (seen observation) {
	t.Helper()
	run(t, command, &seen)
	return seen
}

// run runs a client peer and decodes its output.
func run(t *testing.T, command []string, seen any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), serveVariable+"=yes") // if it starts this test binary
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, stderr.Bytes())
	}
	if err := json.Unmarshal(stdout.Bytes(), seen); err != nil {
		t.Fatalf("cannot decode the output of %s: %v\n%s", strings.Join(command, " "), err, stdout.Bytes())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s printed\n%s%s", strings.Join(command, " "), stdout.Bytes(), stderr.Bytes())
		}
	})
}

// listen starts a server peer over HTTP until the end of the test, and returns its URL.
func listen(t *testing.T, command []string) (url string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	timeout := time.AfterFunc(peerTimeout, func() { _ = cmd.Process.Kill() })
	defer timeout.Stop()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("%s wrote\n%s", strings.Join(command, " "), stderr.Bytes())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s printed no URL: %v", strings.Join(command, " "), err)
	}
	return strings.TrimSpace(line)
}

// check compares an observation with the features that every server of these tests has. The errors for an unknown tool
// and for invalid arguments differ between servers; the caller checks them.
func (o observation) check(t *testing.T, revision string) {
	t.Helper()
	must.CheckThat(t, o.Revision == revision, "revision %q, want %q", o.Revision, revision)
	must.CheckThat(t, o.Server.Name != "" && o.Server.Version != "",
		"server info %+v, want a name and a version", o.Server)
	for _, tool := range []string{"echo", "add", "count", "fail"} {
		_, ok := o.Tools[tool]
		must.CheckThat(t, ok, "tool %q is not listed", tool)
	}
	for name, want := range map[string]string{"echo": "héllo", "count": "counted to 5"} {
		if call := o.Calls[name]; call.Error != nil || call.IsError || call.text() != want {
			t.Errorf("%s: %+v, want %q", name, call, want)
		}
	}
	var added struct{ Sum float64 }
	call := o.Calls["add"]
	data := []byte(call.StructuredContent)
	if revision < "2025-06-18" { // earlier revisions have no structured content
		data = []byte(call.text())
	}
	must.CheckThat(t, call.Error == nil && !call.IsError && json.Unmarshal(data, &added) == nil && added.Sum == 42,
		"add: %+v, want the sum 42 as data", call)
	if call := o.Calls["fail"]; call.Error != nil || !call.IsError || call.text() == "" {
		t.Errorf("fail: %+v, want a tool error with a text", call)
	}
	for _, name := range []string{"badArguments", "unknownTool"} {
		call := o.Calls[name]
		must.CheckThat(t, call.Error != nil || call.IsError, "%s: %+v, want an error", name, call)
	}
	must.That(t, len(o.Progress) == 5, "%d progress notifications, want 5: %+v", len(o.Progress), o.Progress)
	for i, step := range o.Progress {
		must.CheckThat(t, step.Progress == float64(i+1) && step.Total == 5, "progress notification %d is %+v", i, step)
	}
	o.Data.check(t, revision)
	o.Cache.check(t, revision)
	o.Called.check(t, revision)
	o.Changed.check(t, revision)
	o.Answered.check(t, revision)
}
