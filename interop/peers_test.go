//go:build integration && long

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A failure here is a fault of the peers, so it invalidates the results of the other tests.
func TestPeersUnderstandEachOther(t *testing.T) {
	for _, tt := range []struct {
		name           string
		client, server []string
		transport      string
		revision       string
	}{
		{"v1 over stdio", []string{"v1-client.mjs"}, []string{"v1-server.mjs"}, "stdio", "2025-11-25"},
		{"v1 over HTTP", []string{"v1-client.mjs"}, []string{"v1-server.mjs"}, "http", "2025-11-25"},
		{"v1 over HTTP+SSE", []string{"v1-client.mjs"}, []string{"v1-server.mjs"}, "sse", "2025-11-25"},
		{"v1 to v2 over stdio", []string{"v1-client.mjs"}, []string{"v2-server.mjs"}, "stdio", "2025-11-25"},
		{"v1 to v2 over HTTP", []string{"v1-client.mjs"}, []string{"v2-server.mjs"}, "http", "2025-11-25"},
		{"v2 to v1 over stdio", []string{"v2-client.mjs", "--era", "auto"}, []string{"v1-server.mjs"}, "stdio",
			"2025-11-25"},
		{"v2 to v1 over HTTP", []string{"v2-client.mjs", "--era", "legacy"}, []string{"v1-server.mjs"}, "http",
			"2025-11-25"},
		{"v2 modern over stdio", []string{"v2-client.mjs", "--era", "modern"},
			[]string{"v2-server.mjs", "--era", "modern"}, "stdio", "2026-07-28"},
		{"v2 modern over HTTP", []string{"v2-client.mjs", "--era", "auto"}, []string{"v2-server.mjs"}, "http",
			"2026-07-28"},
		{"v2 in 2024-11-05", []string{"v2-client.mjs", "--era", "legacy", "--revision", "2024-11-05"},
			[]string{"v2-server.mjs", "--era", "legacy"}, "http", "2024-11-05"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var where []string
			if tt.transport == "stdio" {
				where = append([]string{"stdio"}, node(t, tt.server[0],
					append(slices.Clone(tt.server[1:]), "stdio")...)...)
			} else {
				where = []string{tt.transport, listen(t,
					node(t, tt.server[0], append(slices.Clone(tt.server[1:]), tt.transport, "0")...))}
			}
			observe(t, node(t, tt.client[0], slices.Concat(tt.client[1:], where)...)).check(t, tt.revision)
		})
	}
}

// A client works with a server of any era through a gateway as it does without.
func TestPeersUnderstandEachOtherThroughAGateway(t *testing.T) {
	for _, c := range []struct {
		name     string
		command  []string
		revision string
	}{
		{"v1", []string{"v1-client.mjs"}, "2025-11-25"},
		{"v2 legacy", []string{"v2-client.mjs", "--era", "legacy"}, "2025-11-25"},
		{"v2 modern", []string{"v2-client.mjs", "--era", "auto"}, "2026-07-28"},
	} {
		for _, s := range []struct {
			name    string
			command []string
			modern  bool
		}{
			{"v1", []string{"v1-server.mjs"}, false},
			{"v2 legacy", []string{"v2-server.mjs", "--era", "legacy"}, false},
			{"v2 modern", []string{"v2-server.mjs"}, true},
		} {
			t.Run(c.name+" to "+s.name, func(t *testing.T) {
				t.Parallel()
				upstream := listen(t, node(t, s.command[0], append(slices.Clone(s.command[1:]), "http", "0")...))
				url := serveGateway(t, client.URL(upstream))
				seen := observe(t, node(t, c.command[0],
					append(slices.Clone(c.command[1:]), "--gateway", "yes", "http", url)...))
				seen.withoutGateway(t, c.revision, s.name == "v1", s.modern).check(t, c.revision)
			})
		}
	}
}

// A client that starts its servers works with a server over HTTP, through parley bridge, as through a gateway.
func TestPeersUnderstandEachOtherThroughABridge(t *testing.T) {
	parley := buildProgram(t, "../cmd/parley", "")
	for _, c := range []struct {
		name     string
		command  []string
		revision string
	}{
		{"v1", []string{"v1-client.mjs"}, "2025-11-25"},
		{"v2 modern", []string{"v2-client.mjs", "--era", "modern"}, "2026-07-28"},
	} {
		for _, s := range []struct {
			name    string
			command []string
			modern  bool
		}{
			{"v1", []string{"v1-server.mjs"}, false},
			{"v2 modern", []string{"v2-server.mjs"}, true},
		} {
			t.Run(c.name+" to "+s.name, func(t *testing.T) {
				t.Parallel()
				upstream := listen(t, node(t, s.command[0], append(slices.Clone(s.command[1:]), "http", "0")...))
				arguments := append(slices.Clone(c.command[1:]), "--gateway", "yes", "stdio", parley, "bridge",
					upstream)
				seen := observe(t, node(t, c.command[0], arguments...))
				// The bridge has larger pages than the other servers, and does not say how long lists are fresh.
				if seen.Data.Pages != 1 || seen.Cache.Prompts != 1 {
					t.Errorf("%d pages of resources, %d second requests for prompts, want 1 of each", seen.Data.Pages,
						seen.Cache.Prompts)
				}
				seen.Data.Pages = 2
				if c.revision >= "2026-07-28" {
					seen.Cache.Prompts = 0
				}
				seen.withoutGateway(t, c.revision, s.name == "v1", s.modern).check(t, c.revision)
			})
		}
	}
}

// withoutGateway returns the observation of the server behind a gateway for one of the gateway. It checks where they
// differ.
func (o observation) withoutGateway(t *testing.T, revision string, firstGeneration, modernServer bool) observation {
	t.Helper()
	// The client peer does not use what a gateway does not forward: changes of roots, and changes of lists that are
	// undone at once.
	o.Changed.RootsChanged = callObservation{Content: []struct{ Type, Text string }{{"text", "1"}}}
	changes := []struct{ Method, URI string }{
		{Method: "notifications/tools/list_changed"}, {Method: "notifications/prompts/list_changed"},
		{Method: "notifications/resources/list_changed"},
	}
	for _, change := range o.Changed.Changes { // also those of lists that a server changes meanwhile
		if change.Method == "notifications/resources/updated" {
			changes = append(changes, change)
		}
	}
	o.Changed.Changes = changes
	// A server of the first generation sends log messages on the standalone stream. If the result of the call overtakes
	// one, the gateway does not know whose it is.
	if firstGeneration {
		o.Called.Logs = nil
		for _, level := range []string{"warning", "error"} {
			o.Called.Logs = append(o.Called.Logs, loggedMessage{Level: level})
		}
	}
	// A gateway does not forward how long contents are fresh.
	if revision >= "2026-07-28" {
		if o.Cache.Read != 1 {
			t.Errorf("%d second requests for contents, want 1", o.Cache.Read)
		}
		o.Cache.Read = 0
		return o
	}
	answered := &o.Answered
	switch {
	case modernServer: // it does not have the tools that clients of sessions call last
		answered.Paid, answered.Required, answered.Asked.Completed = callObservation{Content: []struct {
			Type, Text string
		}{{"text", "thank you"}}}, []string{"1"}, []string{"1"}
		answered.Asked.Cancelled = true
	case answered.PayFirst.text() == "thank you" && len(answered.Asked.Completed) > 0:
		// the gateway has asked, and repeated the call
		answered.Required = answered.Asked.Completed[:1]
	}
	return o
}

// serveGateway serves a gateway to one server, whose names it does not change, until the end of the test.
func serveGateway(t *testing.T, upstream client.Target) (url string) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h := &host.Host{Servers: []host.ServerConfig{{Name: "peer", Target: upstream, NoPrefix: true}}, Logger: quiet}
	s := &server.Server{
		Name: "interop-gateway", Version: "1.0.0", Logger: quiet, Limits: server.Limits{PageSize: 2},
		ListCache: server.CachePolicy{TTL: time.Minute, Public: true},
	}
	g, err := gateway.New(h, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		cancel()
		<-done
		_ = h.Close()
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	waiting, stop := context.WithTimeout(t.Context(), peerTimeout)
	defer stop()
	if err := g.WaitReady(waiting); err != nil {
		t.Fatal(err)
	}
	return endpoint.URL
}

// Clients that start their servers use a server over HTTP that requires a login, through parley bridge and the login of
// parley login. A bridge that is killed does not prevent the next one.
func TestTheirClientsUseAServerThatRequiresALoginThroughABridge(t *testing.T) {
	parley := buildProgram(t, "../cmd/parley", "")
	s := newServer()
	s.Logger = slog.New(slog.DiscardHandler)
	s.Auth = jwt.Protect(&auth.ProtectedResource{Issuers: []string{newIssuer(t).URL()}, Scopes: []string{"mcp"}})
	started := make(chan struct{}, 1)
	server.AddTool(s, mcp.Tool{Name: "block"}, func(ctx context.Context, _ struct{}) (string, error) {
		if roots, err := server.Roots(ctx); err != nil || len(roots) != 1 {
			return "", fmt.Errorf("roots %v, %w", roots, err)
		}
		started <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
		return server.PrincipalOf(ctx).Subject(), nil
	})
	endpoint := httptest.NewServer(s)
	t.Cleanup(endpoint.Close)
	t.Cleanup(endpoint.CloseClientConnections)
	// The SDKs pass few environment variables to their servers.
	command := []string{"/usr/bin/env", "PARLEY_NO_KEYRING=1", "PARLEY_CONFIG_DIR=" + t.TempDir(), parley}
	logIn(t, append(slices.Clone(command), "login", "--print-url", endpoint.URL))
	bridge := append(slices.Clone(command), "bridge", endpoint.URL)

	for name, c := range map[string]struct {
		command  []string
		revision string
	}{
		"v1":        {[]string{"v1-client.mjs"}, "2025-11-25"},
		"v2 legacy": {[]string{"v2-client.mjs", "--era", "legacy"}, "2025-11-25"},
		"v2 modern": {[]string{"v2-client.mjs", "--era", "modern"}, "2026-07-28"},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := slices.Concat(c.command[1:], []string{"--gateway", "yes", "stdio"}, bridge,
				[]string{"--revision", c.revision})
			seen := observe(t, node(t, c.command[0], arguments...))
			if seen.Revision != c.revision || seen.Server.Name != "interop-parley" || len(seen.Tools) == 0 {
				t.Errorf("revision %s, server %s, %d tools", seen.Revision, seen.Server.Name, len(seen.Tools))
			}
			if call := seen.Calls["region"]; call.text() != "eu-north" {
				t.Errorf("a call with a mirrored parameter: %+v", call)
			}
		})
	}
	for name, killAt := range map[string]func(e *editor){
		"at its start":     func(*editor) {},
		"in the handshake": func(e *editor) { e.initialize() },
		"with a session":   func(e *editor) { e.response(e.initialize()) },
		"during a call": func(e *editor) {
			e.response(e.initialize())
			e.request("tools/call", `{"name": "block"}`)
			must.Receive(e.t, started, "the call")
		},
	} {
		t.Run("killed "+name, func(t *testing.T) {
			killed := startEditor(t, bridge)
			killAt(killed)
			if err := killed.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			useLikeAnEditor(startEditor(t, bridge))
		})
	}
}

// logIn runs a command that prints the address of a login page, and logs in there.
func logIn(t *testing.T, command []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	page := regexp.MustCompile(`http://\S+/login/\S+`)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		output.WriteString(lines.Text() + "\n")
		if address := page.FindString(lines.Text()); address != "" {
			if text, err := new(logintest.Browser).LogIn(ctx, address); err != nil ||
				!strings.Contains(text, "Login complete") {
				t.Fatal(text, err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("login: %v\n%s", err, output.String())
	}
}

// editor is a client as editors have it: it starts a server, initializes a session of 2025-06-18, asks for all lists at
// once, answers requests of the server at any time, and closes the input of the server when it ends.
type editor struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	lines   chan string             // that are neither requests nor notifications
	pending map[int]json.RawMessage // results that were not asked for yet
	last    int
}

// startEditor starts a server until the end of the test.
func startEditor(t *testing.T, command []string) *editor {
	t.Helper()
	e := &editor{t: t, cmd: exec.Command(command[0], command[1:]...), lines: make(chan string),
		pending: make(map[int]json.RawMessage)}
	var stderr bytes.Buffer
	e.cmd.Stderr = &stderr
	var err error
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer close(e.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if e.answer(lines.Bytes()) {
				continue
			}
			select {
			case e.lines <- lines.Text():
			case <-t.Context().Done():
			}
		}
	}()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		<-drained
		_ = e.cmd.Wait()
		if t.Failed() {
			t.Logf("the server wrote\n%s", stderr.Bytes())
		}
	})
	return e
}

// answer answers a request of the server, and reports whether the line is a request or a notification.
func (e *editor) answer(line []byte) bool {
	var message struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal(line, &message); err != nil || message.Method == "" {
		return false
	}
	outcome := `"error": {"code": -32601, "message": "Method not found"}`
	if message.Method == mcp.MethodListRoots {
		outcome = `"result": {"roots": [{"uri": "file:///project", "name": "project"}]}`
	}
	if message.ID != nil {
		// the server may have ended
		_, _ = fmt.Fprintf(e.stdin, `{"jsonrpc": "2.0", "id": %s, %s}`+"\n", message.ID, outcome)
	}
	return true
}

func (e *editor) send(message string) {
	e.t.Helper()
	if _, err := io.WriteString(e.stdin, message+"\n"); err != nil {
		e.t.Fatal(err)
	}
}

// request sends a request and returns its id.
func (e *editor) request(method, params string) (id int) {
	e.t.Helper()
	e.last++
	e.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, e.last, method, params))
	return e.last
}

// response returns the result of a request.
func (e *editor) response(id int) json.RawMessage {
	e.t.Helper()
	for e.pending[id] == nil {
		var message struct {
			ID     *int
			Result json.RawMessage
		}
		line := must.Receive(e.t, e.lines, "the response")
		if err := json.Unmarshal([]byte(line), &message); err != nil || message.ID == nil || message.Result == nil {
			e.t.Fatalf("got %q, want a result: %v", line, err)
		}
		e.pending[*message.ID] = message.Result
	}
	return e.pending[id]
}

func (e *editor) initialize() (id int) {
	e.t.Helper()
	return e.request("initialize", `{"protocolVersion":"2025-06-18",`+
		`"capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"experimental":{"editor":{}}},`+
		`"clientInfo":{"name":"editor","version":"1.100.0","title":"Editor"}}`)
}

// useLikeAnEditor uses a server whose tool whoami returns ada, and ends it.
func useLikeAnEditor(e *editor) {
	t := e.t
	t.Helper()
	var session struct{ ProtocolVersion string }
	if err := json.Unmarshal(e.response(e.initialize()), &session); err != nil ||
		session.ProtocolVersion != "2025-06-18" {
		t.Fatalf("revision %s, %v", session.ProtocolVersion, err)
	}
	e.send(`{"jsonrpc": "2.0", "method": "notifications/initialized"}`)
	lists := make(map[string]int)
	for _, kind := range []string{"tools", "prompts", "resources", "resources/templates"} {
		lists[kind] = e.request(kind+"/list", "{}")
	}
	called := e.request("tools/call", `{"name": "whoami", "arguments": {}, "_meta": {"progressToken": "1"}}`)
	for kind, id := range lists {
		var page map[string]json.RawMessage
		if err := json.Unmarshal(e.response(id), &page); err != nil || len(page) == 0 {
			t.Errorf("%s: %v, %v", kind, page, err)
		}
	}
	if result := string(e.response(called)); !strings.Contains(result, `"ada"`) {
		t.Errorf("result of whoami: %s", result)
	}
	if err := e.stdin.Close(); err != nil {
		t.Error(err)
	}
	for range e.lines { // until the server has ended
	}
}
